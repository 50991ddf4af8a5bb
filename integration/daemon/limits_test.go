package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"shadowlsp/integration/stage"
	"shadowlsp/lsp/wire"
)

// limitOf is which limit an error names.
func limitOf(t testing.TB, err error) (name string, max int) {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v: no error response", err)
	}
	var data struct {
		Shadowlsp struct {
			Limit string
			Max   int
		}
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Fatalf("%v: %s: %v", e, e.Data, err)
	}
	if !strings.Contains(e.Message, "--"+data.Shadowlsp.Limit) {
		t.Errorf("%q does not name %q", e.Message, data.Shadowlsp.Limit)
	}
	return data.Shadowlsp.Limit, data.Shadowlsp.Max
}

// Each limit is told by its name to who crosses it; who was there first goes on.
func TestLimitsHaveNames(t *testing.T) {
	w := newWorld(t, module)
	w.serve(t, "--max-branches", "3", "--max-connections", "4", "--max-queued", "5", "--max-documents", "2", "--layer-max", "64K")
	crossed := func(err error, name string, max int) {
		t.Helper()
		if got, most := limitOf(t, err); got != name || most != max {
			t.Errorf("the limit %s of %d was named, want %s of %d", got, most, name, max)
		}
	}
	a := w.agent(t, attach{branch: "a"})
	a.open(t, "lib/lib.go", stage.LibText("First"), 1)
	a.names(t, "use/use.go", "First")
	unharmed := func(word string, version int) {
		t.Helper()
		a.change(t, "lib/lib.go", version, whole(stage.LibText(word)))
		a.names(t, "use/use.go", word)
	}

	w.agent(t, attach{branch: "b"})
	c := w.agent(t, attach{branch: "c"})
	crossed(w.speak(t, w.dial(t)).initialize(t.Context(), attach{branch: "d"}), "max-branches", 3)
	unharmed("Branches", 2)

	w.agent(t, attach{branch: "b"})
	crossed(w.speak(t, w.dial(t)).initialize(t.Context(), attach{branch: "b"}), "max-connections", 4)
	unharmed("Connections", 3)

	c.open(t, "own/own.go", ownText(""), 1)
	c.open(t, "use/use.go", module["use/use.go"], 1)
	c.open(t, "lib/lib.go", stage.LibText("int"), 1)
	crossed(c.refused(t, "textDocument/hover", at(w.uri("lib/lib.go"), 0, 0)), "max-documents", 2)
	c.close(t, "lib/lib.go")
	c.names(t, "own/own.go")
	unharmed("Documents", 4)

	crossed(c.refused(t, "shadowlsp/write", map[string]any{"edits": []fileEdit{
		w.text("own/big.go", "package own\n"+strings.Repeat("// large\n", 10<<10)),
	}}), "layer-max", 64<<10)
	unharmed("Layers", 5)

	// A server that stands still has what waits pile up; only the branch that asks
	// too much is told.
	server := w.server(t)
	server.Signal(t, syscall.SIGSTOP)
	var full error
	var waiting []question
	for range 16 + 5 + 1 { // those that run side by side, those that wait, one more
		q, err := c.ask("textDocument/hover", at(w.uri("own/own.go"), 3, 7))
		must(t, err)
		waiting = append(waiting, q)
	}
	full = firstError(waiting)
	server.Signal(t, syscall.SIGCONT)
	crossed(full, "max-queued", 5)
	unharmed("Queues", 6)
}

// firstError waits for the first answer that is an error.
func firstError(all []question) error {
	errs := make(chan error, len(all))
	for _, q := range all {
		go func() {
			m := <-q.came
			if m.Error != nil {
				errs <- wire.ParseError(m.Error)
			}
		}()
	}
	return <-errs
}

// An agent that gives a token sees the server load, its place in the line, and
// that it runs; one that gives none is told nothing.
func TestAgentsSeeTheirPlace(t *testing.T) {
	w := shared(t)
	hears := func(a *agent, token, text string) {
		t.Helper()
		a.hears(t, fmt.Sprintf("progress %s with %q", token, text), func(m wire.Message) bool {
			return m.Method == "$/progress" && strings.Contains(string(m.Params), `"token":"`+token+`"`) && strings.Contains(string(m.Params), text)
		})
	}
	a := w.agent(t, attach{branch: "a"}) // the server has answered initialize, and loads
	first, err := a.ask("textDocument/hover", withToken(at(w.uri("own/own.go"), 3, 7), "loads"))
	must(t, err)
	hears(a, "loads", `"kind":"begin","title":"shadowlsp: textDocument/hover"`)
	_, err = first.answer(t.Context())
	must(t, err)
	hears(a, "loads", `"kind":"end"`)

	// While the server stands still, one asks and two others wait.
	b, c := w.agent(t, attach{branch: "b"}), w.agent(t, attach{branch: "c"})
	server := w.server(t)
	server.Signal(t, syscall.SIGSTOP)
	runs, err := a.ask("textDocument/hover", withToken(at(w.uri("own/own.go"), 3, 7), "runs"))
	must(t, err)
	hears(a, "runs", "gopls#1")
	quiet, err := b.ask("textDocument/documentHighlight", at(w.uri("own/own.go"), 3, 7)) // nobody else's: the answer is not known
	must(t, err)
	stage.Eventually(t, "the quiet one waits", func() bool {
		s, _ := w.status(t)
		return len(s.Servers) == 1 && s.Servers[0].Waiting == 1
	})
	waits, err := c.ask("textDocument/diagnostic", withToken(document(w.uri("own/own.go")), "waits"))
	must(t, err)
	hears(c, "waits", "queued: 1 branches are before it; gopls#1 works for a")
	must(t, quiet.cancel())
	hears(c, "waits", "queued: 0 branches are before it")
	server.Signal(t, syscall.SIGCONT)
	for _, q := range []question{runs, waits} {
		_, err := q.answer(t.Context())
		must(t, err)
	}
	hears(c, "waits", `"kind":"end"`)
	if strings.Contains(b.heard(), "$/progress") {
		t.Errorf("an agent without a token heard %s", b.heard())
	}
}

func withToken(params map[string]any, token string) map[string]any {
	params["workDoneToken"] = token
	return params
}
