package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// place is a name in a directory.
type place struct {
	parent    *node
	name      string
	dir, path string
}

// placeOf finds a name in the directory with this id. v.moving is held.
func (v *View) placeOf(id uint64, name string) (place, fuse.Status) {
	parent := v.table.find(id)
	if parent == nil || !parent.dir {
		return place{}, fuse.Status(unix.ESTALE)
	}
	dir, ok := v.table.path(parent)
	if !ok {
		return place{}, fuse.ENOENT
	}
	return place{parent, name, dir, join(dir, name)}, fuse.OK
}

// placeFor is placeOf for something new that who makes: by says whose it is. What
// appears there meanwhile by another way is noticed if watched.
func (v *View) placeFor(id uint64, name string, who fuse.Owner) (p place, by overlay.Origin, watched bool, st fuse.Status) {
	p, st = v.placeOf(id, name)
	if st == fuse.OK {
		st = v.mayChange(v.branch, p.dir)
	}
	if st != fuse.OK {
		return p, by, false, st
	}
	watched = v.watched(p.parent)
	by, err := v.creator(p.dir, who)
	return p, by, watched, status(err)
}

// make makes something new under a name of a directory.
func (v *View) make(header *fuse.InHeader, name string, out *fuse.EntryOut, make func(path string, by overlay.Origin) (overlay.Node, error)) fuse.Status {
	if v.isPoker(header) {
		return v.pokeMake(header, name, out)
	}
	v.moving.RLock()
	defer v.moving.RUnlock()
	p, by, watched, st := v.placeFor(header.NodeId, name, header.Caller.Owner)
	if st != fuse.OK {
		return st
	}
	on, err := make(p.path, by)
	if err != nil {
		return status(err)
	}
	n := v.table.made(p.parent, name, on)
	v.changedNames(p.parent, "")
	v.keep(n)
	v.entry(out, n, on, watched)
	return fuse.OK
}

// Mkdir implements fuse.RawFileSystem.
func (v *View) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return v.make(&in.InHeader, name, out, func(path string, by overlay.Origin) (overlay.Node, error) {
		mode := in.Mode & permMask
		dir, _ := splitPath(path)
		if on, err := v.branch.Lookup(dir); err == nil && on.Attr.Mode&unix.S_ISGID != 0 {
			mode |= unix.S_ISGID // goes down with the group
		}
		return v.branch.Mkdir(path, mode, by)
	})
}

// Mknod implements fuse.RawFileSystem.
func (v *View) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return v.make(&in.InHeader, name, out, func(path string, by overlay.Origin) (overlay.Node, error) {
		return v.branch.Mknod(path, in.Mode, deviceOf(in.Rdev), by)
	})
}

// Symlink implements fuse.RawFileSystem.
func (v *View) Symlink(cancel <-chan struct{}, header *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return v.make(header, name, out, func(path string, by overlay.Origin) (overlay.Node, error) {
		return v.branch.Symlink(target, path, by)
	})
}

// Link implements fuse.RawFileSystem.
func (v *View) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	v.moving.RLock()
	defer v.moving.RUnlock()
	n := v.table.find(in.Oldnodeid)
	if n == nil {
		return fuse.Status(unix.ESTALE)
	}
	p, _, watched, st := v.placeFor(in.NodeId, name, in.Caller.Owner)
	if st != fuse.OK {
		return st
	}
	n.open.mu.Lock()
	defer n.open.mu.Unlock()
	old, _, st := v.current(n)
	if st != fuse.OK {
		return st
	}
	on, err := v.branch.Link(old, p.path, v.origin)
	if err != nil {
		return status(err)
	}
	if err := n.open.movedLocked(on); err != nil {
		return status(err)
	}
	v.table.linkedAs(n, p.parent, name)
	v.changedNames(p.parent, "")
	v.own(n, on)
	v.entry(out, n, on, watched)
	return fuse.OK
}

// Unlink implements fuse.RawFileSystem.
func (v *View) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	return v.remove(header, name, func(path string) error { return v.branch.Unlink(path, v.origin) })
}

