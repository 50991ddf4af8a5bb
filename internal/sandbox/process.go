package sandbox

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"shadowlsp/internal/parcel"
)

// enterArg is the hidden first argument by which our binary knows that it is
// an init. It cannot be meant by a person: no command is called so.
const enterArg = "\x01shadowlsp-init"

// initSocket is where the init finds its end of the leash.
const initSocket = 3

// Process is a program in its namespaces, from the mount on.
//
// All methods may be called from any goroutine.
type Process struct {
	// Fuse is the descriptor of the mount. Who serves it takes it over; Start's
	// caller closes it when nobody does.
	Fuse *os.File
	// FreshProc is empty when /proc inside shows only the namespace's own
	// processes, else it says why not.
	FreshProc string
	// Guard is what keeps the program from writing the person's folder, and
	// Unguarded why it is GuardNone; both are set when Exec has returned.
	Guard     Guard
	Unguarded string
	// Poker is the thread, in the program's pid namespace, that Poke wakes (see
	// fusefs.SetPoker); set when Exec has returned.
	Poker int

	// Terminal is the other side of the program's terminal, where Spec.Terminal
	// asks for one. Start's caller closes it.
	Terminal *os.File
	// Lacks is what was asked for and cannot be had, and what is lost by it; set
	// when Exec has returned.
	Lacks []string

	name   string
	noPID  bool // Spec.NoPIDNamespace
	inside bool // a keeper started it
	body   body
	conn   *net.UnixConn

	answers chan answer   // from the reader to Exec; capacity 1
	done    chan struct{} // closed when the init is collected

	mu     sync.Mutex // guards the fields below
	exited bool       // the program's own status has arrived
	status ExitStatus
	err    error
}

type answer struct {
	pid   int
	poker int
	guard Guard
	open  string
	lacks []string
	err   *Error
}

// body is the init's process, as its parent has it or a stranger.
type body interface {
	kill()
	// wait returns when it and all in its pid namespace have ended.
	wait() (syscall.WaitStatus, error)
	pid() int
}

type child struct{ cmd *exec.Cmd }

func (c child) kill()    { c.cmd.Process.Kill() }
func (c child) pid() int { return c.cmd.Process.Pid }

func (c child) wait() (syscall.WaitStatus, error) {
	err := c.cmd.Wait()
	return c.cmd.ProcessState.Sys().(syscall.WaitStatus), err
}

// NeedsUserNS reports whether the calling process must use Spec.UserNS because
// it may not mount by itself.
func NeedsUserNS() bool {
	var data [2]unix.CapUserData
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return os.Geteuid() != 0
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0
}

// Start makes the namespaces and the mount, and returns when both are there.
// The program itself is not started: see Exec. ctx bounds Start only.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := check(spec); err != nil {
		return nil, err
	}
	p, err := launchInit(spec, false)
	if err != nil {
		return nil, err
	}
	// A context that ends cuts the leash; the init exits and receive fails.
	stop := context.AfterFunc(ctx, func() { p.conn.Close() })
	err = p.ready(func(files []*os.File) bool {
		if len(files) > 0 {
			p.Fuse = files[0]
		}
		return (p.Fuse != nil) != spec.NoView
	})
	if !stop() {
		err = &Error{Op: "start", Name: p.name, Kind: Lost, Err: context.Cause(ctx)}
	}
	if err == nil {
		go p.read() // ends when the init does; Wait waits for it
		return p, nil
	}
	closeFile(p.Fuse)
	p.conn.Close()
	p.body.wait()
	return nil, err
}

// ready receives the init's word that the program's surroundings are there, and
// hands over what came with it.
func (p *Process) ready(take func([]*os.File) bool) error {
	var r report
	files, err := parcel.Receive(p.conn, &r)
	if err == nil && r.Mounted != nil {
		p.FreshProc, p.Lacks = r.Mounted.FreshProc, append(p.Lacks, r.Lacks...)
		if take(files) {
			return nil
		}
		err = errors.New("descriptors are missing")
	}
	parcel.Close(files)
	if r.Failed != nil {
		return r.Failed.err()
	}
	return &Error{Op: "start", Name: p.name, Kind: Lost, Err: err}
}

func check(spec Spec) error {
	switch {
	case len(spec.Argv) == 0 || spec.Argv[0] == "":
		return &Error{Op: "start", Kind: Invalid, Err: errors.New("no command given")}
	case !filepath.IsAbs(spec.Dir):
		return &Error{Op: "start", Name: spec.Dir, Kind: Invalid, Err: errors.New("the working directory is not an absolute path")}
	case !filepath.IsAbs(spec.Mount):
		return &Error{Op: "start", Name: spec.Mount, Kind: Invalid, Err: errors.New("the mount point is not an absolute path")}
	case spec.NoNamespaces && (!spec.NoView || !spec.NoPIDNamespace || spec.UserNS):
		return &Error{Op: "start", Kind: Invalid, Err: errors.New("a view or another namespace is asked for, and no namespaces")}
	}
	return nil
}

// cloneFlags are the namespaces of a spec.
func cloneFlags(spec Spec) uintptr {
	if spec.NoNamespaces {
		return 0
	}
	flags := uintptr(unix.CLONE_NEWNS)
	if spec.UserNS {
		flags |= unix.CLONE_NEWUSER
	}
	if !spec.NoPIDNamespace {
		flags |= unix.CLONE_NEWPID
	}
	if spec.keeper != nil {
		if !spec.keeper.SharedIPC {
			flags |= unix.CLONE_NEWIPC
		}
		if spec.keeper.Net != NetHost {
			flags |= unix.CLONE_NEWNET
		}
	}
	return flags
}

// initCaps are what an init without uid 0 keeps over its exec: mounting,
// dropping capabilities from the bounding set, bringing loopback up, and what an
// overlay does in the name of who mounted it (its work directory has mode 0). They
// reach the user's own files only.
var initCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER}

// launchInit starts the init and sends it its spec.
func launchInit(spec Spec, probe bool) (*Process, error) {
	conn, theirs, err := socketPair()
	if err != nil {
		return nil, &Error{Op: "socketpair", Kind: Namespace, Err: err}
	}
	defer theirs.Close()
	attr := &syscall.SysProcAttr{
		Cloneflags: cloneFlags(spec),
		// A session of its own: a terminal's signals go to the program by the
		// way the caller chooses, never to the init as well.
		Setsid: true,
	}
	if spec.UserNS {
		uid, gid := os.Geteuid(), os.Getegid()
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = initCaps
	}
	cmd := initCommand(theirs, attr)
	// A nil *os.File in an interface is not a nil interface.
	if spec.Stdin != nil {
		cmd.Stdin = spec.Stdin
	}
	if spec.Stdout != nil {
		cmd.Stdout = spec.Stdout
	}
	if spec.Stderr != nil {
		cmd.Stderr = spec.Stderr
	}
	if err := cmd.Start(); err != nil {
		conn.Close()
		var errno syscall.Errno
		if errors.As(err, &errno) {
			err = errno
		}
		return nil, &Error{Op: "clone", Kind: Namespace, Err: err}
	}
	p := &Process{
		noPID:   spec.NoPIDNamespace,
		body:    child{cmd},
		conn:    conn,
		answers: make(chan answer, 1),
		done:    make(chan struct{}),
	}
	if len(spec.Argv) > 0 {
		p.name = spec.Argv[0]
	}
	asked := spec.forInit()
	asked.Probe = probe
	if err := spec.Group.put(cmd.Process.Pid); err != nil {
		p.Lacks = append(p.Lacks, "its memory is not bounded ("+err.Error()+")")
	}
	if err = parcel.Send(conn, order{Spec: asked}); err != nil {
		conn.Close()
		cmd.Wait()
		return nil, &Error{Op: "start", Name: p.name, Kind: Lost, Err: err}
	}
	return p, nil
}

// forInit is the part of a spec that crosses the socket.
func (spec Spec) forInit() *initSpec {
	return &initSpec{
		Argv: spec.Argv, Env: spec.Env, Dir: spec.Dir, Mount: spec.Mount,
		UserNS: spec.UserNS, NoPIDNamespace: spec.NoPIDNamespace,
		NoView: spec.NoView, NoNamespaces: spec.NoNamespaces, Priority: spec.Priority,
		Keeper: spec.keeper, Confine: spec.Confine, Terminal: spec.Terminal, Umask: spec.Umask,
		Writable: spec.Writable,
	}
}

