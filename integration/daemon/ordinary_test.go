package daemon

import (
	"fmt"
	"os"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
)

// The core of it: two agents in turn, twenty lints, a change of the base, a
// kill -9, and what is kept; beside a person who sees none of it.
func TestCore(t *testing.T) {
	w := newWorld(t, module)
	person := w.person(t)
	agents := []connected{w.connect(t, "", "--branch", "a"), w.connect(t, "use", "--branch", "b")}
	for _, c := range agents {
		if err := c.initialize(t.Context(), attach{}); err != nil {
			t.Fatalf("%v: %s", err, c.stderr)
		}
	}
	for i := range 20 {
		c := agents[i%2]
		word := fmt.Sprintf("Core%d", i)
		if i < 2 {
			c.open(t, "lib/lib.go", stage.LibText(word), 1)
		} else {
			c.change(t, "lib/lib.go", i, whole(stage.LibText(word)))
		}
		c.names(t, []string{"use/use.go", "use/use.go", "lib/lib.go"}[i%3], map[bool][]string{true: nil, false: {word}}[i%3 == 2]...)
	}
	w.hover(t, person)
	w.Unchanged(t, w.before)

	w.write(t, "own/own.go", ownText("savedByThePerson"))
	before := w.Tree(t)
	for _, c := range agents {
		c.names(t, "own/own.go", "savedByThePerson")
	}
	w.Unchanged(t, before)
	must(t, os.WriteFile(w.path("own/own.go"), []byte(module["own/own.go"]), 0o644))
	agents[1].clean(t, "own/own.go")
	w.before = nil // it is as git has it, at another time

	all := stage.Family(t, w.Daemon())
	must(t, w.Kill())
	stage.AllGone(t, all)
	w.hover(t, person)
	if mounts, err := w.Mounts(); err != nil || len(mounts) > 0 {
		t.Errorf("mounted: %q, %v", mounts, err)
	}
	for i, name := range []string{"a", "b"} {
		c := w.connect(t, "", "--branch", name)
		if err := c.initialize(t.Context(), attach{}); err != nil {
			t.Fatalf("%v: %s", err, c.stderr)
		}
		c.names(t, "use/use.go", fmt.Sprintf("Core%d", 18+i))
	}
	stage.Eventually(t, "the front has joined the new daemon", func() bool { return len(w.fronts(t)) == 1 })
	w.hover(t, person)
}

// The same, and what else tells the two ways of mounting apart, as an ordinary
// user in a user namespace.
func TestAsAnOrdinaryUser(t *testing.T) {
	t.Parallel() // it takes turns with tests that wait
	home := need.Ordinary{
		UID: 48323, Programs: []string{"shadowlsp", "gopls"},
		Args: []string{"-test.run=^(TestCore|TestKill9.*|TestTheServerDies|TestTheEditors.*|TestFilesComeAndGo)$", "-test.timeout=5m"},
	}.Run(t)
	if left := stage.Traces(home); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
