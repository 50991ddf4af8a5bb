package sandbox

import (
	"fmt"
	"os"
	"syscall"
)

// Spec says what to run and with what around it. It is complete: nothing is
// taken from the caller's own environment or working directory.
type Spec struct {
	// Argv is the command. Argv[0] without a slash is looked up in Env's PATH,
	// inside the view; relative names are relative to Dir.
	Argv []string
	Env  []string
	// Dir is the working directory, absolute, as seen inside.
	Dir string
	// Mount is the directory that the view is mounted over: the root's real
	// path, absolute and without symbolic links.
	Mount string

	// Stdin, Stdout and Stderr are the program's; nil is /dev/null. The caller
	// closes its own copies after Start.
	Stdin, Stdout, Stderr *os.File

	// UserNS runs the program in a user namespace in which the caller's own ids
	// are the only ones. NeedsUserNS says whether there is another way.
	UserNS bool
	// NoPIDNamespace is the lesser mode for kernels that refuse one.
	NoPIDNamespace bool
	// NoView mounts nothing over Mount: the program sees what is there, and is
	// kept from writing it as far as the machine can; Process.Guard says how.
	NoView bool
	// NoNamespaces makes none at all, for kernels that refuse them all; only
	// with NoView and NoPIDNamespace, and without UserNS.
	NoNamespaces bool

	Priority Priority
	// Group is a control group for the program and all around it; nil is the
	// caller's own.
	Group *Group

	// The fields below are for programs that a Keeper starts.

	// Confine bounds what the program may do; nil: nothing does.
	Confine *Confine
	// Terminal gives the program a terminal of its own; nil: none.
	Terminal *Terminal
	Umask    int
	// Writable are files and directories outside, real paths, that are to be the
	// person's own and writable; Confine.Write must have them too.
	Writable []string

	keeper *KeeperSpec
}

// ExitStatus is how the program ended.
type ExitStatus struct {
	// Code is the exit code, or -1 when a signal ended it.
	Code int
	// Signal is the signal that ended it, or 0.
	Signal syscall.Signal
}

func (s ExitStatus) String() string {
	if s.Signal != 0 {
		return "signal: " + s.Signal.String()
	}
	return fmt.Sprintf("exit status %d", s.Code)
}

func exitStatus(ws syscall.WaitStatus) ExitStatus {
	if ws.Signaled() {
		return ExitStatus{Code: -1, Signal: ws.Signal()}
	}
	return ExitStatus{Code: ws.ExitStatus()}
}

// Kind says what a caller can do about an error.
type Kind int

const (
	// Invalid: the Spec cannot be run anywhere. Correct it.
	Invalid Kind = iota + 1
	// Namespace: the kernel refuses the namespaces. Probe says which and why; a
	// lesser mode is left.
	Namespace
	// Mount: the namespaces are there, the FUSE mount is not.
	Mount
	// NotFound: there is no such program (a shell says 127).
	NotFound
	// NotExecutable: it is there and cannot be run (a shell says 126).
	NotExecutable
	// Lost: the init ended before it could answer. Try again, or give up.
	Lost
)

func (k Kind) String() string {
	switch k {
	case Invalid:
		return "invalid"
	case Namespace:
		return "namespace"
	case Mount:
		return "mount"
	case NotFound:
		return "not found"
	case NotExecutable:
		return "not executable"
	case Lost:
		return "lost"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Error is every error of this package.
type Error struct {
	Op   string // what was tried: "clone", "mount", "exec", …
	Name string // the path or command that it was tried with, or ""
	Kind Kind
	Err  error
}

func (e *Error) Error() string {
	s := "sandbox: " + e.Op
	if e.Name != "" {
		s += " " + e.Name
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }
