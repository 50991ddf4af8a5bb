package scheduler

import (
	"fmt"
	"slices"
)

// check repeats the invariants that the package doc and the fields state. It
// holds after every Step.
func (s *Scheduler) check() error {
	where := map[*request]int{}
	waiting := map[*branch]bool{}
	for i, b := range s.waiting {
		waiting[b] = true
		switch {
		case !b.waiting || b.queued() == 0 || b.turn != nil || b.dropped:
			return fmt.Errorf("branch %s is in line: waiting=%v queued=%d turn=%v dropped=%v", b.name, b.waiting, b.queued(), b.turn != nil, b.dropped)
		case i > 0 && beforeInLine(s.waiting[i-1], b) >= 0:
			return fmt.Errorf("branch %s is out of order", b.name)
		case b.vtime < s.clock || b.vtime > s.clock+s.cfg.MaxDebt:
			return fmt.Errorf("branch %s waits at %v, clock %v, MaxDebt %v", b.name, b.vtime, s.clock, s.cfg.MaxDebt)
		}
	}
	for name, b := range s.branches {
		if b.name != name || b.waiting != waiting[b] {
			return fmt.Errorf("branch %s: name or waiting is wrong", name)
		}
		if b.queued() > 0 && b.turn == nil && !b.waiting {
			return fmt.Errorf("branch %s has requests and is not in line", name)
		}
		if len(b.queue[0])+len(b.queue[1]) > s.cfg.MaxQueued+s.cfg.MaxConcurrent {
			return fmt.Errorf("branch %s has %d queued", name, b.queued())
		}
		if b.dropped && b.queued() > 0 {
			return fmt.Errorf("dropped branch %s has a queue", name)
		}
		if b.turn != nil && (b.turn.holder != b || b.shown != nil && b.shown != b.turn) {
			return fmt.Errorf("branch %s and its turn disagree", name)
		}
		if b.shown != nil && b.shown.shows != b && b.shown.to != b {
			return fmt.Errorf("branch %s is not shown where it says", name)
		}
		if b.habit < 0 || b.habit > habitOne {
			return fmt.Errorf("branch %s has habit %d", name, b.habit)
		}
		n := 0
		for class, q := range b.queue {
			if !slices.IsSortedFunc(q, func(a, b *request) int { return int(a.order) - int(b.order) }) {
				return fmt.Errorf("queue of %s is out of order", name)
			}
			for _, r := range q {
				if where[r]++; r.on != nil || r.branch != b || int(r.class) != class || s.requests[r.id] != r {
					return fmt.Errorf("request %d is queued wrongly", r.id)
				}
				n++
			}
		}
		if b.turn != nil {
			n += len(b.turn.running)
		}
		if n != b.alive {
			return fmt.Errorf("branch %s: %d alive, %d found", name, b.alive, n)
		}
	}
	usable := false
	for i, in := range s.instances {
		if i > 0 && s.instances[i-1].id >= in.id {
			return fmt.Errorf("instances are out of order")
		}
		if len(in.running) > 0 && in.state != serving || len(in.running) > s.cfg.MaxConcurrent {
			return fmt.Errorf("instance %d runs %d while %v", in.id, len(in.running), in.state)
		}
		if in.holder != nil && (in.state != serving && in.state != switching || in.holder.turn != in) {
			return fmt.Errorf("instance %d is held while %v", in.id, in.state)
		}
		if in.state == serving && in.shows != in.holder || in.state == draining && in.shows == nil {
			return fmt.Errorf("instance %d shows the wrong branch", in.id)
		}
		if in.shows != nil && (in.shows.shown != in || s.branches[in.shows.name] != in.shows) {
			return fmt.Errorf("instance %d shows %s, which does not know", in.id, in.shows.name)
		}
		if in.to != nil && (in.to.shown != in || in.state != switching && in.state != stopping) {
			return fmt.Errorf("instance %d is on the way to %s while %v", in.id, in.to.name, in.state)
		}
		if in.opening && in.state != switching {
			return fmt.Errorf("instance %d took nothing at its opening", in.id)
		}
		if in.state == resting {
			usable = true
			if in.shows != nil && in.shows.dropped {
				return fmt.Errorf("instance %d rests on a dropped branch", in.id)
			}
		}
		if in.state == serving && len(in.running) == 0 && s.now >= in.deadline {
			return fmt.Errorf("instance %d is held for nothing", in.id)
		}
		for _, r := range in.running {
			if where[r]++; r.on != in || r.branch != in.holder || s.requests[r.id] != r || r.deadline <= s.now {
				return fmt.Errorf("request %d runs wrongly", r.id)
			}
		}
	}
	// Work conservation: whoever could use a resting instance has it.
	if usable {
		for _, b := range s.waiting {
			if b.shown == nil {
				n := 0
				for _, in := range s.instances {
					if in.state == draining {
						n++
					}
				}
				if n == 0 {
					return fmt.Errorf("branch %s waits while an instance rests", b.name)
				}
			} else if b.shown.state == resting {
				return fmt.Errorf("branch %s waits while its instance rests", b.name)
			}
		}
	}
	if s.unmet == noRank != (s.contended == never) {
		return fmt.Errorf("unmet %d but contended %v", s.unmet, s.contended)
	}
	for r, n := range where {
		if n != 1 {
			return fmt.Errorf("request %d is in %d places", r.id, n)
		}
	}
	if len(where) != len(s.requests) {
		return fmt.Errorf("%d requests known, %d found", len(s.requests), len(where))
	}
	if len(s.actions) != 0 {
		return fmt.Errorf("actions left over")
	}
	return nil
}
