package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// launch starts the program, as the init's child, with the init's standard
// streams, and lets go of those. said has what is to be told of its guard.
func (in *initProcess) launch() (pid int, said report, failed *Error) {
	spec := in.spec
	prioritise(spec.Priority)
	if spec.Inside {
		syscall.Umask(spec.Umask)
	}
	// Until somebody asks, the kernel takes uid 0 for the owner of a FUSE root.
	// In a user namespace there is no uid 0, and nothing may be made in a
	// directory of an unknown owner.
	unix.Stat(spec.Mount, &unix.Stat_t{})
	tryKernel(spec.Mount)
	path, failed := lookUp(spec.Argv[0], spec.Dir, spec.Env)
	if failed != nil {
		return 0, said, failed
	}
	if failed := restrict(spec); failed != nil {
		return 0, said, failed
	}
	if spec.Confine != nil {
		unix.KeyctlJoinSessionKeyring("") // the person's holds keys; a kernel without keyrings has none
	}
	if said.Lacks, failed = in.confine(); failed != nil {
		return 0, said, failed
	}
	said.Guard, said.Open = in.guard()
	// From here the init's memory and descriptors are its own, whatever the
	// program's uid: it holds the leash. (Only now, because /proc/self belongs
	// to root after it.)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 0, said, &Error{Op: "set dumpable", Kind: Namespace, Err: err}
	}
	attr := &syscall.SysProcAttr{
		// A group of its own: kill(0, …) in the program must not reach the
		// init, which would pass it on to the program a second time.
		Setpgid: true,
	}
	if spec.NoPIDNamespace {
		// The kernel does not end it with the init. (The thread that this hangs
		// on is the init's first, which lives as long as the init.)
		attr.Pdeathsig = syscall.SIGKILL
	}
	if spec.Terminal != nil {
		attr.Setpgid, attr.Setsid, attr.Setctty = false, true, true
		attr.Ctty = slices.Index(in.fds, in.terminal)
	}
	attr.Ptrace = spec.Confine != nil && spec.Confine.limited()
	files := make([]uintptr, len(in.fds))
	for i, fd := range in.fds {
		files[i] = uintptr(fd)
	}
	how := &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: files, Sys: attr}
	pid, err := syscall.ForkExec(path, spec.Argv, how)
	if err == syscall.EPERM && attr.Ptrace && !spec.Confine.Strict {
		// A kernel that forbids tracing (Yama, a container's filter) forbids what
		// the limits need.
		attr.Ptrace = false
		if pid, err = syscall.ForkExec(path, spec.Argv, how); err == nil {
			said.Lacks = append(said.Lacks, "no limits of memory, processes and file size (this system forbids ptrace)")
		}
	}
	if err != nil {
		return 0, said, execError(spec.Argv[0], spec.Dir, err)
	}
	if attr.Ptrace {
		if failed := spec.Confine.limit(pid); failed != nil {
			return 0, said, failed // and the init ends, which ends the program
		}
	}
	if spec.Terminal != nil {
		unix.Close(in.terminal) // else the terminal would never hang up
	}
	// Whoever reads the program's output must see its end when the program
	// closes it.
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err == nil {
			unix.Dup3(null, fd, 0)
		} else {
			unix.Close(fd)
		}
	}
	return pid, said, nil
}

// lookUp finds the command as a shell in dir with this environment would.
func lookUp(name, dir string, env []string) (string, *Error) {
	if strings.Contains(name, "/") {
		return name, nil // execve says what is wrong with it, relative to dir
	}
	var path string
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v // the last one counts, as for exec.Cmd
		}
	}
	found := syscall.ENOENT
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = "."
		}
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		file := filepath.Join(d, name)
		var st unix.Stat_t
		if unix.Stat(file, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		}
		// Effective rights: those execve will ask for.
		if err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS); err != nil {
			found = syscall.EACCES
			continue
		}
		return file, nil
	}
	return "", execError(name, dir, found)
}

// execError says which of the two, command or directory, was at fault.
func execError(name, dir string, err error) *Error {
	var st unix.Stat_t
	if derr := unix.Stat(dir, &st); derr != nil {
		return &Error{Op: "change directory to", Name: dir, Kind: NotExecutable, Err: derr}
	} else if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &Error{Op: "change directory to", Name: dir, Kind: NotExecutable, Err: unix.ENOTDIR}
	}
	kind := NotExecutable
	if err == syscall.ENOENT {
		kind = NotFound
	}
	return &Error{Op: "exec", Name: name, Kind: kind, Err: err}
}

// killChildren ends what is left below a subreaper. Each round kills what can be
// seen and collects what is dead; children of the killed move up to us and are
// seen in the next. It never waits for a child: that one may have come since the
// round looked, and nobody would kill it. Only wait tells that none is left: /proc
// may leave children out of its list while others end (proc(5)). Bounded, because
// a fork bomb may outrun it.
func killChildren() {
	for end := time.Now().Add(killLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, pid := range childPids() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err == syscall.ECHILD {
				return
			}
			if err == nil && pid == 0 {
				break
			}
		}
	}
}

// killLimit bounds killChildren.
const killLimit = 10 * time.Second

// childPids lists the children of all threads of this process.
func childPids() []int {
	var pids []int
	threads, _ := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		text, _ := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		for _, f := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
