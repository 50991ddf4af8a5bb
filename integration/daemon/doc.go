// Package daemon answers: does the whole, from the command line to the shadow
// folder, keep what docs/semantics.md promises?
//
// Model: tests only. A world is a small Go module under git with a daemon of its
// own, real gopls behind it; an agent is a plain LSP client that keeps all it is
// told. Each file of tests is about one promise: the daemon's life, the agent
// port, branches, text, requests, files, changes of the base, truth, deaths, the
// trace, an ordinary user.
//
// Invariants: every world is looked over at its end: the person's folder is what
// it was (or what the test itself made of it), git finds it clean, no process
// and no mount of it is left in any namespace. Waiting is for conditions.
//
// Absent on purpose: what a room's own tests can show, editors (integration/demo
// has one), figures.
//
// Locks and goroutines: agent.mu guards what an agent was told; its reader ends
// with the connection, which the test that made it closes.
package daemon
