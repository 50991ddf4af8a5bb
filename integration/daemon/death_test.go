package daemon

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"shadowlsp/integration/stage"
	"shadowlsp/lsp/wire"
)

// server is the one instance of the daemon.
func (w *world) server(t testing.TB) stage.Process {
	t.Helper()
	found := servers(t, w.Daemon())
	if len(found) != 1 {
		t.Fatalf("%d instances: %v", len(found), found)
	}
	return found[0]
}

// kill -9 of gopls: while nothing is asked, and while something is. The agents
// get right answers from the next one.
func TestTheServerDies(t *testing.T) {
	w := shared(t)
	a, other := w.agent(t, attach{branch: "a"}), w.agent(t, attach{branch: "b"})
	// (Five deaths in a row would make the pool give up for a while.)
	for round := range 2 {
		word := fmt.Sprintf("Alive%d", round)
		a.open(t, "lib/lib.go", stage.LibText(word), round+1)
		a.names(t, "use/use.go", word)
		dead := w.server(t)
		all := stage.Family(t, stage.Parent(dead.PID)) // its init as well
		dead.Signal(t, syscall.SIGKILL)
		stage.AllGone(t, all)
		a.names(t, "use/use.go", word)
		other.clean(t, "use/use.go")
	}
	// In the middle of a turn: stopped first, so that the request is surely there.
	for round := range 2 {
		word := fmt.Sprintf("Turn%d", round)
		dead := w.server(t)
		dead.Signal(t, syscall.SIGSTOP)
		a.open(t, "lib/lib.go", stage.LibText(word), 100+round)
		// A state of its own: of another the answer may be known.
		other.open(t, "own/own.go", "package own\n\n// "+word+" is no name here.\nconst N = 1\n", 100+round)
		lint, err := a.ask("textDocument/diagnostic", document(w.uri("use/use.go")))
		must(t, err)
		hover, err := other.ask("textDocument/hover", at(w.uri("use/use.go"), 6, 12))
		must(t, err)
		stage.Eventually(t, "the questions are there", func() bool {
			s, _ := w.status(t)
			return len(s.Servers) == 1 && len(s.Servers[0].Instances) == 1 && s.Servers[0].Waiting+s.Servers[0].Instances[0].InFlight >= 2
		})
		dead.Signal(t, syscall.SIGKILL)
		raw, err := lint.answer(t.Context())
		if err != nil || !strings.Contains(string(raw), word) {
			t.Errorf("round %d: the lint in flight: %s, %v", round, raw, err)
		}
		raw, err = hover.answer(t.Context())
		if err != nil || !strings.Contains(string(raw), "func lib.F(a int) int") {
			t.Errorf("round %d: the hover that waited: %s, %v", round, raw, err)
		}
	}
	if s, _ := w.status(t); len(s.Servers[0].Instances) != 1 || s.Servers[0].Waiting != 0 {
		t.Errorf("at the end: %+v", s.Servers)
	}
}

// A server that hangs: a cancelled request comes back, and another instance
// takes over.
func TestTheServerHangs(t *testing.T) {
	t.Parallel() // most of its time nothing happens
	w := shared(t)
	a := w.agent(t, attach{branch: "a"})
	a.open(t, "lib/lib.go", stage.LibText("Before"), 1)
	a.names(t, "use/use.go", "Before")
	hung := w.server(t)
	all := stage.Family(t, stage.Parent(hung.PID))
	hung.Signal(t, syscall.SIGSTOP)
	hover, err := a.ask("textDocument/hover", at(w.uri("use/use.go"), 6, 12))
	must(t, err)
	stage.Eventually(t, "the request is with the server", func() bool {
		s, _ := w.status(t)
		return len(s.Servers) == 1 && len(s.Servers[0].Instances) == 1 && s.Servers[0].Instances[0].InFlight > 0
	})
	began := time.Now()
	must(t, hover.cancel())
	_, err = hover.answer(t.Context())
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != wire.CodeRequestCancelled && e.Code != wire.CodeServerCancelled {
		t.Errorf("the cancelled request: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it came back after %v", took)
	} else {
		t.Logf("it came back after %v: %v", took.Round(time.Millisecond), err)
	}
	// The next question finds out, by whatever limit, and is answered.
	a.change(t, "lib/lib.go", 2, whole(stage.LibText("After")))
	began = time.Now()
	a.names(t, "use/use.go", "After")
	t.Logf("the next lint took %v", time.Since(began).Round(time.Millisecond))
	stage.AllGone(t, all)
	// The daemon ends in order in spite of one that hangs: the world's end shows.
	w.server(t).Signal(t, syscall.SIGSTOP)
}

