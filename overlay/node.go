package overlay

import (
	"os"

	"golang.org/x/sys/unix"
)

// Time is a file time, as the kernel has it.
type Time struct {
	Sec  int64
	Nsec uint32
}

// Attr is what stat(2) shows of a path in a branch.
type Attr struct {
	Mode                uint32 // type and permission bits as in stat(2)
	Nlink               uint32
	UID, GID            uint32
	Rdev                uint64
	Size                int64
	Blocks              int64 // of 512 bytes
	BlockSize           uint32
	Ino                 uint64
	Atime, Mtime, Ctime Time
}

// Node is one content version of one path: a value, valid for ever, though its
// methods fail with Stale once the object it stands for is gone.
type Node struct {
	Path    string // in the branch it was looked up in
	Version uint64 // identity of the content version (see package doc)
	Stamp   uint64 // changes with every change of bytes or attributes
	Attr    Attr   // at the time of the look-up
	// Elsewhere: other branches may show another mtime of this Version, without
	// anything of theirs at Path.
	Elsewhere bool

	branch *Branch
	file   *file  // a layer's file; nil: base, or a directory
	base   string // path in the base, where it comes from there or merges with it
	inBase bool   // all of it comes from the base
}

// IsDir says that the node is a directory.
func (n Node) IsDir() bool { return isDir(n.Attr.Mode) }

// FromBase says that the bytes come from the live base; path is where they are
// there (it differs from Path below a renamed directory). False for a directory
// that has an entry in a layer and for all that a layer holds.
func (n Node) FromBase() (path string, ok bool) { return n.base, n.inBase }

// Branch is the branch that the node was looked up in.
func (n Node) Branch() *Branch { return n.branch }

// Stat is the present attributes. Stale when the object at Path is another one.
// A file of a layer is found even where its name is gone, while it is pinned.
func (n Node) Stat() (Attr, error) {
	a, err := n.stat()
	return a, n.branch.wrap("stat", n.Path, err)
}

func (n Node) stat() (Attr, error) {
	if n.file != nil {
		l := n.file.hold()
		defer l.mu.RUnlock()
		at, err := n.file.reach(l)
		if err != nil {
			return Attr{}, err
		}
		var st unix.Stat_t
		if err := l.stat(at, &st); err != nil {
			return Attr{}, err
		}
		return n.file.attr(&st), nil
	}
	var h hit
	now, err := n.branch.resolve(n.Path, &h)
	if err != nil {
		return Attr{}, staleIfGone(err)
	}
	if now.Version != n.Version && (now.file != nil || now.Attr.Ino != n.Attr.Ino || now.Attr.Mode&unix.S_IFMT != n.Attr.Mode&unix.S_IFMT) {
		return Attr{}, kindError(Stale)
	}
	return now.Attr, nil
}

func staleIfGone(err error) error {
	if k := KindOf(err); k == NotExist || k == NotDir {
		return kindError(Stale)
	}
	return err
}

// hold takes the layer that f is in and holds it for reading.
func (f *file) hold() *layer {
	for {
		l := f.layer.Load()
		l.mu.RLock()
		if f.layer.Load() == l {
			return l
		}
		l.mu.RUnlock() // carried to another layer meanwhile
	}
}

// holdAlone is hold for changing f.
func (f *file) holdAlone() *layer {
	for {
		l := f.layer.Load()
		l.mu.Lock()
		if f.layer.Load() == l {
			return l
		}
		l.mu.Unlock()
	}
}

// reach is where f lies in l's fs directory.
func (f *file) reach(l *layer) (string, error) {
	at, ok := f.at()
	if !ok || l.dead {
		return "", kindError(Stale)
	}
	return at, nil
}

// Open opens a regular file for reading. For a file of the base: Stale when
// another file has taken its place (a change in place is not noticed).
func (n Node) Open() (*os.File, error) {
	f, err := n.open(true)
	return f, n.branch.wrap("open", n.Path, err)
}

// open is Open; remember says that somebody will remember what was read under
// the mtime shown.
func (n Node) open(remember bool) (*os.File, error) {
	switch {
	case n.IsDir():
		return nil, kindError(IsDir)
	case !isReg(n.Attr.Mode):
		return nil, kindError(Invalid)
	case n.file == nil:
		fd, err := n.openBase()
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), n.Path), nil
	}
	l := n.file.hold()
	defer l.mu.RUnlock()
	if remember {
		n.file.opened.Store(true)
	}
	at, err := n.file.reach(l)
	if err != nil {
		return nil, err
	}
	fd, err := l.openAt(at, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), n.Path), nil
}

