package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// Create implements fuse.RawFileSystem.
func (v *View) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	v.moving.RLock()
	defer v.moving.RUnlock()
	p, by, watched, st := v.placeFor(in.NodeId, name, in.Caller.Owner)
	if st != fuse.OK {
		return st
	}
	on, w, err := v.branch.Create(p.path, in.Mode&permMask, by)
	if overlay.KindOf(err) == overlay.Exist && in.Flags&unix.O_EXCL == 0 {
		// Somebody else made it since the kernel looked: it looks again.
		return fuse.Status(unix.ESTALE)
	}
	if err != nil {
		return status(err)
	}
	n := v.table.made(p.parent, name, on)
	v.changedNames(p.parent, "")
	n.open.mu.Lock()
	n.open.becomeLocked(on, w)
	n.open.mu.Unlock()
	v.keptOpen(n, true)
	v.entry(&out.EntryOut, n, on, watched)
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// Tmpfile implements fuse.RawFileSystem. A file without a name has no place in
// a layer; programs fall back to a name that they remove.
func (v *View) Tmpfile(cancel <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	return fuse.Status(unix.EOPNOTSUPP)
}

// creator says whose a new object in dir is. Where everything belongs to this
// process's user anyway the overlay need not be told.
func (v *View) creator(dir string, who fuse.Owner) (overlay.Origin, error) {
	by := v.origin
	if v.uid != 0 || v.userNS {
		return by, nil
	}
	on, err := v.branch.Lookup(dir)
	if err != nil {
		return by, err
	}
	by.Own, by.UID, by.GID = true, who.Uid, who.Gid
	if on.Attr.Mode&unix.S_ISGID != 0 {
		by.GID = on.Attr.GID
	}
	return by, nil
}

// Read implements fuse.RawFileSystem.
func (v *View) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	f, st := v.reading(in.NodeId)
	if st != fuse.OK {
		return nil, st
	}
	defer f.mu.RUnlock()
	n := 0
	for n < len(buf) {
		m, err := unix.Pread(f.fd(), buf[n:], int64(in.Offset)+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, status(err)
		}
		if m == 0 {
			break
		}
		n += m
	}
	return fuse.ReadResultData(buf[:n]), fuse.OK
}

// Lseek implements fuse.RawFileSystem: for holes and data only.
func (v *View) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	f, st := v.reading(in.NodeId)
	if st != fuse.OK {
		return st
	}
	defer f.mu.RUnlock()
	// SEEK_DATA and SEEK_HOLE do not depend on the position, so that it is moved
	// does no harm: all else is read and written at offsets.
	off, err := unix.Seek(f.fd(), int64(in.Offset), int(in.Whence))
	if err != nil {
		return status(err)
	}
	out.Offset = uint64(off)
	return fuse.OK
}
