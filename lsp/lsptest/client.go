package lsptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
)

// patience bounds every wait of a Client, so that a bug is a failure and not a
// hang. What is waited for takes milliseconds, on a slow machine seconds.
const patience = 60 * time.Second

// Client is an editor, or an agent. Its methods fail the test when something
// goes wrong that is not what the test asks about.
type Client struct {
	t    testing.TB
	name string
	conn io.ReadWriteCloser
	done chan struct{} // closed when the stream has ended
	wg   sync.WaitGroup
	// Answer answers requests of the server; nil, or a nil result with a nil
	// error from it: as a bare client would. Set it before Initialize.
	Answer func(method string, params json.RawMessage) (any, error)

	mu       sync.Mutex // guards the fields below
	log      bytes.Buffer
	nextID   int
	calls    map[string]chan wire.Message
	docs     map[string]document
	state    State
	changed  chan struct{} // closed at the next message
	queue    [][]byte      // to be written
	queued   chan struct{} // capacity 1: there is something in it
	progress map[string]string
}

type document struct {
	uri     string
	version int32
	text    string
}

// State is what a Client has been told. Expectations look at it.
type State struct {
	// Diagnostics are what was published last, by canonical URI.
	Diagnostics map[string]Published
	// Notifications are all that came, but for diagnostics and progress.
	Notifications []wire.Message
	// Working are the titles of the progresses that are open; Worked of those
	// that have ended.
	Working, Worked []string
	// Ended says that the server has gone.
	Ended bool
}

// Published is one publishDiagnostics.
type Published struct {
	Version     int32
	Diagnostics []Diagnostic
	Count       int // publishes of this document so far
}

// Verdict says how an expectation stands.
type Verdict int

// An expectation that is Unmeetable will not be Met whatever comes: waiting for
// it is over at once.
const (
	Unmet Verdict = iota
	Met
	Unmeetable
)

func (v Verdict) String() string { return [...]string{"unmet", "met", "unmeetable"}[v] }

// Expectation is a condition on a client's State. Say is printed when it fails.
type Expectation struct {
	Check func(State) Verdict
	Say   string
}

// NewClient speaks over conn, which it owns. It ends with the test; its messages
// are printed if the test has failed.
func NewClient(t testing.TB, name string, conn io.ReadWriteCloser) *Client {
	c := &Client{
		t: t, name: name, conn: conn, done: make(chan struct{}), queued: make(chan struct{}, 1),
		calls: make(map[string]chan wire.Message), docs: make(map[string]document),
		changed: make(chan struct{}), progress: make(map[string]string),
		state: State{Diagnostics: make(map[string]Published)},
	}
	c.wg.Go(c.read)
	c.wg.Go(c.write)
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			c.mu.Lock()
			defer c.mu.Unlock()
			t.Logf("messages of %s:\n%s", name, c.log.String())
		}
	})
	return c
}

// Close ends the stream without a word, as a crash would, and waits.
func (c *Client) Close() {
	c.conn.Close() // it may have ended from the other side
	c.wg.Wait()
}

// Initialize does the handshake and returns the server's answer. params may be
// nil: a client of one folder that takes pushed diagnostics.
func (c *Client) Initialize(folder string, params map[string]any) json.RawMessage {
	c.t.Helper()
	if params == nil {
		params = map[string]any{"capabilities": map[string]any{
			"window":       map[string]any{"workDoneProgress": true},
			"workspace":    map[string]any{"configuration": true, "didChangeWatchedFiles": map[string]any{"dynamicRegistration": true}},
			"textDocument": map[string]any{"publishDiagnostics": map[string]any{"versionSupport": true}},
		}}
	}
	if _, given := params["workspaceFolders"]; !given {
		uri := docuri.FromPath(folder)
		params["rootUri"] = uri
		params["workspaceFolders"] = []any{map[string]any{"uri": uri, "name": "folder"}}
	}
	var result json.RawMessage
	if err := c.Call("initialize", params, &result); err != nil {
		c.t.Fatalf("%s: initialize: %v", c.name, err)
	}
	c.Notify("initialized", map[string]any{})
	return result
}

// Shutdown ends the session in order and waits for the end of the stream.
func (c *Client) Shutdown() {
	c.t.Helper()
	if err := c.Call("shutdown", nil, nil); err != nil {
		c.t.Fatalf("%s: shutdown: %v", c.name, err)
	}
	c.Notify("exit", nil)
	c.Await(Expectation{Say: "the end of the stream", Check: func(s State) Verdict {
		if s.Ended {
			return Met
		}
		return Unmet
	}})
}

