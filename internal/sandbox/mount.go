package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Source is the name of our mounts in the first column of /proc/mounts.
const Source = "shadowlsp"

// mount makes the init's mount namespace what the program shall see, and
// returns the descriptors to give away, and why /proc is not fresh or "".
func (in *initProcess) mount() (freshProc string, give []int, failed *Error) {
	if in.spec.NoNamespaces {
		if failed := becomeSubreaper(); failed != nil {
			return "", nil, failed
		}
		return "there are no namespaces", nil, nil
	}
	// No mount may travel, in or out: what the person mounts meanwhile below
	// the root would cover the view, and what we mount would cover the root.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", nil, &Error{Op: "make mounts private", Kind: Namespace, Err: err}
	}
	if in.spec.NoPIDNamespace {
		freshProc = "there is no pid namespace"
		if failed := becomeSubreaper(); failed != nil {
			return "", nil, failed
		}
	} else if err := mountProc(); err != nil {
		// The kernel refuses it where the outer /proc has something mounted
		// over parts of it (containers). The outer one stays: its numbers are
		// not the program's own, /proc/self is right, and another user
		// namespace's processes cannot be entered through it.
		freshProc = err.Error()
	}
	if in.spec.Inside {
		give, failed = in.settle()
		return freshProc, give, failed
	}
	if in.spec.NoView {
		in.readOnly = readOnly(in.spec.Mount)
		return freshProc, nil, nil
	}
	if in.spec.Keeper != nil {
		if failed := in.furnish(); failed != nil {
			return "", nil, failed
		}
	}
	fuse, failed := mountFuse(in.spec.Mount, in.spec.UserNS)
	if failed != nil {
		return "", nil, failed
	}
	return freshProc, []int{fuse}, nil
}

func becomeSubreaper() *Error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return &Error{Op: "become subreaper", Kind: Namespace, Err: err}
	}
	return nil
}

// guard says what keeps the program from the person's folder, after it has
// taken what right it can from the calling thread.
func (in *initProcess) guard() (g Guard, open string) {
	switch {
	case !in.spec.NoView:
		return GuardView, ""
	case !in.spec.NoNamespaces && in.readOnly == nil:
		return GuardMount, ""
	}
	err := landlock(in.spec.Mount)
	if err == nil {
		return GuardLandlock, ""
	}
	if in.readOnly != nil {
		return GuardNone, in.readOnly.Error() + "; " + err.Error()
	}
	return GuardNone, err.Error()
}

func mountProc() error {
	return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// mountFuse mounts over dir. The device must be opened here: the kernel wants
// it opened in the user namespace that it is mounted in.
func mountFuse(dir string, userNS bool) (int, *Error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return -1, &Error{Op: "mount over", Name: dir, Kind: Mount, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return -1, &Error{Op: "mount over", Name: dir, Kind: Mount, Err: unix.ENOTDIR}
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &Error{Op: "open", Name: "/dev/fuse", Kind: Mount, Err: err}
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, os.Geteuid(), os.Getegid())
	// The kernel checks rights, from the owners and modes that the view shows:
	// nobody else can where files are opened without asking. In a user namespace
	// only one uid and one gid are known to it; the view shows others' files such
	// that what the caller may do by another group or an ACL is not refused
	// (fusefs.Config.UserNS).
	options += ",default_permissions"
	if !userNS {
		// As root, programs of several uids may run in one view.
		options += ",allow_other"
	}
	if err := unix.Mount(Source, dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(fd)
		return -1, &Error{Op: "mount over", Name: dir, Kind: Mount, Err: err}
	}
	return fd, nil
}
