// Package conformance answers: can a program tell the shadow folder from the
// person's folder?
//
// Model: tests only. Each runs the same thing twice, natively in a folder on the
// disk and in a view of another branch over an equal folder, and compares what
// came out: a table of system calls with their errors, modes and times; random
// operations on one file against memory; real programs (git, go, npm, cargo,
// make, python, sqlite, Neovim). What differs on purpose is listed beside the
// test with the reason, and a difference that has gone must be taken from the
// list. fuse-overlayfs, where it is installed, runs the table too, for
// comparison only.
//
// Invariants: the folder under the view is, at the end, what it was to the
// nanosecond, unless the test itself is about changes of it. Nothing stays
// mounted and no process is left.
//
// The table is our own because pjdfstest is in no package registry that
// scripts/setup could take it from (Debian has no package of it); where
// SHADOWLSP_PJDFSTEST names a built checkout, it is run as well.
//
// Absent on purpose: figures (integration/bench), what a room's own tests show,
// language servers other than gopls.
//
// `go test` runs the short part; SHADOWLSP_CONFORMANCE=full (make conformance)
// all of it.
//
// Locks and goroutines: none of its own; a view's end with the test.
package conformance
