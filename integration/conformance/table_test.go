package conformance

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The table: every call that changes or resolves names, with every kind of file
// and every kind of caller, one line of outcome each. It knows nothing of what
// is right: the disk's file system does.

func init() {
	inside["table"] = func(args []string) error {
		// As its own process, so that umask and working directory are free.
		unix.Umask(0)
		top, err := os.Getwd()
		if err != nil {
			return err
		}
		tb := &table{}
		for _, c := range tableCases {
			tb.group = c.name
			dir := strings.ReplaceAll(c.name, "/", "_")
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			if err := os.Chdir(dir); err != nil {
				return err
			}
			c.run(tb)
			if err := os.Chdir(top); err != nil {
				return err
			}
		}
		return nil
	}
}

// table prints outcomes.
type table struct {
	group string
	steps map[string]int
	// noAccess: who read what before decides over the times of access.
	noAccess bool
}

// is prints one line: the same name never twice, so that lines can be matched.
func (tb *table) is(name string, outcome any) {
	if err, ok := outcome.(error); ok {
		outcome = errnoName(err)
	} else if outcome == nil {
		outcome = "ok"
	}
	key := tb.group + " " + name
	if tb.steps == nil {
		tb.steps = map[string]int{}
	}
	tb.steps[key]++
	if n := tb.steps[key]; n > 1 {
		key += fmt.Sprintf(" #%d", n)
	}
	fmt.Printf("%s: %v\n", key, outcome)
}

func errnoName(err error) string {
	var no unix.Errno
	if errors.As(err, &no) {
		return unix.ErrnoName(no)
	}
	return err.Error()
}

// kinds are the types of file that a name can have.
var kinds = []string{"regular", "dir", "fifo", "block", "char", "socket", "symlink"}

func makeKind(kind, path string) error {
	switch kind {
	case "regular":
		return unix.Mknod(path, unix.S_IFREG|0o644, 0)
	case "dir":
		return unix.Mkdir(path, 0o755)
	case "fifo":
		return unix.Mkfifo(path, 0o644)
	case "block":
		return unix.Mknod(path, unix.S_IFBLK|0o644, int(unix.Mkdev(7, 77)))
	case "char":
		return unix.Mknod(path, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3)))
	case "socket":
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	case "symlink":
		return unix.Symlink("nowhere", path)
	}
	panic(kind)
}

func remove(path string) {
	if unix.Unlink(path) != nil {
		unix.Rmdir(path)
	}
}

// look is what lstat shows, without what must differ: numbers and times.
func look(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return errnoName(err)
	}
	// A directory's link count and size are a file system's own business
	// (btrfs, overlayfs and others show 1).
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
	}
	return fmt.Sprintf("%o %d:%d nlink %d size %d rdev %d:%d", st.Mode, st.Uid, st.Gid, st.Nlink, st.Size, unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)))
}

// as runs f as another user, with no capabilities. Ids and groups belong to a
// thread here, and the thread ends with f.
func as(uid, gid int, groups []int, f func()) {
	done := make(chan struct{})
	go func() { // ends before as returns
		defer close(done)
		runtime.LockOSThread()
		raw := make([]uint32, len(groups)+1)
		for i, g := range groups {
			raw[i] = uint32(g)
		}
		if err := setIDs(uid, gid, raw[:len(groups)]); err != nil {
			panic(err)
		}
		f()
	}()
	<-done
}

// times is the last seen times of some paths.
type times map[string][3]unix.Timespec

func stamp(paths ...string) times {
	ts := times{}
	for _, p := range paths {
		var st unix.Stat_t
		if unix.Lstat(p, &st) == nil {
			ts[p] = [3]unix.Timespec{st.Atim, st.Mtim, st.Ctim}
		}
	}
	return ts
}

// moved says which times of which paths f moved forward, and which back.
func (tb *table) moved(name string, paths []string, f func() error) {
	before := stamp(paths...)
	pause()
	err := f()
	after := stamp(paths...)
	var out []string
	for _, p := range paths {
		b, a := before[p], after[p]
		moves := ""
		for i, which := range []string{"a", "m", "c"} {
			switch d := a[i].Nano() - b[i].Nano(); {
			case a[i] == (unix.Timespec{}) || b[i] == (unix.Timespec{}):
			case which == "a" && tb.noAccess && !strings.HasPrefix(name, "utimensat"):
			case d > 0:
				moves += which + "+"
			case d < 0:
				moves += which + "-"
			}
		}
		out = append(out, p+"="+moves)
	}
	sort.Strings(out)
	result := "ok"
	if err != nil {
		result = errnoName(err)
	}
	tb.is("times of "+name, result+" "+strings.Join(out, " "))
}

// pause lets the clock of file times tick, which old kernels move every 4 ms
// (10 ms at 100 Hz).
func pause() {
	ts := unix.NsecToTimespec(int64(11 * time.Millisecond))
	unix.Nanosleep(&ts, nil)
}

// open is open(2) and close(2).
func open(path string, flags int, mode uint32) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, mode)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func truncate(path string, n int64) error { return unix.Truncate(path, n) }

func ftruncate(path string, flags int, n int64) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(fd)
	return unix.Ftruncate(fd, n)
}

func utimens(path string, ts ...unix.Timespec) error {
	if ts == nil {
		ts = []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, ts, unix.AT_SYMLINK_NOFOLLOW)
}
