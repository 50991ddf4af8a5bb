package lsptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
)

// Server is a language server for the toy language. It reads in the goroutine
// of Serve.
type Server struct {
	rules Rules
	out   *wire.Writer
	raw   io.Writer
	exit  func(status int) // for Crash
	ctx   context.Context  // of Serve
	wg    sync.WaitGroup   // delayed publishes

	mu       sync.Mutex // guards the fields below
	toy      *toy
	versions map[string]int32
	said     map[string][]Diagnostic // published last
	round    int                     // counts modifications
	seen     map[string]int          // messages of each method
	received []wire.Message
	requests int
	arrived  chan struct{} // closed at the next message
}

// errCrash ends Serve as a crash would.
var errCrash = errors.New("crashed, as the rules say")

// NewServer makes a server that Serve runs. exit ends the process; nil: Serve
// just returns.
func NewServer(rules Rules, exit func(status int)) *Server {
	return &Server{
		rules: rules, exit: exit, toy: newToy(),
		versions: make(map[string]int32), said: make(map[string][]Diagnostic),
		seen: make(map[string]int), arrived: make(chan struct{}),
	}
}

// Serve speaks with one client until the stream ends, and waits for all that it
// began.
func (s *Server) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.wg.Wait()
	defer cancel()
	s.ctx, s.raw, s.out = ctx, w, wire.NewWriter(w)
	in := wire.NewReader(r, wire.MaxServerFrame)
	for {
		body, err := in.ReadFrame()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
				return nil
			}
			return err
		}
		m, err := wire.Parse(body)
		if err != nil {
			return err
		}
		if err := s.handle(m); err != nil {
			return err
		}
		if m.Method == "exit" {
			return nil
		}
	}
}

// Received returns the messages of a method so far; "" means all.
func (s *Server) Received(method string) []wire.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []wire.Message
	for _, m := range s.received {
		if method == "" || m.Method == method {
			found = append(found, m)
		}
	}
	return found
}

// Await returns the n-th message of a method, counted from 1, as soon as it has
// come.
func (s *Server) Await(ctx context.Context, method string, n int) (wire.Message, error) {
	for {
		s.mu.Lock()
		arrived := s.arrived
		s.mu.Unlock()
		if found := s.Received(method); len(found) >= n {
			return found[n-1], nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return wire.Message{}, fmt.Errorf("%s did not come %d times: %w", method, n, context.Cause(ctx))
		}
	}
}

// Send sends a message as the server.
func (s *Server) Send(body []byte) error { return s.out.WriteFrame(body) }

// handle does what the rules say, and else what an honest server does.
func (s *Server) handle(m wire.Message) error {
	s.mu.Lock()
	s.seen[m.Method]++
	nth := s.seen[m.Method]
	s.received = append(s.received, m)
	close(s.arrived)
	s.arrived = make(chan struct{})
	s.mu.Unlock()
	only := false
	for _, rule := range s.rules.On {
		if rule.Method != m.Method || rule.Nth != 0 && rule.Nth != nth || m.Kind == wire.Response {
			continue
		}
		for _, action := range rule.Do {
			if err := s.act(action, m); err != nil {
				return err
			}
		}
		only = only || rule.Only
	}
	if only || m.Kind == wire.Response {
		return nil
	}
	return s.honest(m)
}

func (s *Server) act(a Action, m wire.Message) error {
	switch {
	case a.Crash != 0:
		if s.exit != nil {
			s.exit(a.Crash)
		}
		return errCrash
	case a.Stall:
		<-s.ctx.Done()
		return nil
	case a.Raw != "":
		_, err := io.WriteString(s.raw, a.Raw)
		return err
	case a.Wait != 0:
		s.pause(a.Wait)
		return nil
	case a.Request != "":
		return s.Send(wire.NewRequest(s.nextID(), a.Request, params(a.Params)))
	case a.Notify != "":
		return s.Send(wire.NewNotification(a.Notify, params(a.Params)))
	case a.Error != nil:
		return s.Send(wire.NewError(m.ID, wire.ParseError(a.Error)))
	case a.Result != nil:
		return s.Send(wire.NewResult(m.ID, a.Result))
	}
	return nil
}

// params keeps an absent value absent.
func params(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	return raw
}

func (s *Server) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
	}
}

func (s *Server) nextID() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	return json.RawMessage(strconv.Quote("toy-" + strconv.Itoa(s.requests)))
}

// honest is what the toy server does with a message.
func (s *Server) honest(m wire.Message) error {
	switch m.Method {
	case "initialize":
		return s.initialize(m)
	case "initialized":
		return s.initialized()
	case "shutdown":
		return s.Send(wire.NewResult(m.ID, nil))
	case "textDocument/diagnostic":
		return s.pulled(m)
	case "textDocument/didOpen", "textDocument/didChange", "textDocument/didClose",
		"textDocument/didSave", "workspace/didChangeWatchedFiles":
		if err := s.modify(m); err != nil {
			return err
		}
		return s.publish()
	}
	if m.Kind == wire.Request {
		return s.Send(wire.NewError(m.ID, wire.Errorf(wire.CodeMethodNotFound, "%s: not known to the toy", m.Method)))
	}
	return nil
}

