package shadow

import "fmt"

// Kind says what the caller can do about an Error.
type Kind uint8

const (
	// Exited: the server has ended or closed its end. Start another one.
	Exited Kind = iota + 1
	// Refused: the server answered initialize with an error. Its text says
	// why; starting it again in the same way will not help.
	Refused
	// Stalled: the server does not read what it is sent. Kill it, start another.
	Stalled
	// Malformed: what was given, or what came, is not what LSP says. The call
	// is at fault if it came from there, else the server: start another.
	Malformed
	// Superseded: documents were modified while diagnostics were awaited.
	// Ask again.
	Superseded
	// NotReady: not done in time. Try again later, or give it longer.
	NotReady
	// Closed: Close was called.
	Closed
)

func (k Kind) String() string {
	switch k {
	case Exited:
		return "the server has ended"
	case Refused:
		return "the server refused"
	case Stalled:
		return "the server does not read"
	case Malformed:
		return "malformed"
	case Superseded:
		return "modified meanwhile"
	case NotReady:
		return "not in time"
	case Closed:
		return "closed"
	}
	return "invalid"
}

// Error is what this package returns, besides a *barrier.Error where a barrier
// says why something is not proven.
type Error struct {
	Op       string // "start", "sync", "forward", "call", "notify", "diagnose"
	Instance string
	Kind     Kind
	Err      error // may be nil
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s %s: %v", e.Instance, e.Op, e.Kind)
	}
	return fmt.Sprintf("%s %s: %v: %v", e.Instance, e.Op, e.Kind, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
