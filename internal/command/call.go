package command

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"shadowlsp/internal/parcel"
	"shadowlsp/internal/sandbox"
)

// passed are the signals that the caller passes on to its command.
var passed = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGALRM, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGWINCH,
}

// Call has the daemon at the other end of c run a command with this process's
// streams, and returns how it ended. Where stdin and stdout are terminals, the
// command gets one of its own, joined to them. begun is told when it runs. Call
// takes over the process's signals.
func Call(c *net.UnixConn, r Request, in, out, err *os.File, begun func(Event)) (Exit, error) {
	const op = "running a command"
	lost := func(err error) (Exit, error) {
		return Exit{}, fail(op, Ended, "the daemon has ended, and the command with it: %w", err)
	}
	signals := make(chan os.Signal, 64)
	for _, s := range passed {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	if term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) {
		columns, rows, _ := term.GetSize(int(out.Fd())) // 0 by 0 is what is not known
		r.Terminal = &sandbox.Terminal{
			Rows: uint16(rows), Columns: uint16(columns),
			Streams: [3]bool{true, true, term.IsTerminal(int(err.Fd()))},
		}
	}
	if err := parcel.Send(c, r, int(in.Fd()), int(out.Fd()), int(err.Fd())); err != nil {
		return lost(err)
	}
	var e Event
	files, failed := parcel.Receive(c, &e)
	defer parcel.Close(files)
	switch {
	case failed != nil:
		return lost(failed)
	case e.Failed != nil:
		return Exit{}, &Error{Op: "shadowlsp exec", Kind: e.Failed.Kind, Err: errors.New(e.Failed.Text)}
	}
	begun(e)
	var joined *joint
	if len(files) > 0 {
		var err error
		if joined, err = join(files[0], in, out); err != nil {
			return Exit{}, fail(op, Unable, "using the terminal: %w", err)
		}
		defer joined.part()
	}
	ended := make(chan error, 1)
	go func() { // ends with the connection
		files, err := parcel.Receive(c, &e)
		parcel.Close(files)
		ended <- err
	}()
	for {
		select {
		case s := <-signals:
			if err := pass(c, joined, s.(syscall.Signal)); err != nil {
				return lost(err)
			}
		case err := <-ended:
			if err != nil || e.Exit == nil {
				return lost(fmt.Errorf("no word of its end: %w", err))
			}
			if joined != nil {
				<-joined.read // what the command wrote last
			}
			return *e.Exit, nil
		}
	}
}

// pass passes one signal on.
func pass(c *net.UnixConn, joined *joint, s syscall.Signal) error {
	if s == syscall.SIGWINCH && joined != nil {
		joined.resize() // the kernel tells the command
		return nil
	}
	// Keys of a terminal are for all of its foreground processes. With a terminal
	// of its own the command gets the keys themselves.
	group := s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGTSTP || s == syscall.SIGCONT || s == syscall.SIGHUP
	if err := parcel.Send(c, Order{Signal: int(s), Group: group}); err != nil {
		return err
	}
	if s == syscall.SIGTSTP {
		return syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) // and SIGCONT goes on
	}
	return nil
}

// joint joins the person's terminal to the command's.
type joint struct {
	theirs, out *os.File
	in          int
	before      *term.State
	read        chan struct{} // closed when all that the command wrote is on the terminal
}

func join(theirs, in, out *os.File) (*joint, error) {
	j := &joint{theirs: theirs, out: out, in: int(in.Fd()), read: make(chan struct{})}
	var err error
	if j.before, err = term.MakeRaw(j.in); err != nil {
		return nil, err
	}
	j.resize()  // it may have changed meanwhile
	go func() { // ends when the command's side is closed
		defer close(j.read)
		_, _ = io.Copy(out, theirs) // EIO is the end of a terminal
	}()
	go func() { _, _ = io.Copy(theirs, in) }() // ends with the process
	return j, nil
}

func (j *joint) resize() {
	if size, err := unix.IoctlGetWinsize(int(j.out.Fd()), unix.TIOCGWINSZ); err == nil {
		_ = unix.IoctlSetWinsize(int(j.theirs.Fd()), unix.TIOCSWINSZ, size)
	}
}

func (j *joint) part() { _ = term.Restore(j.in, j.before) }
