package scheduler

import "fmt"

// Kind says why a request failed.
type Kind uint8

const (
	// Cancelled: who asked went away or cancelled. Answer RequestCancelled.
	Cancelled Kind = iota + 1
	// QueueFull: the branch has MaxQueued requests waiting. The one who asks
	// waits for answers before asking more.
	QueueFull
	// NoBranch: the branch is being dropped, or the name is empty.
	NoBranch
	// InstanceLost: the instance died or hung under the request, and again at
	// the second try. Asking the same again is likely to do the same.
	InstanceLost
	// SwitchRefused: the branch could not be shown, twice. Its content is at
	// fault more likely than the server.
	SwitchRefused
	// TimedOut: the request ran for RunLimit and did not end when cancelled.
	TimedOut
	// Unavailable: the server cannot be kept running. Asking again makes sense
	// once the back-off is over; until then the person has to look at the
	// server's own log.
	Unavailable
)

func (k Kind) String() string {
	switch k {
	case Cancelled:
		return "cancelled"
	case QueueFull:
		return "queue full"
	case NoBranch:
		return "no branch"
	case InstanceLost:
		return "instance lost"
	case SwitchRefused:
		return "switch failed"
	case TimedOut:
		return "timed out"
	case Unavailable:
		return "unavailable"
	}
	return "invalid"
}

// Error is why a request failed. It is this room's only error.
type Error struct {
	// Op is what was being done: submit, wait, switch or run.
	Op string
	// Branch is the branch of the request.
	Branch string
	// Instance is the one it ran on last, 0 if it never did.
	Instance InstanceID
	Kind     Kind
	// Err says more, and what to do next. It is never nil.
	Err error
}

func (e *Error) Error() string {
	where := ""
	if e.Instance != 0 {
		where = fmt.Sprintf(" on instance %d", e.Instance)
	}
	return fmt.Sprintf("scheduler: %s for branch %q%s: %s: %v", e.Op, e.Branch, where, e.Kind, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
