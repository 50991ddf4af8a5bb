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

// ownIDs shows our own ids where the kernel would else refuse what the user may
// do. In a user namespace it knows only these: it lets nobody write to a file
// with an owner or group that it does not know, and takes a group of the user's
// other than the first for a stranger's. But a file of the user's may have any
// of his groups, and one of somebody else's may be his to write or read by group
// or ACL. What he may do neither with keeps its owner, and shows as nobody's.
func (v *View) ownIDs(out *fuse.Attr, on overlay.Node) {
	if out.Uid == v.uid {
		out.Gid = v.gid
		return
	}
	if v.allowed(on, unix.W_OK) == fuse.OK {
		out.Uid, out.Gid = v.uid, v.gid
		return
	}
	if out.Gid == v.gid {
		return
	}
	for _, bit := range [...]uint32{unix.R_OK, unix.X_OK} {
		// By the bits of the others the kernel would say no.
		if out.Mode&bit == 0 && v.allowed(on, bit) == fuse.OK {
			if out.Gid = v.gid; out.Mode>>3&bit == 0 {
				out.Uid = v.uid // an ACL, and the owner may
			}
		}
	}
}

// validity is how long the kernel may keep something from a directory that is
// watched or not.
func validity(watched bool) time.Duration {
	if watched {
		return cached
	}
	return 0
}

// attrValidity is how long it may keep a file's attributes: none that are another
// branch's to see otherwise.
func attrValidity(watched bool, on overlay.Node) time.Duration {
	return validity(watched && !on.Elsewhere)
}

// entry answers a look-up.
func (v *View) entry(out *fuse.EntryOut, n *node, on overlay.Node, watched bool) {
	out.NodeId, out.Generation = n.id, 1
	out.SetEntryTimeout(validity(watched))
	out.SetAttrTimeout(attrValidity(watched, on))
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
