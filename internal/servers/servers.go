// Package servers answers: which language servers are known, and which of them
// are installed and fit a folder?
//
// Model: a [Table] is data: the embedded table.toml, with what configuration
// files say put over it. [Table.Find] looks at a folder, once and within limits,
// for the languages of its files and the files that mark projects, and on a
// search path for the programs; what it returns is in the order of preference.
//
// Invariants: nothing is started but a program's own "--version", and only where
// the table says that its mere presence proves nothing. Looking at a folder reads
// names, never contents.
//
// Absent on purpose: running servers, barriers (lsp/barrier knows those by the
// command), what an editor runs.
//
// Locks and goroutines: no goroutines, no locks; a Table is not changed after New.
package servers

import (
	_ "embed"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/pelletier/go-toml/v2"

	"shadowlsp/internal/config"
	"shadowlsp/lsp/barrier"
)

//go:embed table.toml
var embedded []byte

// Server is one known server.
type Server struct {
	Name string `toml:"name"`
	config.Server
	// Also are other commands that it is started by, tried when Command is not there.
	Also [][]string `toml:"also"`
	// NeedsRoot says that it fits only where one of Roots is.
	NeedsRoot bool `toml:"needs_root"`
	// EachProject says that it must be given the folders that hold Roots, where
	// they are below the workspace's.
	EachProject bool `toml:"each_project"`
	// Needs is a path that must be in a project, or above it, or the server has nothing
	// to say there.
	Needs string `toml:"needs"`
	// Check are arguments with which the program must succeed to be taken for
	// installed, and CheckSays an expression that its output must match.
	Check     []string `toml:"check"`
	CheckSays string   `toml:"check_says"`
}

// Linter says that it adds diagnostics to those of another server.
func (s Server) Linter() bool { return s.Role == "linter" }

// Takes says whether it takes documents of an LSP language id.
func (s Server) Takes(language string) bool { return slices.Contains(s.Languages, language) }

// commands are all that it may be started by, the preferred one first.
func (s Server) commands() [][]string { return append([][]string{s.Command}, s.Also...) }

// Table is all known servers, in the order of preference.
type Table struct {
	Servers   []Server
	languages []pattern // the configuration's own
}

// pattern is a glob of files and their language.
type pattern struct{ glob, language string }

// New puts a configuration over the embedded table. A server that the table does
// not know comes before all that it knows: somebody has asked for it.
func New(f config.File) (Table, error) {
	t := Table{Servers: slices.Clone(known())}
	for glob, id := range f.Languages {
		if !doublestar.ValidatePattern(glob) {
			return Table{}, fmt.Errorf("languages: the pattern %q is malformed", glob)
		}
		t.languages = append(t.languages, pattern{glob, id})
	}
	// The longest pattern says most.
	slices.SortFunc(t.languages, func(a, b pattern) int {
		if len(a.glob) != len(b.glob) {
			return len(b.glob) - len(a.glob)
		}
		return strings.Compare(a.glob, b.glob)
	})
	var added []Server
	for name, s := range f.Servers {
		at := slices.IndexFunc(t.Servers, func(k Server) bool { return k.Name == name })
		if at < 0 {
			if len(s.Command) == 0 || len(s.Languages) == 0 {
				return Table{}, fmt.Errorf("servers.%s: it is not one of the known servers, so command and languages must be given (`shadowlsp servers` lists the known ones)", name)
			}
			added = append(added, Server{Name: name, Server: s})
			continue
		}
		k := t.Servers[at]
		k.Server = k.Server.With(s)
		if s.Command != nil {
			k.Also, k.Check = nil, nil // that command and no other
		}
		if t.Servers[at] = k; s.Command != nil {
			// Named by somebody: preferred to what is merely there.
			t.Servers = slices.Delete(t.Servers, at, at+1)
			added = append(added, k)
		}
	}
	slices.SortFunc(added, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	t.Servers = append(added, t.Servers...)
	return t, nil
}

// known is the embedded table.
var known = sync.OnceValue(func() []Server {
	var file struct {
		Server []Server `toml:"server"`
	}
	d := toml.NewDecoder(strings.NewReader(string(embedded)))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		panic(fmt.Sprintf("servers/table.toml: %v", err)) // it is part of the program
	}
	return file.Server
})

// Language returns the language id of a file by its path below the root.
func (t Table) Language(file string) (id string, ok bool) {
	for _, p := range t.languages {
		against := file
		if !strings.Contains(p.glob, "/") {
			against = path.Base(file)
		}
		if ok, _ := doublestar.Match(p.glob, against); ok {
			return p.language, true
		}
	}
	return barrier.LanguageOf(file)
}

// ByCommand returns the server that a command starts.
func (t Table) ByCommand(command []string) (Server, bool) {
	profile, programs := barrier.For(command, nil), barrier.Programs(command)
	for _, s := range t.Servers {
		for _, c := range s.commands() {
			base := filepath.Base(c[0])
			if slices.Equal(c, command) || slices.Contains(programs, base) && !slices.Contains(shared, base) {
				return s, true
			}
		}
		if s.Name == profile.Name {
			return s, true
		}
	}
	return Server{}, false
}

// shared are programs that are a server only with the right arguments.
var shared = []string{"tsc", "deno", "ruff", "dart", "node", "python", "python3", "npx"}

// ByName returns a server of the table.
func (t Table) ByName(name string) (Server, bool) {
	for _, s := range t.Servers {
		if s.Name == name {
			return s, true
		}
	}
	return Server{}, false
}
