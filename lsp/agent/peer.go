package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"shadowlsp/lsp/wire"
)

var errTooManyCalls = errors.New("too many requests to the agent have no answer yet")

// calls is the table of our requests to the agent.
type calls struct {
	limit int

	mu   sync.Mutex // guards the fields below
	last int64
	open map[string]chan wire.Message // by idKey; each takes one answer
}

// begin makes an id and a place for its answer.
func (t *calls) begin() (id json.RawMessage, answer chan wire.Message, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= t.limit {
		return nil, nil, errTooManyCalls
	}
	t.last++
	id = strconv.AppendInt(nil, t.last, 10)
	key, _ := idKey(id)
	answer = make(chan wire.Message, 1)
	t.open[key] = answer
	return id, answer, nil
}

// end removes the call with that id and returns its place, nil if there is none.
func (t *calls) end(id json.RawMessage) chan wire.Message {
	key, ok := idKey(id)
	if !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	answer := t.open[key]
	delete(t.open, key)
	return answer
}

// Notify is [Peer.Notify].
func (c *connection) Notify(method string, params any) {
	c.send(wire.NewNotification(method, params), false)
}

// Call is [Peer.Call].
func (c *connection) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if c.ctx.Err() != nil {
		return nil, c.closed(method)
	}
	id, answer, err := c.calls.begin()
	if err != nil {
		return nil, fail("call "+method, KindLimit, "%w (limit %d)", err, c.calls.limit)
	}
	defer c.calls.end(id)
	c.send(wire.NewRequest(id, method, params), false)
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, wire.ParseError(m.Error)
		}
		return m.Result, nil
	case <-c.ctx.Done():
		return nil, c.closed(method)
	case <-ctx.Done():
		c.Notify("$/cancelRequest", struct {
			ID json.RawMessage `json:"id"`
		}{id})
		return nil, ctx.Err()
	}
}

func (c *connection) closed(method string) error {
	return fail("call "+method, KindClosed, "the connection has ended: %w", context.Cause(c.ctx))
}

// progressTokens counts the progress that we have begun, by connections of one
// process; their names keep apart from the tokens that agents give.
var progressTokens atomic.Int64

// Progress is [Peer.Progress].
func (c *connection) Progress(ctx context.Context, title string) *Progress {
	if !c.progresses {
		return nil
	}
	token := encode(fmt.Sprintf("shadowlsp/progress/%d", progressTokens.Add(1)))
	if _, err := c.Call(ctx, "window/workDoneProgress/create", struct {
		Token json.RawMessage `json:"token"`
	}{token}); err != nil {
		return nil
	}
	return &Progress{send: func(body []byte) { c.send(body, false) }, token: token, title: title}
}

// Refresh is [Peer.Refresh].
func (c *connection) Refresh() {
	if !c.refreshing.Swap(true) {
		c.inbox.post(item{do: c.refresh})
	}
}

// Close is [Peer.Close].
func (c *connection) Close(err error) {
	if err == nil {
		err = errors.New("closed")
	}
	c.stop(&Error{Op: "serve", Kind: KindClosed, Err: err})
}

// answered brings a response of the agent to the call that waits for it.
func (c *connection) answered(m wire.Message) {
	if answer := c.calls.end(m.ID); answer != nil {
		answer <- m
		return
	}
	// Cancelled calls are answered too; an error without an id concerns no call.
	c.log().Debug().Str("id", clip(m.ID)).Str("err", clip(m.Error)).Msg("a response to no request of ours")
}
