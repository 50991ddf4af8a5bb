package front

import "fmt"

// Kind says what the caller does about an Error.
type Kind uint8

const (
	// Malformed: the bytes are not what a front sends. Close the connection.
	Malformed Kind = iota + 1
	// Version: the front is of another version. Close the connection, and say
	// so: the person updated one side and must restart the other.
	Version
	// Broken: the connection ended within a message. The front has gone.
	Broken
)

func (k Kind) String() string {
	switch k {
	case Malformed:
		return "malformed"
	case Version:
		return "another version of shadowlsp"
	case Broken:
		return "connection broken"
	}
	return "failed"
}

// Error is what this package returns.
type Error struct {
	Op   string
	Kind Kind
	Err  error // may be nil
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %v", e.Op, e.Kind)
	}
	return fmt.Sprintf("%s: %v: %v", e.Op, e.Kind, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
