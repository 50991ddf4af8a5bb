package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"shadowlsp/lsp/wire"
)

// script plays gopls: it records what the barrier sends and says what a test
// wants, in the order of the wire.
type script struct {
	t       *testing.T
	barrier Barrier
	done    chan struct{}

	mu    sync.Mutex
	sent  []string
	table map[string]Published
	docs  []Document
	// packages answers gopls.packages.
	packages string
	tokens   int
	open     map[string]int // token by title
}

func newScript(t *testing.T) *script {
	s := &script{
		t: t, done: make(chan struct{}), table: map[string]Published{}, open: map[string]int{},
		packages: `{"Packages":[{"Path":"m/lib","ModulePath":"m"},{"Path":"m/lib_test","ForTest":"m/lib","ModulePath":"m"}],"Module":{"m":{"GoMod":"file:///w/go.mod"}}}`,
	}
	s.barrier = gopls().New(s)
	s.send("initialized", `{}`)
	s.begin("diagnosing initial workspace load")
	s.end("diagnosing initial workspace load")
	if err := s.barrier.Ready(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.docs = []Document{{URI: "file:///w/lib/lib.go", LanguageID: "go", Version: 1, Text: "package lib\n\nvar x = 1\n"}}
	s.sent = nil
	return s
}

// Call implements Host. Requests are answered at once, as gopls does when it
// has nothing else to do.
func (s *script) Call(_ context.Context, method string, params any) (json.RawMessage, error) {
	name := method
	if p, ok := params.(map[string]any); ok {
		name = fmt.Sprint(p["command"])
	}
	s.note(name)
	switch name {
	case goplsViews:
		return json.RawMessage(`[{}]`), nil
	case goplsListPackages:
		return json.RawMessage(s.packages), nil
	case goplsListImports:
		return json.RawMessage(`{}`), nil
	}
	return nil, wire.Errorf(wire.CodeMethodNotFound, "not known")
}

// Notify implements Host.
func (s *script) Notify(_ context.Context, method string, params any) error {
	s.note(method)
	s.send(method, string(Raw(params)))
	return nil
}

func (s *script) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, what)
}

func (s *script) saw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.sent, " ")
}

// Reconfigure implements Host.
func (s *script) Reconfigure(ctx context.Context, _ Option) error {
	return s.Notify(ctx, "workspace/didChangeConfiguration", nil)
}

// Documents implements Host.
func (s *script) Documents() []Document { return s.docs }

// Resend implements Host.
func (s *script) Resend(context.Context, string, []Edit) error { return nil }

// Setting implements Host.
func (s *script) Busy() (busy, seen bool)                   { return false, false }
func (s *script) Setting(...string) (json.RawMessage, bool) { return nil, false }

// Published implements Host.
func (s *script) Published(uri string) (Published, bool) { p, ok := s.Table()[uri]; return p, ok }

// Table implements Host.
func (s *script) Table() map[string]Published {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := map[string]Published{}
	for uri, p := range s.table {
		c[uri] = p
	}
	return c
}

// Capabilities implements Host.
func (s *script) Capabilities() json.RawMessage { return nil }

// Registrations implements Host.
func (s *script) Registrations(string) []json.RawMessage { return nil }

// Folders implements Host.
func (s *script) Folders() []string { return []string{"file:///w"} }

// Done implements Host.
func (s *script) Done() <-chan struct{} { return s.done }

func (s *script) observe(sent bool, body []byte) {
	m, err := wire.Parse(body)
	if err != nil {
		s.t.Fatal(err)
	}
	s.barrier.Observe(Event{Sent: sent, Msg: m})
}

func (s *script) send(method, params string) {
	s.observe(true, wire.NewNotification(method, json.RawMessage(params)))
}

func (s *script) change() {
	s.send("textDocument/didChange", `{"textDocument":{"uri":"file:///w/lib/lib.go"},"contentChanges":[{"range":{"start":{"line":2}},"text":"x"}]}`)
}

func (s *script) progress(title, value string) {
	s.observe(false, wire.NewNotification("$/progress", json.RawMessage(fmt.Sprintf(`{"token":"%d","value":%s}`, s.open[title], value))))
}

func (s *script) begin(title string) {
	s.tokens++
	s.open[title] = s.tokens
	s.progress(title, fmt.Sprintf(`{"kind":"begin","title":%q,"message":"m: %s"}`, title, title))
}

func (s *script) end(title string) { s.progress(title, `{"kind":"end"}`) }

func (s *script) publish(uri, diagnostics string) {
	s.mu.Lock()
	s.table[uri] = Published{URI: uri, Diagnostics: json.RawMessage(diagnostics)}
	s.mu.Unlock()
	s.observe(false, wire.NewNotification("textDocument/publishDiagnostics", json.RawMessage(fmt.Sprintf(`{"uri":%q}`, uri))))
}

// final runs Final beside the script.
func (s *script) final() (returned func() bool, result func() (Result, error)) {
	type both struct {
		r   Result
		err error
	}
	over := make(chan both, 1)
	go func() {
		r, err := s.barrier.Final(context.Background(), nil)
		over <- both{r, err}
	}()
	var got *both
	returned = func() bool {
		synctest.Wait()
		select {
		case b := <-over:
			got = &b
		default:
		}
		return got != nil
	}
	return returned, func() (Result, error) {
		if got == nil {
			b := <-over
			got = &b
		}
		return got.r, got.err
	}
}

