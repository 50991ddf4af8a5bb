package barrier

import (
	"errors"
	"fmt"
)

// Kind says what the caller can do about an Error.
type Kind uint8

const (
	// Partial: not proven in time. Ask again, or give it longer.
	Partial Kind = iota + 1
	// Unsupported: the server gives no signal that could prove it. Asking
	// again does not help.
	Unsupported
	// LoadFailed: the server could not load the workspace and says nothing
	// else about it. Repair what the error names.
	LoadFailed
	// Desync: the server has refused a modification, so its documents are not
	// ours any more. Start another instance.
	Desync
	// Gone: the instance has ended. Start another one.
	Gone
)

func (k Kind) String() string {
	switch k {
	case Partial:
		return "partial"
	case Unsupported:
		return "unsupported"
	case LoadFailed:
		return "load failed"
	case Desync:
		return "out of step"
	case Gone:
		return "ended"
	}
	return "invalid"
}

// Error is what this package returns.
type Error struct {
	Op     string // "ready", "settle", "final" or "idle"
	Server string // the profile's name
	Kind   Kind
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v: %v", e.Server, e.Op, e.Kind, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Verdict is the word for agents: "unsupported", else "partial".
func (e *Error) Verdict() string {
	if e.Kind == Unsupported {
		return "unsupported"
	}
	return "partial"
}

// kinded gives err a Kind, for wrap to find.
func kinded(k Kind, err error) error { return &Error{Kind: k, Err: err} }

// wrap makes an Error of what went wrong in op. Without a Kind of its own, what
// did not happen in time is Partial.
func wrap(server, op string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Server: server, Kind: Partial, Err: err}
	if k := (*Error)(nil); errors.As(err, &k) {
		e.Kind, e.Err = k.Kind, k.Err
	} else if errors.Is(err, errGone) {
		e.Kind = Gone
	}
	return e
}
