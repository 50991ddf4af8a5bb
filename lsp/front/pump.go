package front

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// chunk is how much a pump reads at once: more than a pipe holds by default.
const chunk = 128 << 10

// pump copies one direction. Its buffer is the only place where bytes wait.
type pump struct {
	from, to *os.File
	tape     *tape
	nudge    func()
}

// run copies until the end of from (nil) or until one side fails (an error that
// names which). It may be called once.
func (p *pump) run() error {
	buf := make([]byte, chunk)
	for {
		n, err := p.from.Read(buf)
		if n > 0 {
			if err := p.pass(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case err == io.EOF:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return p.drain(buf)
		case errors.Is(err, syscall.EAGAIN):
			await(p.from, unix.POLLIN)
		default:
			return &readError{err}
		}
	}
}

// pass hands one chunk on. It is on tape before it is written, so that whatever
// it causes comes behind it there. The courier is woken afterwards: that may
// cost a system call, and the reader waits for the bytes only.
func (p *pump) pass(b []byte) error {
	p.tape.put(b)
	n, err := p.to.Write(b)
	for err != nil && errors.Is(err, syscall.EAGAIN) {
		await(p.to, unix.POLLOUT)
		b = b[n:]
		n, err = p.to.Write(b)
	}
	p.nudge()
	return err
}

// await waits until a file is ready that somebody who shares it (a terminal, for
// example) has made non-blocking after Go looked.
func await(f *os.File, events int16) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, -1)
	})
}

// drain passes on what is in the pipe already, and does not wait for more.
func (p *pump) drain(buf []byte) error {
	if err := p.from.SetReadDeadline(time.Time{}); err != nil {
		return &readError{err}
	}
	raw, err := p.from.SyscallConn()
	if err != nil {
		return &readError{err}
	}
	for {
		var n int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, failed = syscall.Read(int(fd), buf)
			return true // do not wait
		})
		switch {
		case failed == syscall.EINTR:
			continue
		case err != nil || failed != nil || n <= 0: // EAGAIN: nothing more is there
			return nil
		}
		if err := p.pass(buf[:n]); err != nil {
			return err
		}
	}
}

// readError says that it was the reading side that failed.
type readError struct{ err error }

func (e *readError) Error() string { return "reading: " + e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// vacate lets go of what f refers to while its number stays taken, so that the
// process at the other end sees us gone and nothing of ours gets that number.
func vacate(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		_ = f.Close() // out of descriptors, perhaps
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = syscall.Dup3(null, int(fd), syscall.O_CLOEXEC) })
	_ = syscall.Close(null)
}
