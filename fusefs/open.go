package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// Open implements fuse.RawFileSystem.
//
// A fixed view answers that it has no such operation: the kernel then neither
// asks again nor tells of a close, and keeps what it has cached. All that a
// handle stands for elsewhere is the node's own from its first look-up until
// the kernel forgets it: see noopen.go.
func (v *View) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if v.fixed {
		return fuse.ENOSYS
	}
	v.moving.RLock()
	defer v.moving.RUnlock()
	n := v.table.find(in.NodeId)
	if n == nil || n.dir {
		return fuse.Status(unix.ESTALE)
	}
	if v.isPoker(&in.InHeader) {
		// It says that it writes, and does not.
		return v.openNode(n, in.Flags&^(unix.O_ACCMODE|unix.O_TRUNC), false, out)
	}
	return v.openNode(n, in.Flags, in.Mode&fuse.OPEN_KILL_SUIDGID != 0, out)
}

// openNode opens n; killSuid: truncating takes the suid bits, see killSuid.
func (v *View) openNode(n *node, flags uint32, killSuid bool, out *fuse.OpenOut) fuse.Status {
	f := &n.open
	f.mu.Lock()
	defer f.mu.Unlock()
	writes, truncates := wantsWrite(flags), flags&unix.O_TRUNC != 0
	_, on, st := v.current(n)
	if st != fuse.OK {
		// Deleted or replaced, but open: /proc/self/fd/N opens it again.
		if f.handles == 0 || st != fuse.ENOENT {
			return st
		}
		on = f.on
	}
	if st := v.allowed(on, openMask(flags)); st != fuse.OK {
		return st
	}
	if (writes || truncates) && f.handles > 0 && f.writer == nil && (f.mixed || f.branch != v.branch) {
		// Another branch's descriptors have this node. They must not see what is
		// written now: another look-up gives another node.
		v.table.part(n)
		return fuse.Status(unix.ESTALE)
	}
	var err error
	switch {
	case truncates && f.writer != nil:
		if err = f.writer.Truncate(0); err == nil {
			v.wrote(n, f.writer)
		}
	case truncates:
		err = v.copyUpLocked(n, v.branch, true)
	default:
		err = f.readableLocked(on)
	}
	if err != nil {
		if f.handles == 0 {
			f.closeLocked()
		}
		return status(err)
	}
	if truncates && killSuid {
		v.killSuid(n, f.writer)
	}
	f.enterLocked(v.branch, writes)
	out.Fh = v.newHandle(&handle{node: n, branch: v.branch, writes: writes})
	// What is cached belongs to the node, and a node to one content.
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// fmodeExec is how the kernel's open asks for execution; the bit is the
// kernel's own and not in any header.
const fmodeExec = 0x20

func openMask(flags uint32) uint32 {
	mask := [...]uint32{unix.R_OK, unix.W_OK, unix.R_OK | unix.W_OK, 0}[flags&unix.O_ACCMODE]
	if flags&unix.O_TRUNC != 0 {
		mask |= unix.W_OK
	}
	if flags&fmodeExec != 0 {
		mask = unix.X_OK
	}
	return mask
}

// Create implements fuse.RawFileSystem.
func (v *View) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	v.moving.RLock()
	defer v.moving.RUnlock()
	parent := v.table.find(in.NodeId)
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
	by, err := v.creator(dir, in.Caller.Owner)
	if err != nil {
		return status(err)
	}
	on, w, err := v.branch.Create(path, in.Mode&permMask, by)
	if overlay.KindOf(err) == overlay.Exist && in.Flags&unix.O_EXCL == 0 {
		// Somebody else made it since the kernel looked.
		if st := v.lookup(parent, name, &out.EntryOut); st != fuse.OK {
			return st
		}
		n := v.table.find(out.NodeId)
		if n == nil || n.typ != unix.S_IFREG {
			v.Forget(out.NodeId, 1)
			return fuse.Status(unix.ESTALE)
		}
		if v.fixed {
			// Nothing is opened here, but what the flags do besides.
			if in.Flags&unix.O_TRUNC != 0 {
				if st := v.truncate(n); st != fuse.OK {
					v.Forget(n.id, 1)
					return st
				}
				if _, on, st := v.current(n); st == fuse.OK {
					v.fill(&out.Attr, on)
				}
			}
			out.OpenFlags = fuse.FOPEN_KEEP_CACHE
			return fuse.OK
		}
		if st := v.openNode(n, in.Flags&^unix.O_CREAT, in.OpenFlags&fuse.OPEN_KILL_SUIDGID != 0, &out.OpenOut); st != fuse.OK {
			v.Forget(n.id, 1)
			return st
		}
		return fuse.OK
	}
	if err != nil {
		return status(err)
	}
	n := v.table.made(parent, name, on)
	v.changedNames(parent, "")
	writes := wantsWrite(in.Flags)
	n.open.mu.Lock()
	n.open.becomeLocked(on, w)
	if !v.fixed {
		n.open.enterLocked(v.branch, writes)
	}
	n.open.mu.Unlock()
	v.entry(&out.EntryOut, n, on, watched)
	if v.fixed {
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE
		v.keep(n)
		v.keptOpen(n, true)
		return fuse.OK
	}
	out.Fh = v.newHandle(&handle{node: n, branch: v.branch, writes: writes})
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
	f, st := v.reading(in.NodeId, in.Fh)
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
	f, st := v.reading(in.NodeId, in.Fh)
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
