package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"shadowlsp/lsp/wire"
)

// connection is one agent. Its goroutines: the one that called Serve is first
// the handshake, then the dispatcher; reader and writer; one waiter per
// unanswered request, per running lint and per refresh. Each is counted by one of the WaitGroups.
type connection struct {
	conn    net.Conn
	cfg     Config
	backend Backend
	ctx     context.Context // ends with the connection; its cause says why
	stop    context.CancelCauseFunc
	gate    *gate
	frames  *wire.Reader
	inbox   *inbox
	outbox  *outbox

	requests requests
	calls    calls
	io       sync.WaitGroup // reader, and the function that wakes it at the end
	writing  sync.WaitGroup // writer
	waiters  sync.WaitGroup

	at         atomic.Pointer[place] // for log and trace; set once more by attach
	refreshing atomic.Bool           // a refresh is posted

	// Set during the handshake, constant after it.
	pulls       bool // the client pulls diagnostics
	refreshable bool // … and can be told to pull again
	progresses  bool // it shows progress that it did not ask for

	// Owned by the dispatcher.
	session Session
	docs    documents
	push    pusher
	down    bool // shutdown was answered
	calling bool // a refresh request waits for its answer
	again   bool // … and another is due after it
}

func newConnection(ctx context.Context, conn net.Conn, cfg Config, b Backend) *connection {
	cfg.Limits = cfg.Limits.withDefaults()
	l := cfg.Limits
	c := &connection{
		conn: conn, cfg: cfg, backend: b,
		gate:     &gate{in: conn, limit: l.HandshakeBytes},
		inbox:    newInbox(l.Inbox),
		outbox:   newOutbox(l.Outgoing),
		requests: requests{limit: l.Requests, open: map[string]*request{}},
		calls:    calls{limit: l.Calls, open: map[string]chan wire.Message{}},
		docs:     newDocuments(l),
	}
	c.frames = wire.NewReader(c.gate, l.Frame)
	c.at.Store(&place{log: cfg.Log})
	c.ctx, c.stop = context.WithCancelCause(ctx)
	c.io.Add(1)
	context.AfterFunc(c.ctx, func() {
		_ = conn.SetReadDeadline(past)
		c.io.Done()
	})
	return c
}

// place is where a connection is attached.
type place struct {
	branch string
	log    zerolog.Logger
}

func (c *connection) log() *zerolog.Logger { return &c.at.Load().log }

// write is the writer. An agent that cannot be written to has left: what it
// sent before is still taken, then reading ends.
func (c *connection) write() {
	if err := c.outbox.run(c.conn); err != nil {
		c.log().Debug().Err(err).Msg("writing to an agent failed")
		c.outbox.close()
		_ = c.deadline(time.Now().Add(c.cfg.Limits.Drain))
	}
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// read is the reader: it ends with the stream or with the connection.
func (c *connection) read() {
	err := c.readAll()
	if errors.Is(err, wire.ErrTooLarge) {
		c.send(wire.NewError(nil, wire.Errorf(wire.CodeInvalidRequest, "%v", err)), true)
	}
	c.inbox.post(item{end: true, err: readError(err)})
}

// readError says what the end of a stream means; nil: the agent has closed it.
func readError(err error) error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return err
	case errors.Is(err, wire.ErrTooLarge):
		return fail("read", KindLimit, "%w", err)
	case errors.Is(err, wire.ErrNotLSP):
		return fail("read", KindRefused, "%w", err)
	case isEOF(err):
		return nil
	}
	return fail("read", KindIO, "%w", err)
}

// readAll returns only with an error.
func (c *connection) readAll() error {
	for {
		m, err := c.next()
		if err != nil {
			return err
		}
		it := item{msg: m}
		switch m.Kind {
		case wire.Response:
			c.answered(m)
			continue
		case wire.Request:
			r, refused := c.requests.begin(c.ctx, m)
			if refused != nil {
				c.send(wire.NewError(answerID(m.ID), refused), true)
				continue
			}
			c.follow(r, m)
			it.req = r
		case wire.Notification:
			if known := methods[m.Method]; known.early {
				known.notification(c, m)
				continue
			}
		}
		if err := c.inbox.put(c.ctx, it); err != nil {
			return fail("read", KindClosed, "%w", err)
		}
	}
}

