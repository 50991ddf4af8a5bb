package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/remap"
	"shadowlsp/lsp/trace"
	"shadowlsp/lsp/wire"
)

// Config is what an Instance is made of.
type Config struct {
	// Conn is the server's stdio. Close must end a blocked Read and Write.
	Conn io.ReadWriteCloser
	// Initialize are the person's or an agent's params of initialize, raw.
	Initialize json.RawMessage
	// Root is the path of the workspace's root, for patterns relative to it.
	Root string
	// Paths are rewritten in all that passes, for a server that finds Root at
	// another path; nil for one that does not.
	Paths *remap.Map
	// Profile is the server's, from barrier.For.
	Profile barrier.Profile
	// Busy says whether the server's processes have anything to do; nil where
	// that cannot be seen. It is called from any goroutine.
	Busy func() bool
	// Client answers what the server asks of its client. May be nil.
	Client Client
	Trace  *trace.Tap // may be nil
	Name   string
	Log    zerolog.Logger
	Limits Limits
}

// Limits bound an Instance. Zero values mean the defaults.
type Limits struct {
	// Queue is how many bytes may wait for the server to read them.
	Queue int
	// Frame is the largest message taken from the server.
	Frame int
	// CancelGrace is how long a cancelled request waits for the server's own
	// answer before it is answered here.
	CancelGrace time.Duration
	// ShutdownGrace is how long Close waits for the answer to shutdown.
	ShutdownGrace time.Duration
	// Requests is how many requests of the server may be waiting for the Client.
	Requests int
}

// The defaults of Limits.
const (
	// Some documents of a few megabytes each, many times over.
	DefaultQueue = 64 << 20
	// Servers look at a cancellation between two steps of their work; gopls
	// and rust-analyzer answer within a few hundred milliseconds.
	DefaultCancelGrace = 2 * time.Second
	// A server that is busy answers shutdown late; nothing is lost by ending it.
	DefaultShutdownGrace = 2 * time.Second
	// More than any server keeps open; a broken one must not take all memory.
	DefaultRequests = 64
)

func (l Limits) withDefaults() Limits {
	if l.Queue == 0 {
		l.Queue = DefaultQueue
	}
	if l.Frame == 0 {
		l.Frame = wire.MaxServerFrame
	}
	if l.CancelGrace == 0 {
		l.CancelGrace = DefaultCancelGrace
	}
	if l.ShutdownGrace == 0 {
		l.ShutdownGrace = DefaultShutdownGrace
	}
	if l.Requests == 0 {
		l.Requests = DefaultRequests
	}
	return l
}

// Client answers the server in the place of an editor. Configuration,
// Notification and Progress are called by the instance's reader, in wire order,
// and must return at once; ApplyEdit has a goroutine of its own.
type Client interface {
	// Configuration answers workspace/configuration: an array with a value
	// (or null) per item. ok is false if nothing is known.
	Configuration(items json.RawMessage) (values json.RawMessage, ok bool)
	// ApplyEdit answers workspace/applyEdit with an ApplyWorkspaceEditResult.
	ApplyEdit(ctx context.Context, params json.RawMessage) (json.RawMessage, error)
	// Notification is told what the server notifies and is not interpreted
	// here: window/showMessage (and showMessageRequest, which is answered here),
	// window/logMessage, telemetry and unknown ones; and
	// client/registerCapability and unregisterCapability, when they are done.
	Notification(method string, params json.RawMessage)
	// Progress is told the server's own work-done progress (params of
	// $/progress), so that people see why they wait.
	Progress(params json.RawMessage)
}

// Instance is one running server. All methods may be called from any goroutine.
//
// Its goroutines: read, write, and one per request of the server that the Client
// answers.
type Instance struct {
	cfg     Config
	barrier barrier.Barrier
	out     *outbox
	done    chan struct{} // closed with err set, when the instance is over
	wg      sync.WaitGroup
	life    context.Context // ends with the instance; for the Client
	end     context.CancelFunc
	nextID  atomic.Int64
	branch  atomic.Pointer[string] // whose turn it is, for the trace

	turn    sync.Mutex // held by Sync; guards nothing else
	sending sync.Mutex // orders what leaves

	mu            sync.Mutex // guards the fields below
	err           error
	closing       bool // Close was called
	calls         map[int64]*call
	tokens        map[string]*token // progress tokens of forwarded requests, by our own token
	nextToken     int64
	clientCalls   int // requests of the server that wait for the Client
	result        json.RawMessage
	caps          capabilities
	dynamic       map[string]registration // by id
	registrations int                     // counts them
	folders       []folder
	settings      barrier.Settings            // the profile's, with what the barrier added
	personal      json.RawMessage             // the section of settings as the person has it
	docs          map[string]barrier.Document // by canonical URI
	version       int32                       // the last one given to any document
	modified      uint64                      // counts modifications of documents and files
	table         map[string]barrier.Published
	publishes     uint64
}

