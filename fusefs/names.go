package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// make makes something new under a name of a directory.
func (v *View) make(header *fuse.InHeader, name string, out *fuse.EntryOut, make func(path string, by overlay.Origin) (overlay.Node, error)) fuse.Status {
	if v.isPoker(header) {
		return v.pokeMake(header, name, out)
	}
	v.moving.RLock()
	defer v.moving.RUnlock()
	parent := v.table.find(header.NodeId)
	if parent == nil || !parent.dir {
		return fuse.Status(unix.ESTALE)
	}
	path, ok := v.table.child(parent, name)
	if !ok {
		return fuse.ENOENT
	}
	dir, _ := splitPath(path)
	if st := v.mayChange(v.branch, dir); st != fuse.OK {
		return st
	}
	watched := v.watched(parent)
	by, err := v.creator(dir, header.Caller.Owner)
	if err != nil {
		return status(err)
	}
	on, err := make(path, by)
	if err != nil {
		return status(err)
	}
	n := v.table.made(parent, name, on)
	v.changedNames(parent, "")
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
	parent, n := v.table.find(in.NodeId), v.table.find(in.Oldnodeid)
	if parent == nil || !parent.dir || n == nil {
		return fuse.Status(unix.ESTALE)
	}
	path, ok := v.table.child(parent, name)
	if !ok {
		return fuse.ENOENT
	}
	dir, _ := splitPath(path)
	if st := v.mayChange(v.branch, dir); st != fuse.OK {
		return st
	}
	watched := v.watched(parent)
	n.open.mu.Lock()
	defer n.open.mu.Unlock()
	old, _, st := v.current(n)
	if st != fuse.OK {
		return st
	}
	on, err := v.branch.Link(old, path, v.origin)
	if err != nil {
		return status(err)
	}
	if err := n.open.movedLocked(on); err != nil {
		return status(err)
	}
	v.table.linkedAs(n, parent, name)
	v.changedNames(parent, "")
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
	parent := v.table.find(header.NodeId)
	if parent == nil || !parent.dir {
		return fuse.Status(unix.ESTALE)
	}
	path, ok := v.table.child(parent, name)
	if !ok {
		return fuse.ENOENT
	}
	on, err := v.branch.Lookup(path)
	if err != nil {
		return status(err)
	}
	dir, _ := splitPath(path)
	if st := v.mayRemove(v.branch, dir, on); st != fuse.OK {
		return st
	}
	n := v.table.named(parent, name, on.Version)
	if err := remove(path); err != nil {
		return status(err)
	}
	v.changedNames(parent, name)
	if n != nil {
		v.table.removed(n, parent, name)
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
	from, to := link{v.table.find(in.NodeId), oldName}, link{v.table.find(in.Newdir), newName}
	if from.parent == nil || to.parent == nil || !from.parent.dir || !to.parent.dir {
		return fuse.Status(unix.ESTALE)
	}
	oldPath, ok1 := v.table.child(from.parent, oldName)
	newPath, ok2 := v.table.child(to.parent, newName)
	if !ok1 || !ok2 {
		return fuse.ENOENT
	}
	source, err := v.branch.Lookup(oldPath)
	if err != nil {
		return status(err)
	}
	target, err := v.branch.Lookup(newPath)
	if err != nil && overlay.KindOf(err) != overlay.NotExist {
		return status(err)
	}
	replaces := err == nil
	if st := v.mayRename(oldPath, newPath, source, target, replaces); st != fuse.OK {
		return st
	}
	n := v.table.named(from.parent, oldName, source.Version)
	var over *node
	if replaces {
		over = v.table.named(to.parent, newName, target.Version)
	}
	if err := v.branch.Rename(oldPath, newPath, flags, v.origin); err != nil {
		return status(err)
	}
	v.changedNames(from.parent, "")
	v.changedNames(to.parent, "")
	if n != nil && n == over {
		return fuse.OK // two names of one file: nothing happens, by the book
	}
	if over != nil {
		if flags == overlay.Exchange {
			v.table.renamed(over, to, from)
			v.rekey(over, oldPath)
		} else {
			v.table.removed(over, to.parent, newName)
		}
	}
	if n != nil {
		v.table.renamed(n, from, to)
		v.rekey(n, newPath)
	} else {
		// The kernel moves a node that an agent has replaced meanwhile.
		v.tell.add(news{what: ofBranch, path: oldPath, op: overlay.OpReplace})
		v.tell.add(news{what: ofBranch, path: newPath, op: overlay.OpReplace})
	}
	return fuse.OK
}

func (v *View) mayRename(oldPath, newPath string, source, target overlay.Node, replaces bool) fuse.Status {
	oldDir, _ := splitPath(oldPath)
	newDir, _ := splitPath(newPath)
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
