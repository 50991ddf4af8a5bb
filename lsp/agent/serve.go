package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"shadowlsp/lsp/wire"
)

// Config is what a connection is run with.
type Config struct {
	// Token must be given in initializationOptions.shadowlsp.token; "": none is
	// needed (a unix socket that only its owner can open).
	Token string
	// Version is told as serverInfo.version.
	Version string
	Limits  Limits
	// Trace takes a copy of every message; nil: none. initialize goes into it
	// without the token.
	Trace Tracer
	Log   zerolog.Logger
}

// Tracer is what a connection needs of lsp/trace's Sink: Message copies body
// and never waits.
type Tracer interface {
	Message(lane, branch, instance, dir string, body []byte)
}

// Serve runs one connection to its end and closes it. When it returns, all it
// started has ended and the Session is detached. It returns nil when the agent
// sent exit or closed the connection, an [*Error] otherwise; where ctx ended,
// one of KindClosed with its cause.
func Serve(ctx context.Context, conn net.Conn, cfg Config, b Backend) error {
	c := newConnection(ctx, conn, cfg, b)
	c.writing.Go(c.write)
	err := c.run()
	c.stop(cmp.Or(err, errLeft)) // the first cause stays
	c.io.Wait()
	c.waiters.Wait()
	for _, r := range c.requests.rest() {
		c.answer(r, nil, r.ctx.Err())
	}
	if c.session != nil {
		_ = c.try(func() error { c.session.Detach(); return nil })
	}
	if c.finish(); err == nil {
		c.log().Info().Msg("agent left")
		return nil
	}
	c.log().Info().Err(err).Msg("agent connection ended")
	return err
}

// run is handshake and dispatcher. It returns why the connection ends.
func (c *connection) run() error {
	r, m, options, err := c.handshake()
	if err != nil {
		if isEOF(err) {
			return nil
		}
		return err
	}
	attaching, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	c.io.Go(func() {
		c.read()
		cancel(errLeft)
	})
	if err := c.attach(attaching, r, m, options); errors.Is(err, errLeft) {
		return nil
	} else if err != nil {
		return err
	}
	return c.dispatch()
}

// finish lets the last answers leave and closes the connection. An agent that
// does not read has had its time.
func (c *connection) finish() {
	deadline := time.Now().Add(c.cfg.Limits.Drain)
	var e *Error
	if errors.As(context.Cause(c.ctx), &e) && e.Kind == KindLimit && e.Op == "write" {
		deadline = past
	}
	_ = c.conn.SetWriteDeadline(deadline)
	c.outbox.close()
	c.writing.Wait()
	_ = c.conn.Close()
}

// errLeft ends a connection as the agent wanted.
var errLeft = errors.New("the agent left")

// isEOF says whether err is how an agent leaves.
func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, errLeft) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrClosedPipe)
}

// handshake reads up to an initialize request with the right token.
func (c *connection) handshake() (*request, wire.Message, Options, error) {
	none := func(err error) (*request, wire.Message, Options, error) {
		return nil, wire.Message{}, Options{}, err
	}
	if err := c.deadline(time.Now().Add(c.cfg.Limits.Handshake)); err != nil {
		return none(err)
	}
	for {
		m, err := c.next()
		switch {
		case err != nil:
			return none(c.handshakeError(err))
		case m.Kind == wire.Notification && m.Method == "exit":
			return none(errLeft)
		case m.Kind != wire.Request:
			continue
		case m.Method != "initialize":
			c.send(wire.NewError(answerID(m.ID), wire.Errorf(wire.CodeServerNotInitialized,
				"%s came before initialize: the first request must be initialize", m.Method)), true)
			continue
		}
		r, refused := c.requests.begin(c.ctx, m)
		if refused != nil {
			c.send(wire.NewError(nil, refused), true)
			continue
		}
		c.follow(r, m)
		options, err := c.admit(m)
		if err != nil {
			c.answer(r, nil, err)
			return none(fail("handshake", KindRefused, "%w", err))
		}
		c.gate.open = true
		return r, m, options, c.deadline(time.Time{})
	}
}

// deadline sets the time limit on reading, unless the connection is ending.
func (c *connection) deadline(t time.Time) error {
	err := c.conn.SetReadDeadline(t)
	if c.ctx.Err() != nil {
		_ = c.conn.SetReadDeadline(past) // watch may have set it just before
		return fail("handshake", KindClosed, "%w", context.Cause(c.ctx))
	}
	if err != nil {
		return fail("handshake", KindIO, "%w", err)
	}
	return nil
}

func (c *connection) handshakeError(err error) error {
	switch {
	case c.ctx.Err() != nil:
		return fail("handshake", KindClosed, "%w", context.Cause(c.ctx))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail("handshake", KindRefused, "no initialize within %v", c.cfg.Limits.Handshake)
	case errors.Is(err, wire.ErrTooLarge):
		c.send(wire.NewError(nil, wire.Errorf(wire.CodeInvalidRequest, "%v", err)), true)
	case isEOF(err):
		return err
	}
	return readError(err)
}

