package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"shadowlsp/internal/parcel"
)

// Net is what of the network a keeper's programs have.
type Net string

const (
	// NetPrivate: loopback of their own, which nobody else can reach, and nothing
	// beyond it.
	NetPrivate Net = "private"
	// NetNone: nothing at all.
	NetNone Net = "none"
	// NetHost: what the person has.
	NetHost Net = "host"
)

// KeeperSpec says what surrounds the programs that a keeper starts.
type KeeperSpec struct {
	// Mount is the directory that the view is mounted over, as in Spec.
	Mount          string
	UserNS         bool
	NoPIDNamespace bool
	Net            Net
	SharedIPC      bool // System V IPC is not the keeper's own
	// Hide are directories that look empty inside, and sockets that lead nowhere;
	// what does not exist is no matter.
	Hide []string
	// Keep stays visible, at its path, below what is hidden. It is read-only
	// unless Writable says so.
	Keep []Kept
	// Home is the person's home, a real path: what programs write there goes to
	// memory. "" leaves it read-only.
	Home string
	// Layered are caches of the person's with the branch's own changes over them.
	Layered []Layered
	// Strict makes an error of each thing that is lacking.
	Strict bool
}

// Kept is one file or directory that stays.
type Kept struct {
	Path     string
	Writable bool
}

// Layered is a directory at Path that shows Lower, and takes every change into
// Upper; Work is an empty directory beside Upper. All are absolute and there.
type Layered struct{ Path, Lower, Upper, Work string }

const noNetwork = "no network of its own: commands reach what you reach, and two branches cannot use one port"

// Keeper is a set of namespaces with a view in it and no program: it stays while
// programs come and go. Each of those is in a pid and mount namespace below the
// keeper's, and shares with the others the view, the network, /tmp, and System V
// IPC. When the keeper ends they all do.
//
// The embedded Process is the keeper's own: Fuse is to be served, then Serving
// to be called.
type Keeper struct {
	*Process
	spec KeeperSpec

	spawning sync.Mutex // one order on the leash at a time
}

// StartKeeper makes the namespaces, what is in them, and the mount. ctx bounds
// the call only.
func StartKeeper(ctx context.Context, spec KeeperSpec) (*Keeper, error) {
	if !filepath.IsAbs(spec.Mount) {
		return nil, &Error{Op: "start", Name: spec.Mount, Kind: Invalid, Err: errors.New("the mount point is not an absolute path")}
	}
	wanted := spec
	start := func() (*Process, error) {
		return Start(ctx, Spec{
			Argv: []string{"keeper"}, Dir: "/", Mount: spec.Mount,
			UserNS: spec.UserNS, NoPIDNamespace: spec.NoPIDNamespace, keeper: &spec,
		})
	}
	p, err := start()
	for _, less := range []struct {
		do   func()
		lost string
	}{
		{func() { spec.SharedIPC = true }, "System V IPC is the person's and every branch's"},
		{func() { spec.SharedIPC, spec.Net = wanted.SharedIPC, NetHost }, noNetwork},
		{func() { spec.SharedIPC = true }, noNetwork + "; System V IPC is the person's and every branch's"},
	} {
		var refused *Error
		if !errors.As(err, &refused) || refused.Op != "clone" || spec.Strict {
			break
		}
		why := refused.Err
		less.do()
		if p, err = start(); err == nil {
			p.Lacks = append(p.Lacks, fmt.Sprintf("%s (%v)", less.lost, why))
		}
	}
	if err != nil {
		return nil, err
	}
	return &Keeper{Process: p, spec: spec}, nil
}

// Serving tells the keeper that its view is served. Call it once.
func (k *Keeper) Serving() error { return k.Exec() }

