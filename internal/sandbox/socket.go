package sandbox

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// order is what the daemon tells the init: the first message carries spec, the
// later ones one of the others.
type order struct {
	Spec   *initSpec
	Exec   bool
	Signal int
	Group  bool // the signal is for the program's process group
	Poke   bool // wake the poker
	Spawn  bool // to a keeper: start an init; carries its leash and three streams
	// Writable, with Spawn, are the paths of the trees that the init gets.
	Writable []string
}

// initSpec is the part of Spec that crosses the socket; descriptors are
// inherited.
type initSpec struct {
	Argv, Env      []string
	Dir, Mount     string
	UserNS         bool
	NoPIDNamespace bool
	NoView         bool
	NoNamespaces   bool
	Priority       Priority
	Probe          bool
	Keeper         *KeeperSpec // it keeps namespaces for others and runs nothing itself
	Inside         bool        // it is in a keeper's namespaces
	Confine        *Confine
	Terminal       *Terminal
	Umask          int
	Writable       []string
}

// report is what the init tells the daemon. Exactly one thing at a time.
type report struct {
	Mounted *mounted // carries the FUSE descriptor; inside: the init's own, and the terminal's
	Started int      // the program's pid in its namespace
	Poker   int      // with Started: the poker's thread there
	Guard   Guard    // with Started: what keeps the program from the folder
	Open    string   // with Started: why it is no better, or ""
	Lacks   []string // with Started, or Mounted of a keeper: what cannot be had, and what is lost
	Exited  *exited
	Failed  *failure
}

type mounted struct {
	FreshProc string // "" or why /proc is not fresh
}

type exited struct {
	Status uint32 // of the program, as wait(2) has it
}

// failure is an *Error on its way through the socket.
type failure struct {
	Op, Name string
	Kind     Kind
	Errno    int
	Text     string
}

func (f *failure) err() *Error {
	e := &Error{Op: f.Op, Name: f.Name, Kind: f.Kind}
	if f.Errno != 0 {
		e.Err = syscall.Errno(f.Errno)
	} else {
		e.Err = fmt.Errorf("%s", f.Text)
	}
	return e
}

func failureOf(e *Error) *failure {
	f := &failure{Op: e.Op, Name: e.Name, Kind: e.Kind}
	if errno, ok := e.Err.(syscall.Errno); ok {
		f.Errno = int(errno)
	} else if e.Err != nil {
		f.Text = e.Err.Error()
	}
	return f
}

func closeFile(f *os.File) {
	if f != nil {
		f.Close()
	}
}

// socketPair returns the two ends of the leash: the daemon's as a connection,
// the init's as a file to inherit.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "sandbox"), os.NewFile(uintptr(fds[1]), "sandbox-init")
	conn, err := unixConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// unixConn turns f into a connection and closes f.
func unixConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("descriptor is a %T, not a unix socket", c)
	}
	return u, nil
}
