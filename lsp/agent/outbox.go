package agent

import (
	"io"
	"sync"

	"shadowlsp/lsp/wire"
)

// outbox is what waits for the agent to read. Sending never waits.
type outbox struct {
	limit int
	wake  chan struct{} // holds a token when the writer has something to look at

	mu     sync.Mutex // guards the fields below
	frames [][]byte
	held   [][]byte // until initialize is answered
	bytes  int      // of frames and held, and of the frame being written
	open   bool     // initialize is answered
	closed bool     // nothing more is taken
}

func newOutbox(limit int) *outbox {
	return &outbox{limit: limit, wake: make(chan struct{}, 1)}
}

// send queues one message. Until release, only responses leave. It returns
// false when more than the limit was waiting already; the frame is dropped then
// and the connection must end. After close it drops silently.
func (o *outbox) send(body []byte, response bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return true
	}
	if o.bytes > o.limit {
		return false
	}
	o.bytes += len(body)
	if !o.open && !response {
		o.held = append(o.held, body)
		return true
	}
	o.frames = append(o.frames, body)
	signal(o.wake)
	return true
}

// release lets everything leave that was held back.
func (o *outbox) release() {
	o.mu.Lock()
	o.open = true
	o.frames = append(o.frames, o.held...)
	o.held = nil
	o.mu.Unlock()
	signal(o.wake)
}

// close takes nothing more; what is queued still leaves.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	signal(o.wake)
}

// run writes until the outbox is closed and empty, or until a write fails.
// The writer of frames lives for one batch: its buffer would otherwise be held
// by hundreds of idle connections.
func (o *outbox) run(to io.Writer) error {
	for {
		o.mu.Lock()
		frames, closed := o.frames, o.closed
		o.frames = nil
		o.mu.Unlock()
		w := wire.NewWriter(to)
		for _, body := range frames {
			if err := w.WriteFrame(body); err != nil {
				return err
			}
			o.mu.Lock()
			o.bytes -= len(body)
			o.mu.Unlock()
		}
		if len(frames) > 0 {
			continue
		}
		if closed {
			return nil
		}
		<-o.wake
	}
}
