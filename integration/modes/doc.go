// Package modes answers: what does a person or an agent get on a machine that
// cannot do everything, or that is told to keep branches elsewhere?
//
// Model: each test has a [stage.Stage] with a module and runs the real program
// with a real gopls on it, in the mode or with the store that the test is about.
//
// Absent on purpose: what holds in every mode (integration/daemon).
//
// Goroutines and locks: none but those of the stage's clients.
package modes
