package shadow

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/wire"
)

// call is a request that the server has not answered.
type call struct {
	method string
	answer chan wire.Message // capacity 1
	over   chan struct{}     // closed when it is out of the table
	tokens []string          // our progress tokens that end with it
}

// token is a progress token that stands for an agent's own.
type token struct {
	theirs json.RawMessage
	sink   Sink
}

// Sink takes what belongs to a forwarded request and comes before its answer.
type Sink interface {
	// Progress is told the params of a $/progress, under the request's own
	// token: work-done progress and partial results. It is called by the
	// instance's reader, in order, and must return at once.
	Progress(params json.RawMessage)
}

// tokenMembers are the members of params that hold a progress token.
var tokenMembers = []string{"workDoneToken", "partialResultToken"}

// Forward passes a request on and returns the server's response, both under the
// request's own id. Only the ids and the two progress tokens are replaced.
//
// When ctx ends, the server is asked to cancel and its own answer is returned,
// whatever it is. If none comes within Limits.CancelGrace the response is
// RequestCancelled, made here, and the late one is dropped. The error is for
// what is not the server's answer: the instance is over, or the message is no
// request. sink may be nil.
func (i *Instance) Forward(ctx context.Context, m wire.Message, sink Sink) (wire.Message, error) {
	if m.Kind != wire.Request {
		return wire.Message{}, i.error("forward", Malformed, fmt.Errorf("a %v is no request", m.Kind))
	}
	if b, wants := i.barrier.(barrier.Settler); wants {
		if err := b.Settle(ctx); err != nil && ctx.Err() == nil {
			return wire.Message{}, err
		}
	}
	answer, err := i.request(ctx, m, sink)
	if err != nil {
		return wire.Message{}, err
	}
	if answer.Body == nil {
		return wire.Parse(wire.NewError(m.ID, wire.Errorf(wire.CodeRequestCancelled,
			"%s was cancelled, and the server did not answer within %v", m.Method, i.cfg.Limits.CancelGrace)))
	}
	return wire.Parse(answer.WithID(m.ID))
}

// Call sends a request of our own and returns its result. A server's error is a
// *wire.Error.
func (i *Instance) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	m, err := wire.Parse(wire.NewRequest(json.RawMessage("0"), method, params))
	if err != nil {
		return nil, i.error("call", Malformed, err)
	}
	answer, err := i.request(ctx, m, nil)
	switch {
	case err != nil:
		return nil, err
	case answer.Body == nil:
		return nil, i.error("call", NotReady, fmt.Errorf("%s: %w", method, context.Cause(ctx)))
	case answer.Error != nil:
		return nil, wire.ParseError(answer.Error)
	}
	return answer.Result, nil
}

// request sends m under an id of ours and waits. The answer has no Body if the
// request was cancelled and no answer came in the time for that.
func (i *Instance) request(ctx context.Context, m wire.Message, sink Sink) (wire.Message, error) {
	if err := context.Cause(ctx); err != nil {
		return wire.Message{}, nil // cancelled before it was sent: nothing to undo
	}
	id := i.nextID.Add(1)
	c := &call{method: m.Method, answer: make(chan wire.Message, 1), over: make(chan struct{})}
	edits := []barrier.Edit{{Path: []string{"id"}, Value: strconv.AppendInt(nil, id, 10)}}
	edits = append(edits, i.register(id, c, m.Params, sink)...)
	defer i.forget(id, c)
	if err := i.send(ctx, barrier.Apply(m.Body, edits)); err != nil {
		if ctx.Err() != nil && i.Err() == nil {
			return wire.Message{}, nil // it never left
		}
		return wire.Message{}, err
	}
	select {
	case answer := <-c.answer:
		return answer, nil
	case <-i.done:
		return i.last(c)
	case <-ctx.Done():
	}
	i.cancel(id)
	grace := time.NewTimer(i.cfg.Limits.CancelGrace)
	defer grace.Stop()
	select {
	case answer := <-c.answer:
		return answer, nil
	case <-i.done:
		return i.last(c)
	case <-grace.C:
		return wire.Message{}, nil
	}
}

