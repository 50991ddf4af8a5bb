// Package scheduler answers: whose turn is it, on which instance?
//
// Model: one [Scheduler] decides for one pool: the instances of one language
// server. A request belongs to a branch; an instance shows one branch at a
// time; the time a branch holds an instance is a turn, and all of the branch's
// requests run side by side in it. The scheduler is a value without a life of
// its own: a shell tells it what happened ([Scheduler.Step] takes one [Event])
// and performs, in order, what it answers (a list of [Action]). Time is a
// field of each event. The policy, with its numbers and its proof of the bound
// on waiting, is docs/scheduling.md.
//
// The shell promises, for each action, one event that ends it:
//
//	StartInstance → InstanceUp or InstanceDown
//	StopInstance  → InstanceDown
//	Switch        → Switched, SwitchFailed or InstanceDown
//	Run           → Finished or InstanceDown
//	EndTurn       → Drained or InstanceDown
//	WakeAt        → Tick (one timer; a later WakeAt replaces an earlier one)
//
// CancelRunning, Fail and Release are not answered. Settled may follow Switched. What comes late (about an
// instance that is gone, a turn that is over, a request that has ended) is
// ignored, so the shell needs no care about races with what it has sent.
//
// Invariants (check in the tests repeats them after every step): a submitted
// request ends exactly once, by the shell's Finished or by Fail; an instance
// runs requests of one branch only, and only of the branch it shows; a branch
// is shown by at most one instance, so its writes have one home; a clean
// instance never rests while a branch that could use it waits; the same events
// give the same actions.
//
// Absent on purpose: goroutines, channels, clocks, randomness, logging, I/O,
// imports of ours. Nothing here knows LSP, revisions or what a switch does:
// bringing an instance that already shows the branch to the branch's newest
// revision is part of performing Run. Guesses of a request's cost are absent
// too: branches are charged for the time they held, so a guess could only be
// wrong.
//
// Locks: none. A Scheduler is for one goroutine.
package scheduler
