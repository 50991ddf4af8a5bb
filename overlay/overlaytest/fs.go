// Package overlaytest answers: does this tree behave like a directory of a POSIX
// file system that starts as a copy of a base and never touches it?
//
// Model: [FS] is the calls of a program on one tree. [OnBranch] makes them
// straight on an overlay branch, [OnDir] through the kernel on a directory: a
// plain one (which proves that the suite asks for the right things) or a mount
// that shows a branch. [Run] runs the cases on any of them.
//
// Invariants: a case uses only its own fresh tree; no case sleeps; errors are
// compared by overlay.Kind.
//
// Absent on purpose: what only a kernel can ask for (locks, mappings, inotify)
// and what only agents do (WriteFile, forks): those have tests in their rooms.
//
// Goroutines: none.
package overlaytest

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// FS is one tree; paths are relative to it, "" is its root.
type FS interface {
	Create(path string, mode uint32) (Handle, error) // O_CREAT|O_EXCL|O_RDWR
	Open(path string, truncate bool) (Handle, error) // O_RDWR
	Read(path string) ([]byte, error)
	Mkdir(path string, mode uint32) error
	Mkfifo(path string, mode uint32) error
	Symlink(target, path string) error
	Readlink(path string) (string, error)
	Link(oldPath, newPath string) error
	Unlink(path string) error
	Rmdir(path string) error
	Rename(oldPath, newPath string, flags overlay.RenameFlags) error
	Stat(path string) (overlay.Attr, error) // lstat
	List(path string) ([]overlay.DirEntry, error)
	Chmod(path string, mode uint32) error
	Truncate(path string, size int64) error
	SetTimes(path string, atime, mtime overlay.Time) error
	SetXattr(path, name string, value []byte, flags int) error
	GetXattr(path, name string) ([]byte, error)
	ListXattr(path string) ([]string, error)
	RemoveXattr(path, name string) error
}

// Handle is an open file.
type Handle interface {
	io.ReaderAt
	io.WriterAt
	Stat() (overlay.Attr, error)
	Close() error
}

// OnBranch is the tree that a branch shows.
func OnBranch(b *overlay.Branch) FS { return onBranch{b} }

type onBranch struct{ b *overlay.Branch }

type branchHandle struct{ *overlay.File }

func (h branchHandle) Stat() (overlay.Attr, error) { return h.File.Node().Stat() }

func (h branchHandle) WriteAt(p []byte, off int64) (int, error) {
	n, err := h.File.WriteAt(p, off)
	h.File.Wrote(overlay.Origin{})
	return n, err
}

func handle(f *overlay.File, err error) (Handle, error) {
	if err != nil {
		return nil, err
	}
	return branchHandle{f}, nil
}

func (o onBranch) Create(p string, mode uint32) (Handle, error) {
	_, f, err := o.b.Create(p, mode, overlay.Origin{})
	return handle(f, err)
}

func (o onBranch) Open(p string, truncate bool) (Handle, error) {
	_, f, err := o.b.OpenWrite(p, truncate, overlay.Origin{})
	return handle(f, err)
}

func (o onBranch) Read(p string) ([]byte, error) { return o.b.ReadFile(p) }

func (o onBranch) Mkdir(p string, mode uint32) error {
	_, err := o.b.Mkdir(p, mode, overlay.Origin{})
	return err
}

func (o onBranch) Mkfifo(p string, mode uint32) error {
	_, err := o.b.Mknod(p, unix.S_IFIFO|mode, 0, overlay.Origin{})
	return err
}

func (o onBranch) Symlink(target, p string) error {
	_, err := o.b.Symlink(target, p, overlay.Origin{})
	return err
}

func (o onBranch) Readlink(p string) (string, error) {
	n, err := o.b.Lookup(p)
	if err != nil {
		return "", err
	}
	return n.Readlink()
}

func (o onBranch) Link(p, q string) error {
	_, err := o.b.Link(p, q, overlay.Origin{})
	return err
}

func (o onBranch) Unlink(p string) error { return o.b.Unlink(p, overlay.Origin{}) }
func (o onBranch) Rmdir(p string) error  { return o.b.Rmdir(p, overlay.Origin{}) }

func (o onBranch) Rename(p, q string, f overlay.RenameFlags) error {
	return o.b.Rename(p, q, f, overlay.Origin{})
}

func (o onBranch) Stat(p string) (overlay.Attr, error) {
	n, err := o.b.Lookup(p)
	return n.Attr, err
}

func (o onBranch) List(p string) ([]overlay.DirEntry, error) { return o.b.ReadDir(p) }

func (o onBranch) set(p string, c overlay.AttrChange) error {
	_, err := o.b.SetAttr(p, c, overlay.Origin{})
	return err
}

func (o onBranch) Chmod(p string, mode uint32) error {
	return o.set(p, overlay.AttrChange{Mask: overlay.SetMode, Mode: mode})
}

func (o onBranch) Truncate(p string, size int64) error {
	return o.set(p, overlay.AttrChange{Mask: overlay.SetSize, Size: size})
}

func (o onBranch) SetTimes(p string, atime, mtime overlay.Time) error {
	return o.set(p, overlay.AttrChange{Mask: overlay.SetAtime | overlay.SetMtime, Atime: atime, Mtime: mtime})
}

func (o onBranch) SetXattr(p, name string, v []byte, flags int) error {
	return o.b.SetXattr(p, name, v, flags, overlay.Origin{})
}

