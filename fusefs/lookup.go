package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// lookupTries is how often a look-up starts again because the view itself moved
// something meanwhile. After that its answer is given, but not for keeping.
const lookupTries = 8

// Lookup implements fuse.RawFileSystem.
func (v *View) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if v.isPoker(header) {
		if st, done := v.pokeLookup(header, name, out); done {
			return st
		}
	}
	if v.trial.on.Load() && header.NodeId == fuse.FUSE_ROOT_ID && name == TryName {
		out.SetEntryTimeout(v.trial.look())
		return fuse.OK
	}
	v.moving.RLock()
	defer v.moving.RUnlock()
	parent := v.table.find(header.NodeId)
	if parent == nil || !parent.dir {
		return fuse.Status(unix.ESTALE)
	}
	return v.lookup(parent, name, out)
}

// lookup resolves one name. v.moving is held.
func (v *View) lookup(parent *node, name string, out *fuse.EntryOut) fuse.Status {
	// Watch first: what changes after this is told to the kernel, and the
	// telling waits for this look-up, because the kernel locks the directory.
	watched := v.watched(parent)
	for try := 0; ; try++ {
		since := v.table.began()
		path, ok := v.table.child(parent, name)
		if !ok {
			return fuse.ENOENT
		}
		if v.userNS {
			if st := v.searchable(parent); st != fuse.OK {
				return st
			}
		}
		v.asked.about(path)
		on, err := v.branch.Lookup(path)
		if overlay.KindOf(err) == overlay.NotExist {
			keep := v.absent(parent, name, watched)
			// Asked after it was noted: see pokeRemoval.
			if keep == noAbsence || v.pokeGoing(path) {
				return fuse.ENOENT
			}
			out.SetEntryTimeout(keep) // node 0: a name that is not
			return fuse.OK
		}
		if err != nil {
			return status(err)
		}
		if try == lookupTries {
			watched = false
			since = v.table.began()
		}
		if n := v.table.remember(parent, name, on, since); n != nil {
			if v.keep(n) {
				v.entry(out, n, on, watched)
				return fuse.OK
			}
			v.Forget(n.id, 1) // replaced since it was found
		}
		if try > lookupTries {
			return fuse.EAGAIN
		}
	}
}

// searchable says whether the user may look names up in a directory.
func (v *View) searchable(dir *node) fuse.Status {
	path, ok := v.table.path(dir)
	if !ok {
		return fuse.ENOENT
	}
	on, err := v.branch.Lookup(path)
	if err != nil {
		return status(err)
	}
	return v.allowed(on, unix.X_OK)
}

// Forget implements fuse.RawFileSystem.
func (v *View) Forget(id, count uint64) {
	v.table.forget(id, count)
	v.letGo(v.table.takeDropped())
}

// current resolves where n is, and checks that n is still what is there. v.moving
// is held.
func (v *View) current(n *node) (string, overlay.Node, fuse.Status) {
	return v.currentIn(v.branch, n)
}

func (v *View) currentIn(branch *overlay.Branch, n *node) (string, overlay.Node, fuse.Status) {
	path, ok := v.table.path(n)
	if !ok {
		return "", overlay.Node{}, fuse.ENOENT
	}
	on, err := branch.Lookup(path)
	if err != nil {
		if k := overlay.KindOf(err); k == overlay.NotExist || k == overlay.NotDir {
			// The kernel still had the name: make it ask again.
			return "", on, fuse.Status(unix.ESTALE)
		}
		return "", on, status(err)
	}
	if on.Version != v.table.versionOf(n) {
		return path, on, fuse.Status(unix.ESTALE)
	}
	return path, on, fuse.OK
}

// GetAttr implements fuse.RawFileSystem.
func (v *View) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	v.moving.RLock()
	defer v.moving.RUnlock()
	n := v.table.find(in.NodeId)
	if n == nil {
		return fuse.Status(unix.ESTALE)
	}
	return v.getAttr(n, out)
}

func (v *View) getAttr(n *node, out *fuse.AttrOut) fuse.Status {
	watched := v.parentWatched(n)
	_, on, st := v.current(n)
	if st == fuse.OK {
		out.SetTimeout(attrValidity(watched, on))
		v.fill(&out.Attr, on)
		return fuse.OK
	}
	// No name, or another branch's: its descriptors still ask for it.
	return v.orphanAttr(n, out)
}

// orphanAttr answers for a node that its path does not resolve to.
func (v *View) orphanAttr(n *node, out *fuse.AttrOut) fuse.Status {
	f := &n.open
	if n.typ == unix.S_IFREG {
		if _, st := v.reading(n.id); st != fuse.OK {
			return st
		}
	} else {
		f.mu.RLock()
	}
	defer f.mu.RUnlock()
	_, named := v.table.path(n)
	on := f.on
	if f.writer != nil {
		on = f.writer.Node()
	}
	a := on.Attr
	switch {
	case f.reader != nil || f.writer != nil:
		var st unix.Stat_t
		if err := unix.Fstat(f.fd(), &st); err != nil {
			return status(err)
		}
		a.Size, a.Blocks = st.Size, st.Blocks
		a.UID, a.GID = st.Uid, st.Gid
		a.Atime = overlay.Time{Sec: st.Atim.Sec, Nsec: uint32(st.Atim.Nsec)}
		a.Mtime = overlay.Time{Sec: st.Mtim.Sec, Nsec: uint32(st.Mtim.Nsec)}
		a.Ctime = overlay.Time{Sec: st.Ctim.Sec, Nsec: uint32(st.Ctim.Nsec)}
		a.Mode = a.Mode&typeMask | st.Mode&permMask
	case named:
		// The kernel came by the name: it looks that up again.
		return fuse.Status(unix.ESTALE)
	}
	if !named {
		a.Nlink = 0
	}
	v.fillAttr(&out.Attr, &a, on)
	return fuse.OK
}

// Access implements fuse.RawFileSystem. Only a view that checks permissions
// itself is asked.
func (v *View) Access(cancel <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	v.moving.RLock()
	defer v.moving.RUnlock()
	n := v.table.find(in.NodeId)
	if n == nil {
		return fuse.Status(unix.ESTALE)
	}
	_, on, st := v.current(n)
	if st != fuse.OK {
		return st
	}
	return v.allowed(on, in.Mask)
}

// Readlink implements fuse.RawFileSystem.
func (v *View) Readlink(cancel <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	v.moving.RLock()
	defer v.moving.RUnlock()
	n := v.table.find(header.NodeId)
	if n == nil {
		return nil, fuse.Status(unix.ESTALE)
	}
	_, on, st := v.current(n)
	if st != fuse.OK {
		return nil, st
	}
	target, err := on.Readlink()
	if err != nil {
		return nil, status(err)
	}
	return []byte(target), fuse.OK
}

// StatFs implements fuse.RawFileSystem: of the disk that the base is on.
func (v *View) StatFs(cancel <-chan struct{}, header *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	var st unix.Statfs_t
	// An O_PATH descriptor will do for fstatfs.
	if err := unix.Fstatfs(v.base.rootFd, &st); err != nil {
		return status(err)
	}
	out.Blocks, out.Bfree, out.Bavail = st.Blocks, st.Bfree, st.Bavail
	out.Files, out.Ffree = st.Files, st.Ffree
	out.Bsize, out.Frsize = uint32(st.Bsize), uint32(st.Frsize)
	out.NameLen = uint32(st.Namelen)
	return fuse.OK
}