// admit checks the token and reads the options.
func (c *connection) admit(m wire.Message) (Options, error) {
	o, err := ParseOptions(m.Params)
	if err != nil {
		return o, err
	}
	if c.cfg.Token != "" && !sameToken(o.Token, c.cfg.Token) {
		return o, wire.Errorf(wire.CodeInvalidRequest, "initializationOptions.shadowlsp.token is missing or wrong: "+
			"`shadowlsp status --json` names the file that holds it, `shadowlsp connect` sends it")
	}
	var p struct {
		Capabilities struct {
			TextDocument struct {
				Diagnostic json.RawMessage `json:"diagnostic"`
			} `json:"textDocument"`
			Workspace struct {
				Diagnostics struct {
					Refresh bool `json:"refreshSupport"`
				} `json:"diagnostics"`
			} `json:"workspace"`
			Window struct {
				WorkDoneProgress bool `json:"workDoneProgress"`
			} `json:"window"`
		} `json:"capabilities"`
	}
	if len(m.Params) > 0 {
		if err := json.Unmarshal(m.Params, &p); err != nil {
			return o, wire.Errorf(wire.CodeInvalidParams, "initialize: malformed params: %v", err)
		}
	}
	diagnostic := p.Capabilities.TextDocument.Diagnostic
	c.pulls = len(diagnostic) > 0 && string(diagnostic) != "null"
	c.refreshable = p.Capabilities.Workspace.Diagnostics.Refresh
	c.progresses = p.Capabilities.Window.WorkDoneProgress
	return o, nil
}

// sameToken compares in constant time; hashing hides the length as well.
func sameToken(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// attach joins the connection to its branch and answers initialize.
func (c *connection) attach(ctx context.Context, r *request, m wire.Message, o Options) error {
	a := Attach{Params: cutMember(m.Params, "initializationOptions", "shadowlsp"), Options: o, Peer: c}
	a.Options.Token = ""
	if r.progress != nil {
		ctx = context.WithValue(ctx, progressKey{}, r.progress)
	}
	attached, err := guard(func() (Attached, error) { return c.backend.Attach(ctx, a) })
	if err == nil && attached.Session == nil {
		err = fail("attach", KindBackend, "no session")
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return fail("attach", KindClosed, "%w", cause)
		}
		c.answer(r, nil, err)
		return fail("attach", KindRefused, "%w", err)
	}
	c.session = attached.Session
	branch := attached.About.Branch
	c.at.Store(&place{branch: branch, log: c.cfg.Log.With().Str("branch", branch).Logger()})
	result, err := guard(func() (json.RawMessage, error) { return initializeResult(attached, c.cfg.Version), nil })
	c.answer(r, result, err)
	c.outbox.release()
	c.log().Info().Bool("pull", c.pulls).Msg("agent attached")
	return nil
}

// dispatch handles what comes, in order, until the end.
func (c *connection) dispatch() error {
	for {
		if c.ctx.Err() != nil {
			return c.cause()
		}
		it, ok := c.inbox.next()
		if !ok {
			c.protect(nil, c.lint)
			select {
			case <-c.inbox.ready:
			case <-c.ctx.Done():
			}
			continue
		}
		switch {
		case it.end:
			return it.err
		case it.do != nil:
			c.protect(nil, it.do)
		case it.req != nil:
			c.protect(it.req, func() { c.dispatchRequest(it.req, it.msg) })
		case it.msg.Method == "exit":
			return nil
		default:
			c.protect(nil, func() { c.dispatchNotification(it.msg) })
		}
	}
}

// cause is why the connection's context ended, as an *Error.
func (c *connection) cause() error {
	cause := context.Cause(c.ctx)
	var e *Error
	if errors.As(cause, &e) {
		return cause
	}
	return fail("serve", KindClosed, "%w", cause)
}

// checkInvariants is switched on by tests.
var checkInvariants bool

func (c *connection) checked() error {
	if !checkInvariants {
		return nil
	}
	if err := c.docs.check(); err != nil {
		panic(err)
	}
	return nil
}

// protect runs one step of the dispatcher: a panic costs that step only.
func (c *connection) protect(r *request, step func()) {
	err := c.try(func() error { step(); return c.checked() })
	switch {
	case err == nil:
	case r != nil:
		c.answer(r, nil, err)
	default:
		c.complain(err)
	}
}

// initializeResult makes the answer to initialize: the server's own but for
// what this room answers.
func initializeResult(a Attached, version string) json.RawMessage {
	result := a.Result
	if _, ok := members(result); !ok {
		result = json.RawMessage("{}")
	}
	if a.About.Methods == nil {
		a.About.Methods = extensionMethods()
	}
	type info struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	for _, set := range []struct {
		value any
		path  []string
	}{
		{"utf-16", []string{"capabilities", "positionEncoding"}},
		{json.RawMessage(`{"openClose":true,"change":2,"save":{"includeText":false}}`), []string{"capabilities", "textDocumentSync"}},
		{json.RawMessage(`{"identifier":"shadowlsp","interFileDependencies":true,"workspaceDiagnostics":true}`), []string{"capabilities", "diagnosticProvider"}},
		{a.About, []string{"capabilities", "experimental", "shadowlsp"}},
		{info{"shadowlsp", version}, []string{"serverInfo"}},
	} {
		value := encode(set.value)
		for n := 1; ; n++ {
			if next, ok := setMember(result, value, set.path...); ok {
				result = next
				break
			}
			// Something on the way is no object: it cannot be kept.
			result, _ = setMember(result, json.RawMessage("{}"), set.path[:n]...)
		}
	}
	return result
}
