package barrier

import (
	"context"
	"encoding/json"

	"shadowlsp/lsp/wire"
)

// Event is one message of an instance. Events come in wire order per direction;
// a sent message is seen before the server can have read it.
type Event struct {
	Sent bool // by us; else by the server
	Msg  wire.Message
}

// Barrier knows when an instance has loaded and when its diagnostics are final.
// Observe must return at once and is called from one goroutine at a time; the
// other methods block, from any goroutine.
type Barrier interface {
	Observe(Event)
	// Ready returns when the server has loaded and nothing is lost if
	// documents are modified now. It is asked before every modification.
	Ready(ctx context.Context) error
	// Final returns when the diagnostics of the given documents belong to all
	// that was sent before the call. No uris: those of every document that
	// has any, and of the open ones. With an error, the Result holds the
	// items that were proven nevertheless.
	Final(ctx context.Context, uris []string) (Result, error)
	// Idle returns when the server does nothing in the background any more.
	Idle(ctx context.Context) error
}

// Toucher is a Barrier of a server that reads files, or runs programs that do,
// without asking to hear of them: it is told of all that changed on the server's
// disk, before the documents that come with the change.
type Toucher interface {
	Touched(files []File)
}

// Settler is a Barrier of a server that has to be told more before it answers
// from the files as they are now. It is asked before each request that is passed
// on to the server.
type Settler interface {
	Settle(ctx context.Context) error
}

// File is one that changed on the server's disk.
type File struct {
	Path    string // absolute
	Created bool   // it was not there before
}

// Result is what Final has proven.
type Result struct {
	// Barrier names the proof, for the reader of a report.
	Barrier string
	// Items, by canonical URI, where they are not simply what was published
	// last. Nil: the published table holds all of them.
	Items map[string]Item
	// Notes are failures that the server itself reported, of the kind that
	// hides diagnostics (a module that could not be loaded, say).
	Notes []string
}

// Item is one document's final diagnostics, an array of Diagnostic.
type Item struct {
	Diagnostics json.RawMessage
	Barrier     string // where it differs from the Result's
}

// Host is the instance as a Barrier sees it.
type Host interface {
	// Call sends a request of our own. A server's error is a *wire.Error.
	Call(ctx context.Context, method string, params any) (json.RawMessage, error)
	// Notify sends a notification of our own.
	Notify(ctx context.Context, method string, params any) error
	// Resend sends a document's present text once more, as another version, with
	// edits of the didChange's params. It does not count as a modification.
	Resend(ctx context.Context, uri string, edits []Edit) error
	// Reconfigure adds an option to the profile's settings (or replaces the one
	// of that name) and tells the server that its configuration has changed.
	Reconfigure(ctx context.Context, option Option) error
	// Setting is the person's own value of a setting, without ours.
	Setting(path ...string) (json.RawMessage, bool)
	// Documents are the open ones, sorted by URI.
	Documents() []Document
	// Published is what the server last published for a document.
	Published(uri string) (Published, bool)
	// Table is all that was published last, by canonical URI.
	Table() map[string]Published
	// Capabilities are the server's static ones; nil before initialize is answered.
	Capabilities() json.RawMessage
	// Registrations are the options of the server's dynamic registrations of
	// a method (an element may be nil).
	Registrations(method string) []json.RawMessage
	// Folders are the URIs of the workspace folders.
	Folders() []string
	// Busy says whether the server's processes have anything to do right now,
	// waiting for a processor or the disk included; seen is false where that is
	// not known.
	Busy() (busy, seen bool)
	// Done is closed when the instance has ended.
	Done() <-chan struct{}
}

// Document is an open document. URI is as sent to the server.
type Document struct {
	URI, LanguageID string
	Version         int32
	Text            string
	// Quiet: nobody asks about it in this turn.
	Quiet bool
}

// Published is the last publishDiagnostics of one document.
type Published struct {
	URI         string // as the server spelled it
	Version     int32  // 0 without HasVersion
	HasVersion  bool
	Diagnostics json.RawMessage // an array
	// Serial counts the publishes of the instance.
	Serial uint64
}
