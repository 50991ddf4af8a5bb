package sandbox

import (
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// poker is the init's thread that makes file events for the programs of the
// namespace: see fusefs.SetPoker, which says what it has to do and why. It is
// the only one in the init that looks into the mount, and when that hangs,
// nothing waits for it.
type poker struct {
	wake   chan struct{} // capacity 1
	thread chan int      // its id in the pid namespace
	fresh  bool          // /proc shows the namespace's processes
}

func newPoker() *poker {
	return &poker{wake: make(chan struct{}, 1), thread: make(chan int, 1)}
}

func (p *poker) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run never returns.
func (p *poker) run(mount string) {
	runtime.LockOSThread()
	p.thread <- unix.Gettid()
	root := -1
	buf := make([]byte, 64<<10)
	for range p.wake {
		if root < 0 {
			var err error
			if root, err = unix.Open(mount, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				continue
			}
		}
		// Who watches nothing is not poked; what was asked for must be taken
		// all the same, because only then are we woken again.
		listeners := !p.fresh || watchers()
		for {
			n, err := unix.Getxattr(mount, pokeAttr, buf)
			if err != nil || n < 3 {
				break
			}
			if listeners {
				poke(root, uint32(buf[0])<<12, buf[1], string(buf[2:n]))
			}
		}
	}
}

// pokeAttr, and what is in its second byte, are fusefs's: it says what they
// mean, and a test there that they are these.
const (
	pokeAttr    = "user.shadowlsp.poke"
	pokeMade    = 'm'
	pokeGone    = 'g'
	pokeChanged = 'c'
)

// watchers says whether any process of the namespace watches files.
func watchers() bool {
	procs, _ := os.ReadDir("/proc")
	for _, proc := range procs {
		if _, err := strconv.Atoi(proc.Name()); err != nil || proc.Name() == "1" {
			continue
		}
		dir := "/proc/" + proc.Name() + "/fd/"
		fds, _ := os.ReadDir(dir)
		for _, fd := range fds {
			if to, err := os.Readlink(dir + fd.Name()); err == nil && strings.HasSuffix(to, "inotify") {
				return true
			}
		}
	}
	return false
}

// poke does to a name what makes the event. The view does none of it; an error
// is no more than an event that does not happen.
func poke(root int, typ uint32, what byte, name string) {
	switch what {
	case pokeMade, pokeGone:
		dir, err := beneath(root, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return
		}
		defer unix.Close(dir)
		if what == pokeGone {
			flags := 0
			if typ == unix.S_IFDIR {
				flags = unix.AT_REMOVEDIR
			}
			unix.Unlinkat(dir, filepath.Base(name), flags)
			return
		}
		switch typ {
		case unix.S_IFDIR:
			err = unix.Mkdirat(dir, path.Base(name), 0o700)
		case unix.S_IFLNK:
			err = unix.Symlinkat("x", dir, path.Base(name))
		default:
			err = unix.Mknodat(dir, path.Base(name), typ|0o600, 0)
		}
		if err == nil && typ == unix.S_IFREG {
			change(root, name) // who waits for its content waits for the writing
		}
	case pokeChanged:
		change(root, name)
	}
}

// change opens a file for writing, truncates it to its size and closes it. Where
// it may not be opened so, its times are set.
func change(root int, name string) {
	fd, err := beneath(root, name, unix.O_WRONLY|unix.O_NONBLOCK)
	if err == nil {
		defer unix.Close(fd)
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			unix.Ftruncate(fd, st.Size)
		}
		return
	}
	if fd, err = beneath(root, name, unix.O_PATH); err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK {
		unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), []unix.Timespec{st.Atim, st.Mtim}, 0)
	}
}

// beneath opens a name of the mount, and nothing outside of it whatever the
// programs do to its directories meanwhile.
func beneath(root int, name string, flags uint64) (int, error) {
	return unix.Openat2(root, name, &unix.OpenHow{
		Flags:   flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
}
