package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/shadow"
	"shadowlsp/lsp/union"
	"shadowlsp/lsp/wire"
)

// configure passes the person's new settings on.
func (i *instance) configure(settings json.RawMessage) {
	if err := i.server.Notify(i.p.ctx, "workspace/didChangeConfiguration", settings); err != nil {
		i.log.Warn().Err(err).Msg("passing on new settings")
	}
	i.asksAnew.Store(true)
	i.p.generation.Add(1) // what was asked before it was sent may be of the old ones
}

// moveFolders passes on that the person has added or removed workspace folders.
func (i *instance) moveFolders(change json.RawMessage) {
	if err := i.server.Notify(i.p.ctx, "workspace/didChangeWorkspaceFolders", change); err != nil {
		i.log.Warn().Err(err).Msg("passing on new workspace folders")
	}
	i.p.generation.Add(1)
}

// foldersMoved returns the params of a didChangeWorkspaceFolders from one list of
// folders to another, nil where they are the same.
func foldersMoved(from, to json.RawMessage) json.RawMessage {
	list := func(initialize json.RawMessage) (folders []json.RawMessage) {
		raw, _ := barrier.Lookup(initialize, "workspaceFolders")
		_ = json.Unmarshal(raw, &folders) // null: none
		return folders
	}
	lacks := func(folders []json.RawMessage, f json.RawMessage) bool {
		return !slices.ContainsFunc(folders, func(other json.RawMessage) bool { return string(other) == string(f) })
	}
	old, now := list(from), list(to)
	added, removed := []json.RawMessage{}, []json.RawMessage{}
	for _, f := range now {
		if lacks(old, f) {
			added = append(added, f)
		}
	}
	for _, f := range old {
		if lacks(now, f) {
			removed = append(removed, f)
		}
	}
	if len(added)+len(removed) == 0 {
		return nil
	}
	return barrier.Raw(map[string]any{"event": map[string]any{"added": added, "removed": removed}})
}

// settings are what a server that starts is told: what the editor told it last,
// else what the configuration says; nil for nothing.
func (l learnt) settings() json.RawMessage {
	told, _ := barrier.Lookup(l.Settings, "settings")
	switch {
	case len(told) > 0 && string(told) != "null" && string(told) != "{}":
		return l.Settings
	case l.Defaults != nil:
		return barrier.Raw(map[string]json.RawMessage{"settings": l.Defaults})
	}
	return nil
}

// setting is a section of the settings that were told, "a.b" being b of a; null
// where nothing is known of it.
func (l learnt) setting(section string) json.RawMessage {
	var at []string
	if section != "" {
		at = strings.Split(section, ".")
	}
	told, _ := barrier.Lookup(l.Settings, "settings")
	for _, settings := range []json.RawMessage{told, l.Defaults} {
		if value, ok := barrier.Lookup(settings, at...); ok && len(value) > 0 {
			return value
		}
	}
	return json.RawMessage("null")
}

// registered notes what the server has registered, and what it has taken back: agents
// are told. What an earlier instance had registered counts until then: each begins
// with nothing, and will have it in a moment.
func (i *instance) registered() {
	if !i.up.Load() {
		return // start looks once more
	}
	i.registering.Lock()
	defer i.registering.Unlock()
	result, now := i.server.InitializeResult(), i.server.Registered()
	methods := map[string]bool{}
	for _, r := range now {
		methods[r.Method] = true
	}
	had := i.registers
	i.registers = methods
	i.p.d.offers(i.p.key, func(o *offered) {
		if !bytes.Equal(o.Result, result) {
			o.Result, o.Registered = result, nil // another version of it
		}
		o.Registered = slices.DeleteFunc(o.Registered, func(r union.Registration) bool { return methods[r.Method] || had[r.Method] })
		o.Registered = append(o.Registered, now...)
	})
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
	if c.i.asksAnew.Swap(false) {
		c.i.p.generation.Add(1) // only now the new settings take effect
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
	case "client/registerCapability", "client/unregisterCapability":
		c.i.registered()
		return
	case "window/showMessage", "window/logMessage":
		c.i.note(method, params)
	case serverStatus:
		c.i.status(params)
	}
	c.i.log.Debug().Str("method", method).RawJSON("params", params).Msg("server notification")
}

// Progress implements shadow.Client.
func (c client) Progress(params json.RawMessage) {
	if !c.i.ready.Load() {
		c.i.p.loads(c.i.id, params)
	}
	c.i.log.Debug().RawJSON("params", params).Msg("server progress")
}

var _ shadow.Client = client{}
