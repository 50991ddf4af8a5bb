package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"shadowlsp/internal/config"
	"shadowlsp/internal/root"
	"shadowlsp/internal/servers"
	"shadowlsp/lsp/barrier"
)

// ServerListing is one line of `shadowlsp servers`.
type ServerListing struct {
	Name      string   `json:"name"`
	Languages []string `json:"languages,omitempty"`
	// State is "used", "spare" (another one is preferred, see Instead) or "missing".
	State   string   `json:"state"`
	Command []string `json:"command"`
	Instead string   `json:"instead,omitempty"`
	// Why says how it has come here.
	Why string `json:"why"`
	// Starts says that it is started with the first agent; others are with the
	// first document of theirs.
	Starts  bool   `json:"starts"`
	Linter  bool   `json:"linter,omitempty"`
	Files   int    `json:"files,omitempty"` // seen of its languages
	Install string `json:"install,omitempty"`
	// Lacks says without what, and where, it has nothing to say; of one that is used.
	Lacks string `json:"lacks,omitempty"`
	// With is what it is started with; of one that is used.
	With *StartedWith `json:"with,omitempty"`
}

// StartedWith is what a server is told at its start beside its command.
type StartedWith struct {
	// InitializationOptions and Settings are the server's own. Where Editor is set
	// they are what an editor told last, else what the table and the configuration say.
	InitializationOptions json.RawMessage `json:"initializationOptions,omitempty"`
	Settings              json.RawMessage `json:"settings,omitempty"`
	// Answers is how many sections of workspace/configuration an editor has answered.
	Answers int  `json:"answers,omitempty"`
	Editor  bool `json:"editor,omitempty"`
	// Env are names of variables that the configuration adds.
	Env []string `json:"env,omitempty"`
	// Files are the configuration files that say something of it.
	Files []string `json:"files,omitempty"`
}

// ListServers says which servers agents would be given at p if no daemon ran: those
// that editors have run here, and those that fit its files. person is the person's
// configuration file, or "".
func ListServers(ctx context.Context, p root.Place, env []string, person string) ([]ServerListing, error) {
	files, err := config.Read(person, p.Root)
	if err != nil {
		return nil, err
	}
	var file config.File
	for _, f := range files {
		file = file.With(f.File)
	}
	table, err := servers.New(file)
	if err != nil {
		return nil, err
	}
	var k knowledge
	if err := k.load(p.State); err != nil {
		return nil, err
	}
	var all []candidate
	var rest []ServerListing
	for _, l := range k.all() {
		c := newCandidate(l, remembered, table, &k)
		if program(l.Command, env) {
			all = append(all, c)
		} else {
			rest = append(rest, ServerListing{
				Name: c.profile.Name, State: "missing", Command: l.Command, Why: remembered.String(),
				Install: "put its folder on the PATH, or install it: " + c.known.Install,
			})
		}
	}
	found := table.Find(ctx, p.Root, searchPath(env))
	for _, f := range found {
		switch {
		case !f.Installed():
			rest = append(rest, ServerListing{
				Name: f.Name, Languages: f.Languages, State: "missing", Command: f.Command, Why: detected.String(),
				Linter: f.Linter(), Files: f.Files, Install: f.Install,
			})
		case f.Shadowed != "":
			rest = append(rest, ServerListing{
				Name: f.Name, Languages: f.Languages, State: "spare", Command: f.Argv, Instead: f.Shadowed, Why: detected.String(),
				Linter: f.Linter(), Files: f.Files,
			})
		default:
			c := newCandidate(learnt{Command: f.Argv}, detected, table, &k)
			c.found, c.known = f, f.Server
			all = append(all, c)
		}
	}
	line := lineup(all)
	listed := []ServerListing{}
	for n, c := range line {
		listed = append(listed, ServerListing{
			Name: c.profile.Name, Languages: c.ids(), State: "used", Command: c.Command, Why: c.source.String(),
			Starts: n == 0 || c.fits(), Linter: c.known.Linter(), Files: c.found.Files, With: c.with(files),
			Lacks: c.lacks(),
		})
	}
	for _, c := range all {
		if !slices.ContainsFunc(line, func(o candidate) bool { return o.key() == c.key() }) {
			rest = append(rest, ServerListing{
				Name: c.profile.Name, Languages: c.ids(), State: "spare", Command: c.Command, Instead: line[0].profile.Name, Why: c.source.String(),
				Linter: c.known.Linter(), Files: c.found.Files,
			})
		}
	}
	slices.SortStableFunc(rest, func(a, b ServerListing) int { return strings.Compare(b.State, a.State) })
	return append(listed, rest...), nil
}

// lacks says what projects of it are without, "" for nothing.
func (c candidate) lacks() string {
	if len(c.found.Lacking) == 0 {
		return ""
	}
	return fmt.Sprintf("there is no %s in %s: it says nothing of the files there", c.found.Needs, strings.Join(c.found.Lacking, ", "))
}

// with says what a server is started with.
func (c candidate) with(files []config.Named) *StartedWith {
	w := &StartedWith{Editor: c.Initialize != nil, Answers: len(c.Answers), Env: slices.Sorted(maps.Keys(c.known.Env))}
	if c.known.Settings != nil {
		c.Defaults = barrier.Raw(c.known.Settings)
	}
	w.Settings, _ = barrier.Lookup(c.settings(), "settings")
	w.InitializationOptions, _ = barrier.Lookup(c.Initialize, "initializationOptions")
	if !w.Editor && c.known.InitializationOptions != nil {
		w.InitializationOptions = barrier.Raw(c.known.InitializationOptions)
	}
	for _, f := range files {
		if _, says := f.Servers[c.known.Name]; says {
			w.Files = append(w.Files, f.Path)
		}
	}
	return w
}

// String is for people, in one line.
func (w *StartedWith) String() string {
	var parts []string
	add := func(name string, value json.RawMessage) {
		if len(value) > 0 && string(value) != "null" && string(value) != "{}" {
			parts = append(parts, name+" "+string(value))
		}
	}
	add("settings", w.Settings)
	add("initialization options", w.InitializationOptions)
	if w.Answers > 0 {
		parts = append(parts, fmt.Sprintf("%d sections of settings that the editor answered", w.Answers))
	}
	if len(w.Env) > 0 {
		parts = append(parts, "its own "+strings.Join(w.Env, ", ")+" in the environment")
	}
	text := strings.Join(parts, "; ")
	if text == "" {
		text = "no settings of its own"
	}
	if w.Editor {
		text += " (as the editor told last)"
	}
	if len(w.Files) > 0 {
		text += ", by " + strings.Join(w.Files, " and ")
	}
	return text
}

// PrintServers writes a list for people.
func PrintServers(w io.Writer, list []ServerListing) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, s := range list {
		state, note := s.State, strings.Join(s.Command, " ")
		switch {
		case s.State == "missing":
			note = s.Install
		case s.State == "spare":
			note += " (" + s.Instead + " is preferred)"
		case s.Starts:
			state += " at once"
		}
		if s.Lacks != "" {
			note += " (" + s.Lacks + ")"
		}
		languages := strings.Join(s.Languages, ", ")
		if s.Linter {
			languages += " (beside another)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.Name, state, languages, note)
	}
	if len(list) == 0 {
		fmt.Fprintln(t, "no language server is known for the files here: see docs/servers.md, or name one in shadowlsp.toml")
	}
	return t.Flush()
}

// WriteServers writes a list for programs.
func WriteServers(w io.Writer, list []ServerListing) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(list)
}
