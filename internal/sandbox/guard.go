package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Guard is what keeps a program from writing the person's folder.
type Guard string

const (
	// GuardView: its writes go to the view, which takes them into a branch.
	GuardView Guard = "view"
	// GuardMount: the folder is mounted read-only in its namespace.
	GuardMount Guard = "read-only mount"
	// GuardLandlock: the kernel refuses it to write there. It cannot make or
	// remove anything right in the folders above either: Landlock allows whole
	// trees, so what is allowed is everything that stands beside the folder and
	// beside those above it.
	GuardLandlock Guard = "landlock"
	// GuardNone: nothing.
	GuardNone Guard = "none"
)

// readOnly makes dir and all that is mounted below it read-only in this mount
// namespace. Nobody in it can undo that without CAP_SYS_ADMIN in the namespace's
// own user namespace, and in another one these mounts are locked.
func readOnly(dir string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("open_tree %s: %w", dir, err)
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("mount_setattr %s: %w", dir, err)
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount %s: %w", dir, err)
	}
	return nil
}

const (
	// landlockFile are the rights that write to a file, landlockDir those that
	// change a directory.
	landlockFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	landlockDir  = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// landlockVersion is the first that can refuse truncating (Linux 6.2). Before,
	// "read-only" would have a hole.
	landlockVersion = 3
)

// landlock keeps the calling thread, which has no_new_privs, and what it forks
// from writing to dir and below.
func landlock(dir string) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("the kernel has no Landlock: %w", errno)
	}
	if version < landlockVersion {
		return fmt.Errorf("the kernel's Landlock has version %d, it takes %d (Linux 6.2)", version, landlockVersion)
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: landlockFile | landlockDir}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("making a Landlock ruleset: %w", errno)
	}
	defer unix.Close(int(ruleset))
	for at := filepath.Clean(dir); at != "/"; at = filepath.Dir(at) {
		// A folder that may be entered but not listed has nothing that could be
		// allowed.
		beside, err := os.ReadDir(filepath.Dir(at))
		if err != nil && !errors.Is(err, os.ErrPermission) {
			return err
		}
		for _, e := range beside {
			if e.Name() == filepath.Base(at) || e.Type()&os.ModeSymlink != 0 {
				continue
			}
			if err := landlockAllow(int(ruleset), filepath.Join(filepath.Dir(at), e.Name()), e.IsDir()); err != nil {
				return err
			}
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return fmt.Errorf("entering a Landlock ruleset: %w", errno)
	}
	return nil
}

func landlockAllow(ruleset int, path string, dir bool) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // gone meanwhile, or out of reach for the program as well
	}
	defer unix.Close(fd)
	return landlockRule(ruleset, path, fd, landlockFile|landlockDir, dir)
}

// landlockRule allows those of the handled rights that there are for a file, or
// for a directory, on fd.
func landlockRule(ruleset int, path string, fd int, handled uint64, dir bool) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: handled, Parent_fd: int32(fd)}
	if !dir {
		rule.Allowed_access &= landlockFile
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allowing %s in a Landlock ruleset: %w", path, errno)
	}
	return nil
}

// probeLandlock takes the right to write below /proc from this process, which
// is about to end, and tries.
func probeLandlock() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := landlock("/proc"); err != nil {
		return err
	}
	const file = "/proc/self/comm"
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		return errors.New("it does not keep a process from writing")
	}
	if fd, err = unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("it keeps a process from reading: %w", err)
	}
	unix.Close(fd)
	return nil
}

func landlockAbility(problem string) Ability {
	a := Ability{Name: "landlock", OK: problem == "", Detail: "a process can be kept from writing to a folder"}
	if problem == "" {
		return a
	}
	a.Detail = problem
	a.Lost = "in mode documents without namespaces, a server that wants to can write the person's folder"
	a.Remedy = "use Linux 6.2 or newer with landlock among the security modules (the boot parameter lsm=landlock,…)"
	return a
}
