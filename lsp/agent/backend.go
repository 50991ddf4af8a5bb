package agent

import (
	"context"
	"encoding/json"

	"shadowlsp/lsp/wire"
)

// Backend gives a connection its branch. It is shared by all connections and
// called from their goroutines.
type Backend interface {
	// Attach is called once per connection, when its initialize request has been
	// accepted and its token checked. ctx ends when the agent disconnects
	// meanwhile. Attach may take its time (a server may have to start), but must
	// not wait for the agent: no [Peer.Call] is sent before the answer.
	//
	// An error becomes the error response of initialize and ends the connection:
	// a [*wire.Error] as it is, anything else as InternalError with its text.
	Attach(ctx context.Context, a Attach) (Attached, error)
}

// Attach is what an agent asked for.
type Attach struct {
	// Params are the params of initialize as the agent sent them, but for
	// initializationOptions.shadowlsp, which is cut out: they can be given to a
	// server. They may offer position encodings other than utf-16; this
	// connection speaks utf-16 whatever the server speaks.
	Params json.RawMessage
	// Options are the validated initializationOptions.shadowlsp.
	Options Options
	// Peer speaks to the agent. It is valid until Detach returns; calls after
	// that are lost without harm.
	Peer Peer
}

// Attached is a connection's hold on a branch.
type Attached struct {
	Session Session
	// Result is the InitializeResult of the server (of several: merged), raw;
	// nil where there is none. Capabilities that this room answers itself are
	// replaced in it, every other byte stays.
	Result json.RawMessage
	// About is shown to the agent as capabilities.experimental.shadowlsp.
	About About
}

// About is what an agent is told of its place.
type About struct {
	Branch  string   `json:"branch"`
	Root    string   `json:"root,omitempty"`    // path of the root
	Base    Base     `json:"base,omitempty"`    // what the branch stands on
	Rev     uint64   `json:"rev"`               // the branch's revision at attachment
	Servers []string `json:"servers,omitempty"` // names of the servers behind it
	// Mode is how servers see the branch ("full": as their disk), and Lost what
	// therefore does not work; "" is nothing.
	Mode    string   `json:"mode,omitempty"`
	Lost    string   `json:"lost,omitempty"`
	Methods []string `json:"methods"` // set by this room: the shadowlsp/… requests
}

// Pending is the second half of a question: the first half, the call that
// returned it, was made in the order of the connection's messages and must not
// wait; this half waits for the answer. It is called exactly once, from a
// goroutine of its own, also when ctx of the first half has ended, and must
// return soon after that ctx ends.
type Pending[T any] func() (T, error)

// Now is a Pending that has its answer already.
func Now[T any](v T, err error) Pending[T] { return func() (T, error) { return v, err } }

// Session is one connection's access to its branch.
//
// All methods but Detach are called from one goroutine, in the order in which
// the agent sent the messages. They must not wait for the agent, for a turn or
// for a server: what they do at once is to take the edit into the branch, or to
// mark the question's place among the edits (a question sees every edit handed
// over before it). Waiting is what [Pending] is for; any number of those run at
// once, up to [Limits.Requests].
//
// URIs are canonical (see lsp/docuri) except inside raw params. Errors: a
// [*wire.Error] reaches the agent as it is, anything else as InternalError with
// its text; the end of ctx as RequestCancelled or ServerCancelled. A panic is
// logged and answered as InternalError.
type Session interface {
	// Open: the agent holds the document open from now on, with this text.
	// InvalidParams says that this document can never be edited in a branch
	// (outside the root …): requests that name it are refused, all others are
	// unharmed; it is not open then, and Open is tried again with each later
	// text. Any other error (a full disk) says that the branch does not hold
	// what the agent has, although the document is open: later texts come by
	// Change, and until one is taken, or the document is closed, all questions
	// are refused. Whoever can serve a document without editing it (a library's
	// source outside the root, as it is on disk) returns nil here and
	// InvalidParams from Change.
	Open(ctx context.Context, d Document) error
	// Change: an open document has this text now. Errors as for Open; the next
	// Change brings the whole text again.
	Change(ctx context.Context, d Document) error
	// Save: the agent saved a document, which may not be open.
	Save(ctx context.Context, uri string) error
	// Close: the agent no longer holds the document open.
	Close(ctx context.Context, uri string) error
	// WatchedFiles: params of workspace/didChangeWatchedFiles, raw.
	WatchedFiles(ctx context.Context, params json.RawMessage) error
	// Notification is any notification that this room does not interpret, raw.
	Notification(ctx context.Context, m wire.Message)

	// Request is any request that this room does not interpret, raw; the result
	// goes to the agent byte by byte. m may be kept.
	Request(ctx context.Context, m wire.Message) Pending[json.RawMessage]
	// Extension is a request listed in [Extensions]; see [DecodeParams].
	Extension(ctx context.Context, method string, params json.RawMessage) Pending[json.RawMessage]
	// Diagnose asks for final diagnostics of these documents, which may not be
	// open; nil means the whole workspace. See [Diagnosis] for what an answer
	// promises. What cannot be proven is an error made by [Unproven].
	Diagnose(ctx context.Context, uris []string) Pending[Diagnosis]

	// Detach is called once, last, when every Pending has returned.
	Detach()
}

// Document is one open document, as the agent has it.
type Document struct {
	URI        string
	LanguageID string
	Version    int32
	Text       string
}

// Peer is the agent, as the Session sees it. All methods may be called from any
// goroutine and, but for Call and Progress, never wait for the agent: what does not fit
// into its queue ends the connection. Before initialize is answered everything is held
// back.
type Peer interface {
	// Notify sends a notification; params as for [wire.NewNotification].
	Notify(method string, params any)
	// Call sends a request under an id of ours and waits for the agent's
	// answer: its result, its error as [*wire.Error], ctx's error (the agent is
	// told by $/cancelRequest), or an [*Error] of KindClosed when the connection
	// ends.
	Call(ctx context.Context, method string, params any) (json.RawMessage, error)
	// Progress makes a progress that no request of the agent asked for, and waits
	// for the agent's leave. It is nil, which takes every method of it, for an agent
	// that does not declare window.workDoneProgress, or refuses.
	Progress(ctx context.Context, title string) *Progress
	// Refresh says that the branch has changed otherwise than by this
	// connection's document notifications (a base file, another connection, a
	// command, a shadowlsp/write): a client that pulls is told so by
	// workspace/diagnostic/refresh where it can be, for any other its open
	// documents are linted again. Calls coalesce.
	Refresh()
	// Close ends the connection: what is in flight is answered with err. It
	// returns at once.
	Close(err error)
}
