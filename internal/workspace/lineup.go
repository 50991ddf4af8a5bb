package workspace

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"shadowlsp/internal/servers"
	"shadowlsp/lsp/barrier"
)

// source says how a server has come into the lineup, the strongest first.
type source int

const (
	attached   source = iota // an editor runs it now
	named                    // `connect -- SERVER` or `serve -- SERVER`
	remembered               // an editor has run it here
	detected                 // the table and the folder's files
)

// String is what `shadowlsp servers` shows.
func (s source) String() string {
	return [...]string{"an editor runs it", "it was named for agents", "an editor has run it here", "found by the files of the workspace"}[s]
}

// candidate is a server that documents of the workspace may be given to.
type candidate struct {
	learnt
	source  source
	known   servers.Server // what the table says of it; zero if nothing
	found   servers.Found  // of a detected one
	profile barrier.Profile
}

func newCandidate(l learnt, from source, table servers.Table, k *knowledge) candidate {
	c := candidate{learnt: l, source: from, profile: k.is(l.Command)}
	c.known, _ = table.ByCommand(l.Command)
	if c.known.Name == "" && !c.profile.Unknown() {
		c.known, _ = table.ByName(c.profile.Name)
	}
	name := c.known.Name
	if name == "" {
		name = filepath.Base(l.Command[0])
	}
	c.profile = c.profile.Named(name, c.ids())
	return c
}

// key is serverKey of its command.
func (c candidate) key() string { return serverKey(c.Command) }

// ids are the languages that it is known to take; none: all, for all we know.
func (c candidate) ids() []string {
	ids := map[string]bool{}
	for _, id := range slices.Concat(c.known.Languages, c.Languages) {
		ids[id] = true
	}
	if !c.profile.Unknown() {
		for _, l := range c.profile.Languages {
			ids[l.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// takes says whether documents of a language are for it.
func (c candidate) takes(language string) bool {
	ids := c.ids()
	return len(ids) == 0 || slices.Contains(ids, language)
}

// fits says whether it is to be there before any document of its is open.
func (c candidate) fits() bool { return c.source != detected || c.found.Project() }

// lineup puts all servers in order: by source; within one, linters and servers
// of which nothing is known last. A server whose languages a stronger one takes
// is left out, but for linters, and for those that an editor runs.
func lineup(all []candidate) []candidate {
	slices.SortStableFunc(all, func(a, b candidate) int {
		if a.source != b.source {
			return int(a.source) - int(b.source)
		}
		return a.weakness() - b.weakness()
	})
	var line []candidate
	for _, c := range all {
		rival := func(other candidate) bool {
			return other.key() == c.key() || other.known.Name != "" && other.known.Name == c.known.Name && other.source != c.source
		}
		shadowed := func(other candidate) bool {
			if rival(other) || len(other.ids()) == 0 {
				return true // it may take everything
			}
			return (other.source < c.source || c.source == remembered) && !c.known.Linter() && !other.known.Linter() &&
				slices.ContainsFunc(c.ids(), func(id string) bool { return slices.Contains(other.ids(), id) })
		}
		if c.source > named && slices.ContainsFunc(line, shadowed) || slices.ContainsFunc(line, func(o candidate) bool { return o.key() == c.key() }) {
			continue
		}
		line = append(line, c)
	}
	return line
}

func (c candidate) weakness() int {
	switch {
	case len(c.ids()) == 0:
		return 2
	case c.known.Linter():
		return 1
	}
	return 0
}

// forLanguage are the servers of a document, the one that answers requests first:
// the first that takes it, with all that an editor runs beside it, and linters.
func forLanguage(line []candidate, language string) (of []candidate) {
	var linters []candidate
	for _, c := range line {
		switch {
		case !c.takes(language):
		case c.known.Linter():
			linters = append(linters, c)
		case len(of) == 0, c.source == attached && of[0].source == attached && len(c.ids()) > 0:
			of = append(of, c)
		}
	}
	return append(of, linters...)
}

// program says whether a command's program is there.
func program(command []string, env []string) bool {
	return len(servers.OnPath(command[0], searchPath(env))) > 0
}

// searchPath is the PATH of an environment.
func searchPath(env []string) (path string) {
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	return path
}
