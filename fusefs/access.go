package fusefs

import (
	"os"
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// In a user namespace the view checks permissions as well as the kernel (see
// Config.UserNS). There is one user, this process's own, so the base can be
// asked with its own rights: groups, ACLs and read-only mounts are then right
// by themselves. What a layer holds is judged by its mode. As root's view the
// kernel checks, and all of this answers OK.

// allowed says whether the user may do mask (unix.R_OK and so on) with on.
func (v *View) allowed(on overlay.Node, mask uint32) fuse.Status {
	if !v.userNS || mask == 0 {
		return fuse.OK
	}
	if base, whole := on.FromBase(); whole {
		err := unix.Faccessat(v.base.rootFd, orDot(base), mask, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW)
		if err == unix.EROFS {
			err = nil // the layer is not
		}
		return status(err)
	}
	return v.judge(&on.Attr, mask)
}

func orDot(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// judge is the rule of the mode bits.
func (v *View) judge(a *overlay.Attr, mask uint32) fuse.Status {
	if v.uid == 0 {
		if mask&unix.X_OK != 0 && a.Mode&typeMask == unix.S_IFREG && a.Mode&0o111 == 0 {
			return fuse.EACCES
		}
		return fuse.OK
	}
	bits := a.Mode
	switch {
	case a.UID == v.uid:
		bits >>= 6
	case a.GID == v.gid || inGroups(a.GID):
		bits >>= 3
	}
	if bits&mask != mask {
		return fuse.EACCES
	}
	return fuse.OK
}

func inGroups(gid uint32) bool {
	groups, err := os.Getgroups()
	return err == nil && slices.Contains(groups, int(gid))
}

// owns says whether the user may change mode and times of on.
func (v *View) owns(on overlay.Node) fuse.Status {
	if !v.userNS || v.uid == 0 || on.Attr.UID == v.uid {
		return fuse.OK
	}
	return fuse.EPERM
}

// mayChange says whether the user may make or remove names in a directory.
func (v *View) mayChange(branch *overlay.Branch, dir string) fuse.Status {
	if !v.userNS {
		return fuse.OK
	}
	on, err := branch.Lookup(dir)
	if err != nil {
		return status(err)
	}
	return v.allowed(on, unix.W_OK|unix.X_OK)
}

// mayRemove is mayChange for the name of on, which a sticky directory protects.
func (v *View) mayRemove(branch *overlay.Branch, dir string, on overlay.Node) fuse.Status {
	if !v.userNS {
		return fuse.OK
	}
	in, err := branch.Lookup(dir)
	if err != nil {
		return status(err)
	}
	if st := v.allowed(in, unix.W_OK|unix.X_OK); st != fuse.OK {
		return st
	}
	if in.Attr.Mode&unix.S_ISVTX != 0 && v.uid != 0 && in.Attr.UID != v.uid && on.Attr.UID != v.uid {
		return fuse.EPERM
	}
	return fuse.OK
}
