package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confine bounds what a keeper's program may do.
type Confine struct {
	// Write are the files and directories that it may change besides the view and
	// the temporary directories.
	Write []string
	// SharedNet: its network is the person's.
	SharedNet bool
	// Strict makes an error of each thing that is lacking.
	Strict bool
	// Memory bounds the address space of each process, and FileSize each file, in
	// bytes; Processes how many there may be. 0 is no limit.
	Memory, FileSize uint64
	// Processes are counted for all programs of the keeper together where they are
	// an ordinary user's, else for the one program.
	Processes uint64
}

func (c *Confine) limited() bool { return c.Memory|c.FileSize|c.Processes != 0 }

// limit bounds a process that has stopped at its first instruction, and lets it
// go. (The init itself must keep room to breathe, and could not take a limit
// back.)
func (c *Confine) limit(pid int) *Error {
	fail := func(op string, err error) *Error { return &Error{Op: op, Kind: NotExecutable, Err: err} }
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err == nil {
			break
		} else if err != syscall.EINTR {
			return fail("wait for the limits", err)
		}
	}
	if !ws.Stopped() {
		return fail("set limits", fmt.Errorf("the program did not stop for them (%v)", exitStatus(ws)))
	}
	for _, l := range []struct {
		name     string
		resource int
		value    uint64
	}{
		{"memory", unix.RLIMIT_AS, c.Memory},
		{"file size", unix.RLIMIT_FSIZE, c.FileSize},
		{"processes", unix.RLIMIT_NPROC, c.Processes},
	} {
		if l.value == 0 {
			continue
		}
		if err := unix.Prlimit(pid, l.resource, &unix.Rlimit{Cur: l.value, Max: l.value}, nil); err != nil {
			return fail("limit "+l.name, err)
		}
	}
	if err := syscall.PtraceDetach(pid); err != nil {
		return fail("set limits", err)
	}
	return nil
}

// fewestPids is the smallest number of the kernel's kernel.pid_max.
const fewestPids = 301

// limitPids bounds the processes of this init's own pid namespace, where the
// kernel can: root's are not bound by a resource limit. Before /proc/sys is made
// read-only.
func (in *initProcess) limitPids() error {
	c := in.spec.Confine
	if c == nil || c.Processes == 0 || in.spec.UserNS {
		return nil
	}
	// Since Linux 6.14 each pid namespace has its own.
	return os.WriteFile("/proc/sys/kernel/pid_max", []byte(fmt.Sprint(max(c.Processes+1, fewestPids))), 0)
}

// devices may be written to; the disks and /dev/fuse may not.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"}

// confine takes the right to write elsewhere from the calling thread, and says
// what it could not do.
func (in *initProcess) confine() (lacks []string, failed *Error) {
	c := in.spec.Confine
	if c == nil {
		return nil, nil
	}
	if in.fewPids != nil {
		lacks = append(lacks, "no limit of processes: "+in.fewPids.Error())
	}
	version, err := landlockWrite(append(append(append([]string{in.spec.Mount, "/proc"}, temporary...), devices...), c.Write...))
	switch {
	case err != nil:
		lacks = append(lacks, "programs can write to devices that you can write to ("+err.Error()+")")
	case version < landlockScopes:
		// A network namespace keeps abstract sockets in, and a pid namespace
		// signals: nothing is lost unless the network is the person's.
		if in.spec.Confine.SharedNet {
			lacks = append(lacks, fmt.Sprintf("abstract unix sockets of yours are within reach (the kernel's Landlock has version %d, it takes %d: Linux 6.12)", version, landlockScopes))
		}
	}
	if all := slices.Concat(in.lacks, lacks); c.Strict && len(all) > 0 {
		return nil, &Error{Op: "confine", Kind: Namespace, Err: errors.New(strings.Join(all, "; "))}
	}
	return lacks, nil
}

// landlockScopes is the first version that keeps signals and abstract sockets
// in.
const landlockScopes = 6

// landlockWrite keeps the calling thread, which has no_new_privs, and what it
// forks from writing anywhere but below paths. It says which version the kernel
// has.
func landlockWrite(paths []string) (version int, err error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("the kernel has no Landlock: %w", errno)
	}
	version = int(v)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: landlockFile | landlockDir}
	size := unsafe.Sizeof(attr.Handled_access_fs) // all that the first version has
	switch {
	case version < 2:
		// No file could be moved between directories.
		return version, errors.New("the kernel's Landlock has version 1, it takes 2: Linux 5.19")
	case version < landlockVersion:
		attr.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	case version >= landlockScopes:
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Sizeof(attr)
	}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return version, fmt.Errorf("making a Landlock ruleset: %w", errno)
	}
	defer unix.Close(int(ruleset))
	for _, path := range paths {
		if err := landlockBeneath(int(ruleset), path, attr.Handled_access_fs); err != nil {
			return version, err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return version, fmt.Errorf("entering a Landlock ruleset: %w", errno)
	}
	return version, nil
}

// landlockBeneath allows what is handled at a path; what is not there cannot be
// written.
func landlockBeneath(ruleset int, path string, handled uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil
	}
	return landlockRule(ruleset, path, fd, handled, st.Mode&unix.S_IFMT == unix.S_IFDIR)
}
