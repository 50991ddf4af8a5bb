package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// temporary are the directories that a keeper's programs have for themselves.
// They are in memory: nothing has to be left to clear them away when everything
// is killed at once.
var temporary = []string{"/tmp", "/var/tmp", "/dev/shm"}

// temporarySize bounds each of them; the kernel's default of a half of the
// memory would let two branches take all of it.
const temporarySize = "size=25%"

// furnish makes a keeper's surroundings, before the view is mounted among them.
func (in *initProcess) furnish() *Error {
	k, lack := in.spec.Keeper, in.lack
	if k.Net == NetPrivate {
		lack(loopbackUp(), "no loopback: commands of a branch cannot reach each other")
	}
	for _, l := range k.Layered {
		lack(layer(l.Path, l.Lower, l.Upper, l.Work), "branches share "+l.Path+", which begins empty")
	}
	// What stays is taken before anything covers it.
	var trees []tree
	for _, kept := range append(submounts(k.Home), k.Keep...) {
		fd, dir, err := take(kept)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			lack(err, "not there inside: "+kept.Path)
			continue
		}
		defer unix.Close(fd)
		trees = append(trees, tree{kept.Path, fd, dir})
	}
	// What commands may write besides is taken from the whole as it was.
	whole, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err == nil {
		defer unix.Close(whole)
	}
	// A read-only mount refuses what Landlock does not know of: modes, owners,
	// times. What is mounted from here on can be written to.
	all := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &all); err != nil {
		lack(err, "modes, owners and times of your files can be changed")
	}
	if err == nil {
		err = in.keepWhole(whole)
	}
	lack(err, "nothing more can be allowed by --write")
	if k.Home != "" {
		lack(coverHome(k.Home), "programs that write to your home fail")
	}
	if failed := in.ownTemporary(); failed != nil {
		return failed
	}
	var covered []string
	for _, path := range outermost(k.Hide) {
		isDir, err := cover(path)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		lack(err, "within reach: "+path)
		if isDir && err == nil {
			covered = append(covered, path)
		}
	}
	for _, t := range trees {
		lack(t.place(), "not there inside: "+t.path)
	}
	lack(ownTerminals(), "other terminals of yours are within reach")
	if err := os.MkdirAll(in.spec.Mount, 0o755); err != nil {
		return &Error{Op: "make", Name: in.spec.Mount, Kind: Mount, Err: err}
	}
	for _, dir := range covered {
		lack(unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""), "can be written to: "+dir)
	}
	if k.Strict && len(in.lacks) > 0 {
		return &Error{Op: "prepare", Kind: Namespace, Err: errors.New(strings.Join(in.lacks, "; "))}
	}
	return nil
}

// lack notes what cannot be had, if there is an error.
func (in *initProcess) lack(err error, lost string) {
	if err != nil {
		in.lacks = append(in.lacks, lost+" ("+err.Error()+")")
	}
}

// ownTemporary mounts the temporary directories, and makes a home that is below
// one of them.
func (in *initProcess) ownTemporary() *Error {
	done := map[string]bool{}
	for _, dir := range temporary {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || done[real] {
			continue
		}
		done[real] = true
		err = unix.Mount("tmpfs", real, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,"+temporarySize)
		if err != nil && dir == scratch && in.whole != 0 {
			return &Error{Op: "mount over", Name: real, Kind: Mount, Err: err} // what is below must not be seen
		}
		in.lack(err, "no "+dir+" of its own: programs cannot write there")
	}
	if home := in.spec.Keeper.Home; home != "" {
		_ = os.MkdirAll(home, 0o700) // a home in a temporary directory is an empty one
	}
	return nil
}

// outermost leaves out what is below another of these paths.
func outermost(paths []string) (out []string) {
	paths = slices.Clone(paths)
	slices.Sort(paths) // "/a" comes before "/a/b", if not right before it
	for _, path := range paths {
		if !slices.ContainsFunc(out, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }) {
			out = append(out, path)
		}
	}
	return out
}

// tree is a part of the file system that is to stay.
type tree struct {
	path string
	fd   int
	dir  bool
}

