// Package life answers: does a branch's whole life work for real: made, forked,
// checked, rolled back, shown, applied, committed, dropped?
//
// Model: each test has a person's folder with its own daemon (see
// integration/stage), runs the program as a person would, writes into branches by
// `shadowlsp exec` and by agents, and compares whole trees.
//
// Invariants: what a patch, an apply or a commit leaves behind is compared to the
// branch's own tree, byte by byte; whatever is refused has changed nothing.
//
// Absent on purpose: each step at which an apply can be killed, which is in
// overlay's own tests.
//
// Locks and goroutines: none.
package life
