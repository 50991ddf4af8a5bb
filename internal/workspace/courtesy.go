package workspace

import (
	"maps"
	"sync"
	"time"

	"shadowlsp/lsp/wire"
)

const (
	// courtesyRest is how long the calm lasts behind a message: whoever types asks
	// again soon, and finds the caches as they were.
	courtesyRest = 150 * time.Millisecond
	// courtesyPatience is how long an unanswered request keeps the calm: some are
	// never answered, and a server that loads for minutes is not waited for by keystroke.
	courtesyPatience = 2 * time.Second
	// courtesyStretch bounds how long instances stand still without a pause, well
	// below the scheduler's limits (CancelGrace is the shortest), and courtesyFree is
	// how long they then run whatever the person does: few keystrokes fall into it.
	courtesyStretch = 4 * time.Second
	courtesyFree    = 120 * time.Millisecond
)

// courtesy stops the instances for the moments in which the person's server works
// for the person. Idle priority alone is not enough: instances share caches and
// the memory's bandwidth with it, and a core that they hold is given up late.
//
// It may be told of messages by any goroutine; a nil one does nothing.
type courtesy struct {
	stop func() (resume func()) // all instances; called with mu held

	mu      sync.Mutex // guards the fields below
	pending map[request]time.Time
	heard   time.Time // the last message
	resume  func()    // nil: the instances run
	since   time.Time // of the present stretch
	free    time.Time // no stretch begins before
	timer   *time.Timer
	serial  int // of the timer
}

func newCourtesy(stop func() (resume func())) *courtesy {
	return &courtesy{stop: stop, pending: map[request]time.Time{}}
}

// request is one of an editor's that its server has not answered.
type request struct {
	from *editor
	id   string
}

// frame takes in a message between an editor and its server.
func (c *courtesy) frame(e *editor, toServer bool, m wire.Message) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case toServer && m.Kind == wire.Request:
		c.pending[request{e, string(m.ID)}] = now
	case toServer && m.Kind == wire.Notification:
	case !toServer && m.Kind == wire.Response:
		delete(c.pending, request{e, string(m.ID)})
	default:
		return
	}
	c.heard = now
	if toServer && c.resume == nil && !now.Before(c.free) {
		c.resume, c.since = c.stop(), now
	}
	c.aimLocked()
}

// forget drops what is pending of an editor that has gone, or whose messages have
// gone missing.
func (c *courtesy) forget(e *editor) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.pending, func(r request, _ time.Time) bool { return r.from == e })
	c.aimLocked()
}

// aimLocked sets the timer to the end of the stretch.
func (c *courtesy) aimLocked() {
	if c.resume == nil {
		return
	}
	end := c.heard.Add(courtesyRest)
	for _, asked := range c.pending {
		if until := asked.Add(courtesyPatience); until.After(end) {
			end = until
		}
	}
	if limit := c.since.Add(courtesyStretch); limit.Before(end) {
		end = limit
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.serial++
	serial := c.serial
	c.timer = time.AfterFunc(time.Until(end), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if serial == c.serial {
			c.endLocked()
		}
	})
}

func (c *courtesy) endLocked() {
	if c.resume == nil {
		return
	}
	c.resume()
	c.resume = nil
	now := time.Now()
	if now.Sub(c.since) >= courtesyStretch {
		c.free = now.Add(courtesyFree)
	}
	maps.DeleteFunc(c.pending, func(_ request, asked time.Time) bool { return now.Sub(asked) >= courtesyPatience })
}

// locked runs f, which is told whether the instances stand still, while nobody
// stops them or lets them go on.
func (c *courtesy) locked(f func(still bool)) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.resume != nil)
}

// close lets the instances go on for good.
func (c *courtesy) close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.serial++
	c.endLocked()
	c.free = time.Now().Add(24 * time.Hour)
}