// Open opens a document.
func (c *Client) Open(uri, languageID, content string) {
	c.t.Helper()
	d := document{uri: uri, version: 1, text: content}
	c.mu.Lock()
	c.docs[docuri.Canonical(uri)] = d
	c.mu.Unlock()
	c.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": uri, "languageId": languageID, "version": 1, "text": content,
	}})
}

// Change makes content the text of an open document, by the smallest edit, and
// returns its new version.
func (c *Client) Change(uri, content string) (version int32) {
	c.t.Helper()
	c.mu.Lock()
	d, open := c.docs[docuri.Canonical(uri)]
	changes := text.Diff(d.text, content)
	d.version++
	d.text = content
	c.docs[docuri.Canonical(uri)] = d
	c.mu.Unlock()
	if !open {
		c.t.Fatalf("%s: %s is not open", c.name, uri)
	}
	if changes == nil {
		changes = []text.Change{{Text: content}}
	}
	c.Notify("textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": uri, "version": d.version},
		"contentChanges": changes,
	})
	return d.version
}

// Save says that a document was saved.
func (c *Client) Save(uri string) {
	c.t.Helper()
	c.Notify("textDocument/didSave", map[string]any{"textDocument": map[string]any{"uri": uri}})
}

// CloseDocument closes a document.
func (c *Client) CloseDocument(uri string) {
	c.t.Helper()
	c.mu.Lock()
	delete(c.docs, docuri.Canonical(uri))
	c.mu.Unlock()
	c.Notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": uri}})
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) {
	c.t.Helper()
	if err := c.send(wire.NewNotification(method, params)); err != nil {
		c.t.Fatalf("%s: %s: %v", c.name, method, err)
	}
}

// Call sends a request and decodes the answer into result, if that is not nil.
// What the server answered as an error is a *wire.Error.
func (c *Client) Call(method string, params, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.CallContext(ctx, method, params, result)
}

// CallContext is Call, and asks the server to cancel when ctx ends; it then
// waits for the answer all the same.
func (c *Client) CallContext(ctx context.Context, method string, params, result any) error {
	answer := make(chan wire.Message, 1)
	c.mu.Lock()
	c.nextID++
	id := strconv.Quote(c.name + "-" + strconv.Itoa(c.nextID))
	c.calls[id] = answer
	c.mu.Unlock()
	if err := c.send(wire.NewRequest(json.RawMessage(id), method, params)); err != nil {
		return err
	}
	patient := time.NewTimer(patience)
	defer patient.Stop()
	ended := ctx.Done()
	for {
		select {
		case m := <-answer:
			if m.Error != nil {
				return wire.ParseError(m.Error)
			}
			if result == nil {
				return nil
			}
			return json.Unmarshal(m.Result, result)
		case <-c.done:
			select {
			case m := <-answer: // it came right before the end
				answer <- m
				continue
			default:
			}
			return fmt.Errorf("%s: the server has gone: %w", method, io.EOF)
		case <-ended:
			ended = nil
			if err := c.send(wire.NewNotification("$/cancelRequest", map[string]any{"id": json.RawMessage(id)})); err != nil {
				return err
			}
		case <-patient.C:
			return fmt.Errorf("%s: no answer: %w", method, context.DeadlineExceeded)
		}
	}
}

// Await waits until all expectations are met, and fails the test when one
// cannot be any more, or after a minute.
func (c *Client) Await(all ...Expectation) State {
	c.t.Helper()
	patient := time.NewTimer(patience)
	defer patient.Stop()
	for {
		state, changed := c.now()
		unmet := ""
		for _, e := range all {
			switch e.Check(state) {
			case Unmeetable:
				c.t.Fatalf("%s: cannot come any more: %s", c.name, e.Say)
			case Unmet:
				unmet = e.Say
			}
		}
		if unmet == "" {
			return state
		}
		if state.Ended {
			c.t.Fatalf("%s: the server has gone before: %s", c.name, unmet)
		}
		select {
		case <-changed:
		case <-patient.C:
			c.t.Fatalf("%s: has not come: %s", c.name, unmet)
		}
	}
}

