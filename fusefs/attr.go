package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

const (
	typeMask = unix.S_IFMT
	permMask = 0o7777
)

// fill turns the overlay's attributes into the kernel's.
func (v *View) fill(out *fuse.Attr, on overlay.Node) { v.fillAttr(out, &on.Attr, on) }

func (v *View) fillAttr(out *fuse.Attr, a *overlay.Attr, on overlay.Node) {
	*out = fuse.Attr{
		Ino:       a.Ino,
		Size:      uint64(a.Size),
		Blocks:    uint64(a.Blocks),
		Atime:     uint64(a.Atime.Sec),
		Mtime:     uint64(a.Mtime.Sec),
		Ctime:     uint64(a.Ctime.Sec),
		Atimensec: a.Atime.Nsec,
		Mtimensec: a.Mtime.Nsec,
		Ctimensec: a.Ctime.Nsec,
		Mode:      a.Mode,
		Nlink:     a.Nlink,
		Owner:     fuse.Owner{Uid: a.UID, Gid: a.GID},
		Rdev:      kernelDev(a.Rdev),
		Blksize:   a.BlockSize,
	}
	if v.userNS {
		v.ownIDs(out, on)
	}
}

// kernelDev is a device number as FUSE carries it: in 32 bits.
func kernelDev(dev uint64) uint32 {
	major, minor := unix.Major(dev), unix.Minor(dev)
	return minor&0xff | major<<8 | (minor&^0xff)<<12
}

func deviceOf(rdev uint32) uint64 {
	return unix.Mkdev(rdev>>8&0xfff, rdev&0xff|rdev>>12&0xfff00)
}

// ownIDs shows our own ids where the kernel would else refuse a write that the
// user may make. In a user namespace it knows only these, and lets nobody write
// to a file with an owner or group that it does not know; but a file of the
// user's may have any of his groups, and one of somebody else's may be his to
// write by group or ACL. What he may not write keeps its owner, and shows as
// nobody's.
func (v *View) ownIDs(out *fuse.Attr, on overlay.Node) {
	if out.Uid == v.uid && out.Gid == v.gid {
		return
	}
	if out.Uid != v.uid && v.allowed(on, unix.W_OK) != fuse.OK {
		return
	}
	out.Uid, out.Gid = v.uid, v.gid
}

// validity is how long the kernel may keep something from a directory that is
// watched or not.
func validity(watched bool) time.Duration {
	if watched {
		return cached
	}
	return 0
}

// entry answers a look-up.
func (v *View) entry(out *fuse.EntryOut, n *node, on overlay.Node, watched bool) {
	out.NodeId, out.Generation = n.id, 1
	out.SetEntryTimeout(validity(watched))
	out.SetAttrTimeout(validity(watched))
	v.fill(&out.Attr, on)
}

// watched sees to it that changes in the lower part of a directory are noticed,
// and says whether they are. Without a lower part there is nothing to notice.
func (v *View) watched(dir *node) bool {
	return !dir.hasBase || v.base.watch.watch(dir.base)
}

// parentWatched says whether changes of n's own name and attributes are noticed.
func (v *View) parentWatched(n *node) bool {
	if n == v.table.root {
		return v.watched(n)
	}
	v.table.mu.Lock()
	var parent *node
	if len(n.links) > 0 {
		parent = n.links[0].parent
	}
	v.table.mu.Unlock()
	return parent == nil || v.watched(parent)
}
