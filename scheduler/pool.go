package scheduler

import (
	"fmt"
	"time"
)

// live counts the instances that are not being stopped.
func (s *Scheduler) live() int {
	n := 0
	for _, in := range s.instances {
		if in.state != stopping {
			n++
		}
	}
	return n
}

// expire acts on the deadlines that have passed.
func (s *Scheduler) expire() {
	for _, in := range s.instances {
		late := in.deadline <= s.now
		switch {
		case late && in.state == starting:
			s.hung(in, "it was not ready within StartLimit")
		case late && in.state == switching:
			s.hung(in, "a switch took longer than SwitchLimit")
		case late && in.state == draining:
			s.hung(in, "background work took longer than DrainLimit")
		}
		for _, r := range in.running {
			if r.deadline > s.now {
				continue
			}
			if r.ending != 0 {
				s.hung(in, "a cancelled request held it for longer than CancelGrace")
				break // running is empty now
			}
			s.giveUp(r, TimedOut)
		}
	}
}

// hung gives up an instance that does not do what it should.
func (s *Scheduler) hung(in *instance, why string) {
	s.stats.Hung++
	fresh := s.now - in.upAt
	if in.state == starting {
		fresh = 0
	}
	s.take(in, why, false)
	s.stop(in)
	s.crashed(fresh, why)
}

// stop sends an instance away. It counts, and shows what it shows, until it is
// down: until then it may write.
func (s *Scheduler) stop(in *instance) {
	in.enter(stopping, s.now, never)
	s.do(StopInstance{in.id})
}

// down removes an instance. One that was not told to stop has crashed.
func (s *Scheduler) down(in *instance, reason string, meant bool) {
	was, up := in.state, s.now-in.upAt
	if was == starting {
		up = 0
	}
	s.take(in, reason, meant)
	for i := range s.instances {
		if s.instances[i] == in {
			s.instances = append(s.instances[:i], s.instances[i+1:]...)
			break
		}
	}
	s.show(in, nil)
	if was != stopping && !meant {
		s.stats.Crashes++
		s.crashed(up, reason)
	}
}

// crashed counts an instance lost after being up for so long, sets the
// back-off, and gives up the pool where that is hopeless.
func (s *Scheduler) crashed(up time.Duration, why string) {
	if up >= s.cfg.BackoffReset {
		s.crashes = 0
	}
	s.crashes++
	s.lastCrash = why
	pause := s.cfg.BackoffFirst
	for i := 1; i < s.crashes && pause < s.cfg.BackoffMax; i++ {
		pause *= 2
	}
	s.notBefore = s.now + min(pause, s.cfg.BackoffMax)
	if s.brokenUntil() <= s.now {
		return
	}
	s.awake = false
	for len(s.waiting) > 0 {
		s.failQueue(s.waiting[0], Unavailable, s.whyUnavailable())
	}
}

// brokenUntil is the end of the back-off where the pool has given up, else 0.
func (s *Scheduler) brokenUntil() time.Duration {
	if s.crashes >= s.cfg.MaxCrashes && s.live() == 0 {
		return s.notBefore
	}
	return 0
}

func (s *Scheduler) whyUnavailable() error {
	return fmt.Errorf("the server was lost %d times in a row, the last time because: %s; the next try is in %v",
		s.crashes, s.lastCrash, s.notBefore-s.now)
}

// retire stops what is too much: over Max, unused for ShrinkAfter, or all when
// nothing was asked for IdleStop.
func (s *Scheduler) retire() {
	busy, up := 0, 0
	for _, in := range s.instances {
		if in.busy() {
			busy++
		}
		if in.busy() || in.state == resting {
			up++
		}
	}
	if busy > 0 || len(s.requests) > 0 {
		s.busyAt = s.now
	}
	s.peak = max(s.peak, busy)
	for s.live() > s.cfg.Max {
		in := s.free(nil)
		if n := len(s.instances); s.instances[n-1].state == starting {
			in = s.instances[n-1]
		}
		if in == nil {
			break // serve ends a turn
		}
		s.stop(in)
	}
	if s.now-s.busyAt >= s.cfg.IdleStop {
		s.awake = false
		for _, in := range s.instances {
			if in.state != stopping {
				s.stop(in)
			}
		}
	}
	if s.now-s.peakSince >= s.cfg.ShrinkAfter {
		if in := s.free(nil); in != nil && up > s.cfg.Min && s.peak < up {
			s.stop(in)
		}
		s.peak, s.peakSince = busy, s.now
	}
}

// populate starts what is wanted: Min instances while the pool is awake, one
// more when a branch has been unmet for GrowAfter, never two at once for that.
func (s *Scheduler) populate() {
	switch {
	case s.unmet == noRank:
		s.contended = never
	case s.contended == never:
		s.contended = s.now
	}
	if s.awake && s.now >= s.notBefore {
		for want := s.want(); s.live() < want && len(s.instances) < s.cfg.Max; {
			s.lastID++
			in := &instance{id: s.lastID}
			in.enter(starting, s.now, s.now+s.cfg.StartLimit)
			s.instances = append(s.instances, in)
			s.do(StartInstance{in.id})
		}
	}
}

// want is how many instances there should be.
func (s *Scheduler) want() int {
	if s.contended != never && s.now-s.contended >= s.cfg.GrowAfter && !s.isStarting() {
		return max(s.cfg.Min, s.live()+1)
	}
	return s.cfg.Min
}

func (s *Scheduler) isStarting() bool {
	for _, in := range s.instances {
		if in.state == starting {
			return true
		}
	}
	return false
}

// wake asks for a Tick at the next time at which something is to be done
// though nothing happens. One that was asked for earlier than that stands: it
// will come for nothing, which costs less than setting the timer at each step.
func (s *Scheduler) wake() {
	next := never
	at := func(t time.Duration) {
		if t > s.now { // else it was done, or waits for something that happens
			next = min(next, t)
		}
	}
	for _, in := range s.instances {
		at(in.deadline)
		for _, r := range in.running {
			at(r.deadline)
		}
	}
	if live := s.live(); live > 0 {
		at(s.busyAt + s.cfg.IdleStop)
		if live > s.cfg.Min {
			at(s.peakSince + s.cfg.ShrinkAfter)
		}
	}
	if s.awake && s.live() < s.cfg.Max {
		at(s.notBefore)
		if s.contended != never {
			at(s.contended + s.cfg.GrowAfter)
		}
	}
	if next < s.wakeAt || s.wakeAt <= s.now && next != never {
		s.wakeAt = next
		s.do(WakeAt{next})
	}
}