// Start speaks initialize and initialized. When ctx ends first, or the server
// refuses, the connection is closed. The server may still be loading: Ready.
func Start(ctx context.Context, cfg Config) (*Instance, error) {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Client == nil {
		cfg.Client = nobody{}
	}
	i := &Instance{
		cfg:     cfg,
		out:     newOutbox(cfg.Limits.Queue),
		done:    make(chan struct{}),
		calls:   make(map[int64]*call),
		tokens:  make(map[string]*token),
		dynamic: make(map[string]registration),
		docs:    make(map[string]barrier.Document),
		table:   make(map[string]barrier.Published),

		settings: cfg.Profile.Settings,
	}
	i.life, i.end = context.WithCancel(context.Background())
	i.branch.Store(new(string))
	i.barrier = cfg.Profile.New(host{i})
	i.wg.Go(i.read)
	i.wg.Go(i.write)
	if err := i.initialize(ctx); err != nil {
		i.fail(err)
		i.wg.Wait()
		return nil, err
	}
	return i, nil
}

// Name is the Config's.
func (i *Instance) Name() string { return i.cfg.Name }

// Profile is the Config's.
func (i *Instance) Profile() barrier.Profile { return i.cfg.Profile }

// InitializeResult is the server's answer to initialize, raw.
func (i *Instance) InitializeResult() json.RawMessage {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.result
}

// Language returns the language id for a path, if the server takes such files.
func (i *Instance) Language(path string) (id string, ok bool) { return i.cfg.Profile.Language(path) }

// Done is closed when the instance is over; Err then says why.
func (i *Instance) Done() <-chan struct{} { return i.done }

// Err is nil as long as the instance runs.
func (i *Instance) Err() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.err
}

// Ready returns when the server has loaded the workspace and may be modified.
func (i *Instance) Ready(ctx context.Context) error { return i.barrier.Ready(ctx) }

// InFlight is the number of requests that the server has not answered, ours
// included.
func (i *Instance) InFlight() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.calls)
}

// Idle returns when no request is in flight and the server does nothing in the
// background.
func (i *Instance) Idle(ctx context.Context) error {
	for {
		i.mu.Lock()
		var pending *call
		for _, c := range i.calls {
			pending = c
			break
		}
		i.mu.Unlock()
		if pending == nil {
			return i.barrier.Idle(ctx)
		}
		select {
		case <-pending.over:
		case <-i.done:
			return i.Err()
		case <-ctx.Done():
			return i.error("idle", NotReady, context.Cause(ctx))
		}
	}
}

// Close says shutdown and exit, closes the connection and waits for the
// goroutines. It does not wait for the server's process.
func (i *Instance) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, i.cfg.Limits.ShutdownGrace)
	defer cancel()
	i.mu.Lock()
	i.closing = true
	i.mu.Unlock()
	if _, err := i.Call(ctx, "shutdown", nil); err == nil {
		// Its exit is a courtesy: closing the connection ends it as well.
		if i.send(ctx, wire.NewNotification("exit", nil)) == nil {
			i.drained(ctx)
		}
	}
	i.fail(i.error("close", Closed, nil))
	i.wg.Wait()
	return nil
}

