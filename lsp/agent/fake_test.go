package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"shadowlsp/lsp/wire"
)

func TestMain(m *testing.M) {
	checkInvariants = true
	goleak.VerifyTestMain(m)
}

// fake is a Backend and a Session in memory. The functions that are set decide;
// everything handed over is written down in order.
type fake struct {
	attach       func(context.Context, Attach) (Attached, error)
	edit         func(verb string, d Document) error
	request      func(context.Context, wire.Message) Pending[json.RawMessage]
	extension    func(context.Context, string, json.RawMessage) Pending[json.RawMessage]
	diagnose     func(context.Context, []string) Pending[Diagnosis]
	notification func(wire.Message)

	mu       sync.Mutex // guards the fields below
	calls    []string
	texts    map[string]Document
	attached []Attach
	detached int
}

func (f *fake) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

// taken returns what was handed over since the last call.
func (f *fake) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fake) peer() Peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attached[len(f.attached)-1].Peer
}

func (f *fake) Attach(ctx context.Context, a Attach) (Attached, error) {
	f.mu.Lock()
	f.attached = append(f.attached, a)
	f.mu.Unlock()
	if f.attach != nil {
		return f.attach(ctx, a)
	}
	return Attached{Session: f, About: About{Branch: "b"}}, nil
}

func (f *fake) document(verb string, d Document) error {
	f.note("%s %s v%d %q", verb, d.URI, d.Version, d.Text)
	f.mu.Lock()
	if f.texts == nil {
		f.texts = map[string]Document{}
	}
	_, open := f.texts[d.URI]
	f.texts[d.URI] = d
	f.mu.Unlock()
	if open != (verb == "change") {
		panic(verb + " out of place: " + d.URI)
	}
	if f.edit == nil {
		return nil
	}
	err := f.edit(verb, d)
	if err != nil && !open && wire.AsError(err).Code == wire.CodeInvalidParams {
		f.mu.Lock()
		delete(f.texts, d.URI)
		f.mu.Unlock()
	}
	return err
}

func (f *fake) Open(_ context.Context, d Document) error   { return f.document("open", d) }
func (f *fake) Change(_ context.Context, d Document) error { return f.document("change", d) }
func (f *fake) Save(_ context.Context, uri string) error   { f.note("save %s", uri); return nil }
func (f *fake) Close(_ context.Context, uri string) error {
	f.note("close %s", uri)
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, open := f.texts[uri]; !open {
		panic("close out of place: " + uri)
	}
	delete(f.texts, uri)
	return nil
}

func (f *fake) WatchedFiles(_ context.Context, params json.RawMessage) error {
	f.note("watched %s", params)
	return nil
}

func (f *fake) Notification(_ context.Context, m wire.Message) {
	f.note("notification %s", m.Body)
	if f.notification != nil {
		f.notification(m)
	}
}

func (f *fake) Request(ctx context.Context, m wire.Message) Pending[json.RawMessage] {
	f.note("request %s", m.Body)
	if f.request != nil {
		return f.request(ctx, m)
	}
	return Now(m.Params, nil)
}

func (f *fake) Extension(ctx context.Context, method string, params json.RawMessage) Pending[json.RawMessage] {
	f.note("extension %s %s", method, params)
	if f.extension != nil {
		return f.extension(ctx, method, params)
	}
	return Now(params, nil)
}

func (f *fake) Diagnose(ctx context.Context, uris []string) Pending[Diagnosis] {
	f.note("diagnose %s", strings.Join(uris, " "))
	if f.diagnose != nil {
		return f.diagnose(ctx, uris)
	}
	return Now(Diagnosis{}, Unproven(Partial, "the fake proves nothing"))
}

func (f *fake) Detach() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.detached++
}

// client is an agent.
type client struct {
	t    *testing.T
	conn net.Conn
	w    *wire.Writer
	got  chan wire.Message // closed at the end of the stream
	done chan error        // what Serve returned
	end  sync.WaitGroup
}

// start serves one end of a pipe and reads the other.
func start(t *testing.T, f Backend, cfg Config) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	return startOn(t, t.Context(), ours, theirs, f, cfg)
}

func startOn(t *testing.T, ctx context.Context, ours, theirs net.Conn, f Backend, cfg Config) *client {
	t.Helper()
	cfg.Log = zerolog.New(zerolog.NewTestWriter(t)) // printed when a test fails
	c := &client{t: t, conn: ours, w: wire.NewWriter(ours), got: make(chan wire.Message, 1<<14), done: make(chan error, 1)}
	c.end.Go(func() { c.done <- Serve(ctx, theirs, cfg, f) })
	c.end.Go(func() {
		defer close(c.got)
		r := wire.NewReader(ours, wire.MaxServerFrame)
		for {
			body, err := r.ReadFrame()
			if err != nil {
				if errors.Is(err, wire.ErrNotLSP) {
					t.Errorf("bytes that are no LSP: %v", err)
				}
				return
			}
			m, err := wire.Parse(body)
			if err != nil || !json.Valid(body) {
				t.Errorf("no message: %s: %v", body, err)
				return
			}
			c.got <- m
		}
	})
	return c
}

