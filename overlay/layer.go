package overlay

import (
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// entryCost is charged for every name besides its bytes, so that empty files
// do not come for free: about an inode.
const entryCost = 512

// layer is one set of overrides: a directory in the state directory, and its index.
//
//	layers/ID/fs     the overlayfs upper directory
//	layers/ID/work   files on their way into fs: rubbish after a kill
//	layers/ID/grave  contents without a name that somebody has pinned
//	layers/ID/then   files of the base as they were when they were first covered
type layer struct {
	store *Store
	id    string
	bytes atomic.Int64
	// open are the files open for writing. Guarded by Store.mu.
	open map[*file]struct{}
	// refs counts chains, pins and open files. Guarded by Store.mu.
	refs int
	then then // see there for whose it is

	mu sync.RWMutex
	// guarded by mu:
	fd     int // of fs; -1 until the first write
	root   *entry
	used   bool // the index says something; false: walk passes it by
	frozen bool // nothing changes any more
	dead   bool // deleted
	sum    StateID
}

// chain is the layers of a branch, top first; immutable.
type chain struct{ layers []*layer }

func (s *Store) newLayer() *layer {
	return s.layerOf(newID())
}

func (s *Store) layerOf(id string) *layer {
	return &layer{store: s, id: id, fd: -1, root: &entry{kind: dirEntry, dir: &dirState{}}, open: map[*file]struct{}{}}
}

func (l *layer) dirName() string { return "layers/" + l.id }

// make makes the directories of the layer, if need be. Called by the owner of
// the branch's write lock.
func (l *layer) make() error {
	if l.fd >= 0 {
		return nil
	}
	root := l.store.state.fd
	for _, sub := range []string{"", "/work", "/grave", "/fs"} {
		if err := unix.Mkdirat(root, l.dirName()+sub, 0o700); err != nil && err != unix.EEXIST {
			return err
		}
	}
	fd, err := openat(root, l.dirName()+"/fs", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.fd = fd
	l.mu.Unlock()
	return nil
}

// temp is a fresh name in the work directory, relative to fs.
func (l *layer) temp() string { return "../work/" + strconv.FormatUint(l.store.serial(), 36) }

// graveName is a fresh name in the graveyard, relative to fs.
func (l *layer) graveName() string { return "../grave/" + strconv.FormatUint(l.store.serial(), 36) }

// charge counts n more bytes (or fewer).
func (l *layer) charge(n int64) {
	l.bytes.Add(n)
	l.store.used.Add(n)
}

// at calls f with a directory and a name that mean path, cut to what one system
// call takes. Paths in a layer come from its index: their components are
// directories that only this package makes.
func (l *layer) at(path string, f func(dir int, name string) error) error {
	if path == "" {
		return f(l.fd, ".")
	}
	if len(path) <= chunk {
		return f(l.fd, path)
	}
	dir := l.fd
	for len(path) > chunk {
		head, rest := cutLong(path)
		fd, err := openat(dir, head, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if dir != l.fd {
			unix.Close(dir)
		}
		if err != nil {
			return err
		}
		dir, path = fd, rest
	}
	defer unix.Close(dir)
	return f(dir, path)
}

func (l *layer) stat(path string, st *unix.Stat_t) error {
	if path != "" && len(path) <= chunk {
		return fstatat(l.fd, path, st)
	}
	return l.at(path, func(dir int, name string) error { return fstatat(dir, name, st) })
}

func (l *layer) openAt(path string, flags int) (fd int, err error) {
	err = l.at(path, func(dir int, name string) (err error) {
		fd, err = openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		return err
	})
	return fd, err
}

// rename moves from to to (paths relative to fs).
func (l *layer) rename(from, to string, flags uint) error {
	return l.at(from, func(fd int, name string) error {
		return l.at(to, func(tfd int, tname string) error {
			return renameat2(fd, name, tfd, tname, flags)
		})
	})
}

func renameat2(fd int, name string, tfd int, tname string, flags uint) error {
	if flags == 0 {
		return unix.Renameat(fd, name, tfd, tname)
	}
	return unix.Renameat2(fd, name, tfd, tname, flags)
}

func (l *layer) link(from, to string) error {
	return l.at(from, func(fd int, name string) error {
		return l.at(to, func(tfd int, tname string) error {
			return unix.Linkat(fd, name, tfd, tname, 0)
		})
	})
}

func (l *layer) unlink(path string) error {
	return l.at(path, func(fd int, name string) error { return unix.Unlinkat(fd, name, 0) })
}

// settle sets owner, mode and times (unless zero) of what was just made.
// A symlink keeps its mode.
func (l *layer) settle(path string, a *Attr) error {
	return l.at(path, func(dir int, name string) error {
		if l.store.root && (a.UID != 0 || a.GID != 0) {
			if err := unix.Fchownat(dir, name, int(a.UID), int(a.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
		if !isLnk(a.Mode) {
			if err := unix.Fchmodat(dir, name, a.Mode&0o7777, 0); err != nil {
				return err
			}
		}
		if a.Mtime.IsZero() {
			return nil
		}
		return utimens(dir, name, a.Atime, a.Mtime)
	})
}

func utimens(dir int, name string, atime, mtime Time) error {
	ts := [2]unix.Timespec{atime.spec(), mtime.spec()}
	return unix.UtimesNanoAt(dir, name, ts[:], unix.AT_SYMLINK_NOFOLLOW)
}

// setSum replaces e's share in the layer's sum. Needs mu.
func (l *layer) setSum(e *entry, sum StateID) {
	l.sum = l.sum.minus(e.sum).plus(sum)
	e.sum = sum
}

// removeTree deletes a directory tree below dir. Best effort: what cannot be
// deleted now is rubbish that the next Open deletes.
func removeTree(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err == nil || err == unix.ENOENT {
		return nil
	}
	fd, err := openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err == unix.EACCES { // a directory of a program may have lost its permissions
		unix.Fchmodat(dir, name, 0o700, 0)
		fd, err = openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	names, err := listFd(fd, nil)
	if err != nil {
		return err
	}
	for _, n := range names {
		if e := removeTree(fd, n.Name); e != nil {
			err = e
		}
	}
	if err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}
