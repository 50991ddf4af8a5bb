package front

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"

	"github.com/rs/zerolog"

	"shadowlsp/lsp/trace"
)

// courier takes the copies off the tapes: it writes the trace, remembers, and
// fills the outbox. It is one goroutine, from newCourier's run to stop.
type courier struct {
	tapes  [2]*tape // by direction
	framer [2]*framer
	wake   chan struct{} // holds one token while there may be something on a tape
	stop   chan struct{} // closed: take what is there and end
	done   chan struct{} // closed at the end

	name      string // of the server, in the trace
	traceFile string
	trace     *trace.Sink
	outbox    *outbox
	// initialized gets the params of the first initialize request, once.
	initialized chan []byte
	log         zerolog.Logger

	seenInitialize bool
	onFrame        func(toServer bool, body []byte) // see Config
}

// nudge wakes the courier. The pump calls it after it has written: it is a
// system call if the courier sleeps.
func (c *courier) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run is the courier's goroutine.
func (c *courier) run() {
	defer close(c.done)
	defer func() {
		// Without a courier nothing must be copied any more.
		c.tapes[0].off.Store(true)
		c.tapes[1].off.Store(true)
	}()
	defer contain(c.log, "courier")
	var err error
	if c.trace, err = trace.Open(c.traceFile); err != nil {
		c.log.Warn().Err(err).Msg("going on without a trace dump")
	}
	defer func() {
		if err := c.trace.Close(); err != nil {
			c.log.Warn().Err(err).Msg("the trace dump is incomplete")
		}
	}()
	for i, toServer := range []bool{true, false} {
		c.framer[i] = newFramer(
			func(body []byte) { c.frame(toServer, body) },
			func(n uint64) { c.gap(toServer, n) })
	}
	for ending := false; !ending; {
		select {
		case <-c.wake:
		case <-c.stop:
			ending = true
		}
		c.drain()
	}
	for i, t := range c.tapes {
		c.framer[i].end()
		if n := t.dropped.Load(); n > 0 {
			c.log.Warn().Uint64("bytes", n).Bool("toServer", i == 0).Msg("copies were dropped")
		}
	}
}

// drain takes all that is on the tapes, in the order in which it was put there.
func (c *courier) drain() {
	for {
		i, r, ok := oldest(c.tapes)
		if !ok {
			break
		}
		if r.gap > 0 {
			c.framer[i].missing(r.gap)
		}
		c.framer[i].feed(r.data)
		c.tapes[i].advance(r)
	}
	for i, t := range c.tapes {
		if gap := t.dry(); gap > 0 {
			c.framer[i].missing(gap)
		}
	}
}

// oldest returns the oldest record of two tapes.
func oldest(tapes [2]*tape) (from int, r record, ok bool) {
	a, hasA := tapes[0].peek()
	b, hasB := tapes[1].peek()
	// What caused b was on tape before b was, but maybe not yet when a was
	// looked for.
	if hasB && !hasA {
		a, hasA = tapes[0].peek()
	}
	if hasA && (!hasB || a.number < b.number) {
		return 0, a, true
	}
	return 1, b, hasB
}

func (c *courier) frame(toServer bool, body []byte) {
	if c.onFrame != nil {
		c.onFrame(toServer, body)
	}
	c.trace.Message(trace.User, "", c.name, arrow(toServer), body)
	initialize := c.outbox.putFrame(frame{toServer, bytes.Clone(body)})
	if initialize != nil && !c.seenInitialize {
		c.seenInitialize = true
		c.initialized <- initialize // it has room for one
	}
}

func (c *courier) gap(toServer bool, n uint64) {
	c.trace.Event("gap", map[string]any{
		"lane": trace.User, "instance": c.name, "direction": arrow(toServer), "bytes": n,
	})
	c.outbox.putGap(toServer, n)
}

func arrow(toServer bool) string {
	if toServer {
		return trace.ToServer
	}
	return trace.FromServer
}

func newCourier(cfg Config) *courier {
	number := new(atomic.Uint64)
	name := ""
	if len(cfg.Command) > 0 {
		name = filepath.Base(cfg.Command[0])
	}
	return &courier{
		tapes: [2]*tape{newTape(number, maxTape), newTape(number, maxTape)},
		wake:  make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		name: name, traceFile: cfg.TraceFile, outbox: newOutbox(),
		initialized: make(chan []byte, 1), log: cfg.Log, onFrame: cfg.onFrame,
	}
}

// contain ends a panic where it must not reach the pump.
func contain(log zerolog.Logger, who string) {
	if p := recover(); p != nil {
		log.Error().Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).
			Msg("the " + who + " is gone; the session goes on without copies")
	}
}
