package agent

import (
	"strings"

	"shadowlsp/lsp/wire"
)

// method says how one method is interpreted. A message of the kind for which
// there is no function is refused (a request) or dropped (a notification).
type method struct {
	request      func(*connection, *request, wire.Message)
	notification func(*connection, wire.Message)
	// early: the reader runs it at once, ahead of what waits in the inbox.
	early bool
}

// methods names every method that is interpreted. Besides it there are the
// requests "shadowlsp/…", listed in Extensions. All others are forwarded.
var methods = map[string]method{
	"initialize":  {request: (*connection).initializeAgain},
	"initialized": {notification: (*connection).ignore}, // the server has been told long ago
	"shutdown":    {request: (*connection).shutdown},    // the server is not this agent's to stop
	"exit":        {notification: (*connection).ignore}, // the dispatcher ends at it

	"$/cancelRequest": {notification: (*connection).cancelRequest, early: true},
	"$/setTrace":      {notification: (*connection).ignore}, // would turn on the trace of all branches

	"textDocument/didOpen":            {notification: (*connection).didOpen},
	"textDocument/didChange":          {notification: (*connection).didChange},
	"textDocument/didSave":            {notification: (*connection).didSave},
	"textDocument/didClose":           {notification: (*connection).didClose},
	"workspace/didChangeWatchedFiles": {notification: (*connection).watchedFiles},

	"textDocument/diagnostic": {request: (*connection).documentDiagnostic},
	"workspace/diagnostic":    {request: (*connection).workspaceDiagnostic},
}

const extensionPrefix = "shadowlsp/"

// dispatchRequest hands one request over. It runs in the dispatcher.
func (c *connection) dispatchRequest(r *request, m wire.Message) {
	if c.down {
		c.answer(r, nil, wire.Errorf(wire.CodeInvalidRequest, "%s after shutdown: only exit may follow", m.Method))
		return
	}
	if err := r.ctx.Err(); err != nil { // cancelled while it waited here
		c.answer(r, nil, err)
		return
	}
	known, interpreted := methods[m.Method]
	switch {
	case interpreted && known.request == nil:
		c.answer(r, nil, wire.Errorf(wire.CodeInvalidRequest, "%s is a notification: send it without an id", m.Method))
	case interpreted:
		known.request(c, r, m)
	case strings.HasPrefix(m.Method, extensionPrefix):
		c.extension(r, m)
	default:
		if why := c.docs.refuse(m.Params); why != nil {
			c.answer(r, nil, why)
			return
		}
		c.await(r, c.session.Request(r.ctx, m))
	}
}

// dispatchNotification hands one notification over. It runs in the dispatcher.
func (c *connection) dispatchNotification(m wire.Message) {
	if c.down {
		return
	}
	known, interpreted := methods[m.Method]
	switch {
	case interpreted && known.notification != nil:
		known.notification(c, m)
	case interpreted, strings.HasPrefix(m.Method, extensionPrefix):
		c.log().Debug().Str("method", m.Method).Msg("a request came without an id: dropped")
	default:
		c.session.Notification(c.ctx, m)
	}
}

func (c *connection) extension(r *request, m wire.Message) {
	if !isExtension(m.Method) {
		c.answer(r, nil, wire.Errorf(wire.CodeMethodNotFound, "%s is not one of %s", m.Method, strings.Join(extensionMethods(), ", ")))
		return
	}
	if m.Method == MethodLint {
		if why := c.docs.refuse(m.Params); why != nil {
			c.answer(r, nil, why)
			return
		}
	}
	c.await(r, c.session.Extension(r.ctx, m.Method, m.Params))
}

func (c *connection) ignore(wire.Message) {}

func (c *connection) initializeAgain(r *request, _ wire.Message) {
	c.answer(r, nil, wire.Errorf(wire.CodeInvalidRequest, "initialize: this connection is initialized; a connection has one branch for its life"))
}

func (c *connection) shutdown(r *request, _ wire.Message) {
	c.down = true
	c.answer(r, nil, nil)
}
