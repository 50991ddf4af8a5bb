package scheduler

import (
	"cmp"
	"slices"
	"time"
)

// state is what an instance is doing. It follows one way:
//
//	starting → resting ⇄ switching → serving → resting → draining → resting
//
// from each of which it may go to stopping, and from a dirty resting straight
// back to serving, for the branch it shows.
type state uint8

const (
	starting  state = iota + 1
	resting         // up, no turn
	switching       // on the way to holder; what it shows is uncertain
	serving         // holder has a turn; running may be empty: anticipation
	draining        // the turn is over, background work of shows is not
	stopping        // StopInstance was sent
)

func (st state) String() string {
	return [...]string{"", "starting", "resting", "switching", "serving", "draining", "stopping"}[st]
}

// instance is one run of the server, from StartInstance to InstanceDown.
type instance struct {
	id    InstanceID
	state state
	since time.Duration // of state
	upAt  time.Duration // of InstanceUp

	// shows is the branch its view shows, nil for the base. to is the one that
	// it may show as well, because a switch to it is under way (or was, when
	// the instance was told to stop): until that is certain, both count.
	shows, to *branch
	// holder has the turn while switching or serving; nil in other states, and
	// while switching to the base.
	holder *branch
	turn   TurnID // the current one, or the last
	// opening: the turn has begun and taken nothing yet. What waits then rides
	// along, Background included: the switch is paid.
	opening bool
	// settling: the turn began with a switch, and Settled has not come.
	settling bool
	// dirty, while resting: a turn has ended and background work of it may
	// live on, so it needs draining before another branch may be shown.
	dirty bool
	// running are the requests put to it, all of holder, in order; empty
	// unless serving (or stopping: then they were taken away).
	running []*request
	// deadline is when the state has lasted too long; while serving, until
	// when it is held for holder to ask again.
	deadline time.Duration
}

func (s *Scheduler) instance(id InstanceID) *instance {
	i, ok := slices.BinarySearchFunc(s.instances, id, func(in *instance, id InstanceID) int { return cmp.Compare(in.id, id) })
	if !ok {
		return nil
	}
	return s.instances[i]
}

// switching returns the instance if that switch of it is under way.
func (s *Scheduler) switching(id InstanceID, turn TurnID) *instance {
	if in := s.instance(id); in != nil && in.state == switching && in.turn == turn {
		return in
	}
	return nil
}

func (in *instance) enter(st state, now, deadline time.Duration) {
	in.state, in.since, in.deadline = st, now, deadline
}

// rest makes the instance resting and clean.
func (in *instance) rest(now time.Duration) {
	in.enter(resting, now, never)
	in.dirty = false
}

func (in *instance) remove(r *request) {
	i := slices.Index(in.running, r)
	in.running = slices.Delete(in.running, i, i+1)
	r.on = nil
}

// show records that the view shows b for certain, and lets go of what it
// showed, or was on the way to.
func (s *Scheduler) show(in *instance, b *branch) {
	before := [...]*branch{in.shows, in.to}
	in.shows, in.to = b, nil
	for _, old := range before {
		if old != nil && old != b {
			old.shown = nil
			s.release(old)
		}
	}
	if b != nil {
		b.shown, b.home = in, in.id
	}
}

// busy: has a turn, or something of a turn.
func (in *instance) busy() bool {
	return in.state == switching || in.state == serving || in.state == draining
}

// free returns the resting instance that b, which none shows, should get; nil
// for none. Best is one that needs no draining, then one whose own branch does
// not wait, then b's former home, whose caches know most of its files, then
// the one unused for longest. b may be nil.
func (s *Scheduler) free(b *branch) *instance {
	var best *instance
	for _, in := range s.instances {
		if in.state == resting && (best == nil || cmp.Or(
			cmpBool(in.dirty, best.dirty),
			cmpBool(in.wanted(), best.wanted()),
			cmpBool(best.homeOf(b), in.homeOf(b)),
			cmp.Compare(in.since, best.since)) < 0) {
			best = in
		}
	}
	return best
}

func (in *instance) homeOf(b *branch) bool { return b != nil && in.id == b.home }

// wanted: the branch it shows waits.
func (in *instance) wanted() bool { return in.shows != nil && in.shows.waiting }

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
