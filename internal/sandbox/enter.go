package sandbox

import (
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"shadowlsp/internal/parcel"
)

// Enter is the first statement of main, and of TestMain in tests that Start
// anything. In a process that Start made it becomes the init and never returns;
// else it does nothing.
func Enter() {
	if len(os.Args) != 2 || os.Args[1] != enterArg {
		return
	}
	// Capabilities, no_new_privs and priorities are a thread's own, and a child
	// has those of the thread that forked it. So one thread does it all. (Asking
	// for all threads at once is not possible in a binary with cgo, which the
	// race detector needs.)
	runtime.LockOSThread()
	unix.CloseOnExec(initSocket)
	conn, err := unixConn(os.NewFile(initSocket, "leash"))
	if err != nil {
		os.Exit(1)
	}
	var o order
	if _, err := parcel.Receive(conn, &o); err != nil || o.Spec == nil {
		os.Exit(1)
	}
	in := &initProcess{conn: conn, spec: o.Spec, fds: []int{0, 1, 2}}
	if o.Spec.Probe {
		in.probe()
		os.Exit(0)
	}
	in.run()
}

// initProcess is the init. It is a process by itself, so its goroutines need no
// owner: os.Exit ends them.
type initProcess struct {
	conn *net.UnixConn
	spec *initSpec
	// readOnly is why the folder could not be mounted read-only, or nil.
	readOnly error
	whole    int   // a keeper's: the root directory of everything as it was, or 0
	fewPids  error // why processes could not be limited, or nil
	// lacks are the abilities that were asked for and cannot be had.
	lacks []string
	poker *poker
	// fds become the program's streams; terminal is among them, where it has one.
	fds      []int
	terminal int

	mu  sync.Mutex // guards pid, and that it is not signalled once collected
	pid int        // the program, or 0
}

// run never returns.
func (in *initProcess) run() {
	orders := make(chan order)
	freshProc, give, failed := in.mount()
	if failed != nil {
		in.fail(failed)
	}
	err := parcel.Send(in.conn, report{Mounted: &mounted{FreshProc: freshProc}, Lacks: in.lacks}, give...)
	for _, fd := range give {
		unix.Close(fd)
	}
	if err != nil {
		in.exit(1)
	}
	in.poker = newPoker()
	go in.obey(orders)
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, forwarded...)

	<-orders // Exec; a leash that ends instead ends us
	if in.spec.Keeper != nil {
		in.keep(freshProc == "")
	}
	pid, said, failed := in.launch()
	if failed != nil {
		in.fail(failed)
	}
	if !in.spec.Inside {
		in.poker.fresh = freshProc == ""
		go in.poker.run(in.spec.Mount)
		said.Poker = <-in.poker.thread
	}
	in.mu.Lock()
	in.pid = pid
	in.mu.Unlock()
	go in.forward(signals)
	said.Started = pid
	if err := parcel.Send(in.conn, said); err != nil {
		in.exit(1)
	}
	in.reap(pid)
}

// forwarded are the signals that someone may send to the init and mean the
// program. SIGKILL and SIGSTOP cannot be caught; SIGURG is the Go scheduler's.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH,
}

func (in *initProcess) forward(signals <-chan os.Signal) {
	for s := range signals {
		in.kill(s.(syscall.Signal), false)
	}
}

func (in *initProcess) kill(sig syscall.Signal, group bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.pid == 0:
	case group:
		syscall.Kill(-in.pid, sig) // launch made it the leader of one
	default:
		syscall.Kill(in.pid, sig)
	}
}

// obey reads orders until the leash ends, and then ends everything.
func (in *initProcess) obey(orders chan<- order) {
	for {
		var o order
		files, err := parcel.Receive(in.conn, &o)
		if err != nil {
			in.exit(1)
		}
		switch {
		case o.Spawn:
			in.spawn(files, o.Writable)
		case o.Exec:
			orders <- o
		case o.Poke:
			in.poker.wakeUp()
		case o.Signal != 0:
			in.kill(syscall.Signal(o.Signal), o.Group)
		}
	}
}

// reap collects every child, orphans of the namespace included, until the
// program itself has ended.
func (in *initProcess) reap(pid int) {
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(-1, &ws, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			in.exit(1) // no children left, yet the program was not among them
		}
		if got != pid {
			continue
		}
		in.mu.Lock()
		in.pid = 0
		in.mu.Unlock()
		parcel.Send(in.conn, report{Exited: &exited{Status: uint32(ws)}})
		in.exit(0)
	}
}

// fail reports why there will be no program, and exits.
func (in *initProcess) fail(e *Error) {
	parcel.Send(in.conn, report{Failed: failureOf(e)})
	in.exit(1)
}

// exit ends the init and with it everything it started: by the kernel where
// there is a pid namespace, else one by one.
func (in *initProcess) exit(code int) {
	if in.spec.NoPIDNamespace {
		killChildren()
	}
	os.Exit(code)
}