// initialized starts a client and shakes hands. capabilities may be "".
func initialized(t *testing.T, f Backend, cfg Config, capabilities string) *client {
	t.Helper()
	c := start(t, f, cfg)
	if capabilities == "" {
		capabilities = "{}"
	}
	c.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"capabilities":` + capabilities + `}}`)
	if m := c.recv(); string(m.ID) != `"init"` || m.Error != nil {
		t.Fatalf("initialize: %s", m.Body)
	}
	c.send(`{"jsonrpc":"2.0","method":"initialized","params":{}}`)
	return c
}

const pull = `{"textDocument":{"diagnostic":{}}}`

func (c *client) send(body string) {
	c.t.Helper()
	if err := c.w.WriteFrame([]byte(body)); err != nil {
		c.t.Fatalf("sending %s: %v", body, err)
	}
}

func (c *client) sendf(format string, args ...any) {
	c.t.Helper()
	c.send(fmt.Sprintf(format, args...))
}

// recv returns the next message. Under synctest, waiting for one that cannot
// come fails at once.
func (c *client) recv() wire.Message {
	c.t.Helper()
	m, ok := <-c.got
	if !ok {
		c.t.Fatal("the connection has ended")
	}
	return m
}

// want receives and compares.
func (c *client) want(body string) {
	c.t.Helper()
	if m := c.recv(); string(m.Body) != body {
		c.t.Fatalf("got  %s\nwant %s", m.Body, body)
	}
}

// wantError receives the error response of a request.
func (c *client) wantError(id string, code int, text string) *wire.Error {
	c.t.Helper()
	m := c.recv()
	e := wire.ParseError(m.Error)
	got := string(m.ID)
	if m.ID == nil {
		got = "null"
	}
	if m.Kind != wire.Response || m.Error == nil || got != id || e.Code != code || !strings.Contains(e.Message, text) {
		c.t.Fatalf("got  %s\nwant id %s, error %d with %q", m.Body, id, code, text)
	}
	return e
}

// wantMessage receives a window/showMessage or window/logMessage.
func (c *client) wantMessage(method, text string) {
	c.t.Helper()
	m := c.recv()
	if m.Method != method || !bytes.Contains(m.Params, []byte(text)) {
		c.t.Fatalf("got  %s\nwant %s with %q", m.Body, method, text)
	}
}

// nothing says that nothing came up to now (under synctest).
func (c *client) nothing() {
	c.t.Helper()
	synctest.Wait()
	select {
	case m, ok := <-c.got:
		if ok {
			c.t.Fatalf("unexpected: %s", m.Body)
		}
		c.t.Fatal("the connection has ended")
	default:
	}
}

// ended waits for the end of the connection and returns what Serve returned.
func (c *client) ended() error {
	c.t.Helper()
	err := <-c.done
	for m := range c.got {
		c.t.Errorf("unexpected at the end: %s", m.Body)
	}
	_ = c.conn.Close()
	c.end.Wait()
	return err
}

// close ends the connection as an agent does.
func (c *client) close() {
	c.t.Helper()
	_ = c.conn.Close()
	if err := <-c.done; err != nil {
		c.t.Errorf("Serve: %v", err)
	}
	c.end.Wait()
}

// kind returns the Kind of an error of this room.
func kind(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	g, w := strings.Join(got, "\n"), strings.Join(want, "\n")
	if g != w {
		t.Fatalf("got\n%s\nwant\n%s", g, w)
	}
}

// startSlow starts a client that shakes hands and then reads nothing until slow
// is closed. It returns what Serve returns.
func startSlow(t *testing.T, f Backend, slow chan struct{}) chan error {
	ours, theirs := net.Pipe()
	done := make(chan error, 1)
	ready := make(chan struct{})
	go func() { done <- Serve(t.Context(), theirs, Config{Limits: Limits{Outgoing: 1 << 20}}, f) }()
	go func() {
		defer ours.Close()
		_ = wire.NewWriter(ours).WriteFrame([]byte(initialize))
		_, _ = wire.NewReader(ours, 1<<20).ReadFrame()
		close(ready)
		<-slow
	}()
	<-ready
	return done
}
