package scheduler

import (
	"cmp"
	"slices"
	"time"
)

// request is one submitted request that has not ended. It is in exactly one
// place: the queue of its branch (on is nil) or the running set of on.
type request struct {
	id        RequestID
	branch    *branch
	class     Class
	submitted time.Duration
	order     uint64 // order of submission, kept when it is queued again

	on       *instance
	lastOn   InstanceID // where it ran last, 0 for nowhere
	failures int        // instances and switches that failed under it
	ending   Kind       // why it was told to stop; 0: it was not
	deadline time.Duration
}

// branch is what the pool remembers of one branch, from its first request to
// its Release.
type branch struct {
	name string
	// queue holds the requests that wait, by Class, each in submission order.
	queue [2][]*request
	alive int // requests that have not ended, queued and running

	// vtime is the instance time charged, on the pool's virtual clock.
	vtime time.Duration
	// waiting: in Scheduler.waiting, that is, requests queued and no turn. The
	// key of that order (vtime, ticket) may change only while it is out.
	waiting bool
	ticket  uint64        // order of coming to wait
	since   time.Duration // when it came to wait

	turn  *instance // holds a turn there, switching included; else nil
	shown *instance // the one instance that may show it, nil: none
	home  InstanceID

	// habit estimates, in 1/habitOne, how often the next request comes within
	// Anticipation of the last answer; lastDone is when that answer was.
	habit    int
	lastDone time.Duration
	dropped  bool
}

// habitOne is a habit of always asking again at once. A branch without history
// starts with half of it: agents often do.
const habitOne = 1024

func (b *branch) queued() int { return len(b.queue[Interactive]) + len(b.queue[Background]) }

// next is the request of the queue to run first, nil for none: Interactive
// before Background, and in order of submission among those of equal rank.
func (s *Scheduler) next(b *branch) *request {
	var best *request
	for _, q := range b.queue {
		if len(q) == 0 {
			continue
		}
		if r := q[0]; best == nil || cmp.Or(cmp.Compare(s.rank(r), s.rank(best)), cmp.Compare(r.order, best.order)) < 0 {
			best = r
		}
	}
	return best
}

// rank is 0 for what must not give way and 1 for what may.
func (s *Scheduler) rank(r *request) int {
	if r.class == Background && s.now-r.submitted < s.cfg.BackgroundPatience {
		return 1
	}
	return 0
}

// enqueue puts a request at its place in the queue of its branch. A branch
// without a turn comes to wait.
func (s *Scheduler) enqueue(r *request) {
	q := &r.branch.queue[r.class]
	i, _ := slices.BinarySearchFunc(*q, r, func(a, b *request) int { return cmp.Compare(a.order, b.order) })
	*q = slices.Insert(*q, i, r)
	r.on, r.deadline = nil, never
	if r.branch.turn == nil && !r.branch.waiting {
		s.wait(r.branch)
	}
}

// dequeue takes a request out of the queue of its branch. The order of waiting
// does not depend on what is queued, so only the last one ends the waiting.
func (s *Scheduler) dequeue(r *request) {
	q := &r.branch.queue[r.class]
	i := slices.Index(*q, r)
	*q = slices.Delete(*q, i, i+1)
	if r.branch.waiting && r.branch.queued() == 0 {
		s.unwait(r.branch)
	}
}

// wait lets a branch come to wait for a turn. Its virtual time is brought into
// [clock, clock+MaxDebt]: who was away has saved nothing up, and who used a
// lot does not wait for ever. The bound on waiting rests on both.
func (s *Scheduler) wait(b *branch) {
	b.waiting, b.ticket, b.since = true, s.serial(), s.now
	s.place(b)
}

// place inserts b into the order of waiting.
func (s *Scheduler) place(b *branch) {
	b.vtime = min(max(b.vtime, s.clock), s.clock+s.cfg.MaxDebt)
	i, _ := slices.BinarySearchFunc(s.waiting, b, beforeInLine)
	s.waiting = slices.Insert(s.waiting, i, b)
}

func (s *Scheduler) unwait(b *branch) {
	i, _ := slices.BinarySearchFunc(s.waiting, b, beforeInLine)
	s.waiting = slices.Delete(s.waiting, i, i+1)
	b.waiting = false
}

func beforeInLine(a, b *branch) int {
	return cmp.Or(cmp.Compare(a.vtime, b.vtime), cmp.Compare(a.ticket, b.ticket))
}

// charge lets each holder of a turn pay for the time since the last event and
// moves the virtual clock: to the least virtual time of all who hold or want
// an instance, never back.
func (s *Scheduler) charge(passed time.Duration) {
	least := never
	for _, in := range s.instances {
		if in.holder != nil {
			in.holder.vtime += passed
			least = min(least, in.holder.vtime)
		}
	}
	if len(s.waiting) > 0 {
		least = min(least, s.waiting[0].vtime)
	}
	if least != never {
		s.clock = max(s.clock, least)
	}
}

// chargeDrain lets a branch pay for the time that its background work held an
// instance after the turn. It may be waiting already.
func (s *Scheduler) chargeDrain(b *branch, d time.Duration) {
	if !b.waiting {
		b.vtime += d
		return
	}
	i, _ := slices.BinarySearchFunc(s.waiting, b, beforeInLine)
	s.waiting = slices.Delete(s.waiting, i, i+1)
	b.vtime += d
	s.place(b)
}

// learn updates the habit of a branch that asks while nothing of it is alive.
func (s *Scheduler) learn(b *branch) {
	if b.lastDone == never || b.alive > 0 {
		return
	}
	sample := 0
	if s.now-b.lastDone <= s.cfg.Anticipation {
		sample = habitOne
	}
	b.habit += (sample - b.habit) / smoothing
}

// asksAgain says whether holding the instance for b is worth it: what a switch
// costs, as often as it is saved, against the wait, as often as it is in vain.
func (s *Scheduler) asksAgain(b *branch) bool {
	hit := time.Duration(b.habit)
	return hit*s.switchCost >= (habitOne-hit)*s.cfg.Anticipation
}

// release lets go of a dropped branch once nothing shows, runs or holds it.
func (s *Scheduler) release(b *branch) {
	if b.dropped && b.alive == 0 && b.turn == nil && b.shown == nil {
		delete(s.branches, b.name)
		s.do(Release{Branch: b.name})
	}
}
