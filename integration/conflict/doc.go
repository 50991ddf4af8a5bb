// Package conflict answers: what do agents get that change one exported function
// in conflicting ways, each on a branch of its own?
//
// Model: a [Target] is an exported function of a real module, the file that
// defines it and a file of another package that calls it. An [Agent] gives the
// function a parameter more, of a type named for the agent and the round, so
// that each right error names exactly the edit that caused it: [Lint.Judge]
// tells a right answer from a stale one, an incomplete one and another agent's.
//
// Invariants: no agent opens the dependent file; a lint that could not be proven
// final is asked for again a bounded number of times, then it is an error.
//
// Absent on purpose: who starts servers and daemons, what is done with the
// figures.
//
// Locks and goroutines: none; an Agent is for one goroutine at a time.
package conflict
