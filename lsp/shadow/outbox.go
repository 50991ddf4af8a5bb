package shadow

import "sync"

// frame is a message on its way to the server.
type frame struct {
	body   []byte
	branch string // whose turn it is, for the trace
}

// outbox is the queue before the writer: bounded by bytes, in two steps. Callers
// that can wait are stopped at the limit. Answers to the server's own requests
// are queued by the reader, which must not wait, and may go up to twice the
// limit: beyond that the server is not reading and is given up.
type outbox struct {
	limit int
	ready chan struct{} // capacity 1: there is something to write

	mu     sync.Mutex // guards the fields below
	frames []frame
	bytes  int
	room   chan struct{} // closed when the writer has taken something
}

func newOutbox(limit int) *outbox {
	return &outbox{limit: limit, ready: make(chan struct{}, 1), room: make(chan struct{})}
}

// full returns nil if n more bytes may be pushed, else a channel that is closed
// when asking again is worth while.
func (o *outbox) full(n int, urgent bool) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	limit := o.limit
	if urgent {
		limit *= 2
	}
	// A frame over the limit passes when it is alone: it may be one document.
	if len(o.frames) == 0 || o.bytes+n <= limit {
		return nil
	}
	return o.room
}

// push queues f. Callers ask full first, one at a time.
func (o *outbox) push(f frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frames = append(o.frames, f)
	o.bytes += len(f.body)
	select {
	case o.ready <- struct{}{}:
	default: // the writer has been told already
	}
}

// first returns the frame to write next. It stays in the queue, and counts,
// until wrote is called.
func (o *outbox) first() (frame, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.frames) == 0 {
		return frame{}, false
	}
	return o.frames[0], true
}

// wrote takes the first frame out of the queue.
func (o *outbox) wrote() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= len(o.frames[0].body)
	o.frames[0] = frame{}
	o.frames = o.frames[1:]
	close(o.room)
	o.room = make(chan struct{})
}

// drained returns nil if all has been written, else a channel that is closed
// when asking again is worth while.
func (o *outbox) drained() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.frames) == 0 {
		return nil
	}
	return o.room
}
