package front

import "sync"

// maxOutbox bounds the bytes of frames that wait for the daemon: enough for the
// second that its start takes, with a few large documents opened meanwhile.
const maxOutbox = 16 << 20

// item is what the sender sends: a frame or, where body is nil, a gap.
type item struct {
	frame
	gap uint64
}

// itemOverhead is what an item takes besides its body.
const itemOverhead = 64

// outbox holds what is to be sent to the daemon, and the memory of what must be
// sent again to the next. The courier puts, the sender takes.
type outbox struct {
	wake chan struct{} // holds one token while there may be something to take

	mu     sync.Mutex // guards the fields below; held briefly, never while waiting
	memory memory
	items  []item
	bytes  int
	// lost is what was dropped, by direction, since the last take. Where resync
	// is set it includes what the daemon may have got and what it has not.
	lost   [2]uint64
	resync bool // the daemon must be told the memory, and of the gaps, first
	muted  bool // no daemon is there: only remember
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// putFrame queues a frame, whose body must not change afterwards, and returns
// the folder to work on if it is the initialize request.
func (o *outbox) putFrame(f frame) (initialize []byte) {
	o.mu.Lock()
	initialize = o.memory.observe(f)
	o.putLocked(item{frame: f})
	o.mu.Unlock()
	o.signal()
	return initialize
}

// putGap queues a gap.
func (o *outbox) putGap(toServer bool, n uint64) {
	o.mu.Lock()
	defer o.signal()
	defer o.mu.Unlock()
	// Gaps without a frame between them are one per direction.
	for at := len(o.items) - 1; at >= 0 && o.items[at].body == nil; at-- {
		if o.items[at].toServer == toServer {
			o.items[at].gap += n
			return
		}
	}
	o.putLocked(item{frame: frame{toServer: toServer}, gap: n})
}

func (o *outbox) putLocked(i item) {
	size := len(i.body) + itemOverhead
	if !o.muted && o.bytes+size > maxOutbox {
		// What waits is worth little without what comes: drop it all, and
		// begin again with what must be known.
		o.resyncLocked()
	}
	if o.muted || size > maxOutbox {
		o.resync = true
		o.lost[direction(i.toServer)] += uint64(len(i.body)) + i.gap
		return
	}
	o.items = append(o.items, i)
	o.bytes += size
}

// resyncLocked drops all that waits.
func (o *outbox) resyncLocked() {
	for _, i := range o.items {
		o.lost[direction(i.toServer)] += uint64(len(i.body)) + i.gap
	}
	o.items, o.bytes, o.resync = nil, 0, true
}

// mute says that there is no daemon: nothing is queued until unmute.
func (o *outbox) mute() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.muted = true
	o.resyncLocked()
}

// unmute says that there is a daemon again, which knows nothing.
func (o *outbox) unmute() {
	o.mu.Lock()
	o.muted = false
	o.mu.Unlock()
	o.signal()
}

// take returns all that is to be sent, in order.
func (o *outbox) take() []item {
	o.mu.Lock()
	defer o.mu.Unlock()
	items := o.items
	if o.resync {
		var first []item
		for _, f := range o.memory.frames() {
			first = append(first, item{frame: f})
		}
		first = append(first,
			item{frame: frame{toServer: true}, gap: o.lost[direction(true)]},
			item{frame: frame{toServer: false}, gap: o.lost[direction(false)]})
		items = append(first, items...)
	}
	o.items, o.bytes, o.resync, o.lost = nil, 0, false, [2]uint64{}
	return items
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// direction is the index of a direction.
func direction(toServer bool) int {
	if toServer {
		return 0
	}
	return 1
}