// initCommand runs this very binary as an init with the given leash.
func initCommand(leash *os.File, attr *syscall.SysProcAttr) *exec.Cmd {
	return &exec.Cmd{
		Path: "/proc/self/exe",
		Args: []string{"shadowlsp-init", enterArg},
		// Nothing of the caller's environment may steer the init (GODEBUG and
		// the like); GOMAXPROCS keeps its threads few. A test binary with the
		// race detector sleeps for a second before it exits unless told not to.
		Env:         []string{"GOMAXPROCS=2", "GORACE=atexit_sleep_ms=0"},
		Dir:         "/",
		ExtraFiles:  []*os.File{leash},
		SysProcAttr: attr,
	}
}

// read collects reports until the leash ends, then the init itself.
func (p *Process) read() {
	defer close(p.done)
	answered := false
	for {
		var r report
		files, err := parcel.Receive(p.conn, &r)
		parcel.Close(files)
		if err != nil {
			break
		}
		switch {
		case r.Started != 0:
			answered = true
			p.answers <- answer{pid: r.Started, poker: r.Poker, guard: r.Guard, open: r.Open, lacks: r.Lacks}
		case r.Failed != nil:
			if !answered {
				answered = true
				p.answers <- answer{err: r.Failed.err()}
			}
		case r.Exited != nil:
			p.mu.Lock()
			p.exited, p.status = true, exitStatus(syscall.WaitStatus(r.Exited.Status))
			p.mu.Unlock()
		}
	}
	ended, err := p.body.wait()
	if !answered {
		p.answers <- answer{err: &Error{Op: "exec", Name: p.name, Kind: Lost, Err: errors.New("its init ended first")}}
	}
	p.mu.Lock()
	if !p.exited {
		// Only the init's own end is known: killed, with all that it held.
		p.status = exitStatus(ended)
		p.err = &Error{Op: "wait", Name: p.name, Kind: Lost, Err: err}
	}
	p.mu.Unlock()
	p.conn.Close()
}

// Exec starts the program, and returns when it runs or cannot. The view must be
// served by now: the init looks the command up in it. Call it once. On an error
// the process is over.
func (p *Process) Exec() error {
	if err := parcel.Send(p.conn, order{Exec: true}); err != nil {
		p.Kill()
		return &Error{Op: "exec", Name: p.name, Kind: Lost, Err: err}
	}
	a := <-p.answers
	if a.err != nil {
		p.Kill()
		return a.err
	}
	p.Guard, p.Unguarded, p.Poker = a.guard, a.open, a.poker
	p.Lacks = append(p.Lacks, a.lacks...)
	return nil
}

// Poke wakes the poker. It does not wait for it. That the process is over is no
// matter.
func (p *Process) Poke() { parcel.Send(p.conn, order{Poke: true}) }

// Signal passes sig to the program (not to its children).
func (p *Process) Signal(sig syscall.Signal) error {
	return parcel.Send(p.conn, order{Signal: int(sig)})
}

// SignalGroup passes sig to the program's process group, as a terminal does.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	return parcel.Send(p.conn, order{Signal: int(sig), Group: true})
}

// Kill ends the program and everything it started. It does not wait.
func (p *Process) Kill() {
	if p.noPID {
		// Only the init can find what is to be ended with it.
		p.conn.Close()
		return
	}
	// Cutting the leash would do as well; the signal does not depend on the
	// init being scheduled.
	p.body.kill()
	p.conn.Close()
}

// Wait waits until the program has ended and everything it started is gone. The
// error says that the program's own status is not known, because its init was
// killed (by Kill, or for want of memory).
func (p *Process) Wait() (ExitStatus, error) {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.err
}

// Done is closed when Wait would return at once.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pid is the init's process id, as seen from here; /proc/PID/root is the
// program's view of the file system. 0 when it has ended.
func (p *Process) Pid() int { return p.body.pid() }
