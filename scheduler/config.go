package scheduler

import "time"

// Config holds every number of the policy. A zero field takes the default
// named beside it. docs/scheduling.md says why these.
type Config struct {
	// Min is how many instances are kept while the pool is awake (from the
	// first need, or Prewarm, until IdleStop). Default 1, never less.
	Min int
	// Max bounds the instances of the pool, those being stopped included.
	// Default Min.
	Max int

	// Quantum is how long a turn takes in new requests of its branch while
	// others wait. It grows with the cost of switching: to SwitchesPerQuantum
	// times the measured mean switch, and to no more than MaxQuantum.
	// Default 100 ms.
	Quantum time.Duration
	// MaxQuantum bounds that growth. Default 1 s, or Quantum if larger.
	MaxQuantum time.Duration
	// Rotation is how long it may take until everyone who waits has had a turn:
	// the more branches wait, the shorter the quantum, but never shorter than
	// the measured mean switch, which keeps half of the time for work. Default
	// 20 s.
	Rotation time.Duration
	// MaxDebt bounds how far ahead of virtual time a waiting branch can be:
	// past use is held against a branch up to here. Default 1 s.
	MaxDebt time.Duration
	// Anticipation is how long an instance waits for the next request of a
	// branch that usually asks again at once. Default 3 ms; negative: never.
	Anticipation time.Duration
	// BackgroundPatience is how long a Background request gives way to
	// Interactive ones; from then on it ranks as one. Default 2 s.
	BackgroundPatience time.Duration
	// MaxConcurrent bounds the requests running on one instance. Default 16.
	MaxConcurrent int
	// MaxQueued bounds the requests of one branch that wait. Default 256.
	MaxQueued int

	// CancelGrace is how long a cancelled request may hold its instance; then
	// the instance counts as hung. Default 10 s: instances run at idle
	// priority, and a needless restart costs more than a wait.
	CancelGrace time.Duration
	// RunLimit is how long a request may run before it is cancelled. It is
	// the last resort: who asks has time-outs of its own. Default 5 min.
	RunLimit time.Duration
	// SwitchLimit is how long a switch may take; then the instance counts as
	// hung. Default 30 s.
	SwitchLimit time.Duration
	// DrainLimit is how long the background work of a turn may hold the
	// instance after EndTurn; then it counts as hung. Default 1 min.
	DrainLimit time.Duration
	// StartLimit is how long an instance may take until InstanceUp; then it
	// counts as hung. Default 5 min.
	StartLimit time.Duration

	// GrowAfter is how long some branch must have been waiting, without a
	// pause, before one more instance is started. Default 2 s.
	GrowAfter time.Duration
	// ShrinkAfter is the window of shrinking: an instance above Min is stopped
	// when within one window fewer than all were busy at once. Default 2 min.
	ShrinkAfter time.Duration
	// IdleStop is how long nothing may have been asked before all instances
	// are stopped. Default 15 min.
	IdleStop time.Duration

	// BackoffFirst is the wait before the restart after a first crash; each
	// further crash doubles it. Default 200 ms.
	BackoffFirst time.Duration
	// BackoffMax bounds that. Default 1 min.
	BackoffMax time.Duration
	// BackoffReset is how long an instance must have been up for its crash to
	// count as a first one. Default 1 min.
	BackoffReset time.Duration
	// MaxCrashes in a row, with no instance left, make the pool give up: what
	// waits fails, and what comes fails until the back-off is over. Default 5.
	MaxCrashes int
}

const (
	// SwitchesPerQuantum keeps the share of instance time that goes into
	// switching below one fifth for a branch that uses its quantum.
	SwitchesPerQuantum = 4
	// Retries is how often a request is tried again after its instance died
	// under it, or after the switch to its branch failed. Once: a request that
	// kills two instances would kill a third.
	Retries = 1
	// firstSwitchCost is the mean switch before any was measured.
	firstSwitchCost = 20 * time.Millisecond
	// smoothing is the weight, 1/smoothing, of the newest sample in the mean
	// switch cost and in a branch's habit.
	smoothing = 8
)

func orDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (c Config) withDefaults() Config {
	c.Min = max(c.Min, 1)
	c.Max = max(c.Max, c.Min)
	orDefault(&c.Quantum, 100*time.Millisecond)
	orDefault(&c.MaxQuantum, time.Second)
	c.MaxQuantum = max(c.MaxQuantum, c.Quantum)
	orDefault(&c.Rotation, 20*time.Second)
	orDefault(&c.MaxDebt, time.Second)
	orDefault(&c.Anticipation, 3*time.Millisecond)
	c.Anticipation = max(c.Anticipation, 0)
	orDefault(&c.BackgroundPatience, 2*time.Second)
	orDefault(&c.MaxConcurrent, 16)
	orDefault(&c.MaxQueued, 256)
	orDefault(&c.CancelGrace, 10*time.Second)
	orDefault(&c.RunLimit, 5*time.Minute)
	orDefault(&c.SwitchLimit, 30*time.Second)
	orDefault(&c.DrainLimit, time.Minute)
	orDefault(&c.StartLimit, 5*time.Minute)
	orDefault(&c.GrowAfter, 2*time.Second)
	orDefault(&c.ShrinkAfter, 2*time.Minute)
	orDefault(&c.IdleStop, 15*time.Minute)
	orDefault(&c.BackoffFirst, 200*time.Millisecond)
	orDefault(&c.BackoffMax, time.Minute)
	orDefault(&c.BackoffReset, time.Minute)
	orDefault(&c.MaxCrashes, 5)
	return c
}
