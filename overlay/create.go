package overlay

import (
	"strings"

	"golang.org/x/sys/unix"
)

func cutFirst(path string) (name, rest string) {
	name, rest, _ = strings.Cut(path, "/")
	return name, rest
}

func mkdirat(dir int, name string, mode uint32) error { return unix.Mkdirat(dir, name, mode) }

// birth is something new on its way into the top layer.
type birth struct {
	path   string
	parent *entry
	mode   uint32
	by     Origin
	a      Attr // what settle gives it
	// settle: the object made by the one system call is not yet as it must be.
	settle bool
	// white: a deletion is recorded at path.
	white bool
	// base is the mtime of the base file of that name; zero: none.
	base Time
	// at is where to make it: its place, or the work directory when it needs
	// more than one step or something is in the way.
	at string
}

// birth checks that path can be made and prepares it. Needs write.
func (b *Branch) birth(path string, mode uint32, by Origin) (*birth, error) {
	if err := b.mustBeAbsent(path); err != nil {
		return nil, err
	}
	if err := b.store.room(entryCost); err != nil {
		return nil, err
	}
	dir, name := split(path)
	parent, err := b.dirEntry(dir)
	if err != nil {
		return nil, err
	}
	n := &birth{path: path, parent: parent, mode: mode, by: by, at: path}
	n.a = Attr{Mode: mode, UID: b.store.uid, GID: b.store.gid}
	if by.Own && b.store.root {
		n.a.UID, n.a.GID = by.UID, by.GID
	}
	if up, err := b.inheritGroup(dir, parent); err != nil {
		return nil, err
	} else if up != nil {
		n.a.GID = up.GID
		if isDir(mode) {
			n.a.Mode |= unix.S_ISGID
		}
	}
	n.settle = n.a.UID != b.store.uid || n.a.GID != b.store.gid || n.a.Mode&(0o7000|b.store.umask) != 0
	n.white = parent.dir.children[name] != nil // it is absent, so what is there is a deletion or void mark
	if n.white {
		// Its second must not be that of the version that was deleted.
		n.base, _ = b.store.baseMtime(path)
		n.a.Mtime = b.store.fresh(Time{}, false, n.base)
		n.a.Atime = n.a.Mtime
		n.settle = true
	}
	if n.settle {
		n.at = b.top().temp()
	}
	return n, nil
}

// inheritGroup is the attributes of a directory that hands down its group, else nil.
func (b *Branch) inheritGroup(path string, e *entry) (*Attr, error) {
	if e.dir.own && e.dir.mode&unix.S_ISGID == 0 {
		return nil, nil // what most programs write into: no look-up
	}
	var h hit
	n, err := b.resolve(path, &h)
	if err != nil || n.Attr.Mode&unix.S_ISGID == 0 {
		return nil, err
	}
	return &n.Attr, nil
}