// openBase opens a regular file of the base, if it is still the same object.
func (n Node) openBase() (int, error) {
	// O_NONBLOCK: a fifo may have taken the name.
	fd, err := n.branch.store.base.open(n.base, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return -1, staleIfGone(err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Ino != n.Attr.Ino || !isReg(st.Mode)) {
		err = kindError(Stale)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// OpenWrite opens the layer's own file for reading and writing, without a look
// at names: for a file of the branch's top layer, or one that was removed while
// pinned. Invalid for what must be copied first: see [Branch.OpenWrite],
// [Branch.OpenUnlinked].
func (n Node) OpenWrite() (*File, error) {
	f, err := n.openWrite(0)
	return f, n.branch.wrap("open for writing", n.Path, err)
}

func (n Node) openWrite(flags int) (*File, error) {
	if n.file == nil || !isReg(n.Attr.Mode) {
		return nil, kindError(Invalid)
	}
	l := n.file.hold()
	defer l.mu.RUnlock()
	if l.frozen && n.file.grave == "" {
		return nil, kindError(Invalid)
	}
	at, err := n.file.reach(l)
	if err != nil {
		return nil, err
	}
	fd, err := l.openAt(at, unix.O_RDWR|flags)
	if err == unix.EACCES { // a file that its owner may write but not read
		fd, err = l.openAt(at, unix.O_WRONLY|flags)
	}
	if err != nil {
		return nil, err
	}
	return n.opened(l, fd), nil
}

// opened makes the File of a descriptor and counts it. Needs l's mutex.
func (n Node) opened(l *layer, fd int) *File {
	n.file.opened.Store(true)
	s := l.store
	s.mu.Lock()
	n.file.pins++
	n.file.writers++
	l.refs++
	l.open[n.file] = struct{}{}
	s.mu.Unlock()
	return &File{File: os.NewFile(uintptr(fd), n.Path), node: n}
}

// Readlink is the target of a symlink.
func (n Node) Readlink() (string, error) {
	t, err := n.readlink()
	return t, n.branch.wrap("readlink", n.Path, err)
}

func (n Node) readlink() (target string, err error) {
	if !isLnk(n.Attr.Mode) {
		return "", kindError(NotSymlink)
	}
	if n.file == nil {
		t, err := n.branch.store.base.readlink(n.base)
		return t, staleIfGoneNil(err)
	}
	l := n.file.hold()
	defer l.mu.RUnlock()
	at, err := n.file.reach(l)
	if err != nil {
		return "", err
	}
	err = l.at(at, func(dir int, name string) (err error) {
		target, err = readlinkat(dir, name)
		return err
	})
	return target, err
}

func staleIfGoneNil(err error) error {
	if err == nil {
		return nil
	}
	return staleIfGone(err)
}

// Pin keeps the content of a layer's file readable (through this Node) when it
// is replaced or removed, or its branch dropped, until as many Unpins. It does
// nothing for nodes of the base and directories. false: it is gone already,
// look the path up again.
func (n Node) Pin() bool {
	if n.file == nil {
		return true
	}
	l := n.file.hold()
	defer l.mu.RUnlock()
	if _, err := n.file.reach(l); err != nil {
		return false
	}
	s := l.store
	s.mu.Lock()
	n.file.pins++
	l.refs++
	s.mu.Unlock()
	return true
}

// Unpin undoes one Pin that was true; the content may be deleted.
func (n Node) Unpin() {
	if n.file != nil {
		n.file.unpin(false)
	}
}

func (f *file) unpin(writer bool) {
	l := f.holdAlone()
	s := l.store
	s.mu.Lock()
	f.pins--
	if writer {
		if f.writers--; f.writers == 0 {
			delete(l.open, f)
		}
	}
	last := f.pins == 0
	s.mu.Unlock()
	if last && f.grave != "" {
		if !l.dead {
			l.unlink(f.grave)
		}
		f.grave = ""
		l.charge(-f.size)
	}
	l.mu.Unlock()
	s.release(l)
}

// DirEntry is one name of a directory.
type DirEntry struct {
	Name string
	Mode uint32 // only the type bits
	Ino  uint64
}
