package fusefs

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watcher keeps inotify watches on directories, by their path below a root
// descriptor.
//
// It stands where fsnotify would, because a missed event here is a stale read:
// fsnotify keys its watches by path and forgets the second path of a directory
// that was renamed and watched again before its first event was read (the
// kernel gives the same watch descriptor for the same inode, and the handling
// of the first path's IN_MOVE_SELF then removes it); it does not tell
// directories from files, nor the closing of a file that was written by mmap.
type watcher struct {
	root  int // descriptor of the root directory
	file  *os.File
	fd    int
	limit int // watches; see watchShare

	blind atomic.Bool // some directory could not be watched

	mu sync.RWMutex // guards the fields below
	// byPath is every watched directory. A directory may be here under two paths
	// while the events of its renaming are unread.
	byPath map[string]int32
	byWd   map[int32][]string
}

// watchShare is the part of the user's watches that we take: the person's editor
// lives off the same account.
const watchShare = 2

// watchLimit is the kernel's limit for all watches of a user. 8,192 is what old
// kernels give.
func watchLimit() int {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if err != nil {
		return 8192
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 8192
	}
	return n
}

const dirMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF |
	unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW | unix.IN_EXCL_UNLINK

func newWatcher(root int) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &watcher{
		root: root, fd: fd, limit: watchLimit() / watchShare, file: os.NewFile(uintptr(fd), "inotify"),
		byPath: map[string]int32{}, byWd: map[int32][]string{},
	}, nil
}

// procFD names an open descriptor for calls that take a path only.
func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// procPath names path below the descriptor root for calls that have no
// openat-like form.
func procPath(root int, path string) string {
	p := procFD(root)
	if path == "" {
		return p + "/." // the directory itself, not the link to it
	}
	return p + "/" + path
}

// watch sees to it that the directory is watched, and says whether it is. It
// must be called before anything in the directory is looked at.
func (w *watcher) watch(path string) bool {
	w.mu.RLock()
	_, ok := w.byPath[path]
	w.mu.RUnlock()
	if ok {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.byPath[path]; ok {
		return true
	}
	if len(w.byPath) >= w.limit {
		w.blind.Store(true)
		return false
	}
	wd, err := unix.InotifyAddWatch(w.fd, procPath(w.root, path), dirMask)
	if err != nil {
		// ENOSPC: the limit is reached. ENOENT, ENOTDIR: it has just gone.
		// EACCES: it may be entered but not listed.
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			w.blind.Store(true)
		}
		return false
	}
	w.byPath[path] = int32(wd)
	w.byWd[int32(wd)] = append(w.byWd[int32(wd)], path)
	return true
}

// paths is where the directory of a watch descriptor is, or was when its events
// happened.
func (w *watcher) paths(wd int32) []string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.byWd[wd]
}

// forget ends the watch on a path, and those on all below it if deep.
func (w *watcher) forget(path string, deep bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wd, ok := w.byPath[path]; ok {
		w.dropLocked(path, wd)
	}
	if !deep {
		return
	}
	// A directory moves rarely; a search through all watches is then cheap
	// enough (a millisecond for a hundred thousand).
	for p, wd := range w.byPath {
		if below(p, path) {
			w.dropLocked(p, wd)
		}
	}
}

func (w *watcher) dropLocked(path string, wd int32) {
	delete(w.byPath, path)
	left := w.byWd[wd]
	kept := make([]string, 0, len(left))
	for _, p := range left {
		if p != path {
			kept = append(kept, p)
		}
	}
	if len(kept) > 0 {
		w.byWd[wd] = kept
		return
	}
	delete(w.byWd, wd)
	// EINVAL: it is gone already, with its directory.
	unix.InotifyRmWatch(w.fd, uint32(wd))
}

// ignored: the kernel has ended the watch itself.
func (w *watcher) ignored(wd int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.byWd[wd] {
		if w.byPath[p] == wd {
			delete(w.byPath, p)
		}
	}
	delete(w.byWd, wd)
}

func (w *watcher) count() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.byPath)
}

func below(path, dir string) bool {
	return len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

// event is one inotify event; the wd of an overflow is -1.
type event struct {
	wd   int32
	mask uint32
	name string
}

// read blocks for the next events. os.ErrClosed ends it.
func (w *watcher) read(buf []byte) ([]event, error) {
	n, err := w.file.Read(buf)
	if err != nil {
		return nil, err
	}
	var events []event
	for off := 0; off+unix.SizeofInotifyEvent <= n; {
		raw := (*unix.InotifyEvent)(unsafe.Pointer(&buf[off]))
		off += unix.SizeofInotifyEvent
		if off+int(raw.Len) > n {
			return events, errors.New("inotify: torn event")
		}
		name := buf[off : off+int(raw.Len)]
		off += int(raw.Len)
		for len(name) > 0 && name[len(name)-1] == 0 {
			name = name[:len(name)-1]
		}
		events = append(events, event{raw.Wd, raw.Mask, string(name)})
	}
	return events, nil
}

func (w *watcher) close() { w.file.Close() }
