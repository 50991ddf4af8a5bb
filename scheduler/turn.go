package scheduler

import (
	"fmt"
	"time"
)

// dispatch decides all that the new state calls for. Its order is the policy's:
// what is too much goes, who waits gets what is free, turns take requests or
// end, and only what is then still unmet may start instances.
func (s *Scheduler) dispatch() {
	for again := true; again; {
		// A turn that ends leaves an instance to retire or match. Each round
		// begins or ends a turn, and a turn that begins takes a request, so
		// this comes to an end.
		s.retire()
		again = s.match()
		for _, in := range s.instances {
			if in.state == serving && s.serve(in) {
				again = true
			}
		}
	}
	s.park()
	s.populate()
}

// match walks the line of waiting branches, by rank and then virtual time, and
// gives each an instance or the promise of one that is draining, until there
// is none. It says whether a turn began. Affinity decides here which instance
// a branch gets, never whose turn it is: an order bent by affinity has no bound
// on waiting.
func (s *Scheduler) match() (began bool) {
	s.unmet = noRank
	promises := 0
	for _, in := range s.instances {
		if in.state == draining {
			promises++
		}
	}
	for rank := range noRank {
		for i := 0; i < len(s.waiting); {
			b := s.waiting[i]
			if s.rank(s.next(b)) != rank {
				i++
				continue
			}
			switch s.assign(b, &promises) {
			case assigned:
				began = true // b has left the line
			case deferred:
				i++
			case nothingLeft:
				s.unmet = rank
				return began
			}
		}
	}
	return began
}

type assignment uint8

const (
	assigned    assignment = iota // b has a turn, or a switch to it
	deferred                      // b has to wait for a switch, drain or stop under way
	nothingLeft                   // every instance is taken
)

func (s *Scheduler) assign(b *branch, promises *int) assignment {
	if in := b.shown; in != nil {
		switch {
		case in.state == resting:
			s.stats.Kept++
			s.begin(in, b, serving)
			return assigned
		case in.state == draining && *promises > 0:
			// Nobody before b needs the instance: it may go on with b.
			*promises--
			s.chargeDrain(b, s.now-in.since)
			s.stats.Kept++
			s.begin(in, b, serving)
			return assigned
		}
		// Another instance would be a second home for its writes.
		return deferred
	}
	in := s.free(b)
	if in != nil && !in.dirty {
		s.begin(in, b, switching)
		return assigned
	}
	if *promises > 0 {
		*promises--
		return deferred
	}
	if in != nil {
		s.drain(in)
		return deferred
	}
	return nothingLeft
}

// begin gives b a turn on an instance: at once where that shows it, else by a
// switch.
func (s *Scheduler) begin(in *instance, b *branch, st state) {
	s.unwait(b)
	b.turn, in.holder = in, b
	in.turn, in.opening = TurnID(s.serial()), true
	s.stats.Turns++
	s.stats.LongestWait = max(s.stats.LongestWait, s.now-b.since)
	if st == switching {
		s.startSwitch(in)
		return
	}
	in.enter(serving, s.now, s.now)
}

func (s *Scheduler) startSwitch(in *instance) {
	in.enter(switching, s.now, s.now+s.cfg.SwitchLimit)
	if in.to = in.holder; in.to != nil {
		in.to.shown = in
	}
	s.stats.Switches++
	s.do(Switch{in.id, in.turn, nameOf(in.shows), nameOf(in.holder)})
}

func nameOf(b *branch) string {
	if b == nil {
		return ""
	}
	return b.name
}

func (s *Scheduler) switched(in *instance) {
	s.show(in, in.holder)
	if in.holder == nil { // to the base
		in.rest(s.now)
		return
	}
	s.switchCost += (s.now - in.since - s.switchCost) / smoothing
	in.enter(serving, s.now, s.now)
	in.settling = true
}

// switchFailed: the failure is held against all that wait of the branch, so
// that one which cannot be shown does not come back for ever.
func (s *Scheduler) switchFailed(in *instance, reason string) {
	b := in.holder
	s.show(in, nil)
	if b == nil { // not even the base could be shown
		s.hung(in, "it could not be brought back to the base: "+reason)
		return
	}
	s.endHold(in)
	in.rest(s.now)
	s.strike(b, fmt.Errorf("the branch could not be shown to the server: %s", reason))
	s.settle(b)
}

