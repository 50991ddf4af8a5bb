package scheduler

import (
	"slices"
	"time"
)

// Stats counts since New.
type Stats struct {
	Finished, Failed int // requests
	Requeued         int // tries again after an instance was lost
	Turns            int
	Switches         int           // switches begun, those to the base included
	Kept             int           // turns begun without one: affinity
	Anticipated      int           // times a branch asked again while others waited and its turn was held for it, or not yet spent
	LongestWait      time.Duration // of a branch for its turn
	Crashes, Hung    int           // instances
}

// Place is where a request stands.
type Place struct {
	Running  bool
	Instance InstanceID // where it runs or is about to; 0 while its branch waits
	// Ahead is how many branches are before its own in the line for a turn.
	Ahead int
}

// Position tells where a request stands, for progress; ok is false for one
// that is unknown or has ended. It costs a walk along the line.
func (s *Scheduler) Position(id RequestID) (p Place, ok bool) {
	r := s.requests[id]
	switch {
	case r == nil:
		return p, false
	case r.on != nil:
		return Place{Running: true, Instance: r.on.id}, true
	case r.branch.turn != nil:
		return Place{Instance: r.branch.turn.id}, true
	}
	mine := s.rank(s.next(r.branch))
	before := true
	for _, b := range s.waiting {
		if b == r.branch {
			before = false
			continue
		}
		if rank := s.rank(s.next(b)); rank < mine || rank == mine && before {
			p.Ahead++
		}
	}
	return p, true
}

// Snapshot is what status shows. It shares nothing with the scheduler.
type Snapshot struct {
	Now        time.Duration
	Clock      time.Duration // virtual time
	Quantum    time.Duration // as it is at present
	SwitchCost time.Duration // mean
	Branches   int           // remembered
	Requests   int           // not ended
	Unmet      bool          // some branch waits with no instance in sight
	Instances  []InstanceStatus
	Waiting    []BranchStatus // in the order in which they get their turns, as it stands
	Stats      Stats
}

// InstanceStatus is one instance in a Snapshot.
type InstanceStatus struct {
	ID      InstanceID
	State   string        // starting, resting, switching, serving, draining, stopping
	Since   time.Duration // of the state
	Shows   string        // branch, empty for the base
	Holder  string        // branch whose turn it is
	Turn    TurnID
	Running []RequestID
	Queued  int // requests of the holder that wait for a place in its turn
}

// BranchStatus is one waiting branch in a Snapshot.
type BranchStatus struct {
	Branch     string
	Queued     int
	Background bool          // gives way to those that are not
	Since      time.Duration // waiting since
	Debt       time.Duration // virtual time ahead of the clock
}

// Snapshot copies the present state.
func (s *Scheduler) Snapshot() Snapshot {
	out := Snapshot{
		Now: s.now, Clock: s.clock, Quantum: s.quantum(), SwitchCost: s.switchCost,
		Branches: len(s.branches), Requests: len(s.requests), Unmet: s.unmet != noRank, Stats: s.stats,
	}
	for _, in := range s.instances {
		st := InstanceStatus{ID: in.id, State: in.state.String(), Since: in.since, Shows: nameOf(in.shows), Holder: nameOf(in.holder), Turn: in.turn}
		for _, r := range in.running {
			st.Running = append(st.Running, r.id)
		}
		if in.holder != nil {
			st.Queued = in.holder.queued()
		}
		out.Instances = append(out.Instances, st)
	}
	for _, b := range s.waiting {
		out.Waiting = append(out.Waiting, BranchStatus{
			Branch: b.name, Queued: b.queued(), Background: s.rank(s.next(b)) > 0, Since: b.since, Debt: b.vtime - s.clock,
		})
	}
	slices.SortStableFunc(out.Waiting, func(a, b BranchStatus) int {
		return cmpBool(a.Background, b.Background)
	})
	return out
}

// Quiet says whether nothing is asked and nothing is under way: the pool may
// be thrown away after its instances were stopped.
func (s *Scheduler) Quiet() bool {
	for _, in := range s.instances {
		if in.state != resting {
			return false
		}
	}
	return len(s.requests) == 0
}