// take clones the mount tree at a path.
func take(kept Kept) (fd int, dir bool, err error) {
	var st unix.Stat_t
	if err := unix.Stat(kept.Path, &st); err != nil {
		return -1, false, err
	}
	fd, err = unix.OpenTree(unix.AT_FDCWD, kept.Path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, false, fmt.Errorf("open_tree: %w", err)
	}
	if !kept.Writable {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			unix.Close(fd)
			return -1, false, fmt.Errorf("mount_setattr: %w", err)
		}
	}
	return fd, st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// scratch is where the keeper puts what it needs and programs must not see; a
// temporary directory is mounted over it afterwards.
const scratch = "/tmp"

// keepWhole attaches the tree of everything as it was, where only the keeper's
// descriptor leads.
func (in *initProcess) keepWhole(whole int) error {
	if err := unix.Mount("tmpfs", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,"+temporarySize); err != nil {
		return err
	}
	for _, dir := range []string{"whole", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(scratch, dir), 0o755); err != nil {
			return err
		}
	}
	at := filepath.Join(scratch, "whole")
	if err := unix.MoveMount(whole, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	var err error
	in.whole, err = unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}

// coverHome lets programs write in the person's home without a trace: their
// changes are in memory. Tools make files there without being asked, and fail
// where they cannot.
func coverHome(home string) error {
	for _, dir := range temporary {
		if strings.HasPrefix(home+"/", dir+"/") {
			return nil // it is covered with that
		}
	}
	return layer(home, home, scratch+"/upper", scratch+"/work")
}

// layer shows lower at path, and takes the changes into upper.
func layer(path, lower, upper, work string) error {
	for _, dir := range []string{lower, upper, work} {
		if strings.ContainsAny(dir, ":,\\") {
			return fmt.Errorf("%s has a character that overlayfs gives a meaning", dir)
		}
	}
	// Without the last option, in a user namespace, nothing could be renamed or
	// replaced.
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", lower, upper, work)
	if err := unix.Mount("overlay", path, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mounting an overlay: %w", err)
	}
	return nil
}

// submounts are what is mounted below the home: an overlay does not show it.
func submounts(home string) (kept []Kept) {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); home != "" && len(fields) > 4 && strings.HasPrefix(fields[4], home+"/") {
			kept = append(kept, Kept{Path: fields[4]})
		}
	}
	return kept
}

// place puts a tree at its path again, whether that has been covered or not.
func (t tree) place() error {
	dir := t.path
	if !t.dir {
		dir = filepath.Dir(t.path)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if !t.dir {
		f, err := os.OpenFile(t.path, os.O_CREATE|os.O_RDONLY, 0o600)
		if err != nil {
			return err
		}
		f.Close()
	}
	return unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// cover makes a directory look empty, and anything else lead nowhere.
func cover(path string) (dir bool, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return true, unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m")
	}
	return false, unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
}

// ownTerminals gives the namespace terminals of its own: another one's
// keystrokes could be read through its device.
func ownTerminals() error {
	if err := unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("mount devpts: %w", err)
	}
	var st unix.Stat_t
	if unix.Lstat("/dev/ptmx", &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil // to pts/ptmx
	}
	return unix.Mount("/dev/pts/ptmx", "/dev/ptmx", "", unix.MS_BIND, "")
}

// loopbackUp brings lo up in a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var request struct { // the kernel's struct ifreq
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = unix.IFF_UP | unix.IFF_RUNNING
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("bringing lo up: %w", errno)
	}
	return nil
}

// settle is what an init inside a keeper's namespaces does: its own pidfd and,
// where the program gets one, the terminal's other side are given away.
func (in *initProcess) settle() (give []int, failed *Error) {
	in.fewPids = in.limitPids()
	for i, path := range in.spec.Writable {
		fd := firstTree + i
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		if err == nil {
			err = tree{path, fd, st.Mode&unix.S_IFMT == unix.S_IFDIR}.place()
		}
		if err != nil {
			in.lacks = append(in.lacks, "cannot be written to: "+path+" ("+err.Error()+")")
		}
		unix.Close(fd)
	}
	if !in.spec.UserNS {
		// Files of the kernel that root may write, and that concern the machine.
		for _, path := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"} {
			if unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, "") == nil {
				unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
			}
		}
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, &Error{Op: "pidfd_open", Kind: Namespace, Err: err}
	}
	give = []int{self}
	if in.spec.Terminal == nil {
		return give, nil
	}
	master, failed := in.openTerminal()
	if failed != nil {
		return nil, failed
	}
	return append(give, master), nil
}