// now returns a copy of the state, and what is closed when it has changed.
func (c *Client) now() (State, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.Diagnostics = make(map[string]Published, len(c.state.Diagnostics))
	for uri, p := range c.state.Diagnostics {
		s.Diagnostics[uri] = p
	}
	s.Working = nil
	for _, title := range c.progress {
		s.Working = append(s.Working, title)
	}
	return s, c.changed
}

// send queues a message: the reader answers requests, and must not wait for a
// server that is just writing to us.
func (c *Client) send(body []byte) error {
	c.note("->", body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Ended {
		return io.ErrClosedPipe
	}
	c.queue = append(c.queue, body)
	select {
	case c.queued <- struct{}{}:
	default:
	}
	return nil
}

// write is the goroutine that writes.
func (c *Client) write() {
	out := wire.NewWriter(c.conn)
	for {
		select {
		case <-c.queued:
		case <-c.done:
			return
		}
		c.mu.Lock()
		bodies := c.queue
		c.queue = nil
		c.mu.Unlock()
		for _, body := range bodies {
			if out.WriteFrame(body) != nil {
				return // the reader learns it as well, and says so
			}
		}
	}
}

// maxLog bounds the messages that are kept for a failed test.
const maxLog = 1 << 20

func (c *Client) note(dir string, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log.Len() < maxLog {
		fmt.Fprintf(&c.log, "%s %s\n", dir, body)
	}
}

// read is the goroutine that reads.
func (c *Client) read() {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.state.Ended = true
		close(c.done)
		close(c.changed)
		c.changed = make(chan struct{})
	}()
	in := wire.NewReader(c.conn, wire.MaxServerFrame)
	for {
		body, err := in.ReadFrame()
		if err != nil {
			return
		}
		c.note("<-", body)
		m, err := wire.Parse(body)
		if err != nil {
			c.t.Errorf("%s: %v: %s", c.name, err, body)
			return
		}
		c.receive(m)
		if m.Kind == wire.Request {
			c.answer(m)
		}
	}
}

func (c *Client) receive(m wire.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Kind == wire.Response:
		if waiting := c.calls[string(m.ID)]; waiting != nil {
			delete(c.calls, string(m.ID))
			waiting <- m
		} else {
			c.t.Errorf("%s: an answer to nothing: %s", c.name, m.Body)
		}
	case m.Method == "textDocument/publishDiagnostics":
		c.publishedLocked(m)
	case m.Method == "$/progress":
		c.progressedLocked(m)
	case m.Kind == wire.Notification:
		c.state.Notifications = append(c.state.Notifications, m)
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Client) publishedLocked(m wire.Message) {
	var p struct {
		URI         string       `json:"uri"`
		Version     int32        `json:"version"`
		Diagnostics []Diagnostic `json:"diagnostics"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		c.t.Errorf("%s: %v: %s", c.name, err, m.Body)
		return
	}
	uri := docuri.Canonical(p.URI)
	c.state.Diagnostics[uri] = Published{
		Version: p.Version, Diagnostics: p.Diagnostics, Count: c.state.Diagnostics[uri].Count + 1,
	}
}

func (c *Client) progressedLocked(m wire.Message) {
	var p struct {
		Token json.RawMessage `json:"token"`
		Value struct {
			Kind  string `json:"kind"`
			Title string `json:"title"`
		} `json:"value"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		c.state.Notifications = append(c.state.Notifications, m) // a partial result
		return
	}
	switch p.Value.Kind {
	case "begin":
		c.progress[string(p.Token)] = p.Value.Title
	case "end":
		c.state.Worked = append(c.state.Worked, c.progress[string(p.Token)])
		delete(c.progress, string(p.Token))
	case "report":
	default:
		c.state.Notifications = append(c.state.Notifications, m)
	}
}

// answer answers a request of the server.
func (c *Client) answer(m wire.Message) {
	var (
		result any
		err    error
	)
	if c.Answer != nil {
		result, err = c.Answer(m.Method, m.Params)
	}
	if result == nil && err == nil && m.Method == "workspace/configuration" {
		var p struct {
			Items []json.RawMessage `json:"items"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			result = make([]any, len(p.Items))
		}
	}
	body := wire.NewResult(m.ID, result)
	if err != nil {
		body = wire.NewError(m.ID, err)
	}
	if err := c.send(body); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		c.note("##", []byte(err.Error()))
	}
}
