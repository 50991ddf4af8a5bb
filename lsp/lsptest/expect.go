package lsptest

import (
	"fmt"
	"slices"
	"strings"

	"shadowlsp/lsp/docuri"
)

// Says expects that the last diagnostics of a document are as many as texts, and
// contain them, in any order. No texts: it was published, and is clean.
func Says(uri string, texts ...string) Expectation {
	return Expectation{
		Say: fmt.Sprintf("%s says %q", uri, texts),
		Check: func(s State) Verdict {
			p, ok := s.Diagnostics[docuri.Canonical(uri)]
			if ok && matches(p.Diagnostics, texts) {
				return Met
			}
			return Unmet
		},
	}
}

// SaysAt is Says for one version of the document: when a publish of that version
// says otherwise, it cannot be met. It is for peers that publish final
// diagnostics only.
func SaysAt(uri string, version int32, texts ...string) Expectation {
	return Expectation{
		Say: fmt.Sprintf("%s at version %d says %q", uri, version, texts),
		Check: func(s State) Verdict {
			p, ok := s.Diagnostics[docuri.Canonical(uri)]
			switch {
			case !ok || p.Version < version:
				return Unmet
			case p.Version == version && matches(p.Diagnostics, texts):
				return Met
			}
			return Unmeetable
		},
	}
}

func matches(found []Diagnostic, texts []string) bool {
	if len(found) != len(texts) {
		return false
	}
	rest := slices.Clone(found)
	for _, text := range texts {
		at := slices.IndexFunc(rest, func(d Diagnostic) bool { return strings.Contains(d.Message, text) })
		if at < 0 {
			return false
		}
		rest = slices.Delete(rest, at, at+1)
	}
	return true
}

// Never expects that no document has ever a diagnostic that contains text. It is
// to be awaited together with something else.
func Never(text string) Expectation {
	return Expectation{
		Say: fmt.Sprintf("nothing says %q", text),
		Check: func(s State) Verdict {
			for _, p := range s.Diagnostics {
				if slices.ContainsFunc(p.Diagnostics, func(d Diagnostic) bool { return strings.Contains(d.Message, text) }) {
					return Unmeetable
				}
			}
			return Met
		},
	}
}

// Notified expects n notifications of a method whose params contain text.
func Notified(method, text string, n int) Expectation {
	return Expectation{
		Say: fmt.Sprintf("%d of %s with %q", n, method, text),
		Check: func(s State) Verdict {
			seen := 0
			for _, m := range s.Notifications {
				if m.Method == method && strings.Contains(string(m.Params), text) {
					seen++
				}
			}
			if seen >= n {
				return Met
			}
			return Unmet
		},
	}
}

// Worked expects that a progress whose title contains text has ended, and none
// such is open.
func Worked(text string) Expectation {
	has := func(titles []string) bool {
		return slices.ContainsFunc(titles, func(t string) bool { return strings.Contains(t, text) })
	}
	return Expectation{
		Say: fmt.Sprintf("work on %q has ended", text),
		Check: func(s State) Verdict {
			if has(s.Worked) && !has(s.Working) {
				return Met
			}
			return Unmet
		},
	}
}