// last returns an answer that came right before the end.
func (i *Instance) last(c *call) (wire.Message, error) {
	select {
	case answer := <-c.answer:
		return answer, nil
	default:
		return wire.Message{}, i.Err()
	}
}

// cancel tells the server not to go on with a request. With a full queue it is
// left out: the server is not reading anyhow.
func (i *Instance) cancel(id int64) {
	m, err := wire.Parse(wire.NewNotification("$/cancelRequest", map[string]any{"id": id}))
	if err == nil {
		_, err = i.trySend(m, true)
	}
	if err != nil {
		i.cfg.Log.Debug().Str("instance", i.cfg.Name).Int64("id", id).Err(err).Msg("not cancelled")
	}
}

// register enters a request into the table and returns the edits that put our
// progress tokens into the place of its own.
func (i *Instance) register(id int64, c *call, params json.RawMessage, sink Sink) []barrier.Edit {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls[id] = c
	var edits []barrier.Edit
	for _, name := range tokenMembers {
		theirs, ok := barrier.Lookup(params, name)
		if !ok || string(theirs) == "null" {
			continue
		}
		i.nextToken++
		ours := barrier.Raw("shadowlsp-" + strconv.FormatInt(i.nextToken, 10))
		i.tokens[string(ours)] = &token{theirs: theirs, sink: sink}
		c.tokens = append(c.tokens, string(ours))
		edits = append(edits, barrier.Edit{Path: []string{"params", name}, Value: ours})
	}
	return edits
}

// forget takes a request out of the table, if it is still there. Progress under
// its tokens, and an answer, are dropped from now on.
func (i *Instance) forget(id int64, c *call) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.calls[id] != c {
		return
	}
	delete(i.calls, id)
	for _, t := range c.tokens {
		delete(i.tokens, t)
	}
	close(c.over)
}

// answered gives a response to whoever waits for it. The request is forgotten
// here, by the reader, so that no progress that comes behind the response is
// passed on.
func (i *Instance) answered(m wire.Message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	i.mu.Lock()
	c := i.calls[id]
	i.mu.Unlock()
	if err != nil || c == nil {
		i.cfg.Log.Debug().Str("instance", i.cfg.Name).Bytes("id", m.ID).Msg("answer to nothing dropped")
		return
	}
	i.forget(id, c)
	c.answer <- m
}

// progressed passes progress of a forwarded request on; false if m is not that.
func (i *Instance) progressed(m wire.Message) bool {
	raw, ok := barrier.Lookup(m.Params, "token")
	if !ok {
		return false
	}
	i.mu.Lock()
	t := i.tokens[string(raw)]
	i.mu.Unlock()
	if t == nil {
		return false
	}
	if t.sink != nil {
		t.sink.Progress(barrier.Apply(m.Params, []barrier.Edit{{Path: []string{"token"}, Value: t.theirs}}))
	}
	return true
}

// Notify sends a notification that is not about documents or files (those are
// Sync's): configuration (completed by the profile's settings), folders, and
// whatever an agent sends that we do not interpret.
func (i *Instance) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if synced[method] {
		return i.error("notify", Malformed, fmt.Errorf("%s is for Sync to send", method))
	}
	switch method {
	case "workspace/didChangeConfiguration":
		params = i.configured(params)
	case "workspace/didChangeWorkspaceFolders":
		i.foldersChanged(params)
	}
	return i.send(ctx, wire.NewNotification(method, params))
}

// synced are the notifications that carry a Target's state.
var synced = map[string]bool{
	"initialized": true, "exit": true,
	"textDocument/didOpen": true, "textDocument/didChange": true,
	"textDocument/didSave": true, "textDocument/didClose": true,
	"workspace/didChangeWatchedFiles": true,
}
