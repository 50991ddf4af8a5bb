package barrier

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"shadowlsp/lsp/wire"
)

// settledScript plays a server that publishes once per check.
type settledScript struct {
	*script
	uri    string
	failed chan error
}

func newSettledScript(t *testing.T, barrier func(Host) Barrier) *settledScript {
	s := &settledScript{script: &script{
		t: t, done: make(chan struct{}), table: map[string]Published{}, open: map[string]int{},
	}, uri: "file:///w/a", failed: make(chan error, 1)}
	s.barrier = barrier(s.script)
	s.docs = []Document{{URI: s.uri, Version: 1, Text: "source b\n"}}
	return s
}

func (s *settledScript) change(version int) {
	s.send("textDocument/didChange", fmt.Sprintf(`{"textDocument":{"uri":%q,"version":%d},"contentChanges":[]}`, s.uri, version))
}

// begins is the question with which a check begins.
func (s *settledScript) begins() {
	s.observe(false, wire.NewRequest(json.RawMessage("1"), "workspace/configuration",
		json.RawMessage(fmt.Sprintf(`{"items":[{"scopeUri":%q,"section":"[yaml]"}]}`, s.uri))))
}

func (s *settledScript) publish(version int) {
	params := map[string]any{"uri": s.uri, "diagnostics": []any{}}
	if version != 0 {
		params["version"] = version
	}
	s.observe(false, wire.NewNotification("textDocument/publishDiagnostics", Raw(params)))
}

// ask begins a question, and waits until it waits.
func (s *settledScript) ask() {
	go func() {
		_, err := s.barrier.Final(context.Background(), []string{s.uri})
		s.failed <- err
	}()
	synctest.Wait()
}

func (s *settledScript) answered(want bool) {
	s.t.Helper()
	synctest.Wait()
	select {
	case err := <-s.failed:
		if !want || err != nil {
			s.t.Fatalf("answered: %v", err)
		}
	default:
		if want {
			s.t.Fatal("not answered")
		}
	}
}

func TestYAMLCountsChecks(t *testing.T) {
	newYAML := func(h Host) Barrier { return yaml().New(h) }
	t.Run("a check of the text before is still under way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSettledScript(t, newYAML)
			s.change(1)
			s.begins()
			s.change(2)
			s.ask()
			s.publish(0)
			s.answered(false)
			s.begins()
			s.answered(false)
			s.publish(0)
			s.answered(true)
			s.ask()
			s.answered(true) // at once
			// The same, but the next check begins before the old one has ended.
			s.change(3)
			s.begins()
			s.change(4)
			s.ask()
			s.begins()
			s.publish(0)
			s.publish(0)
			s.answered(false)
			s.begins()
			s.publish(0)
			s.answered(true)
		})
	})
	t.Run("a check began, of which text is not known", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSettledScript(t, newYAML)
			s.change(1)
			s.begins()
			s.publish(0)
			s.ask()
			s.answered(false)
			if !strings.Contains(s.saw(), "didChange") {
				t.Fatalf("no nudge: %s", s.saw())
			}
			s.begins()
			s.publish(0)
			s.answered(true)
		})
	})
	t.Run("a check failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSettledScript(t, newYAML)
			s.change(1)
			s.ask()
			s.begins()
			s.observe(false, wire.NewNotification("telemetry/event", json.RawMessage(`{"name":"yaml.validation.error","properties":{"error":"RangeError"}}`)))
			s.publish(0)
			synctest.Wait()
			if err := <-s.failed; err == nil || !strings.Contains(err.Error(), "RangeError") {
				t.Error(err)
			}
		})
	})
	t.Run("closed and opened again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSettledScript(t, newYAML)
			s.change(1)
			s.begins()
			s.send("textDocument/didClose", fmt.Sprintf(`{"textDocument":{"uri":%q}}`, s.uri))
			s.send("textDocument/didOpen", fmt.Sprintf(`{"textDocument":{"uri":%q,"version":2}}`, s.uri))
			s.ask()
			s.publish(0) // of closing
			s.begins()
			s.publish(0) // of the first check, or of the second
			s.answered(false)
			s.publish(0)
			s.answered(false)
			s.begins() // which is why there is another
			s.publish(0)
			s.answered(true)
		})
	})
	t.Run("a schema changed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSettledScript(t, newYAML)
			s.change(1)
			s.ask()
			s.begins()
			s.publish(0)
			s.answered(true)
			s.barrier.(Toucher).Touched([]File{{Path: "/w/schema.json"}})
			s.ask()
			s.answered(false)
			s.begins()
			s.publish(0)
			s.answered(true)
		})
	})
}

func TestBashWaitsForTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSettledScript(t, func(h Host) Barrier { return bash().New(h) })
		s.change(1)
		s.publish(1)
		s.change(2)
		s.ask()
		s.publish(1)
		s.answered(false)
		s.publish(2)
		s.answered(true)
		// Its own file is no news; one that it sources is.
		s.barrier.(Toucher).Touched([]File{{Path: "/w/a"}})
		s.ask()
		s.answered(true)
		s.barrier.(Toucher).Touched([]File{{Path: "/w/b"}})
		s.ask()
		s.answered(false)
		s.publish(2)
		s.answered(false)
		s.publish(-2)
		s.answered(true)
		// What is sent again because of a file makes the nudge needless.
		s.barrier.(Toucher).Touched([]File{{Path: "/w/b"}})
		s.change(3)
		s.ask()
		s.publish(3)
		s.answered(true)
	})
}
