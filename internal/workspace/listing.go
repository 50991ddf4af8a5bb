package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"shadowlsp/internal/config"
	"shadowlsp/internal/root"
	"shadowlsp/internal/servers"
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
}

// ListServers says which servers agents would be given at p if no daemon ran: those
// that editors have run here, and those that fit its files. person is the person's
// configuration file, or "".
func ListServers(ctx context.Context, p root.Place, env []string, person string) ([]ServerListing, error) {
	file, err := config.Load(person, p.Root)
	if err != nil {
		return nil, err
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
			Starts: n == 0 || c.fits(), Linter: c.known.Linter(), Files: c.found.Files,
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

// FindServer returns the server that an agent would be given first at p while no
// editor is attached, and how it is known; or what to do.
func FindServer(p root.Place, env []string) (command []string, how string, err error) {
	list, err := ListServers(context.Background(), p, env, "")
	if err != nil {
		return nil, "", err
	}
	for _, s := range list {
		switch s.State {
		case "used":
			return s.Command, s.Why, nil
		case "missing":
			return nil, "", fmt.Errorf("%s is not on the PATH (%s): %s", s.Name, s.Why, s.Install)
		}
	}
	return nil, "", fmt.Errorf("no language server is known for %s", p.Root)
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
