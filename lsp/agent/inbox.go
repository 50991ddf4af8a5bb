package agent

import (
	"context"
	"sync"

	"shadowlsp/lsp/wire"
)

// item is one thing for the dispatcher: a message, an event of our own, or the
// end of what the agent sends.
type item struct {
	msg wire.Message
	req *request // set for a request
	do  func()   // set for an event
	end bool
	err error // why it ended; nil: the agent closed the stream
}

// inbox is what has been read and not yet been dispatched, in order. Events of
// our own stand in the same queue, so they have a place among the edits.
type inbox struct {
	limit int
	ready chan struct{} // holds a token when items may be there
	space chan struct{} // holds a token when room may be there

	mu    sync.Mutex // guards the fields below
	items []item
	bytes int // of the messages in items
}

func newInbox(limit int) *inbox {
	return &inbox{limit: limit, ready: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// put adds a message; it waits while the inbox is at its limit. It is for one
// goroutine, the reader.
func (b *inbox) put(ctx context.Context, it item) error {
	for {
		b.mu.Lock()
		// A message over the whole limit is taken into an empty inbox.
		if b.bytes == 0 || b.bytes+len(it.msg.Body) <= b.limit {
			b.items = append(b.items, it)
			b.bytes += len(it.msg.Body)
			b.mu.Unlock()
			signal(b.ready)
			return nil
		}
		b.mu.Unlock()
		select {
		case <-b.space:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// post adds an event of our own. There are few: it never waits.
func (b *inbox) post(it item) {
	b.mu.Lock()
	b.items = append(b.items, it)
	b.mu.Unlock()
	signal(b.ready)
}

// next removes the first item; ok is false when there is none.
func (b *inbox) next() (it item, ok bool) {
	b.mu.Lock()
	if len(b.items) == 0 {
		b.mu.Unlock()
		return item{}, false
	}
	it = b.items[0]
	b.items[0] = item{}
	b.items = b.items[1:]
	if len(b.items) == 0 {
		b.items = nil
	}
	b.bytes -= len(it.msg.Body)
	b.mu.Unlock()
	signal(b.space)
	return it, true
}

// signal leaves one token; one is enough, since its taker looks at everything.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