// Rmdir implements fuse.RawFileSystem.
func (v *View) Rmdir(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	return v.remove(header, name, func(path string) error { return v.branch.Rmdir(path, v.origin) })
}

func (v *View) remove(header *fuse.InHeader, name string, remove func(path string) error) fuse.Status {
	if v.isPoker(header) {
		return v.pokeRemove(header, name)
	}
	v.moving.RLock()
	defer v.moving.RUnlock()
	p, st := v.placeOf(header.NodeId, name)
	if st != fuse.OK {
		return st
	}
	on, err := v.branch.Lookup(p.path)
	if err != nil {
		return status(err)
	}
	if st := v.mayRemove(v.branch, p.dir, on); st != fuse.OK {
		return st
	}
	n := v.table.named(p.parent, name, on.Version)
	if err := remove(p.path); err != nil {
		return status(err)
	}
	v.changedNames(p.parent, name)
	if n != nil {
		v.table.removed(n, p.parent, name)
	}
	return fuse.OK
}

// Rename implements fuse.RawFileSystem.
func (v *View) Rename(cancel <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	var flags overlay.RenameFlags
	switch in.Flags {
	case 0:
	case unix.RENAME_NOREPLACE:
		flags = overlay.NoReplace
	case unix.RENAME_EXCHANGE:
		flags = overlay.Exchange
	default:
		return fuse.EINVAL
	}
	// Alone: the paths of all below a directory change.
	v.moving.Lock()
	defer v.moving.Unlock()
	from, st := v.placeOf(in.NodeId, oldName)
	if st != fuse.OK {
		return st
	}
	to, st := v.placeOf(in.Newdir, newName)
	if st != fuse.OK {
		return st
	}
	source, err := v.branch.Lookup(from.path)
	if err != nil {
		return status(err)
	}
	target, err := v.branch.Lookup(to.path)
	if err != nil && overlay.KindOf(err) != overlay.NotExist {
		return status(err)
	}
	replaces := err == nil
	if st := v.mayRename(from.dir, to.dir, source, target, replaces); st != fuse.OK {
		return st
	}
	n := v.table.named(from.parent, oldName, source.Version)
	var over *node
	if replaces {
		over = v.table.named(to.parent, newName, target.Version)
	}
	if err := v.branch.Rename(from.path, to.path, flags, v.origin); err != nil {
		return status(err)
	}
	v.changedNames(from.parent, "")
	v.changedNames(to.parent, "")
	if n != nil && n == over {
		return fuse.OK // two names of one file: nothing happens, by the book
	}
	if over != nil {
		if flags == overlay.Exchange {
			v.table.renamed(over, to.link(), from.link())
			v.rekey(over, from.path)
		} else {
			v.table.removed(over, to.parent, newName)
		}
	}
	if n != nil {
		v.table.renamed(n, from.link(), to.link())
		v.rekey(n, to.path)
	} else {
		// The kernel moves a node that an agent has replaced meanwhile.
		v.tell.add(news{what: ofBranch, path: from.path, op: overlay.OpReplace})
		v.tell.add(news{what: ofBranch, path: to.path, op: overlay.OpReplace})
	}
	return fuse.OK
}

func (p place) link() link { return link{p.parent, p.name} }

func (v *View) mayRename(oldDir, newDir string, source, target overlay.Node, replaces bool) fuse.Status {
	if st := v.mayRemove(v.branch, oldDir, source); st != fuse.OK {
		return st
	}
	if replaces {
		return v.mayRemove(v.branch, newDir, target)
	}
	return v.mayChange(v.branch, newDir)
}

// rekey makes n stand for what is at its new path: the same content.
func (v *View) rekey(n *node, path string) {
	on, err := v.branch.Lookup(path)
	if err != nil {
		v.table.retire(n)
		return
	}
	if !n.dir {
		n.open.mu.Lock()
		err = n.open.movedLocked(on)
		n.open.mu.Unlock()
		if err != nil {
			v.log.Error().Err(err).Str("path", path).Msg("a renamed file cannot be opened again")
		}
	}
	v.own(n, on)
}