const changed, opened, watched = "diagnosing changed files", "diagnosing opened files", "diagnosing files changed on disk"

func isKind(err error, k Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == k
}

func TestGoplsFinalNeedsEveryEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t)
		s.change()
		s.begin(changed)
		first := s.open[changed]
		s.change()
		s.begin(changed)
		second := s.open[changed]
		returned, result := s.final()
		s.open[changed] = first
		s.end(changed)
		if returned() {
			t.Fatal("final at the end of the change before")
		}
		s.publish("file:///w/lib/lib.go", `[]`)
		s.open[changed] = second
		s.end(changed)
		if !returned() {
			t.Fatal("not final")
		}
		if r, err := result(); err != nil || r.Barrier != "progress" || s.saw() != "shadowlsp/roundTrip" {
			t.Error(r, err, s.saw())
		}
		// Nothing was modified: the second question costs nothing.
		if _, err := s.barrier.Final(context.Background(), nil); err != nil || s.saw() != "shadowlsp/roundTrip" {
			t.Error(err, s.saw())
		}
	})
}

func TestGoplsRefusedChangeIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t)
		s.change()
		if _, err := s.barrier.Final(context.Background(), nil); !isKind(err, Desync) {
			t.Error(err)
		}
	})
}

// An earlier diagnosis that ends behind a publish of the last one may have
// written over it.
func TestGoplsFlushesMixedDiagnoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t)
		s.change()
		s.begin(changed)
		first := s.open[changed]
		s.change()
		s.begin(changed)
		second := s.open[changed]
		s.publish("file:///w/lib/lib.go", `[]`)
		s.open[changed] = first
		s.end(changed)
		s.open[changed] = second
		s.end(changed)
		// The script begins no bracket for the flush.
		if _, err := s.barrier.Final(context.Background(), nil); !isKind(err, Desync) ||
			s.saw() != "shadowlsp/roundTrip workspace/didChangeWatchedFiles shadowlsp/roundTrip" {
			t.Fatal(s.saw(), err)
		}
	})
}

func TestGoplsNewFolderIsLoadedAndNudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t)
		s.send("workspace/didChangeWatchedFiles", `{"changes":[{"uri":"file:///w/new/a.go","type":1},{"uri":"file:///w/lib/b.go","type":1}]}`)
		s.begin(watched)
		s.end(watched)
		returned, result := s.final()
		returned()
		if s.saw() != goplsListPackages+" "+goplsListImports+" workspace/didChangeWatchedFiles shadowlsp/roundTrip" {
			t.Error(s.saw())
		}
		if r, err := result(); !isKind(err, Desync) { // the script begins no bracket for the nudge
			t.Error(r, err)
		}
	})
}

func TestGoplsWithoutVerboseProgressIsUnsupported(t *testing.T) {
	s := &script{t: t, done: make(chan struct{}), table: map[string]Published{}}
	s.barrier = gopls().New(s)
	s.send("initialized", `{}`)
	if err := s.barrier.Ready(context.Background()); !isKind(err, Unsupported) {
		t.Error(err)
	}
}

func TestGoplsLoadFailure(t *testing.T) {
	s := newScript(t)
	s.change()
	s.begin(changed)
	s.begin(goplsLoadFailed)
	s.publish("file:///w/lib/lib.go", `[]`)
	s.end(changed)
	if _, err := s.barrier.Final(context.Background(), nil); !isKind(err, LoadFailed) || !strings.Contains(err.Error(), "m: Error loading") {
		t.Error(err)
	}
	// With a diagnostic it is not silent; the failure is a note.
	s.publish("file:///w/go.mod", `[{"severity":1,"message":"bad"}]`)
	if r, err := s.barrier.Final(context.Background(), nil); err != nil || !slices.Contains(r.Notes, "m: "+goplsLoadFailed) {
		t.Error(r, err)
	}
	// Mended.
	s.change()
	s.begin(changed)
	s.end(goplsLoadFailed)
	s.publish("file:///w/go.mod", `[]`)
	s.end(changed)
	if r, err := s.barrier.Final(context.Background(), nil); err != nil || len(r.Notes) != 0 {
		t.Error(r, err)
	}
}

func TestGoplsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t)
		s.change()
		s.begin(changed)
		returned, result := s.final()
		if returned() {
			t.Fatal("final")
		}
		close(s.done)
		if _, err := result(); !isKind(err, Gone) {
			t.Error(err)
		}
	})
}

// Modifications wait while a diagnosis is on its way that they would cancel for
// good.
func TestGoplsReadyWaitsForCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t)
		s.begin("diagnosing regenerate cgo")
		ready := make(chan error, 1)
		go func() { ready <- s.barrier.Ready(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-ready:
			t.Fatal("ready", err)
		default:
		}
		s.end("diagnosing regenerate cgo")
		if err := <-ready; err != nil {
			t.Error(err)
		}
	})
}
