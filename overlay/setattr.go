package overlay

import "golang.org/x/sys/unix"

// AttrMask says which fields of an AttrChange count.
type AttrMask uint32

const (
	SetMode AttrMask = 1 << iota
	SetUID
	SetGID
	SetSize
	SetAtime
	SetMtime
	SetAtimeNow
	SetMtimeNow
)

// AttrChange is a change of attributes.
type AttrChange struct {
	Mask         AttrMask
	Mode         uint32 // permission bits
	UID, GID     uint32
	Size         int64
	Atime, Mtime Time
}

func (c *AttrChange) has(m AttrMask) bool { return c.Mask&m != 0 }

// SetAttr changes attributes of a path (of the link itself for a symlink).
func (b *Branch) SetAttr(path string, c AttrChange, by Origin) (n Node, err error) {
	err = b.mutateAny("setattr", path, func() error {
		var h hit
		if n, err = b.resolve(path, &h); err != nil {
			return err
		}
		if c.Mask == SetMode && n.file == nil && c.Mode == n.Attr.Mode&0o7777 {
			return nil // nothing worth a copy
		}
		if n, err = b.setAttr(path, n, c, by); err != nil {
			return err
		}
		return nil
	})
	return n, err
}

// mutateAny is mutate for what may also be done to the root.
func (b *Branch) mutateAny(op, path string, f func() error) error {
	if path != "" {
		return b.mutate(op, path, f)
	}
	err := b.locked(f)
	b.flush()
	return b.wrap(op, path, err)
}

func (b *Branch) setAttr(path string, n Node, c AttrChange, by Origin) (Node, error) {
	if n.IsDir() {
		if c.has(SetSize) {
			return n, kindError(IsDir)
		}
		if err := b.changeDir(path, n, by, func(l *layer, e *entry) error { return b.setDirAttr(l, e, n, c) }); err != nil {
			return n, err
		}
		return b.nodeAt(path)
	}
	if c.has(SetSize) {
		if !isReg(n.Attr.Mode) || c.Size < 0 {
			return n, kindError(Invalid)
		}
	}
	f, err := b.own(path, c.has(SetSize) && c.Size == 0, by)
	if err != nil {
		return n, err
	}
	if err := b.setFileAttr(b.top(), f, c, by); err != nil {
		return n, err
	}
	return b.nodeAt(path)
}

// setFileAttr changes the real file.
func (b *Branch) setFileAttr(l *layer, f *file, c AttrChange, by Origin) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, err := f.reach(l)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = l.at(at, func(dir int, name string) error {
		if err := chown(dir, name, c); err != nil {
			return err
		}
		if c.has(SetMode) && f.mode != unix.S_IFLNK {
			if err := unix.Fchmodat(dir, name, c.Mode&0o7777, 0); err != nil {
				return err
			}
		}
		if c.has(SetSize) {
			if err := truncateAt(dir, name, c.Size); err != nil {
				return err
			}
		}
		if ts, ok := c.times(b.store); ok {
			if err := unix.UtimesNanoAt(dir, name, ts[:], unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
		return fstatat(dir, name, &st)
	})
	if err != nil {
		return err
	}
	f.perm = st.Mode & 0o7777
	f.born = b.store.now() // a ctime of its own
	if c.has(SetSize) {
		if !c.has(SetMtime | SetMtimeNow) {
			f.wrote(b, l, &st, by)
			return nil
		}
		f.recharge(l, &st)
	}
	cid := f.cid
	if c.has(SetSize | SetUID | SetGID) {
		cid = b.store.unique()
	}
	f.changed(l, cid)
	op := OpAttr
	if c.has(SetSize) {
		op = OpWrite
	}
	b.announce(l, f, op, by)
	return nil
}

func chown(dir int, name string, c AttrChange) error {
	if !c.has(SetUID | SetGID) {
		return nil
	}
	uid, gid := -1, -1
	if c.has(SetUID) {
		uid = int(c.UID)
	}
	if c.has(SetGID) {
		gid = int(c.GID)
	}
	return unix.Fchownat(dir, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
}

func truncateAt(dir int, name string, size int64) error {
	fd, err := openat(dir, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Ftruncate(fd, size)
}

// times are the arguments of utimensat(2); false: none is to be set.
func (c *AttrChange) times(s *Store) (ts [2]unix.Timespec, ok bool) {
	pick := func(set, now AttrMask, t Time) unix.Timespec {
		switch {
		case c.has(now):
			return s.now().spec()
		case c.has(set):
			return t.spec()
		}
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	return [2]unix.Timespec{pick(SetAtime, SetAtimeNow, c.Atime), pick(SetMtime, SetMtimeNow, c.Mtime)},
		c.has(SetAtime | SetAtimeNow | SetMtime | SetMtimeNow)
}

// changeDir makes the directory at path the top layer's own, with the
// attributes that n shows, and changes it by f with the layer's mutex held.
func (b *Branch) changeDir(path string, n Node, by Origin, f func(l *layer, e *entry) error) error {
	e, err := b.dirEntry(path)
	if err != nil {
		return err
	}
	top := b.top()
	if !e.dir.own {
		if err := b.ownDir(path, n, top); err != nil {
			return err
		}
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	if !e.dir.own {
		e.dir.own, e.dir.mode = true, n.Attr.Mode&0o7777
		top.used = true
	}
	if err := f(top, e); err != nil {
		return err
	}
	e.dir.ctime, e.dir.stamp = b.store.now(), b.store.serial()
	if e.dir.mtime.IsZero() {
		e.dir.mtime, e.dir.set, e.dir.below = n.Attr.Mtime, true, n.Attr.Mtime
	}
	top.setSum(e, b.store.unique().with(1)) // owner and xattrs are not hashed
	b.changed(path, OpAttr, by)
	return nil
}

// ownDir gives the real directory the attributes that are shown from below.
func (b *Branch) ownDir(path string, n Node, top *layer) error {
	err := b.onXattrs(path, func(from string) error {
		return top.onPath(path, func(to string) error { return copyXattrs(from, to) })
	})
	if err != nil {
		return err
	}
	a := n.Attr
	a.Mode |= 0o700
	if err := top.settle(path, &a); err != nil {
		return err
	}
	return top.setMode(path, n.Attr.Mode&0o7777) // says "own" from here on
}

func (b *Branch) setDirAttr(l *layer, e *entry, n Node, c AttrChange) error {
	at := e.path()
	err := l.at(at, func(dir int, name string) error { return chown(dir, name, c) })
	if err != nil {
		return err
	}
	if c.has(SetMode) {
		mode := c.Mode & 0o7777
		if err := l.setMode(at, mode); err != nil {
			return err
		}
		if err := l.at(at, func(dir int, name string) error { return unix.Fchmodat(dir, name, mode|0o700, 0) }); err != nil {
			return err
		}
		e.dir.mode = mode
	}
	ts, ok := c.times(b.store)
	if !ok {
		return nil
	}
	if c.has(SetMtime | SetMtimeNow) {
		e.dir.mtime, e.dir.set, e.dir.below = timeOfSpec(ts[1]), true, n.Attr.Mtime
	}
	return l.at(at, func(dir int, name string) error {
		return unix.UtimesNanoAt(dir, name, ts[:], unix.AT_SYMLINK_NOFOLLOW)
	})
}
