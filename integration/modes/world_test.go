package modes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shadowlsp/integration/client"
	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/internal/root"
	"shadowlsp/internal/sandbox"
	"shadowlsp/internal/workspace"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

func TestMain(m *testing.M) {
	sandbox.Enter()
	goleak.VerifyTestMain(m)
}

// patience bounds everything that is waited for.
const patience = stage.Patience

// module is the person's folder: a package, one that uses it, and one alone.
var module = stage.Module(map[string]string{
	"own/own.go": "// Package own stands alone.\npackage own\n\n// N is a number.\nconst N = 1\n",
	"note.txt":   "a note\n",
})

// world is a stage and the programs on it.
type world struct {
	*stage.Stage
	binary string
	place  root.Place
}

func newWorld(t *testing.T) *world {
	t.Helper()
	gopls := need.Tool(t, "gopls")
	s := stage.Set(t, module)
	t.Cleanup(func() {
		s.ReadLogs(t)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Env = append(s.Env, "PATH="+filepath.Dir(gopls)+":"+os.Getenv("PATH"))
	top := filepath.Dir(s.Dir)
	place, err := root.At(s.Dir, root.Dirs{Runtime: filepath.Join(top, "run"), State: filepath.Join(top, "state")})
	must(t, err)
	return &world{Stage: s, binary: need.Shadowlsp(t), place: place}
}

// run runs shadowlsp and returns what it prints.
func (w *world) run(t testing.TB, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.Command(w.binary, args...)
	cmd.Dir, cmd.Env = w.Dir, append(os.Environ(), w.Env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return string(out), err
}

func (w *world) serve(t testing.TB, flags ...string) {
	t.Helper()
	_, err := w.run(t, append([]string{"serve", "--detach"}, flags...)...)
	must(t, err)
}

func (w *world) status(t testing.TB) (s workspace.Status) {
	t.Helper()
	out, err := w.run(t, "status", "--json")
	must(t, err)
	must(t, json.Unmarshal([]byte(out), &s))
	return s
}

// agent is a client of `shadowlsp connect`.
type agent struct {
	*client.Client
	w    *world
	init json.RawMessage

	mu      sync.Mutex // guards the fields below
	told    []string   // notifications: method and params
	changed chan struct{}
}

func (w *world) agent(t testing.TB, args ...string) *agent {
	t.Helper()
	a := &agent{w: w, changed: make(chan struct{})}
	var err error
	a.Client, err = client.Start(client.Config{
		Command: append([]string{w.binary, "connect"}, args...), Dir: w.Dir, Env: w.Env, Stderr: t.Output(),
		Notify: func(method string, params json.RawMessage) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.told = append(a.told, method+" "+string(params))
			close(a.changed)
			a.changed = make(chan struct{})
		},
	})
	must(t, err)
	t.Cleanup(func() { a.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a.init, err = a.Initialize(ctx, docuri.FromPath(w.Dir), map[string]any{
		"textDocument": map[string]any{"diagnostic": map[string]any{}},
	}, nil)
	must(t, err)
	return a
}

// hears waits until something was told that holds all the words.
func (a *agent) hears(t testing.TB, words ...string) {
	t.Helper()
	late := time.After(patience)
	for {
		a.mu.Lock()
		told, changed := a.told, a.changed
		a.mu.Unlock()
		for _, line := range told {
			if holdsAll(line, words) {
				return
			}
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("nobody told of %q; told was %q", words, told)
		}
	}
}

func holdsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func (w *world) path(name string) string { return filepath.Join(w.Dir, name) }
func (w *world) uri(name string) string  { return docuri.FromPath(w.path(name)) }

func (w *world) write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	must(t, os.WriteFile(w.path(name), []byte(text), 0o644))
}

// call is a request that must succeed.
func (a *agent) call(t testing.TB, method string, params any) json.RawMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	raw, err := a.Call(ctx, method, params)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// refused is a request that must be refused with all the words.
func (a *agent) refused(t testing.TB, method string, params any, words ...string) *wire.Error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	raw, err := a.Call(ctx, method, params)
	var e *wire.Error
	if !errors.As(err, &e) || !holdsAll(e.Message+string(e.Data), words) {
		t.Errorf("%s: %v, %.300s; want an error with %q", method, err, raw, words)
		return nil
	}
	return e
}

func (w *world) text(name, text string) map[string]any {
	return map[string]any{"uri": w.uri(name), "text": text}
}

func (w *world) deleted(name string) map[string]any {
	return map[string]any{"uri": w.uri(name), "delete": true}
}

func edits(all ...map[string]any) map[string]any {
	if all == nil {
		all = []map[string]any{}
	}
	return map[string]any{"edits": all}
}

func document(uri string) map[string]any {
	return map[string]any{"textDocument": map[string]any{"uri": uri}}
}

// lint returns the diagnostics of a document, each as "severity range message",
// or the refusal.
func (a *agent) lint(ctx context.Context, name string) ([]string, error) {
	var raw json.RawMessage
	var err error
	for range 20 {
		raw, err = a.Call(ctx, "textDocument/diagnostic", document(a.w.uri(name)))
		var e *wire.Error
		if !errors.As(err, &e) || !strings.Contains(string(e.Data), `"retriggerRequest":true`) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	var r struct {
		Items []struct {
			Range    json.RawMessage
			Severity int
			Message  string
		}
		Shadowlsp struct{ Verdict string }
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.Shadowlsp.Verdict != "fresh" {
		return nil, fmt.Errorf("%w: %s", err, raw)
	}
	found := []string{}
	for _, d := range r.Items {
		found = append(found, fmt.Sprintf("%d %s %s", d.Severity, d.Range, d.Message))
	}
	return found, nil
}

// clean and names say what a lint must find.
func (a *agent) clean(t testing.TB, name string) {
	t.Helper()
	found, err := a.lint(t.Context(), name)
	if err != nil || len(found) > 0 {
		t.Errorf("%s: %q, %v; want nothing", name, found, err)
	}
}

func (a *agent) names(t testing.TB, name string, words ...string) {
	t.Helper()
	found, err := a.lint(t.Context(), name)
	if err != nil || !holdsAll(strings.Join(found, "\n"), words) || len(found) == 0 {
		t.Errorf("%s: %q, %v; want %q", name, found, err, words)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
