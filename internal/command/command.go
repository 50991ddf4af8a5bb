package command

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"shadowlsp/internal/sandbox"
)

// Command says what to run and how.
type Command struct {
	Argv []string
	Env  []string
	// Dir is the working directory, absolute.
	Dir   string
	Umask int
	Net   sandbox.Net // "" is NetPrivate
	// Write are files and directories that the command may change besides the
	// folder; they must exist.
	Write []string
	// Timeout ends the command after that time; 0 is none.
	Timeout time.Duration
	// Strict refuses what the machine cannot hold to.
	Strict bool
	Limits Limits
	// Terminal gives the command a terminal; nil: none.
	Terminal *sandbox.Terminal
}

// Limits bound a command. 0 is the default, negative is no limit.
type Limits struct {
	// Memory bounds the address space of each process, FileSize each file, in
	// bytes. By default there is no limit.
	Memory, FileSize int64
	// Processes bounds how many run at once, threads counted; by default
	// [DefaultProcesses].
	Processes int64
}

// DefaultProcesses is far above what builds and test suites start, and far below
// what a machine falls over of.
const DefaultProcesses = 8192

// limit makes of a Limits' number the sandbox's.
func limit(value, otherwise int64) uint64 {
	switch {
	case value < 0:
		return 0
	case value == 0:
		return uint64(otherwise)
	}
	return uint64(value)
}

// Exit is how a command ended.
type Exit struct {
	// Code is its exit code, or -1 where a signal ended it.
	Code   int
	Signal syscall.Signal
	// TimedOut: it was ended because its time was over; Killed: because nobody
	// waits for it any more, or its branch went.
	TimedOut, Killed bool
}

// Kind says what a caller can do about an error.
type Kind int

const (
	// Invalid: the command cannot be run like that. Correct it.
	Invalid Kind = iota + 1
	// Unable: this machine, or this mode of the daemon, cannot run commands so.
	Unable
	// NotFound: there is no such program (a shell says 127).
	NotFound
	// NotExecutable: it is there and cannot be run (a shell says 126).
	NotExecutable
	// Ended: the daemon or the branch ends. Try again.
	Ended
)

// Status is the exit code of a caller that could not run its command, as shells
// and docker have them.
func (k Kind) Status() int {
	switch k {
	case NotFound:
		return 127
	case NotExecutable:
		return 126
	}
	return 125
}

// Error is every error of this package.
type Error struct {
	Op   string // what was tried
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func fail(op string, kind Kind, format string, args ...any) *Error {
	return &Error{Op: op, Kind: kind, Err: fmt.Errorf(format, args...)}
}

// asError gives an error of the sandbox its kind here.
func asError(op string, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	kind := Unable
	var e *sandbox.Error
	if errors.As(err, &e) {
		switch e.Kind {
		case sandbox.Invalid:
			kind = Invalid
		case sandbox.NotFound:
			kind = NotFound
		case sandbox.NotExecutable:
			kind = NotExecutable
		case sandbox.Lost:
			kind = Ended
		}
		if kind == NotFound || kind == NotExecutable {
			return &Error{Op: e.Name, Kind: kind, Err: e.Err}
		}
	}
	return &Error{Op: op, Kind: kind, Err: err}
}