// strike counts a failed switch against everything that waits of b.
func (s *Scheduler) strike(b *branch, err error) {
	for _, q := range b.queue {
		for _, r := range append([]*request(nil), q...) {
			if r.failures++; r.failures > Retries {
				s.dequeue(r)
				s.fail(r, SwitchRefused, err)
			}
		}
	}
}

// quantum is how long a turn takes in requests while others wait.
func (s *Scheduler) quantum() time.Duration {
	quantum := min(max(SwitchesPerQuantum*s.switchCost, s.cfg.Quantum), s.cfg.MaxQuantum)
	share := s.cfg.Rotation * time.Duration(len(s.instances)) / time.Duration(1+len(s.waiting))
	return min(quantum, max(share-s.switchCost, s.switchCost))
}

// serve lets a turn take requests of its branch, or ends it. It says whether
// the turn has ended.
func (s *Scheduler) serve(in *instance) (ended bool) {
	b := in.holder
	spent := s.now-in.since >= s.quantum()
	surplus := s.live() > s.cfg.Max
	for len(in.running) < s.cfg.MaxConcurrent {
		r := s.next(b)
		if r == nil {
			break
		}
		if !in.opening {
			// It yields to whoever ranks higher at once, and to its equals
			// when its quantum is spent.
			if rank := s.rank(r); surplus || rank > s.unmet || spent && rank == s.unmet {
				break
			}
			if s.unmet != noRank && len(in.running) == 0 {
				s.stats.Anticipated++
			}
		}
		s.run(in, r)
	}
	in.opening = false
	if len(in.running) > 0 {
		return false
	}
	spent = spent && s.unmet != noRank
	if b.queued() == 0 && s.now < in.deadline && !spent && !surplus && !b.dropped {
		return false // anticipation
	}
	s.endHold(in)
	in.enter(resting, s.now, never)
	in.dirty = true
	s.settle(b)
	return true
}

func (s *Scheduler) run(in *instance, r *request) {
	s.dequeue(r)
	in.running = append(in.running, r)
	in.deadline = never
	r.on, r.lastOn, r.deadline = in, in.id, s.now+s.cfg.RunLimit
	s.do(Run{in.id, in.turn, r.id})
}

// endHold takes the turn from its holder.
func (s *Scheduler) endHold(in *instance) {
	in.holder.turn = nil
	in.holder, in.opening, in.settling = nil, false, false
}

// settle puts a branch that has just lost its turn where it belongs now.
func (s *Scheduler) settle(b *branch) {
	if b.queued() > 0 {
		if !b.waiting {
			s.wait(b)
		}
		return
	}
	s.release(b)
}

func (s *Scheduler) drain(in *instance) {
	in.enter(draining, s.now, s.now+s.cfg.DrainLimit)
	s.do(EndTurn{in.id, in.turn, in.shows.name})
}

// park takes instances off dropped branches, where no waiting branch has.
func (s *Scheduler) park() {
	for _, in := range s.instances {
		if in.state != resting || in.shows == nil || !in.shows.dropped {
			continue
		}
		if in.dirty {
			s.drain(in)
			continue
		}
		in.turn = TurnID(s.serial())
		s.startSwitch(in)
	}
}

// take removes what an instance was doing, because it died or hung: what ran
// is tried once more, unless it was to end anyway. Where that was meant it is no
// failure.
func (s *Scheduler) take(in *instance, why string, meant bool) {
	b, st := in.holder, in.state
	if st == draining {
		s.chargeDrain(in.shows, s.now-in.since)
	}
	if b == nil {
		return
	}
	running := in.running
	in.running = nil
	s.endHold(in)
	if st == switching && !meant {
		s.strike(b, fmt.Errorf("the instance was lost while switching to the branch: %s", why))
	}
	for _, r := range running {
		r.on = nil
		if !meant {
			r.failures++
		}
		switch {
		case r.ending != 0:
			s.fail(r, r.ending, fmt.Errorf("it did not end when cancelled: %s", why))
		case r.failures > Retries:
			s.fail(r, InstanceLost, fmt.Errorf("lost with its instance, at try %d: %s", r.failures, why))
		default:
			s.stats.Requeued++
			s.enqueue(r)
		}
	}
	if s.branches[b.name] == b {
		s.settle(b)
	}
}
