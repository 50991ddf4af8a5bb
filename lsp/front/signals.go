package front

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// passed are the signals that are passed on to the server.
var passed = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGWINCH,
}

// signals passes signals on to the server until it has ended. It is one
// goroutine, from passSignals to stop.
type signals struct {
	in      chan os.Signal
	pipe    chan os.Signal // SIGPIPE, which must never be our death
	stopped chan struct{}
	asked   atomic.Bool // a signal that usually ends a server was passed on
}

// catchSignals begins to hold signals back for passSignals, so that none that
// comes while the server starts is lost.
func catchSignals() *signals {
	s := &signals{in: make(chan os.Signal, 64), pipe: make(chan os.Signal, 1), stopped: make(chan struct{})}
	for _, sig := range passed {
		// What our parent ignores (nohup) the server ignores as well, if we
		// leave it alone.
		if !signal.Ignored(sig) {
			signal.Notify(s.in, sig)
		}
	}
	// Go would die of a write to a closed stdout. Caught, not ignored: ignored
	// signals are inherited by the server.
	signal.Notify(s.pipe, syscall.SIGPIPE)
	return s
}

// passSignals sends what is caught to pid.
//
// The server is in our process group, so that what is sent to the group (by a
// terminal, or by an editor that ends all its children) reaches it also when we
// are hung or dead. So a terminal's keys reach it without us, and are not passed
// on: a second SIGINT means "at once" to many programs. A signal to the group by
// kill(2) cannot be told from one to us alone, and arrives twice; the kernel
// merges the two where the server has not taken the first yet.
func (s *signals) passSignals(pid int) {
	go func() {
		defer close(s.stopped)
		for sig := range s.in {
			number, ok := sig.(syscall.Signal)
			if ok && !fromTerminal(number) {
				_ = syscall.Kill(pid, number)
				if number != syscall.SIGCONT && number != syscall.SIGWINCH {
					s.asked.Store(true)
				}
			}
		}
	}()
}

// stop ends the passing on, and gives the signals their usual effect on us. The
// server must have ended, and its pid must still be its own.
func (s *signals) stop() {
	signal.Stop(s.in)
	for _, sig := range passed {
		if !signal.Ignored(sig) {
			_ = defaultAction(sig.(syscall.Signal))
		}
	}
	close(s.in)
	<-s.stopped
}

// fromTerminal says whether a signal must be taken as coming from the terminal,
// which sends it to its whole foreground process group.
func fromTerminal(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH:
	default:
		return false
	}
	tty, err := syscall.Open("/dev/tty", syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return false // no controlling terminal
	}
	defer syscall.Close(tty)
	foreground, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && foreground == syscall.Getpgrp()
}

// DieBy is for whoever runs a program in its own place: see dieBy. It returns if
// sig is no death here.
func DieBy(sig syscall.Signal) {
	dieBy(sig)
	time.Sleep(time.Second) // the signal is on its way
}

// dieBy ends this process by sig, so that our parent sees what the server's
// would have seen. It returns if that is not possible.
func dieBy(sig syscall.Signal) {
	// No core of ours beside the server's. The limit does not hold where cores
	// go to a program; not being dumpable does.
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if sig != syscall.SIGKILL && defaultAction(sig) != nil {
		return
	}
	_ = syscall.Kill(syscall.Getpid(), sig)
}

// defaultAction sets a signal's action to the default, behind Go's back: with
// signal.Reset Go still prints its stacks on SIGQUIT and SIGABRT and exits, and
// takes a SIGSEGV for its own.
func defaultAction(sig syscall.Signal) error {
	var action struct { // the kernel's struct sigaction; all zero is SIG_DFL
		handler, flags, restorer uintptr
		mask                     uint64
	}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action.mask), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
