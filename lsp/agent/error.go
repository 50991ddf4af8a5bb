package agent

import (
	"fmt"
)

// Kind says what the caller does about an [*Error].
type Kind uint8

const (
	// KindClosed: the connection has ended; nothing to do.
	KindClosed Kind = iota + 1
	// KindRefused: the peer may not talk to us (no LSP framing, no initialize in
	// time, wrong token). Log it.
	KindRefused
	// KindLimit: the peer went over a limit that ends a connection. Log it.
	KindLimit
	// KindAddress: the address is malformed, in use, or not allowed. Tell the
	// person who gave it.
	KindAddress
	// KindIO: the transport failed. The agent may connect again.
	KindIO
	// KindBackend: the backend broke its contract or panicked. A bug; log it.
	KindBackend
)

func (k Kind) String() string {
	switch k {
	case KindClosed:
		return "closed"
	case KindRefused:
		return "refused"
	case KindLimit:
		return "over a limit"
	case KindAddress:
		return "address"
	case KindIO:
		return "transport"
	case KindBackend:
		return "backend"
	}
	return "invalid"
}

// Error is what this package returns.
type Error struct {
	Op   string // what was tried: "listen", "handshake", "read", …
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("agent: %s: %v", e.Op, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// fail makes an Error with a formatted reason, which %w may wrap.
func fail(op string, kind Kind, format string, args ...any) *Error {
	return &Error{Op: op, Kind: kind, Err: fmt.Errorf(format, args...)}
}