// next reads up to the next message that is one. What is well framed but no
// message is answered and skipped.
func (c *connection) next() (wire.Message, error) {
	for {
		body, err := c.frames.ReadFrame()
		if err != nil {
			return wire.Message{}, err
		}
		m, refused := parse(body)
		if refused == nil {
			if m.Method == "initialize" { // whose token is none of the dump's business
				body = cutMember(body, "params", "initializationOptions", "shadowlsp", "token")
			}
			c.trace("->", body)
			return m, nil
		}
		c.trace("->", body)
		c.log().Debug().Str("err", refused.Message).Msg("malformed message")
		c.send(wire.NewError(nil, refused), true)
	}
}

// parse is wire.Parse for a peer that is not trusted: what it accepts can be
// forwarded to any server without breaking its reader. (A Rust server ends at
// bytes that are not UTF-8.)
func parse(body []byte) (wire.Message, *wire.Error) {
	switch {
	case !utf8.Valid(body):
		return wire.Message{}, wire.Errorf(wire.CodeParseError, "the message is not UTF-8")
	case !json.Valid(body):
		return wire.Message{}, wire.Errorf(wire.CodeParseError, "the message is not JSON")
	}
	m, err := wire.Parse(body)
	if err != nil {
		return wire.Message{}, wire.Errorf(wire.CodeInvalidRequest, "%v", err)
	}
	return m, nil
}

// answerID is the id under which a refused request is answered: null for what
// is no id.
func answerID(id json.RawMessage) json.RawMessage {
	if _, ok := idKey(id); !ok {
		return nil
	}
	return id
}

// send queues one message for the agent. It never waits.
func (c *connection) send(body []byte, response bool) {
	if !c.outbox.send(body, response) {
		c.stop(fail("write", KindLimit, "the agent does not read: more than %d bytes wait for it", c.cfg.Limits.Outgoing))
		return
	}
	c.trace("<-", body)
}

// trace copies a message to the dump.
func (c *connection) trace(dir string, body []byte) {
	if c.cfg.Trace == nil {
		return
	}
	c.cfg.Trace.Message("agent", c.at.Load().branch, "", dir, body)
}

// cancelRequest is $/cancelRequest. It runs in the reader.
func (c *connection) cancelRequest(m wire.Message) {
	id, _ := lookup(m.Params, "id")
	if r := c.requests.find(id); r != nil {
		r.cancel(errCancelled)
	}
}

// await answers r with what pending returns.
func (c *connection) await(r *request, pending Pending[json.RawMessage]) {
	c.waiters.Go(func() {
		result, err := guard(pending)
		c.answer(r, result, err)
	})
}

// answer gives r its one response. Later ones are lost. A panic that is the
// error goes to the log.
func (c *connection) answer(r *request, result json.RawMessage, err error) {
	defer r.cancel(nil)
	if !c.requests.end(r) {
		return
	}
	r.progress.End("")
	var p *panicError
	if errors.As(err, &p) {
		c.logPanic(p)
	}
	code := 0
	if err == nil {
		c.send(respond(r.id, result), true)
	} else {
		e := wireError(r.ctx, err)
		code = e.Code
		c.send(wire.NewError(r.id, e), true)
	}
	c.log().Debug().Str("method", r.method).Str("id", clip(r.id)).Dur("dur", time.Since(r.started)).Int("code", code).Msg("answered")
}

// respond encodes a response around the result's own bytes.
func respond(id, result json.RawMessage) []byte {
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	var b bytes.Buffer
	b.Grow(len(id) + len(result) + 40)
	b.WriteString(`{"jsonrpc":"2.0","id":`)
	b.Write(id)
	b.WriteString(`,"result":`)
	b.Write(result)
	b.WriteByte('}')
	return b.Bytes()
}

// encode makes JSON without escaping HTML; raw members keep their spelling.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // a server's raw JSON that is none; see guard
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
