// Package config answers: what do the person's and the workspace's
// configuration files say?
//
// Model: a [File] is one TOML file, decoded strictly: what is not known is an
// error that names its line, since a setting that is silently ignored looks like
// one that does not work. [Load] reads the person's file
// ($XDG_CONFIG_HOME/shadowlsp/config.toml) and the workspace's (shadowlsp.toml at
// its root) into one; the workspace's counts where both say something. Tables are
// merged member by member, everything else is replaced.
//
// Invariants: a missing file is an empty one. Nothing is written.
//
// Absent on purpose: what a server is (internal/servers merges its own table with
// what is here), flags, the environment.
//
// Locks and goroutines: no goroutines, no locks.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// WorkspaceFile is the name of a workspace's file, at its root.
const WorkspaceFile = "shadowlsp.toml"

// maxFile bounds a configuration file, in bytes: a larger one is none.
const maxFile = 1 << 20

// File is what a configuration file may hold.
type File struct {
	// Servers are settings of language servers by name: known ones, or new ones.
	Servers map[string]Server `toml:"servers"`
	// Languages are LSP language ids of files, by glob or name: "*.inc" = "php".
	Languages map[string]string `toml:"languages"`
	Run       Run               `toml:"run"`
}

// Server says what is to be another way for one server. Empty members say nothing.
type Server struct {
	// Disabled servers are never started for agents where no editor has them.
	Disabled *bool `toml:"disabled"`
	// Command is the program with its arguments.
	Command []string `toml:"command"`
	// Languages are the LSP language ids that it takes.
	Languages []string `toml:"languages"`
	// Roots are files that mark a project of its kind: names, or globs.
	Roots []string `toml:"roots"`
	// Role is "main", or "linter" for a server that adds diagnostics to those of
	// another for the same files.
	Role string `toml:"role"`
	// Install says how to get it.
	Install string `toml:"install"`
	// InitializationOptions and Settings are the server's own: the first go into
	// initialize, the second are told by workspace/didChangeConfiguration and
	// answer workspace/configuration, by the parts of the section asked for. Both
	// count where no editor has said anything.
	InitializationOptions map[string]any `toml:"initialization_options"`
	Settings              map[string]any `toml:"settings"`
	// Env is added to the environment.
	Env map[string]string `toml:"env"`
}

// Load reads the person's file (or none, for "") and that of the workspace at
// root, into one.
func Load(person, root string) (File, error) {
	named, err := Read(person, root)
	if err != nil {
		return File{}, err
	}
	var f File
	for _, n := range named {
		f = f.With(n.File)
	}
	return f, nil
}

// Named is one file.
type Named struct {
	Path string
	File
}

// Read reads the same files one by one, the one that counts more last.
func Read(person, root string) (all []Named, err error) {
	for _, name := range []string{person, filepath.Join(root, WorkspaceFile)} {
		if name == "" {
			continue
		}
		next, err := read(name)
		if err != nil {
			return nil, err
		}
		if name != person && len(next.Run.Write) > 0 {
			// Whoever wrote the repository must not open the person's folders.
			return nil, fmt.Errorf("%s: run.write is for your own configuration (shadowlsp/config.toml in $XDG_CONFIG_HOME or ~/.config) only: remove it there", name)
		}
		all = append(all, Named{name, next})
	}
	return all, nil
}

func read(name string) (File, error) {
	st, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return File{}, nil
	case err == nil && st.Size() > maxFile:
		return File{}, fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return File{}, fmt.Errorf("reading the configuration: %w", err)
	}
	f, err := Parse(data)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// Parse decodes one file.
func Parse(data []byte) (File, error) {
	var f File
	d := toml.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	err := d.Decode(&f)
	var (
		unknown *toml.StrictMissingError
		wrong   *toml.DecodeError
	)
	switch {
	case errors.As(err, &unknown):
		return File{}, fmt.Errorf("not known:\n%s", unknown.String())
	case errors.As(err, &wrong):
		return File{}, fmt.Errorf("not understood:\n%s", wrong.String())
	case err != nil:
		return File{}, err
	}
	for name, s := range f.Servers {
		if s.Role != "" && s.Role != "main" && s.Role != "linter" {
			return File{}, fmt.Errorf("servers.%s: role is %q: main and linter are known", name, s.Role)
		}
		if s.Command != nil && len(s.Command) == 0 {
			return File{}, fmt.Errorf("servers.%s: command is empty: disabled = true is how not to have a server", name)
		}
	}
	return f, nil
}

// With returns f with what next says put over it.
func (f File) With(next File) File {
	servers := maps.Clone(f.Servers)
	if servers == nil {
		servers = map[string]Server{}
	}
	for name, s := range next.Servers {
		servers[name] = servers[name].With(s)
	}
	return File{Servers: servers, Languages: over(f.Languages, next.Languages), Run: f.Run.With(next.Run)}
}

// With returns s with what next says put over it.
func (s Server) With(next Server) Server {
	if next.Disabled != nil {
		s.Disabled = next.Disabled
	}
	if next.Command != nil {
		s.Command = next.Command
	}
	if next.Languages != nil {
		s.Languages = next.Languages
	}
	if next.Roots != nil {
		s.Roots = next.Roots
	}
	if next.Role != "" {
		s.Role = next.Role
	}
	if next.Install != "" {
		s.Install = next.Install
	}
	s.InitializationOptions = deep(s.InitializationOptions, next.InitializationOptions)
	s.Settings = deep(s.Settings, next.Settings)
	s.Env = over(s.Env, next.Env)
	return s
}

func over(a, b map[string]string) map[string]string {
	if len(a) == 0 {
		return b
	}
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// deep merges tables member by member.
func deep(a, b map[string]any) map[string]any {
	if len(a) == 0 {
		return b
	}
	out := maps.Clone(a)
	for name, value := range b {
		table, isTable := value.(map[string]any)
		if old, ok := out[name].(map[string]any); ok && isTable {
			out[name] = deep(old, table)
			continue
		}
		out[name] = value
	}
	return out
}
