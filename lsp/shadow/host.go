package shadow

import (
	"context"
	"encoding/json"
	"maps"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
)

// host is the Instance as its barrier sees it.
type host struct{ i *Instance }

var _ barrier.Host = host{}

// Call implements barrier.Host.
func (h host) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	return h.i.Call(ctx, method, params)
}

// Notify implements barrier.Host.
func (h host) Notify(ctx context.Context, method string, params any) error {
	return h.i.send(ctx, wire.NewNotification(method, params))
}

// Resend implements barrier.Host.
func (h host) Resend(ctx context.Context, uri string, edits []barrier.Edit) error {
	h.i.turn.Lock()
	defer h.i.turn.Unlock()
	d, open := h.i.document(uri)
	if caps := h.i.syncCapabilities(); !open || !caps.openClose || caps.change == syncNone {
		return nil // closed meanwhile, or the server takes no texts
	}
	d.Version = h.i.nextVersion()
	params := barrier.Raw(map[string]any{
		"textDocument":   identifier{URI: d.URI, Version: d.Version},
		"contentChanges": []text.Change{{Text: d.Text}},
	})
	if err := h.i.send(ctx, wire.NewNotification("textDocument/didChange", barrier.Apply(params, edits))); err != nil {
		return err
	}
	h.i.mu.Lock()
	defer h.i.mu.Unlock()
	h.i.docs[docuri.Canonical(d.URI)] = d
	return nil
}

// Reconfigure implements barrier.Host. The server asks for its configuration
// then, or it has none of the barrier's business.
func (h host) Reconfigure(ctx context.Context, option barrier.Option) error {
	h.i.mu.Lock()
	h.i.settings = h.i.settings.With(option)
	h.i.mu.Unlock()
	return h.i.send(ctx, wire.NewNotification("workspace/didChangeConfiguration", map[string]any{"settings": nil}))
}

// Setting implements barrier.Host.
func (h host) Setting(path ...string) (json.RawMessage, bool) {
	h.i.mu.Lock()
	defer h.i.mu.Unlock()
	return barrier.Lookup(h.i.personal, path...)
}

// Busy implements barrier.Host.
func (h host) Busy() (busy, seen bool) {
	if h.i.cfg.Busy == nil {
		return false, false
	}
	return h.i.cfg.Busy(), true
}

// Documents implements barrier.Host.
func (h host) Documents() []barrier.Document { return h.i.documents() }

// Published implements barrier.Host.
func (h host) Published(uri string) (barrier.Published, bool) {
	h.i.mu.Lock()
	defer h.i.mu.Unlock()
	p, ok := h.i.table[docuri.Canonical(uri)]
	return p, ok
}

// Table implements barrier.Host.
func (h host) Table() map[string]barrier.Published {
	h.i.mu.Lock()
	defer h.i.mu.Unlock()
	return maps.Clone(h.i.table)
}

// Capabilities implements barrier.Host.
func (h host) Capabilities() json.RawMessage {
	caps, _ := barrier.Lookup(h.i.InitializeResult(), "capabilities")
	return caps
}

// Registrations implements barrier.Host.
func (h host) Registrations(method string) []json.RawMessage { return h.i.registered(method) }

// Folders implements barrier.Host.
func (h host) Folders() []string {
	h.i.mu.Lock()
	defer h.i.mu.Unlock()
	uris := make([]string, len(h.i.folders))
	for n, f := range h.i.folders {
		uris[n] = f.URI
	}
	return uris
}

// Done implements barrier.Host.
func (h host) Done() <-chan struct{} { return h.i.done }
