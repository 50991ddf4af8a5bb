package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// SetAttr implements fuse.RawFileSystem.
func (v *View) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	v.moving.RLock()
	defer v.moving.RUnlock()
	n := v.table.find(in.NodeId)
	if n == nil {
		return fuse.Status(unix.ESTALE)
	}
	if v.isPoker(&in.InHeader) {
		return v.getAttr(n, out) // it changes nothing
	}
	f := &n.open
	f.mu.Lock()
	_, byHandle := in.GetFh()
	on, st := v.setAttrLocked(n, byHandle, in)
	f.mu.Unlock()
	if st != fuse.OK {
		return st
	}
	if on == nil {
		return v.orphanAttr(n, out)
	}
	out.SetTimeout(attrValidity(v.parentWatched(n), *on))
	v.fill(&out.Attr, *on)
	return fuse.OK
}

// setAttrLocked returns nil for a file without a name.
func (v *View) setAttrLocked(n *node, byHandle bool, in *fuse.SetAttrIn) (*overlay.Node, fuse.Status) {
	f := &n.open
	// A file that is no longer what its name says is meant by a descriptor. (The
	// kernel says so for truncating only.)
	branch, path, now, st := v.home(n)
	if st != fuse.OK {
		if n.typ != unix.S_IFREG || st != fuse.ENOENT && !byHandle {
			return nil, st
		}
		return nil, v.setOrphanLocked(n, in)
	}
	if st := v.maySet(now, byHandle, in); st != fuse.OK {
		return nil, st
	}
	if in.Valid&fuse.FATTR_SIZE != 0 && !byHandle && v.parts(n, now) {
		return nil, fuse.Status(unix.ESTALE)
	}
	c := changeOf(in, now.Attr.Mode)
	if v.userNS {
		c.Mask &^= overlay.SetUID | overlay.SetGID // maySet: they are ours already
	}
	on, err := branch.SetAttr(path, c, v.origin)
	if err != nil {
		return nil, status(err)
	}
	if n.dir {
		v.table.touch(n)
		return &on, fuse.OK
	}
	if err := f.movedLocked(on); err != nil {
		return nil, status(err)
	}
	v.own(n, on)
	return &on, fuse.OK
}

// maySet says whether the user may make this change.
func (v *View) maySet(on overlay.Node, byHandle bool, in *fuse.SetAttrIn) fuse.Status {
	if !v.userNS {
		return fuse.OK
	}
	if in.Valid&fuse.FATTR_UID != 0 && in.Uid != v.uid || in.Valid&fuse.FATTR_GID != 0 && in.Gid != v.gid {
		return fuse.EPERM
	}
	const times = fuse.FATTR_ATIME | fuse.FATTR_MTIME
	const now = fuse.FATTR_ATIME_NOW | fuse.FATTR_MTIME_NOW
	if in.Valid&(fuse.FATTR_MODE|fuse.FATTR_UID|fuse.FATTR_GID) != 0 ||
		in.Valid&times != 0 && in.Valid&now != now && in.Valid&fuse.FATTR_SIZE == 0 {
		if st := v.owns(on); st != fuse.OK {
			return st
		}
	}
	if in.Valid&fuse.FATTR_SIZE != 0 && !byHandle {
		return v.allowed(on, unix.W_OK)
	}
	if in.Valid&times != 0 && v.owns(on) != fuse.OK {
		return v.allowed(on, unix.W_OK)
	}
	return fuse.OK
}

// changeOf translates; mode is what the file has.
func changeOf(in *fuse.SetAttrIn, mode uint32) overlay.AttrChange {
	c := overlay.AttrChange{
		Mode: in.Mode & permMask, UID: in.Uid, GID: in.Gid, Size: int64(in.Size),
		Atime: overlay.Time{Sec: int64(in.Atime), Nsec: in.Atimensec},
		Mtime: overlay.Time{Sec: int64(in.Mtime), Nsec: in.Mtimensec},
	}
	for _, m := range [...]struct {
		valid uint32
		mask  overlay.AttrMask
	}{
		{fuse.FATTR_MODE, overlay.SetMode},
		{fuse.FATTR_UID, overlay.SetUID},
		{fuse.FATTR_GID, overlay.SetGID},
		{fuse.FATTR_SIZE, overlay.SetSize},
		{fuse.FATTR_ATIME, overlay.SetAtime},
		{fuse.FATTR_MTIME, overlay.SetMtime},
	} {
		if in.Valid&m.valid != 0 {
			c.Mask |= m.mask
		}
	}
	if in.Valid&fuse.FATTR_ATIME_NOW != 0 {
		c.Mask = c.Mask&^overlay.SetAtime | overlay.SetAtimeNow
	}
	if in.Valid&fuse.FATTR_MTIME_NOW != 0 {
		c.Mask = c.Mask&^overlay.SetMtime | overlay.SetMtimeNow
	}
	// Giving a file away, and truncating one as somebody else, takes the suid
	// bits: our part, see killSuid.
	if in.Valid&(fuse.FATTR_UID|fuse.FATTR_GID|fuse.FATTR_KILL_SUIDGID) != 0 && c.Mask&overlay.SetMode == 0 {
		if m := withoutSuid(mode); m != mode {
			c.Mask |= overlay.SetMode
			c.Mode = m & permMask
		}
	}
	return c
}

// setOrphanLocked changes a file that is open and has no name any more.
func (v *View) setOrphanLocked(n *node, in *fuse.SetAttrIn) fuse.Status {
	f := &n.open
	if n.typ != unix.S_IFREG {
		return fuse.Status(unix.ESTALE)
	}
	if f.writer == nil {
		if err := v.copyUpLocked(n, false); err != nil {
			return status(err)
		}
	}
	fd := int(f.writer.Fd())
	if in.Valid&fuse.FATTR_MODE != 0 {
		if err := unix.Fchmod(fd, in.Mode&permMask); err != nil {
			return status(err)
		}
	}
	if in.Valid&(fuse.FATTR_UID|fuse.FATTR_GID) != 0 && !v.userNS {
		uid, gid := -1, -1
		if in.Valid&fuse.FATTR_UID != 0 {
			uid = int(in.Uid)
		}
		if in.Valid&fuse.FATTR_GID != 0 {
			gid = int(in.Gid)
		}
		if err := unix.Fchown(fd, uid, gid); err != nil {
			return status(err)
		}
	}
	if in.Valid&fuse.FATTR_SIZE != 0 {
		if err := unix.Ftruncate(fd, int64(in.Size)); err != nil {
			return status(err)
		}
		v.wrote(n, f.writer)
	}
	if in.Valid&(fuse.FATTR_ATIME|fuse.FATTR_MTIME) != 0 {
		return status(setTimes(fd, in))
	}
	return fuse.OK
}

func setTimes(fd int, in *fuse.SetAttrIn) error {
	pick := func(set, now uint32, sec uint64, nsec uint32) unix.Timespec {
		switch {
		case in.Valid&now != 0:
			return unix.Timespec{Nsec: unix.UTIME_NOW}
		case in.Valid&set != 0:
			return unix.Timespec{Sec: int64(sec), Nsec: int64(nsec)}
		}
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	ts := []unix.Timespec{
		pick(fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec),
		pick(fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec),
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procFD(fd), ts, 0)
}