// drained waits until all that was queued has been written.
func (i *Instance) drained(ctx context.Context) {
	for {
		more := i.out.drained()
		if more == nil {
			return
		}
		select {
		case <-more:
		case <-i.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// fail ends the instance; only the first cause counts.
func (i *Instance) fail(cause error) {
	i.mu.Lock()
	if i.err != nil {
		i.mu.Unlock()
		return
	}
	if i.closing {
		cause = i.error("close", Closed, nil) // the server may end before we do
	}
	i.err = cause
	close(i.done)
	i.mu.Unlock()
	i.end()
	// The server may be gone already; nothing can be done about an error here.
	_ = i.cfg.Conn.Close()
	if e := (*Error)(nil); errors.As(cause, &e) && e.Kind != Closed {
		i.cfg.Log.Info().Str("instance", i.cfg.Name).Err(cause).Msg("instance ended")
	}
}

func (i *Instance) error(op string, kind Kind, err error) error {
	return &Error{Op: op, Instance: i.cfg.Name, Kind: kind, Err: err}
}

// write is the goroutine that writes.
func (i *Instance) write() {
	w := wire.NewWriter(i.cfg.Conn)
	for {
		select {
		case <-i.out.ready:
		case <-i.done:
			return
		}
		for {
			f, ok := i.out.first()
			if !ok {
				break
			}
			i.cfg.Trace.Message(trace.Shadow, f.branch, i.cfg.Name, trace.ToServer, f.body)
			if err := w.WriteFrame(i.cfg.Paths.ToServer(f.body)); err != nil {
				i.fail(i.error("write", Exited, err))
				return
			}
			i.out.wrote()
		}
	}
}

// read is the goroutine that reads.
func (i *Instance) read() {
	r := wire.NewReader(i.cfg.Conn, i.cfg.Limits.Frame)
	for {
		body, err := r.ReadFrame()
		if err != nil {
			kind := Exited
			if errors.Is(err, wire.ErrNotLSP) || errors.Is(err, wire.ErrTooLarge) {
				kind = Malformed
			}
			i.fail(i.error("read", kind, err))
			return
		}
		body = i.cfg.Paths.FromServer(body)
		i.cfg.Trace.Message(trace.Shadow, *i.branch.Load(), i.cfg.Name, trace.FromServer, body)
		m, err := wire.Parse(body)
		if err != nil {
			// One bad message; the framing is intact, so the next may be good.
			i.cfg.Log.Warn().Str("instance", i.cfg.Name).Err(err).Msg("malformed message dropped")
			continue
		}
		i.receive(m)
	}
}

// receive handles one message of the server.
func (i *Instance) receive(m wire.Message) {
	switch m.Kind {
	case wire.Response:
		i.barrier.Observe(barrier.Event{Msg: m})
		i.answered(m)
	case wire.Request:
		i.barrier.Observe(barrier.Event{Msg: m})
		i.answer(m)
	case wire.Notification:
		i.notified(m)
	}
}

// notified handles one notification of the server.
func (i *Instance) notified(m wire.Message) {
	switch m.Method {
	case "textDocument/publishDiagnostics":
		if err := i.published(m.Params); err != nil {
			i.cfg.Log.Warn().Str("instance", i.cfg.Name).Err(err).Msg("malformed diagnostics dropped")
			return
		}
		i.barrier.Observe(barrier.Event{Msg: m})
	case "$/progress":
		if i.progressed(m) {
			return // of a forwarded request: none of the barrier's business
		}
		i.barrier.Observe(barrier.Event{Msg: m})
		i.cfg.Client.Progress(m.Params)
	default:
		i.barrier.Observe(barrier.Event{Msg: m})
		i.cfg.Client.Notification(m.Method, m.Params)
	}
}

// send queues a message. It waits while the queue is full.
func (i *Instance) send(ctx context.Context, body []byte) error {
	m, err := wire.Parse(body)
	if err != nil {
		return i.error("send", Malformed, err)
	}
	for {
		full, err := i.trySend(m, false)
		if err != nil || full == nil {
			return err
		}
		select {
		case <-full:
		case <-i.done:
			return i.Err()
		case <-ctx.Done():
			return i.error("send", Stalled, context.Cause(ctx))
		}
	}
}

// sendNow queues a message from the reader, which must not wait.
func (i *Instance) sendNow(body []byte) {
	m, err := wire.Parse(body)
	if err != nil {
		i.cfg.Log.Error().Str("instance", i.cfg.Name).Err(err).Msg("own message malformed")
		return
	}
	if full, _ := i.trySend(m, true); full != nil {
		i.fail(i.error("send", Stalled, fmt.Errorf("over %d bytes wait for it", 2*i.cfg.Limits.Queue)))
	}
}

func (i *Instance) trySend(m wire.Message, urgent bool) (full <-chan struct{}, err error) {
	i.sending.Lock()
	defer i.sending.Unlock()
	if err := i.Err(); err != nil {
		return nil, err
	}
	// The barrier sees it first: the server may answer before push returns.
	// A full queue is tried again, so it must not have been seen then.
	if full = i.out.full(len(m.Body), urgent); full != nil {
		return full, nil
	}
	i.barrier.Observe(barrier.Event{Sent: true, Msg: m})
	i.out.push(frame{body: m.Body, branch: *i.branch.Load()})
	return nil, nil
}

// nobody is the Client of an instance that has none.
type nobody struct{}

func (nobody) Configuration(json.RawMessage) (json.RawMessage, bool) { return nil, false }
func (nobody) ApplyEdit(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"applied":false,"failureReason":"nobody is there to apply it"}`), nil
}
func (nobody) Notification(string, json.RawMessage) {}
func (nobody) Progress(json.RawMessage)             {}