func (o onBranch) GetXattr(p, name string) ([]byte, error) { return o.b.GetXattr(p, name) }
func (o onBranch) ListXattr(p string) ([]string, error)    { return o.b.ListXattr(p) }

func (o onBranch) RemoveXattr(p, name string) error {
	return o.b.RemoveXattr(p, name, overlay.Origin{})
}

// OnDir is the tree below a directory, through the kernel.
func OnDir(dir string) FS { return onDir{dir} }

type onDir struct{ dir string }

func (o onDir) at(p string) string { return o.dir + "/" + p }

type dirHandle struct{ *os.File }

func (h dirHandle) Stat() (overlay.Attr, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(h.Fd()), &st)
	return attr(&st), err
}

func attr(st *unix.Stat_t) overlay.Attr {
	t := func(ts unix.Timespec) overlay.Time { return overlay.Time{Sec: int64(ts.Sec), Nsec: uint32(ts.Nsec)} }
	return overlay.Attr{
		Mode: st.Mode, Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid, Rdev: uint64(st.Rdev), Size: st.Size,
		Blocks: st.Blocks, BlockSize: uint32(st.Blksize), Ino: st.Ino, Atime: t(st.Atim), Mtime: t(st.Mtim), Ctime: t(st.Ctim),
	}
}

func (o onDir) open(p string, flags int, mode uint32) (Handle, error) {
	fd, err := unix.Open(o.at(p), flags|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil, err
	}
	return dirHandle{os.NewFile(uintptr(fd), p)}, nil
}

func (o onDir) Create(p string, mode uint32) (Handle, error) {
	h, err := o.open(p, unix.O_CREAT|unix.O_EXCL, mode)
	if err == nil {
		err = o.Chmod(p, mode) // whatever the umask is
	}
	return h, err
}

func (o onDir) Open(p string, truncate bool) (Handle, error) {
	flags := 0
	if truncate {
		flags = unix.O_TRUNC
	}
	return o.open(p, flags, 0)
}

func (o onDir) Read(p string) ([]byte, error) { return os.ReadFile(o.at(p)) }

func (o onDir) Mkdir(p string, mode uint32) error {
	if err := unix.Mkdir(o.at(p), mode&0o777); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(o.at(p), &st); err != nil {
		return err
	}
	return unix.Chmod(o.at(p), mode|st.Mode&unix.S_ISGID)
}

func (o onDir) Mkfifo(p string, mode uint32) error {
	if err := unix.Mkfifo(o.at(p), mode); err != nil {
		return err
	}
	return unix.Chmod(o.at(p), mode)
}

func (o onDir) Symlink(target, p string) error      { return unix.Symlink(target, o.at(p)) }
func (o onDir) Readlink(p string) (string, error)   { return os.Readlink(o.at(p)) }
func (o onDir) Link(p, q string) error              { return unix.Link(o.at(p), o.at(q)) }
func (o onDir) Unlink(p string) error               { return unix.Unlink(o.at(p)) }
func (o onDir) Rmdir(p string) error                { return unix.Rmdir(o.at(p)) }
func (o onDir) Chmod(p string, mode uint32) error   { return unix.Chmod(o.at(p), mode) }
func (o onDir) Truncate(p string, size int64) error { return unix.Truncate(o.at(p), size) }
func (o onDir) RemoveXattr(p, name string) error    { return unix.Lremovexattr(o.at(p), name) }
func (o onDir) Stat(p string) (overlay.Attr, error) {
	var st unix.Stat_t
	err := unix.Lstat(o.at(p), &st)
	return attr(&st), err
}

func (o onDir) Rename(p, q string, f overlay.RenameFlags) error {
	return unix.Renameat2(unix.AT_FDCWD, o.at(p), unix.AT_FDCWD, o.at(q), uint(f))
}

func (o onDir) List(p string) ([]overlay.DirEntry, error) {
	entries, err := os.ReadDir(o.at(p))
	if err != nil {
		return nil, err
	}
	var out []overlay.DirEntry
	for _, e := range entries {
		a, err := o.Stat(p + "/" + e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, overlay.DirEntry{Name: e.Name(), Mode: a.Mode & unix.S_IFMT, Ino: a.Ino})
	}
	return out, nil
}

func (o onDir) SetTimes(p string, atime, mtime overlay.Time) error {
	ts := []unix.Timespec{{Sec: atime.Sec, Nsec: int64(atime.Nsec)}, {Sec: mtime.Sec, Nsec: int64(mtime.Nsec)}}
	return unix.UtimesNanoAt(unix.AT_FDCWD, o.at(p), ts, unix.AT_SYMLINK_NOFOLLOW)
}

func (o onDir) SetXattr(p, name string, v []byte, flags int) error {
	return unix.Lsetxattr(o.at(p), name, v, flags)
}

func (o onDir) GetXattr(p, name string) ([]byte, error) {
	buf := make([]byte, 4096)
	n, err := unix.Lgetxattr(o.at(p), name, buf)
	return buf[:max(n, 0)], err
}

func (o onDir) ListXattr(p string) ([]string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(o.at(p), buf)
	var out []string
	for start, i := 0, 0; i < n; i++ {
		if buf[i] == 0 {
			out = append(out, string(buf[start:i]))
			start = i + 1
		}
	}
	return out, err
}
