package scheduler

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// never is later than every deadline.
const never = time.Duration(math.MaxInt64)

// Scheduler decides the turns of one pool of instances. It is for one
// goroutine; [New] makes one.
type Scheduler struct {
	cfg Config

	now     time.Duration // the latest At of all events
	clock   time.Duration // virtual time; never goes back
	serials uint64        // the last serial given out

	branches  map[string]*branch // never iterated for a decision
	requests  map[RequestID]*request
	waiting   []*branch   // all branches with requests and without turn, by (vtime, ticket)
	instances []*instance // all that were started and are not down, by ID
	lastID    InstanceID

	// unmet is the best rank among the branches that wait, could run and have
	// no instance in sight (free or draining for them); noRank for none. It is
	// what makes turns end. contended is since when there was one, or never.
	unmet     int
	contended time.Duration

	// switchCost is the mean time of a switch.
	switchCost time.Duration

	awake     bool          // Min instances are wanted
	busyAt    time.Duration // when something was last asked or busy
	peak      int           // most instances busy at once since peakSince
	peakSince time.Duration
	crashes   int           // in a row
	notBefore time.Duration // no start before this: back-off
	lastCrash string
	wakeAt    time.Duration // the Tick that was asked for last, never for none

	stats   Stats
	actions []Action // of the step under way
}

// noRank is a rank that nothing has: everything goes before it.
const noRank = 2

// New returns the scheduler of a pool that has no instance yet.
func New(cfg Config) *Scheduler {
	return &Scheduler{
		cfg:        cfg.withDefaults(),
		branches:   map[string]*branch{},
		requests:   map[RequestID]*request{},
		unmet:      noRank,
		contended:  never,
		switchCost: firstSwitchCost,
		wakeAt:     never,
	}
}

// Step takes in one event and returns what is to be done now, in order. The
// caller owns the result.
func (s *Scheduler) Step(e Event) []Action {
	before := s.now
	s.now = max(s.now, e.at())
	s.charge(s.now - before)
	s.apply(e)
	s.expire() // after apply: what comes late but comes has kept its deadline
	s.dispatch()
	s.wake()
	out := s.actions
	s.actions = nil
	return out
}

func (s *Scheduler) do(a Action) { s.actions = append(s.actions, a) }

func (s *Scheduler) serial() uint64 {
	s.serials++
	return s.serials
}

// apply records what happened. It decides nothing about turns: dispatch does.
func (s *Scheduler) apply(e Event) {
	switch e := e.(type) {
	case Submit:
		s.submit(e)
	case Cancel:
		if r := s.requests[e.Request]; r != nil {
			s.giveUp(r, Cancelled)
		}
	case DropBranch:
		s.drop(e.Branch)
	case InstanceUp:
		if in := s.instance(e.Instance); in != nil && in.state == starting {
			in.rest(s.now)
			in.upAt = s.now
			s.peakSince, s.peak, s.contended = s.now, 0, never
		}
	case InstanceDown:
		if in := s.instance(e.Instance); in != nil {
			s.down(in, e.Reason, e.Meant)
		}
	case Switched:
		if in := s.switching(e.Instance, e.Turn); in != nil {
			s.switched(in)
		}
	case Settled:
		if in := s.instance(e.Instance); in != nil && in.state == serving && in.turn == e.Turn && in.settling {
			in.settling = false
			s.switchCost += (s.now - in.since) / smoothing // the rest of the sample that Switched began
		}
	case SwitchFailed:
		if in := s.switching(e.Instance, e.Turn); in != nil {
			s.switchFailed(in, e.Reason)
		}
	case Finished:
		if r := s.requests[e.Request]; r != nil && r.on != nil && r.on.id == e.Instance {
			s.finished(r)
		}
	case Drained:
		if in := s.instance(e.Instance); in != nil && in.state == draining && in.turn == e.Turn {
			s.chargeDrain(in.shows, s.now-in.since)
			in.rest(s.now)
		}
	case Prewarm:
		s.awake, s.busyAt = true, s.now
	case Resize:
		s.cfg.Min = max(e.Min, 1)
		s.cfg.Max = max(e.Max, 1)
		s.cfg.Min = min(s.cfg.Min, s.cfg.Max)
	case Tick:
		s.wakeAt = never // one that came early is asked for again
	}
}

