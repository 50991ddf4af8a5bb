package daemon

import (
	"os"
	"syscall"
	"testing"
	"time"
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
	a.edit(t, w.text("lib/lib.go", libText("Before")))
	a.names(t, "use/use.go", "Before")
	eventually(t, "another instance", func() bool { n := w.instance(t); return n != "" && n != "gopls#1" })
	a.edit(t, w.text("lib/lib.go", libText("After")))
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
	a.edit(t, w.text("lib/lib.go", libText("Hung")))
	w.server(t).signal(t, syscall.SIGSTOP)
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
