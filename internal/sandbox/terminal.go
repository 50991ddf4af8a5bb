package sandbox

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Terminal asks for a terminal: a pair of which the program has one side, as its
// controlling terminal, and who runs it the other.
type Terminal struct {
	Rows, Columns uint16
	// Streams says which of stdin, stdout and stderr are the terminal; the others
	// are the Spec's.
	Streams [3]bool
}

// openTerminal makes the pair in the namespace's own directory of terminals, so
// that its name is right inside, and returns the other side.
func (in *initProcess) openTerminal() (master int, failed *Error) {
	fail := func(err error) (int, *Error) {
		return -1, &Error{Op: "open", Name: "/dev/ptmx", Kind: NotExecutable, Err: err}
	}
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		unix.Close(master)
		return fail(err)
	}
	t := in.spec.Terminal
	size := unix.Winsize{Row: t.Rows, Col: t.Columns}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCSWINSZ, uintptr(unsafe.Pointer(&size)))
	if errno == 0 {
		var slave uintptr
		slave, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		in.terminal = int(slave)
	}
	if errno != 0 {
		unix.Close(master)
		return fail(errno)
	}
	for i, is := range t.Streams {
		if is {
			in.fds[i] = in.terminal
		}
	}
	return master, nil
}