// Agents that leave in the middle of whatever harm nobody.
func TestAgentsDie(t *testing.T) {
	w := shared(t)
	a := w.agent(t, attach{branch: "stays"})
	a.open(t, "lib/lib.go", stage.LibText("Stays"), 1)
	a.names(t, "use/use.go", "Stays")
	for round := range 20 {
		dying := w.agent(t, attach{branch: []string{"", "shared"}[round%2]})
		name, _ := dying.about(t)
		dying.open(t, "lib/lib.go", stage.LibText(fmt.Sprintf("Dying%d", round)), 1)
		for range 3 {
			_, err := dying.ask("textDocument/diagnostic", document(w.uri("use/use.go")))
			must(t, err)
			_, err = dying.ask("textDocument/hover", at(w.uri("use/use.go"), 6, 12))
			must(t, err)
		}
		if round%3 == 0 {
			// A reset instead of an orderly end: what was not read is lost.
			must(t, dying.conn.(*net.UnixConn).CloseRead())
		}
		dying.conn.Close()
		a.names(t, "use/use.go", "Stays")
		if round%2 == 0 {
			stage.Eventually(t, "the fresh branch has gone", func() bool { _, ok := w.branch(t, name); return !ok })
		}
	}
	stage.Eventually(t, "nobody else is there, and nothing waits", func() bool {
		s, _ := w.status(t)
		agents := 0
		for _, b := range s.Branches {
			agents += b.Agents
		}
		return agents == 1 && s.Servers[0].Waiting == 0 && s.Servers[0].Instances[0].InFlight == 0
	})
	if w.server(t).PID == 0 {
		t.Error("no server")
	}
	// A half-written frame, then nothing.
	c := w.dial(t)
	_, err := c.Write([]byte("Content-Length: 500\r\n\r\n{\"jsonrpc\":"))
	must(t, err)
	c.Close()
	a.names(t, "use/use.go", "Stays")
}

// An agent that does not read what it is told is none of the others' business.
func TestAnAgentThatDoesNotRead(t *testing.T) {
	w := shared(t)
	c := w.dial(t)
	defer c.Close()
	deaf := wire.NewWriter(c)
	must(t, deaf.WriteFrame(wire.NewRequest([]byte("1"), "initialize", attach{branch: "deaf"}.params(w))))
	must(t, deaf.WriteFrame(wire.NewNotification("initialized", struct{}{})))
	long := "// " + strings.Repeat("x", 256<<10)
	must(t, deaf.WriteFrame(wire.NewRequest([]byte("2"), "shadowlsp/write", map[string]any{"edits": []fileEdit{w.text("long.txt", long)}})))
	a := w.agent(t, attach{branch: "reads"})
	for i := range 100 {
		must(t, c.SetWriteDeadline(time.Now().Add(patience)))
		if err := deaf.WriteFrame(wire.NewRequest([]byte(fmt.Sprint(3+i)), "shadowlsp/read", map[string]any{"uri": w.uri("long.txt")})); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if i%20 == 0 {
			a.edit(t, w.text("lib/lib.go", stage.LibText(fmt.Sprintf("Heard%d", i))))
			a.names(t, "use/use.go", fmt.Sprintf("Heard%d", i))
		}
	}
}