// Start makes a program's namespaces inside; Exec of what it returns starts it.
// Mount, UserNS and NoPIDNamespace are the keeper's. The caller closes its
// copies of the streams after Start.
func (k *Keeper) Start(ctx context.Context, spec Spec) (*Process, error) {
	spec.Mount, spec.UserNS, spec.NoPIDNamespace = k.spec.Mount, k.spec.UserNS, k.spec.NoPIDNamespace
	if err := check(spec); err != nil {
		return nil, err
	}
	conn, theirs, err := socketPair()
	if err != nil {
		return nil, &Error{Op: "socketpair", Kind: Namespace, Err: err}
	}
	p := &Process{
		name: spec.Argv[0], noPID: spec.NoPIDNamespace, inside: true,
		conn: conn, answers: make(chan answer, 1), done: make(chan struct{}),
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = k.spawn(theirs, spec)
	theirs.Close()
	if err == nil {
		asked := spec.forInit()
		asked.Inside = true
		err = parcel.Send(conn, order{Spec: asked})
	}
	// A leash that is broken already may still hold the reason.
	if failed := p.ready(func(files []*os.File) bool {
		if len(files) == 0 {
			return false
		}
		p.body = stranger{files[0]}
		if len(files) > 1 {
			p.Terminal = files[1]
		}
		return true
	}); failed != nil {
		err = failed
	}
	if !stop() {
		err = &Error{Op: "start", Name: p.name, Kind: Lost, Err: context.Cause(ctx)}
	}
	if err == nil {
		go p.read() // ends when the init does; Wait waits for it
		return p, nil
	}
	conn.Close()
	if p.body != nil {
		p.body.wait()
	}
	closeFile(p.Terminal)
	return nil, err
}

// spawn orders an init with the given leash and spec's streams.
func (k *Keeper) spawn(leash *os.File, spec Spec) error {
	files := []*os.File{leash, spec.Stdin, spec.Stdout, spec.Stderr}
	fds := make([]int, len(files))
	var null *os.File
	for i, f := range files {
		if f == nil {
			if null == nil {
				var err error
				if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
					return &Error{Op: "open", Name: os.DevNull, Kind: NotExecutable, Err: err}
				}
				defer null.Close()
			}
			f = null
		}
		fds[i] = int(f.Fd())
	}
	k.spawning.Lock()
	defer k.spawning.Unlock()
	if err := parcel.Send(k.conn, order{Spawn: true, Writable: spec.Writable}, fds...); err != nil {
		return &Error{Op: "start", Name: spec.Argv[0], Kind: Lost, Err: fmt.Errorf("the keeper has ended: %w", err)}
	}
	return nil
}

// stranger is a process that is not our child, by its pidfd.
type stranger struct{ fd *os.File }

// with calls f with the descriptor, unless wait has closed it.
func (s stranger) with(f func(fd int)) {
	if raw, err := s.fd.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // closed: it has ended
	}
}

func (s stranger) kill() { s.with(func(fd int) { unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }) }

func (s stranger) wait() (syscall.WaitStatus, error) {
	defer s.fd.Close()
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd.Fd()), Events: unix.POLLIN}}, -1)
		if err == nil {
			// Its status is its parent's to know; it was killed, else it would
			// have told the program's.
			return syscall.WaitStatus(syscall.SIGKILL), errors.New("killed")
		}
		if err != unix.EINTR {
			return 0, err
		}
	}
}

func (s stranger) pid() (pid int) {
	s.with(func(fd int) {
		text, err := os.Open("/proc/self/fdinfo/" + strconv.Itoa(fd))
		if err != nil {
			return
		}
		defer text.Close()
		for lines := bufio.NewScanner(text); lines.Scan(); {
			if number, ok := strings.CutPrefix(lines.Text(), "Pid:"); ok {
				pid, _ = strconv.Atoi(strings.TrimSpace(number))
			}
		}
	})
	return max(pid, 0)
}

// keep is the life of a keeper after its view is served. It never returns.
func (in *initProcess) keep(fresh bool) {
	in.poker.fresh = fresh
	go in.poker.run(in.spec.Mount)
	unix.Stat(in.spec.Mount, &unix.Stat_t{}) // see launch
	tryKernel(in.spec.Mount)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		in.fail(&Error{Op: "set dumpable", Kind: Namespace, Err: err})
	}
	if err := parcel.Send(in.conn, report{Started: os.Getpid(), Poker: <-in.poker.thread}); err != nil {
		in.exit(1)
	}
	select {} // obey goes on
}

// firstTree is the descriptor of the first of the trees that an init gets, behind
// its leash.
const firstTree = initSocket + 1

// spawn starts an init inside, for a leash and three streams.
func (in *initProcess) spawn(files []*os.File, writable []string) {
	defer parcel.Close(files)
	if len(files) != parcel.MaxFiles {
		return
	}
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Setsid: true}
	if !in.spec.NoPIDNamespace {
		attr.Cloneflags |= unix.CLONE_NEWPID
	}
	if in.spec.UserNS {
		attr.AmbientCaps = initCaps
	}
	cmd := initCommand(files[0], attr)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[1], files[2], files[3]
	for _, path := range writable {
		fd, err := unix.OpenTree(in.whole, strings.TrimPrefix(path, "/"), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			cmd.ExtraFiles = append(cmd.ExtraFiles, files[1]) // which cannot be mounted: the init says so
			continue
		}
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	if err := cmd.Start(); err != nil {
		failed := &Error{Op: "clone", Kind: Namespace, Err: err}
		var errno syscall.Errno
		if errors.As(err, &errno) {
			failed.Err = errno
		}
		if conn, err := unixConn(files[0]); err == nil {
			parcel.Send(conn, report{Failed: failureOf(failed)})
			conn.Close()
		}
		return
	}
	go cmd.Wait() // ends with the init
}