func (s *Server) initialize(m wire.Message) error {
	var p struct {
		WorkspaceFolders []struct {
			URI string `json:"uri"`
		} `json:"workspaceFolders"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return s.Send(wire.NewError(m.ID, wire.Errorf(wire.CodeInvalidParams, "%v", err)))
	}
	s.mu.Lock()
	for _, f := range p.WorkspaceFolders {
		s.toy.load(f.URI)
	}
	s.mu.Unlock()
	capabilities := s.rules.Capabilities
	if capabilities == nil {
		capabilities = json.RawMessage(`{"textDocumentSync":{"openClose":true,"change":2,"save":true}}`)
		if s.rules.Signal == Pull {
			capabilities = json.RawMessage(`{"textDocumentSync":{"openClose":true,"change":2,"save":true},` +
				`"diagnosticProvider":{"interFileDependencies":true,"workspaceDiagnostics":false}}`)
		}
	}
	name := s.rules.Name
	if name == "" {
		name = "toy"
	}
	return s.Send(wire.NewResult(m.ID, map[string]any{
		"capabilities": capabilities, "serverInfo": map[string]string{"name": name},
	}))
}

func (s *Server) initialized() error {
	patterns := s.rules.Watch
	if patterns == nil {
		patterns = []string{"**/*.toy"}
	}
	var watchers []map[string]string
	for _, p := range patterns {
		watchers = append(watchers, map[string]string{"globPattern": p})
	}
	return s.Send(wire.NewRequest(s.nextID(), "client/registerCapability", map[string]any{
		"registrations": []any{map[string]any{
			"id": "watch", "method": "workspace/didChangeWatchedFiles",
			"registerOptions": map[string]any{"watchers": watchers},
		}},
	}))
}

// modify takes a modification.
func (s *Server) modify(m wire.Message) error {
	var p struct {
		TextDocument struct {
			URI     string `json:"uri"`
			Version int32  `json:"version"`
			Text    string `json:"text"`
		} `json:"textDocument"`
		ContentChanges []text.Change `json:"contentChanges"`
		Changes        []struct {
			URI string `json:"uri"`
		} `json:"changes"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
	uri := docuri.Canonical(p.TextDocument.URI)
	switch m.Method {
	case "textDocument/didOpen":
		if _, open := s.toy.open[uri]; open {
			return fmt.Errorf("%s was open", uri)
		}
		s.toy.open[uri], s.versions[uri] = p.TextDocument.Text, p.TextDocument.Version
	case "textDocument/didChange":
		old, open := s.toy.open[uri]
		if !open {
			return fmt.Errorf("%s was not open", uri)
		}
		changed, err := text.Apply(old, p.ContentChanges)
		if err != nil {
			return err
		}
		s.toy.open[uri], s.versions[uri] = changed, p.TextDocument.Version
	case "textDocument/didClose":
		delete(s.toy.open, uri)
		delete(s.versions, uri)
		s.toy.read(uri)
	case "workspace/didChangeWatchedFiles":
		for _, c := range p.Changes {
			s.toy.read(c.URI)
		}
	}
	delete(s.said, uri) // a modified document is always published
	return nil
}

// publish makes diagnostics known, at once or when the rules say.
func (s *Server) publish() error {
	if s.rules.Signal == Silent || s.rules.Signal == Pull {
		return nil
	}
	s.mu.Lock()
	round := s.round
	s.mu.Unlock()
	if s.rules.Delay == 0 && !s.rules.Lie {
		return s.publishRound(round, false)
	}
	s.wg.Go(func() {
		s.pause(s.rules.Delay)
		// A publish that fails is one that nobody reads any more.
		if s.rules.Lie {
			_ = s.publishRound(round, true)
			s.pause(s.rules.LieFor)
		}
		_ = s.publishRound(round, false)
	})
	return nil
}

// publishRound publishes what has changed, unless a later modification came.
func (s *Server) publishRound(round int, lie bool) error {
	var messages [][]byte
	s.mu.Lock()
	if s.round == round && s.ctx.Err() == nil {
		messages = s.newsLocked(lie)
	}
	s.mu.Unlock()
	if s.rules.Signal == Progress && messages != nil {
		token := s.nextID()
		progress := func(value any) []byte {
			return wire.NewNotification("$/progress", map[string]any{"token": token, "value": value})
		}
		messages = slices.Concat([][]byte{progress(map[string]string{"kind": "begin", "title": "diagnosing"})},
			messages, [][]byte{progress(map[string]string{"kind": "end"})})
	}
	for _, body := range messages {
		if err := s.Send(body); err != nil {
			return err
		}
	}
	return nil
}

// newsLocked returns the publishes of what differs from what was said last.
func (s *Server) newsLocked(lie bool) [][]byte {
	news := [][]byte{}
	found := s.toy.diagnose()
	for uri := range s.said {
		if _, there := found[uri]; !there {
			found[uri] = []Diagnostic{}
		}
	}
	for uri, list := range found {
		if lie {
			list = []Diagnostic{}
		}
		old, said := s.said[uri]
		if said && equal(old, list) {
			continue
		}
		s.said[uri] = list
		params := map[string]any{"uri": uri, "diagnostics": list}
		if version, open := s.versions[uri]; open && s.rules.Signal == Versioned {
			params["version"] = version
		}
		news = append(news, wire.NewNotification("textDocument/publishDiagnostics", params))
	}
	return news
}

// pulled answers textDocument/diagnostic.
func (s *Server) pulled(m wire.Message) error {
	var p struct {
		TextDocument struct {
			URI string `json:"uri"`
		} `json:"textDocument"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return err
	}
	s.mu.Lock()
	list := s.toy.diagnose()[docuri.Canonical(p.TextDocument.URI)]
	s.mu.Unlock()
	if list == nil {
		list = []Diagnostic{}
	}
	return s.Send(wire.NewResult(m.ID, map[string]any{"kind": "full", "items": list}))
}
