// Package commands answers: do programs run in a branch as they run in the
// person's folder, and does nothing of them get out or stay?
//
// Model: each test has a stage with a workspace and its own daemon, runs the real
// binary (`shadowlsp exec`, `connect`) beside a native run, and looks at
// processes, mounts, files and ports from outside. The whole package runs again
// as an ordinary user.
//
// Invariants: at the end of each test the person's folder is byte-identical, and
// no process, mount or temporary file of the stage is left.
//
// Absent on purpose: lints (integration/daemon), the file system itself
// (integration/conformance), figures (make bench-run).
//
// Locks and goroutines: those of the tests.
package commands
