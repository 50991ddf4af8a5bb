package overlay

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// newMode is the permission bits of a file that an agent makes without saying.
const newMode = 0o644

// WriteFile is an agent's edit: it makes a new content version of the whole
// file, atomically, and parents as needed. mode is the permission bits; 0 keeps
// those shown, 0644 for a new file. Content (and mode) that the branch shows
// already changes nothing; content that the base holds drops the override. A
// symlink is not written through: Invalid, see [Branch.Resolve].
func (b *Branch) WriteFile(path string, data []byte, mode uint32) error {
	return b.mutate("write", path, func() error { return b.writeFile(path, data, mode) })
}

func (b *Branch) writeFile(path string, data []byte, mode uint32) error {
	var h hit
	n, err := b.resolve(path, &h)
	switch {
	case KindOf(err) == NotExist:
		if mode == 0 {
			mode = newMode
		}
		if err := b.mkdirs(path); err != nil {
			return err
		}
		return b.replace(path, Node{branch: b}, data, mode&0o7777)
	case err != nil:
		return err
	case n.IsDir():
		return kindError(IsDir)
	case !isReg(n.Attr.Mode):
		return kindError(Invalid)
	}
	if mode == 0 {
		mode = n.Attr.Mode
	}
	mode &= 0o7777
	same, err := n.holds(data)
	if err != nil {
		return err
	}
	switch {
	case same && mode == n.Attr.Mode&0o7777:
		return nil
	case same:
		_, err := b.setAttr(path, n, AttrChange{Mask: SetMode, Mode: mode}, Origin{})
		return err
	}
	if n.file != nil && h.layer == b.top() {
		if done, err := b.fallBack(path, n, data, mode); done || err != nil {
			return err
		}
	}
	return b.replace(path, n, data, mode)
}

// holds says that the node's content is data.
func (n Node) holds(data []byte) (bool, error) {
	if n.Attr.Size != int64(len(data)) {
		return false, nil
	}
	have, err := n.read()
	if KindOf(err) == Stale {
		return false, nil // it will be replaced anyway
	}
	return err == nil && bytes.Equal(have, data), err
}

// mkdirs makes the missing parents of path.
func (b *Branch) mkdirs(path string) error {
	dir, _ := split(path)
	if dir == "" {
		return nil
	}
	var h hit
	switch n, err := b.resolve(dir, &h); {
	case err == nil && n.IsDir():
		return nil
	case err == nil:
		return kindError(NotDir)
	case KindOf(err) != NotExist:
		return err
	}
	if err := b.mkdirs(dir); err != nil {
		return err
	}
	_, err := b.mkdir(dir, 0o755, Origin{})
	return err
}

// replace makes data the new version of the file that old shows (zero: none).
func (b *Branch) replace(path string, old Node, data []byte, mode uint32) error {
	exists := old.Version != 0
	was, freed := old.file, int64(0)
	if was != nil && was.layer.Load() == b.top() {
		freed = was.size
	}
	if err := b.store.room(entryCost + int64(len(data)) - freed); err != nil {
		return err
	}
	if old.inBase {
		if err := b.remember(old.base); err != nil {
			return err
		}
	}
	if err := b.clearBare(path); err != nil {
		return err
	}
	dir, name := split(path)
	parent, err := b.dirEntry(dir)
	if err != nil {
		return err
	}
	top := b.top()
	// Another inode number each time, as when an editor saves by a rename: who
	// watches files takes an equal one for a change in place, and goes on
	// watching the file that has gone.
	f := b.newFile(unix.S_IFREG|mode, b.store.ino())
	f.cid = hashBytes(data)
	f.base, _ = b.store.baseMtime(path)
	a := Attr{Mode: unix.S_IFREG | mode, UID: b.store.uid, GID: b.store.gid}
	op := OpReplace
	if exists {
		a.UID, a.GID = old.Attr.UID, old.Attr.GID
		a.Mtime = b.apartAt(path, b.store.fresh(old.Attr.Mtime, was == nil || was.opened.Load(), f.base), f.base)
	} else {
		op = OpCreate
		a.Mtime = b.apartAt(path, b.store.fresh(Time{}, false, f.base), f.base)
	}
	a.Atime, f.born = a.Mtime, a.Mtime
	tmp := top.temp()
	if err := top.writeTemp(tmp, data, &a, false); err != nil {
		top.discard(tmp)
		return err
	}
	b.store.step("written")
	top.mu.Lock()
	defer top.mu.Unlock()
	if err := b.putOver(tmp, path, parent.dir.children[name]); err != nil {
		top.discard(tmp)
		return err
	}
	f.size = int64(len(data))
	top.charge(f.size)
	b.enterIndex(parent, &entry{name: name, kind: fileEntry, file: f})
	b.changed(path, op, Origin{})
	return nil
}

