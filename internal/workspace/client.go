package workspace

import (
	"context"
	"encoding/json"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/shadow"
	"shadowlsp/lsp/wire"
)

// configure passes the person's new settings on.
func (i *instance) configure(settings json.RawMessage) {
	if err := i.server.Notify(i.p.ctx, "workspace/didChangeConfiguration", settings); err != nil {
		i.log.Warn().Err(err).Msg("passing on new settings")
	}
}

// client answers the server in the place of an editor.
type client struct{ i *instance }

// Configuration implements shadow.Client.
func (c client) Configuration(items json.RawMessage) (json.RawMessage, bool) {
	var asked []configItem
	if err := json.Unmarshal(items, &asked); err != nil {
		return nil, false
	}
	values := make([]json.RawMessage, len(asked))
	for n, item := range asked {
		values[n] = c.i.p.configuration(item)
	}
	out, err := json.Marshal(values)
	return out, err == nil
}

// ApplyEdit implements shadow.Client.
func (c client) ApplyEdit(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	s := c.i.asker()
	if s == nil {
		return nil, wire.Errorf(wire.CodeRequestFailed, "no request of an agent is running that an edit could belong to")
	}
	return s.applyEdit(ctx, params)
}

// Notification implements shadow.Client.
func (c client) Notification(method string, params json.RawMessage) {
	switch method {
	case "window/showMessage", "window/logMessage":
		if s := c.i.asker(); s != nil {
			s.peer.Notify("window/logMessage", params)
		}
	}
	c.i.log.Debug().Str("method", method).RawJSON("params", params).Msg("server notification")
}

// Progress implements shadow.Client.
func (c client) Progress(params json.RawMessage) {
	c.i.log.Debug().RawJSON("params", params).Msg("server progress")
}

// progress passes progress of a request on to the agent that asked.
type progress struct{ peer agent.Peer }

// Progress implements shadow.Sink.
func (p progress) Progress(params json.RawMessage) { p.peer.Notify("$/progress", params) }

var _ shadow.Client = client{}