// deliver puts what was made at n.at in its place and into the index. e is a
// complete entry without name and parent. Needs write.
func (b *Branch) deliver(n *birth, e *entry, op Op) error {
	top := b.top()
	if n.settle {
		if err := top.settle(n.at, &n.a); err != nil {
			top.discard(n.at)
			return err
		}
		b.store.step("made")
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	if n.at != n.path {
		if err := top.install(n.at, n.path, e.kind == dirEntry && n.white); err != nil {
			top.discard(n.at)
			return err
		}
	}
	_, e.name = split(n.path)
	b.enterIndex(n.parent, e)
	b.changed(n.path, op, n.by)
	return nil
}

// install renames the finished object at from to to. dir: it is a directory that
// takes the place of a recorded deletion, for which one rename does not do.
func (l *layer) install(from, to string, dir bool) error {
	if !dir {
		return l.rename(from, to, 0)
	}
	if err := l.rename(from, to, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	l.store.step("exchanged")
	l.unlink(from) // rubbish if it fails
	return nil
}

// discard removes what will not be used.
func (l *layer) discard(at string) {
	l.at(at, func(dir int, name string) error { return removeTree(dir, name) })
}

// enterIndex puts a new entry into the index in place of what was there, and
// counts it. Needs the layer's mutex.
func (b *Branch) enterIndex(parent *entry, e *entry) {
	top := b.top()
	if old := parent.dir.children[e.name]; old != nil {
		top.setSum(old, StateID{})
		top.charge(-entryCost)
	}
	parent.add(e)
	top.used = true
	top.charge(entryCost)
	if e.kind == fileEntry {
		e.file.names = append(e.file.names, e)
	}
	top.setSum(e, b.shareOf(e))
	b.store.touch(parent.dir)
}

// shareOf is e's share in the sum of its layer.
func (b *Branch) shareOf(e *entry) StateID {
	switch e.kind {
	case fileEntry:
		return share(e.path(), fileEntry, e.file.mode|e.file.perm, e.file.cid)
	case whiteEntry:
		return share(e.path(), whiteEntry, 0, StateID{})
	case dirEntry:
		if e.dir.own {
			return share(e.path(), dirEntry, e.dir.mode, StateID{0, uint64(b2i(e.dir.opaque))})
		}
	}
	return StateID{} // merges, or falls through: nothing differs
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// newFile is the index's part of a new file of the top layer.
func (b *Branch) newFile(mode uint32, ino uint64) *file {
	f := &file{version: b.store.serial(), mode: mode & unix.S_IFMT, perm: mode & 0o7777, ino: ino, cid: b.store.unique(), born: b.store.now()}
	f.stamp = f.version
	f.layer.Store(b.top())
	return f
}

// nodeAt is the node of what was just made. Needs write.
func (b *Branch) nodeAt(path string) (Node, error) {
	var h hit
	return b.resolve(path, &h)
}

// Create makes a new regular file and opens it; Exist where the path exists.
func (b *Branch) Create(path string, mode uint32, by Origin) (n Node, f *File, err error) {
	err = b.mutate("create", path, func() error {
		nb, err := b.birth(path, unix.S_IFREG|mode&0o7777, by)
		if err != nil {
			return err
		}
		fd := -1
		top := b.top()
		err = top.at(nb.at, func(dir int, name string) (err error) {
			fd, err = unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, nb.mode&0o777)
			return err
		})
		if err != nil {
			return err
		}
		e := &entry{kind: fileEntry, file: b.newFile(nb.mode, b.store.ino())}
		e.file.base = nb.base
		if err := b.deliver(nb, e, OpCreate); err != nil {
			unix.Close(fd)
			return err
		}
		if n, err = b.nodeAt(path); err != nil {
			unix.Close(fd)
			return err
		}
		top.mu.RLock()
		f = n.opened(top, fd)
		top.mu.RUnlock()
		return nil
	})
	return n, f, err
}

// Symlink makes a symbolic link at path.
func (b *Branch) Symlink(target, path string, by Origin) (n Node, err error) {
	err = b.mutate("symlink", path, func() error {
		return b.makeNode(path, unix.S_IFLNK|0o777, by, &n, func(dir int, name string) error {
			return unix.Symlinkat(target, dir, name)
		})
	})
	return n, err
}

// Mknod makes a fifo, a socket, an empty regular file or (for root) a device;
// the type is in mode. A character device 0/0 is Permission: it means a
// deletion in a layer.
func (b *Branch) Mknod(path string, mode uint32, rdev uint64, by Origin) (n Node, err error) {
	err = b.mutate("mknod", path, func() error {
		switch mode & unix.S_IFMT {
		case unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFBLK:
		case unix.S_IFCHR:
			if rdev == 0 {
				return kindError(Permission)
			}
		case 0:
			mode |= unix.S_IFREG
		default:
			return kindError(Invalid)
		}
		return b.makeNode(path, mode, by, &n, func(dir int, name string) error {
			return unix.Mknodat(dir, name, mode&(unix.S_IFMT|0o777), int(rdev))
		})
	})
	return n, err
}

func (b *Branch) makeNode(path string, mode uint32, by Origin, n *Node, mk func(dir int, name string) error) error {
	nb, err := b.birth(path, mode, by)
	if err != nil {
		return err
	}
	if isLnk(mode) {
		nb.settle = nb.settle && (nb.white || nb.a.UID != b.store.uid || nb.a.GID != b.store.gid)
		if !nb.settle {
			nb.at = nb.path
		}
	}
	if err := b.top().at(nb.at, mk); err != nil {
		return err
	}
	if err := b.deliver(nb, &entry{kind: fileEntry, file: b.newFile(mode, b.store.ino())}, OpCreate); err != nil {
		return err
	}
	*n, err = b.nodeAt(path)
	return err
}

// Mkdir makes a directory.
func (b *Branch) Mkdir(path string, mode uint32, by Origin) (n Node, err error) {
	err = b.mutate("mkdir", path, func() error {
		n, err = b.mkdir(path, mode, by)
		return err
	})
	return n, err
}

func (b *Branch) mkdir(path string, mode uint32, by Origin) (Node, error) {
	nb, err := b.birth(path, unix.S_IFDIR|mode&0o7777, by)
	if err != nil {
		return Node{}, err
	}
	shown := nb.a.Mode & 0o7777
	nb.a.Mode |= 0o700 // we must be able to work in it; the index has the mode to show
	nb.a.Mtime = Time{}
	top := b.top()
	d := &dirState{own: true, mode: shown, version: b.store.serial(), ino: b.store.ino(), opaque: nb.white}
	mark := shown&0o700 != 0o700
	if (mark || nb.white) && nb.at == nb.path {
		nb.at, nb.settle = top.temp(), true
	}
	err = top.at(nb.at, func(dir int, name string) error { return mkdirat(dir, name, nb.a.Mode&0o777) })
	if err != nil {
		return Node{}, err
	}
	if mark {
		err = top.setMode(nb.at, shown)
	}
	if err == nil && nb.white {
		err = top.setXattr(nb.at, xattrOpaque, []byte("y"))
	}
	if err != nil {
		top.discard(nb.at)
		return Node{}, err
	}
	t := b.store.now()
	d.mtime, d.ctime, d.stamp = t, t, d.version
	if err := b.deliver(nb, &entry{kind: dirEntry, dir: d}, OpCreate); err != nil {
		return Node{}, err
	}
	return b.nodeAt(path)
}

// Link gives the file at oldPath a second name.
func (b *Branch) Link(oldPath, newPath string, by Origin) (n Node, err error) {
	err = b.mutate("link", newPath, func() error {
		if err := checkPath(oldPath); err != nil {
			return err
		}
		var h hit
		old, err := b.resolve(oldPath, &h)
		if err != nil {
			return err
		}
		if err := b.mustBeAbsent(newPath); err != nil {
			return err
		}
		if old.IsDir() {
			return kindError(Permission) // what link(2) says
		}
		if err := b.store.room(entryCost); err != nil {
			return err
		}
		f, err := b.own(oldPath, false, by)
		if err != nil {
			return err
		}
		dir, name := split(newPath)
		parent, err := b.dirEntry(dir)
		if err != nil {
			return err
		}
		nb := &birth{path: newPath, parent: parent, by: by, at: newPath, white: parent.dir.children[name] != nil}
		if nb.white {
			nb.at = b.top().temp()
		}
		if err := b.top().link(f.names[0].path(), nb.at); err != nil {
			return err
		}
		b.store.step("linked")
		if err := b.deliver(nb, &entry{kind: fileEntry, file: f}, OpCreate); err != nil {
			return err
		}
		n, err = b.nodeAt(newPath)
		return err
	})
	return n, err
}
