package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"runtime/debug"
	"sync"
	"time"

	"shadowlsp/lsp/wire"
)

// errCancelled is the cause of a request's context that the agent cancelled.
var errCancelled = errors.New("cancelled by the agent")

// request is a request of the agent that has no answer yet.
type request struct {
	id      json.RawMessage // as spelled
	key     string
	method  string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started time.Time
	// progress is nil where the agent gave no token. It is set before the request
	// is handed over.
	progress *Progress
}

// requests is the table of unanswered requests of one connection. A request
// leaves it exactly once, and whoever removes it answers it.
type requests struct {
	limit int

	mu   sync.Mutex // guards the fields below
	open map[string]*request
}

// begin enters a request; ctx is that of the connection.
func (t *requests) begin(ctx context.Context, m wire.Message) (*request, *wire.Error) {
	key, ok := idKey(m.ID)
	if !ok {
		return nil, wire.Errorf(wire.CodeInvalidRequest, "%s: the id %s is neither a string nor a number", m.Method, clip(m.ID))
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, idKeyType{}, m.ID))
	r := &request{id: m.ID, key: key, method: m.Method, ctx: ctx, cancel: cancel, started: time.Now()}
	t.mu.Lock()
	_, twice := t.open[key]
	full := len(t.open) >= t.limit
	if !twice && !full {
		t.open[key] = r
	}
	t.mu.Unlock()
	switch {
	case twice:
		cancel(nil)
		return nil, wire.Errorf(wire.CodeInvalidRequest, "%s: the id %s is in use by a request that has no answer yet", m.Method, clip(m.ID))
	case full:
		cancel(nil)
		return nil, OverLimit("requests", int64(t.limit), "%s: %d requests of this connection have no answer yet, which is the limit: wait for some", m.Method, t.limit)
	}
	return r, nil
}

// end removes r; false when someone else has.
func (t *requests) end(r *request) bool {
	t.mu.Lock()
	mine := t.open[r.key] == r
	if mine {
		delete(t.open, r.key)
	}
	t.mu.Unlock()
	return mine
}

// find returns the unanswered request with that id, or nil.
func (t *requests) find(id json.RawMessage) *request {
	key, ok := idKey(id)
	if !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[key]
}

// rest returns all that are left.
func (t *requests) rest() []*request {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*request, 0, len(t.open))
	for _, r := range t.open {
		list = append(list, r)
	}
	return list
}

// idKey returns one key for all spellings of an id: 1, 1.0 and 1e0 are one
// number; "1" is a string and another id.
func idKey(id json.RawMessage) (string, bool) {
	if len(id) == 0 || len(id) > maxID {
		return "", false
	}
	if id[0] == '"' {
		var s string
		if err := json.Unmarshal(id, &s); err != nil {
			return "", false
		}
		return `"` + s, true
	}
	if !plainNumber(id) {
		return "", false
	}
	f, _, err := big.ParseFloat(string(id), 10, 256, big.ToNearestEven)
	if err != nil {
		return "", false
	}
	return f.Text('g', -1), true
}

// maxID bounds an id in bytes: real ones are below 50.
const maxID = 1024

// plainNumber says whether raw is a JSON number with an exponent of at most
// three digits (big.ParseFloat would work for ages on 1e999999999).
func plainNumber(raw []byte) bool {
	exponent := -1
	for i, c := range raw {
		switch {
		case c == 'e' || c == 'E':
			exponent = i
		case (c < '0' || c > '9') && c != '-' && c != '+' && c != '.':
			return false
		}
	}
	return (exponent < 0 || len(raw)-exponent <= 5) && json.Valid(raw)
}

// clip shortens what is quoted in a message.
func clip(raw []byte) string {
	if len(raw) > 80 {
		return string(raw[:80]) + "…"
	}
	return string(raw)
}

// wireError makes of err what the agent is told; ctx is that of the request.
func wireError(ctx context.Context, err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		cause := context.Cause(ctx)
		switch {
		case errors.Is(cause, errCancelled):
			return wire.Errorf(wire.CodeRequestCancelled, "%v", errCancelled)
		case errors.As(cause, &e):
			return e
		case cause != nil:
			return wire.Errorf(wire.CodeServerCancelled, "the connection ends: %v", cause)
		}
		return wire.Errorf(wire.CodeServerCancelled, "not done in time: %v", err)
	}
	return wire.AsError(err)
}

// guard calls f and turns a panic into an error that holds the stack.
func guard[T any](f func() (T, error)) (v T, err error) {
	if f == nil {
		return v, fail("backend", KindBackend, "no answer was given")
	}
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: p, stack: debug.Stack()}
		}
	}()
	return f()
}

// panicError is a panic of the backend, or of ours on the way to it.
type panicError struct {
	value any
	stack []byte
}

// Error says what the agent may know: the stack goes to the log.
func (e *panicError) Error() string { return fmt.Sprintf("shadowlsp failed inside: %v", e.value) }
