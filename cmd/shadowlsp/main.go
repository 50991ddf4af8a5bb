// Command shadowlsp stands where a language server's command stands.
//
// The question it answers: what did the user ask for? It reads flags and the
// environment, which nothing else in this program does, and hands them to the
// room that does the work: the front (lsp/front) for `shadowlsp -- SERVER`, the
// daemon (internal/workspace) for `serve`, the agent port for `connect`.
//
// Invariants: nothing is printed on stdout but what a command is asked to print:
// stdout is the wire of the front. A failure is one line on stderr that says what
// failed and what to do, and an exit code other than 0.
//
// Absent on purpose: decisions about branches, turns or folders.
//
// No locks; the goroutines belong to the rooms.
package main

import (
	"errors"
	"fmt"
	"os"

	"shadowlsp/internal/doctor"
	"shadowlsp/internal/sandbox"
)

func main() {
	sandbox.Enter() // does not return in a child that is to become a sandboxed program
	doctor.Look()   // nor this in the program by which doctor tries a view
	err := command().Execute()
	var exit exitCode
	switch {
	case err == nil:
	case errors.As(err, &exit):
		os.Exit(int(exit))
	default:
		fmt.Fprintf(os.Stderr, "shadowlsp: %v\n", err)
		os.Exit(1)
	}
}

// exitCode ends the process with a status and without a message.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
