// Package integration answers: does the whole do what is promised, with real
// servers and a real editor?
//
// Model: tests that no single room can hold. rooms_test.go keeps the map of
// rooms; editor is a scripted Neovim; client a plain LSP client for the agent's
// side; need says what a test may count on; demo and bench are programs.
//
// Invariants: real programs only, no fakes; every test has a runtime and state
// folder of its own, so that it never meets a daemon that it did not start; no
// sleeps, only conditions.
//
// Absent on purpose: behaviour that one room can show in its own tests.
//
// Locks and goroutines: none here.
package integration