// writeTemp makes a finished file in the work directory. meta: a metacopy file,
// that is a.Size bytes of nothing and the attribute that says so.
func (l *layer) writeTemp(tmp string, data []byte, a *Attr, meta bool) error {
	fd, err := unix.Openat(l.fd, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, a.Mode&0o700|0o200)
	if err != nil {
		return err
	}
	for len(data) > 0 && err == nil {
		var n int
		n, err = unix.Write(fd, data)
		if err == unix.EINTR {
			err = nil
			continue
		}
		data = data[max(n, 0):]
	}
	if meta && err == nil {
		if err = unix.Ftruncate(fd, a.Size); err == nil {
			err = unix.Fsetxattr(fd, xattrMeta, nil, 0)
		}
	}
	if e := unix.Close(fd); err == nil && e != unix.EINTR {
		err = e
	}
	if err == nil {
		err = l.settle(tmp, a)
	}
	return err
}

// fallBack drops the top's override of path, if what would show then is the
// base's file with just this content and mode.
func (b *Branch) fallBack(path string, n Node, data []byte, mode uint32) (bool, error) {
	var h hit
	if _, err := b.under(path, &h); err != nil {
		return false, err
	}
	if !h.inBase || h.file != nil || len(h.dirs) > 0 || !b.store.marks {
		return false, nil
	}
	baseNode, err := b.nodeOf(path, &h)
	if err != nil {
		return false, nil // not there, or not readable: keep the override
	}
	if a := baseNode.Attr; !isReg(a.Mode) || a.Mode&0o7777 != mode || a.UID != n.Attr.UID || a.GID != n.Attr.GID {
		return false, nil
	}
	if same, err := baseNode.holds(data); !same {
		return false, err
	}
	top := b.top()
	was := n.file
	t := b.apartAt(path, b.store.fresh(n.Attr.Mtime, was.opened.Load(), baseNode.Attr.Mtime), baseNode.Attr.Mtime)
	dir, _ := split(path)
	if err := b.markOver(path, top.find(dir), baseNode.Attr, t); err != nil {
		return false, err
	}
	return true, top.forget(h.low)
}

// putOver renames a finished object to path, where old (may be nil) is, and
// takes old out of the index's file, keeping its content if pinned. Needs the
// top's mutex.
func (b *Branch) putOver(tmp, path string, old *entry) error {
	top := b.top()
	if old == nil || old.kind != fileEntry {
		return top.rename(tmp, path, 0)
	}
	grave, err := top.keepPinned(old)
	if err != nil {
		return err
	}
	b.store.step("grave")
	if err := top.rename(tmp, path, 0); err != nil {
		if grave != "" {
			top.unlink(grave)
		}
		return err
	}
	old.file.lose(top, old, grave)
	return nil
}

// keepPinned gives the file of e, if it is about to lose its last name and is
// pinned, a second name in the graveyard.
func (l *layer) keepPinned(e *entry) (grave string, err error) {
	f := e.file
	l.store.mu.Lock()
	pinned := f.pins > 0
	l.store.mu.Unlock()
	if !pinned || len(f.names) > 1 {
		return "", nil
	}
	grave = l.graveName()
	return grave, l.link(e.path(), grave)
}

// lose takes the name e from the file. Needs l's mutex.
func (f *file) lose(l *layer, e *entry, grave string) {
	for i, n := range f.names {
		if n == e {
			f.names = append(f.names[:i:i], f.names[i+1:]...)
			break
		}
	}
	if len(f.names) > 0 {
		return
	}
	if grave == "" {
		l.charge(-f.size)
		return
	}
	f.grave = grave
}