func (s *Scheduler) submit(e Submit) {
	if s.requests[e.Request] != nil {
		return
	}
	b := s.branches[e.Branch]
	refuse := func(k Kind, err error) {
		s.stats.Failed++
		s.do(Fail{e.Request, &Error{Op: "submit", Branch: e.Branch, Kind: k, Err: err}})
	}
	switch {
	case e.Branch == "":
		refuse(NoBranch, errors.New("a request needs the name of a branch"))
		return
	case b != nil && b.dropped:
		refuse(NoBranch, errors.New("the branch is being dropped"))
		return
	case b != nil && b.queued() >= s.cfg.MaxQueued:
		refuse(QueueFull, fmt.Errorf("%d requests of it wait, which is the limit: wait for answers before asking more", s.cfg.MaxQueued))
		return
	case s.brokenUntil() > s.now:
		refuse(Unavailable, s.whyUnavailable())
		return
	}
	if b == nil {
		b = &branch{name: e.Branch, habit: habitOne / 2, lastDone: never}
		s.branches[e.Branch] = b
	}
	s.learn(b)
	r := &request{id: e.Request, branch: b, class: min(e.Class, Background), submitted: s.now, order: s.serial()}
	s.requests[r.id] = r
	b.alive++
	s.enqueue(r)
	s.awake = true
}

// giveUp ends a queued request now and asks the instance of a running one to
// end it.
func (s *Scheduler) giveUp(r *request, why Kind) {
	switch {
	case r.on == nil:
		s.dequeue(r)
		s.fail(r, why, errors.New("nobody waits for it any more"))
	case r.ending == 0:
		r.ending, r.deadline = why, s.now+s.cfg.CancelGrace
		s.do(CancelRunning{r.on.id, r.id, why})
	}
}

// fail ends a request that is in no queue and no running set.
func (s *Scheduler) fail(r *request, k Kind, err error) {
	op := "wait"
	if k == SwitchRefused {
		op = "switch"
	} else if r.lastOn != 0 {
		op = "run"
	}
	s.stats.Failed++
	s.do(Fail{r.id, &Error{Op: op, Branch: r.branch.name, Instance: r.lastOn, Kind: k, Err: err}})
	s.forget(r)
}

func (s *Scheduler) forget(r *request) {
	delete(s.requests, r.id)
	r.branch.alive--
	r.branch.lastDone = s.now
	s.release(r.branch)
}

func (s *Scheduler) finished(r *request) {
	in := r.on
	in.remove(r)
	s.stats.Finished++
	s.forget(r)
	if len(in.running) == 0 {
		in.deadline = s.now
		if s.asksAgain(r.branch) {
			in.deadline += s.cfg.Anticipation
		}
	}
}

// drop fails what waits of the branch and cancels what runs. The instance that
// shows it is freed of it by dispatch.
func (s *Scheduler) drop(name string) {
	b := s.branches[name]
	if b == nil { // never asked anything: nothing holds it
		s.do(Release{Branch: name})
		return
	}
	if b.dropped {
		return
	}
	b.dropped = true
	s.failQueue(b, NoBranch, errors.New("the branch was dropped"))
	if b.turn != nil {
		for _, r := range b.turn.running {
			s.giveUp(r, NoBranch)
		}
	}
	if s.branches[name] == b { // failQueue has not released it
		s.release(b)
	}
}

// failQueue fails everything that waits of b.
func (s *Scheduler) failQueue(b *branch, k Kind, err error) {
	for b.queued() > 0 {
		r := s.next(b)
		s.dequeue(r)
		s.fail(r, k, err)
	}
}
