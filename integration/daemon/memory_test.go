package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shadowlsp/integration/stage"
)

// instance is the name of the only instance, "" if there is none.
func (w *world) instance(t testing.TB) string {
	s, _ := w.status(t)
	if len(s.Servers) != 1 || len(s.Servers[0].Instances) != 1 {
		return ""
	}
	return s.Servers[0].Instances[0].Name
}

// An instance that holds more than all may is replaced, and nobody's question is
// lost by it.
func TestAnInstanceOverTheMemoryBudgetIsReplaced(t *testing.T) {
	t.Parallel() // most of its time nothing happens
	w := newWorld(t, module)
	w.serve(t, "--memory-budget", "5M", "--instances", "3")
	a := w.agent(t, attach{branch: "a"})
	a.edit(t, w.text("lib/lib.go", stage.LibText("Before")))
	a.names(t, "use/use.go", "Before")
	stage.Eventually(t, "another instance", func() bool { n := w.instance(t); return n != "" && n != "gopls#1" })
	a.edit(t, w.text("lib/lib.go", stage.LibText("After")))
	a.names(t, "use/use.go", "After")
}

// A server that hangs while nobody cancels is noticed: nothing of it runs.
func TestAServerThatHangsUnnoticed(t *testing.T) {
	if os.Getenv(leakVariable) != "full" {
		t.Skipf("it takes more than a minute: %s=full runs it", leakVariable)
	}
	w := shared(t)
	a := w.agent(t, attach{branch: "a"})
	a.names(t, "use/use.go") // it has loaded
	a.edit(t, w.text("lib/lib.go", stage.LibText("Hung")))
	w.server(t).Signal(t, syscall.SIGSTOP)
	began := time.Now()
	lint, err := a.ask("textDocument/diagnostic", document(w.uri("use/use.go")))
	must(t, err)
	answer, err := lint.answer(t.Context())
	must(t, err)
	if took := time.Since(began); took > 100*time.Second {
		t.Errorf("answered after %v", took)
	}
	t.Logf("answered after %v: %.200s", time.Since(began).Round(time.Second), answer)
}

// Branches that were made, edited and dropped leave nothing behind: no files, no
// descriptors, no goroutines, no memory.
func TestBranchesLeaveNothingBehind(t *testing.T) {
	n := 100
	if os.Getenv(leakVariable) == "full" {
		n = 1000
	}
	w := newWorld(t, module)
	w.serve(t)
	stays := w.agent(t, attach{branch: "stays"})
	live := func(i int) {
		a := w.agent(t, attach{})
		a.edit(t, w.text("lib/lib.go", stage.LibText(fmt.Sprintf("Gone%d", i))), w.text(fmt.Sprintf("new/%d.go", i), "package new\n"))
		if i%10 == 0 {
			a.names(t, "use/use.go", fmt.Sprintf("Gone%d", i))
		}
		a.leave(t)
	}
	for i := range 20 { // what is made once is made now
		live(i)
	}
	stays.names(t, "own/own.go")
	type left struct{ branches, goroutines, descriptors, files int }
	var open []string
	look := func() (l left, memory uint64) {
		s, ok := w.status(t)
		if !ok {
			t.Fatal("no daemon runs")
		}
		open = descriptors(t, s.PID)
		l = left{branches: len(s.Branches), goroutines: s.Goroutines, descriptors: len(open)}
		must(t, filepath.WalkDir(w.place.State, func(string, os.DirEntry, error) error { l.files++; return nil }))
		return l, s.Memory
	}
	var before left
	var memory uint64
	stage.Eventually(t, "the first branches have gone", func() bool {
		before, memory = look()
		return before.branches == 1
	})
	openBefore := open
	for i := range n {
		live(20 + i)
	}
	stays.names(t, "own/own.go")
	var after left
	var now uint64
	if err := stage.Await(func() bool {
		after, now = look()
		// FUSE requests are read by as many goroutines as there is need of: some few.
		// A descriptor stands for each file that the server has open, and for each
		// of its processes once they were looked at.
		return after.branches <= before.branches && after.goroutines <= before.goroutines+10 && after.descriptors <= before.descriptors+5 && after.files <= before.files
	}); err != nil {
		t.Errorf("%d branches later there is %+v, before %+v; open then (-) and now (+):\n%s", n, after, before, cmp.Diff(openBefore, open))
	}
	t.Logf("%d branches: %+v; the daemon's memory %d KB, then %d KB", n, after, memory>>10, now>>10)
	if grown := int64(now) - int64(memory); grown > int64(n)*10<<10+4<<20 {
		t.Errorf("the daemon holds %d KB more", grown>>10)
	}
}

// descriptors is what a process has open, sorted; sockets and pipes without their
// numbers.
func descriptors(t *testing.T, pid int) []string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	must(t, err)
	var open []string
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			target = "closed meanwhile"
		}
		if kind, _, ok := strings.Cut(target, ":["); ok && kind != "anon_inode" {
			target = kind
		}
		open = append(open, target)
	}
	slices.Sort(open)
	return open
}
