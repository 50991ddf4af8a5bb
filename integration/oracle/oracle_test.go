package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"shadowlsp/integration/need"
)

// small is the server as tests run it: on a small project, and with the caches
// that it has anyhow.
func (s Server) small() Server {
	s.Project, s.Env = *s.Small, nil
	return s
}

// few is the configuration of runs in `go test`.
func few(t *testing.T) config {
	t.Helper()
	need.FUSE(t)
	need.UserNS(t)
	return config{shadowlsp: need.Shadowlsp(t), steps: 4, branches: 2, jobs: 1, dependents: 1, questions: 3, whole: 0.2, verbose: true}
}

// Few steps of what is quick; `make oracle` makes many of everything.
func TestLintsAreThoseOfAFreshServer(t *testing.T) {
	cfg := few(t)
	for _, s := range servers {
		if s.Small == nil {
			continue
		}
		s = s.small()
		t.Run(s.Name, func(t *testing.T) {
			need.Tool(t, s.Command[0])
			if s.Project.Source != "" {
				need.Source(t, s.Project.Source)
			}
			var out bytes.Buffer
			v, err := play(t.Context(), cfg, s, 1, &out)
			if err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			t.Logf("%s\n%s", v.summary(), &out)
			if err := v.err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// An edit that shadowlsp is not told must make a difference: else equal lints
// would prove nothing.
func TestAWithheldEditIsNoticed(t *testing.T) {
	cfg := few(t)
	cfg.steps, cfg.branches, cfg.withhold = 2, 1, 2
	need.Tool(t, "gopls")
	s := goplsServer.small()
	need.Source(t, s.Project.Source)
	s.Grammar.Rules = []Rule{{"undefined name", `\b(nil|true|false)\b`, []string{`missing§`}}}
	var out bytes.Buffer
	v, err := play(t.Context(), cfg, s, 1, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if err := v.err(); err == nil || v.unexplained() == 0 {
		t.Errorf("the oracle found nothing: %s\n%s", v.summary(), &out)
	}
}

// The rules of every grammar fit a project that uses it, or they would never be
// tried.
func TestEveryRuleFits(t *testing.T) {
	fits := map[string]bool{}
	for _, s := range servers {
		if s.Unknown {
			continue
		}
		if s.Project.Source != "" {
			need.Source(t, s.Project.Source)
		}
		texts, err := s.Project.make(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		edited := 0
		for path, text := range texts {
			if !matches(s.Grammar.Edit, path) {
				continue
			}
			edited++
			for _, rule := range s.Grammar.Rules {
				fits[rule.Find] = fits[rule.Find] || expression(rule.Find).MatchString(text)
			}
		}
		t.Logf("%s: %d files, %d of them edited", s.Name, len(texts), edited)
	}
	for find, fit := range fits {
		if !fit {
			t.Errorf("%s fits nowhere", find)
		}
	}
}

func TestLintsInOneSpelling(t *testing.T) {
	raw := func(texts ...string) (items []json.RawMessage) {
		for _, one := range texts {
			items = append(items, json.RawMessage(one))
		}
		return items
	}
	a := spell(raw(`{"message":"in /a/x","severity":1,"data":{"n":1}}`, `{"message":"b"}`), "/a")
	b := spell(raw(`{"message":"b"}`, `{"severity":1,"message":"in /b/x"}`), "/b")
	if !slices.Equal(a, b) {
		t.Errorf("%q and %q", a, b)
	}
	for _, other := range []string{`{"message":"b","severity":1}`, `{"message":"b","tags":[]}`} {
		missing, extra := a.compare(spell(raw(`{"message":"in /c/x","severity":1}`, other), "/c"))
		if len(missing) != 1 || len(extra) != 1 {
			t.Errorf("%s: missing %q, extra %q", other, missing, extra)
		}
	}
}

func TestAnswersInOneSpelling(t *testing.T) {
	for name, pair := range map[string][2]string{
		"a list's order":  {`[{"uri":"file:///DIR/a"},{"uri":"file:///DIR/b"}]`, `[{"uri":"file:///DIR/b"},{"uri":"file:///DIR/a"}]`},
		"an item's note":  {`[{"name":"a","data":1}]`, `[{"name":"a","data":2}]`},
		"nothing":         {`null`, `[]`},
		"versions, edits": {`{"documentChanges":[{"textDocument":{"uri":"u","version":1},"edits":[{"newText":"a"},{"newText":"b"}]}]}`, `{"documentChanges":[{"textDocument":{"uri":"u","version":null},"edits":[{"newText":"b"},{"newText":"a"}]}]}`},
		"changes by file": {`{"changes":{"u":[1],"v":[2]}}`, `{"changes":{"v":[2],"u":[1]}}`},
	} {
		a, errA := spellAnswer(json.RawMessage(pair[0]), "/DIR")
		b, errB := spellAnswer(json.RawMessage(pair[1]), "/DIR")
		if errA != nil || errB != nil || !slices.Equal(a, b) {
			t.Errorf("%s: %q and %q, %v, %v", name, a, b, errA, errB)
		}
	}
	a, _ := spellAnswer(json.RawMessage(`{"changes":{"u":[1]}}`), "/DIR")
	b, _ := spellAnswer(json.RawMessage(`{"changes":{"u":[2]}}`), "/DIR")
	if slices.Equal(a, b) {
		t.Errorf("%q and %q are not one answer", a, b)
	}
}

// What counts as the server's own: an answer of one bare server, or diagnostics
// that one says and another does not.
func TestAccounts(t *testing.T) {
	first := lints{"a", "b"}
	for _, c := range []struct {
		said  lints
		runs  []lints
		which int
		ok    bool
	}{
		{lints{"a"}, []lints{{"a", "b"}, {"a"}}, 1, true},
		{lints{"a", "c"}, []lints{{"a"}, {"a", "b", "c"}}, -1, true},
		{lints{"a", "c"}, []lints{{"a"}, {"b"}}, -1, false},
		{lints{"a"}, []lints{{"a", "b"}}, -1, false},
		{lints{"a", "b", "b"}, []lints{{"a", "b"}}, -1, false},
		{lints{}, nil, -1, false},
	} {
		if which, ok := accounts(c.said, first, c.runs); which != c.which || ok != c.ok {
			t.Errorf("%v, runs %v: %d, %v", c.said, c.runs, which, ok)
		}
	}
}
