package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// Write implements fuse.RawFileSystem.
func (v *View) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	n, w, end, st := v.writing(in.NodeId)
	if st != fuse.OK {
		return 0, st
	}
	defer end()
	if err := room(w, int64(in.Offset), int64(len(data))); err != nil {
		return 0, status(err)
	}
	if in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0 {
		v.moving.RLock()
		v.killSuid(n, w)
		v.moving.RUnlock()
	}
	done := 0
	var err error
	for done < len(data) {
		m, e := unix.Pwrite(int(w.Fd()), data[done:], int64(in.Offset)+int64(done))
		if e == unix.EINTR {
			continue
		}
		if e != nil {
			err = e
			break
		}
		done += m
	}
	if done == 0 && err != nil {
		return 0, status(err)
	}
	v.wrote(n, w)
	return uint32(done), fuse.OK
}

// room asks for what a write at off would add to the file.
func room(w *overlay.File, off, length int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(w.Fd()), &st); err != nil {
		return err
	}
	if grows := off + length - max(st.Size, off); grows > 0 {
		return w.Node().Branch().Room(grows)
	}
	return nil
}

// killSuid takes the bits that a write by somebody else must take: the kernel
// leaves it to us, in exchange for not asking for an attribute before each
// write. v.moving is held.
func (v *View) killSuid(n *node, w *overlay.File) {
	path, ok := v.table.path(n)
	if !ok {
		return
	}
	b := w.Node().Branch()
	on, err := b.Lookup(path)
	if err != nil || on.Version != v.table.versionOf(n) {
		return
	}
	if mode := withoutSuid(on.Attr.Mode); mode != on.Attr.Mode {
		b.SetAttr(path, overlay.AttrChange{Mask: overlay.SetMode, Mode: mode & permMask}, v.origin)
	}
}

// withoutSuid is the kernel's rule: the group bit only where it means that.
func withoutSuid(mode uint32) uint32 {
	if mode&typeMask != unix.S_IFREG {
		return mode
	}
	mode &^= unix.S_ISUID
	if mode&unix.S_IXGRP != 0 {
		mode &^= unix.S_ISGID
	}
	return mode
}

// Fsync implements fuse.RawFileSystem. What was not written needs no syncing.
func (v *View) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	n := v.table.find(in.NodeId)
	if n == nil {
		return fuse.Status(unix.ESTALE)
	}
	n.open.mu.RLock()
	_, base := n.open.on.FromBase()
	base = base && n.open.writer == nil
	n.open.mu.RUnlock()
	if base {
		return fuse.OK
	}
	f, st := v.reading(in.NodeId)
	if st != fuse.OK {
		return st
	}
	defer f.mu.RUnlock()
	const dataOnly = 1
	if in.FsyncFlags&dataOnly != 0 {
		return status(unix.Fdatasync(f.fd()))
	}
	return status(unix.Fsync(f.fd()))
}

// Flush implements fuse.RawFileSystem: nothing waits for a close.
func (v *View) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

// Fallocate implements fuse.RawFileSystem.
func (v *View) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	n, w, end, st := v.writing(in.NodeId)
	if st != fuse.OK {
		return st
	}
	defer end()
	if in.Mode&(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_COLLAPSE_RANGE) == 0 {
		if err := room(w, int64(in.Offset), int64(in.Length)); err != nil {
			return status(err)
		}
	}
	if err := unix.Fallocate(int(w.Fd()), in.Mode, int64(in.Offset), int64(in.Length)); err != nil {
		return status(err)
	}
	v.wrote(n, w)
	return fuse.OK
}

// CopyFileRange implements fuse.RawFileSystem.
func (v *View) CopyFileRange(cancel <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	n, w, end, st := v.writing(in.NodeIdOut)
	if st != fuse.OK {
		return 0, st
	}
	defer end()
	if err := room(w, int64(in.OffOut), int64(in.Len)); err != nil {
		return 0, status(err)
	}
	f, st := v.reading(in.NodeId)
	if st != fuse.OK {
		return 0, st
	}
	defer f.mu.RUnlock()
	offIn, offOut := int64(in.OffIn), int64(in.OffOut)
	// The answer has 32 bits.
	done, err := unix.CopyFileRange(f.fd(), &offIn, int(w.Fd()), &offOut, int(min(in.Len, 1<<30)), 0)
	if err != nil {
		return 0, status(err) // EXDEV and the like: the kernel copies by itself
	}
	v.wrote(n, w)
	return uint32(done), fuse.OK
}

// Ioctl implements fuse.RawFileSystem.
func (v *View) Ioctl(cancel <-chan struct{}, in *fuse.IoctlIn, inbuf []byte, out *fuse.IoctlOut, outbuf []byte) fuse.Status {
	return fuse.Status(unix.ENOTTY)
}
