package daemon

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"shadowlsp/integration/stage"
)

// A question about a state that is known costs no turn, whichever branch asks it.
func TestASecondQuestionTakesNoTurn(t *testing.T) {
	w := shared(t)
	var agents []*agent
	for _, name := range []string{"a", "b", "other"} {
		agents = append(agents, w.agent(t, attach{branch: name}))
	}
	a, b, other := agents[0], agents[1], agents[2]
	hover := func(x *agent) string {
		var r struct{ Contents struct{ Value string } }
		x.get(t, "textDocument/hover", at(w.uri("use/use.go"), 6, 12), &r)
		return r.Contents.Value
	}
	for _, x := range agents[:2] {
		x.edit(t, w.text("lib/lib.go", stage.LibText("Same")))
	}
	other.edit(t, w.text("lib/lib.go", stage.LibText("Other")))
	a.names(t, "use/use.go", "Same")
	first := hover(a)
	a.editAndLint(t, nil)
	server := w.server(t)
	server.Signal(t, syscall.SIGSTOP) // whoever needs it waits
	b.names(t, "use/use.go", "Same")
	a.names(t, "use/use.go", "Same")
	if again := hover(b); again != first || !strings.Contains(first, "Same") {
		t.Errorf("%q, then %q", first, again)
	}
	if len(b.editAndLint(t, nil)["use/use.go"]) != 1 {
		t.Error("the lint of the workspace lacks the error")
	}
	server.Signal(t, syscall.SIGCONT)
	other.names(t, "use/use.go", "Other")
	s, _ := w.status(t)
	if c := s.Servers[0].Cache; c.Hits < 4 || c.Bytes == 0 {
		t.Errorf("the cache says %+v", c)
	}
}

// Whatever the person, agents and commands do in whatever order: an answer is of
// the state as it is, known or not. Files have few texts, so that states come back.
func TestNothingStaleComesOut(t *testing.T) {
	w := newWorld(t, module)
	w.before = nil // the person works
	t.Cleanup(func() {
		w.write(t, "lib/lib.go", module["lib/lib.go"])
		w.write(t, "own/own.go", module["own/own.go"])
	})
	w.serve(t)
	dice := rand.New(rand.NewPCG(7, 7))
	types, words := []string{"int", "One", "Two"}, []string{"", "missingOne", "missingTwo"}
	type files struct{ lib, own int } // indexes; -1: as the person has it
	const branches = 4
	var agents []*agent
	person, own := files{}, make([]files, branches)
	for i := range branches {
		agents = append(agents, w.agent(t, attach{branch: fmt.Sprintf("b%d", i)}))
		own[i] = files{-1, -1}
	}
	for step := range 120 {
		i := dice.IntN(branches)
		a, now := agents[i], &own[i]
		switch n := dice.IntN(3); dice.IntN(6) {
		case 0:
			person.lib = n
			w.write(t, "lib/lib.go", stage.LibText(types[n]))
		case 1:
			person.own = n
			w.write(t, "own/own.go", ownText(words[n]))
		case 2, 3:
			now.lib = written(now.lib, person.lib, n)
			a.edit(t, w.text("lib/lib.go", stage.LibText(types[n])))
		case 4:
			now.own = written(now.own, person.own, n)
			a.edit(t, w.text("own/own.go", ownText(words[n])))
		case 5:
			if step%30 == 0 {
				w.server(t).Signal(t, syscall.SIGKILL)
			}
		}
		shown := *now
		if shown.lib < 0 {
			shown.lib = person.lib
		}
		if shown.own < 0 {
			shown.own = person.own
		}
		for range 2 {
			var want []string
			if shown.lib > 0 {
				want = []string{types[shown.lib]}
			}
			a.names(t, "use/use.go", want...)
			want = nil
			if shown.own > 0 {
				want = []string{words[shown.own]}
			}
			a.names(t, "own/own.go", want...)
			var r struct{ Contents struct{ Value string } }
			a.get(t, "textDocument/hover", at(w.uri("use/use.go"), 6, 12), &r)
			sign := "func lib.F(a " + types[shown.lib]
			if got := strings.NewReplacer("lib.One", "One", "lib.Two", "Two").Replace(r.Contents.Value); !strings.Contains(got, sign) {
				t.Errorf("hover says %q, want %q", got, sign)
			}
		}
		if t.Failed() {
			t.Fatalf("step %d: the person has %v, branch %d %v and shows\n%s\n%s", step, person, i, *now, a.file(t, "lib/lib.go"), a.file(t, "own/own.go"))
		}
	}
	s, _ := w.status(t)
	t.Logf("the cache: %+v; %d switches", s.Servers[0].Cache, s.Servers[0].Switches)
	if s.Servers[0].Cache.Hits == 0 {
		t.Error("no answer was known")
	}
}

// written is what a branch overrides a file with, -1 for not at all, when it writes
// n where it overrode it with now: what it shows already is no edit, and what the
// base holds is no override.
func written(now, base, n int) int {
	switch {
	case n == now || now < 0 && n == base:
		return now
	case n == base:
		return -1
	}
	return n
}
