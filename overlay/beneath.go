package overlay

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// chunk is how much of a path goes into one system call: below PATH_MAX.
const chunk = 3800

// beneath opens and looks at paths below one directory and follows no symlink
// on the way, so nothing outside is reached whatever others do to the tree at
// the same time.
type beneath struct {
	// mu keeps fd open while a call uses it. Innermost of all locks.
	mu sync.RWMutex
	fd int // O_PATH; -1 once closed
	// plain: openat2 is missing (kernel before 5.6, or a seccomp filter):
	// walk component by component. Tests set it.
	plain atomic.Bool
}

const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS

// open opens path; "" is the directory itself. A symlink as last component is
// opened itself with O_PATH, else refused.
func (d *beneath) open(path string, flags int) (int, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.fd < 0 {
		return -1, kindError(Closed)
	}
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	if path == "" {
		path = "."
	}
	if len(path) > chunk || d.plain.Load() {
		return d.openSteps(path, flags)
	}
	fd, err := openat2(d.fd, path, flags)
	if err == unix.ENOSYS || err == unix.EPERM && d.probe() {
		d.plain.Store(true)
		return d.openSteps(path, flags)
	}
	return fd, err
}

func (d *beneath) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fd >= 0 {
		unix.Close(d.fd)
		d.fd = -1
	}
}

// probe says that openat2 is refused whatever the path (a seccomp filter answers EPERM).
func (d *beneath) probe() bool {
	fd, err := openat2(d.fd, ".", unix.O_PATH|unix.O_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	return err == unix.EPERM
}

func openat2(dir int, path string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags), Resolve: resolve}
	for {
		fd, err := unix.Openat2(dir, path, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// openSteps is open for long paths and for kernels without openat2.
func (d *beneath) openSteps(path string, flags int) (int, error) {
	dir, owned := d.fd, false
	done := func() {
		if owned {
			unix.Close(dir)
		}
	}
	for {
		head, rest := d.cut(path)
		f := flags
		if rest != "" {
			f = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		}
		var fd int
		var err error
		if d.plain.Load() {
			fd, err = openat(dir, head, f)
		} else {
			fd, err = openat2(dir, head, f)
		}
		done()
		if err != nil || rest == "" {
			return fd, err
		}
		dir, owned, path = fd, true, rest
	}
}

// cut takes from path what one call can resolve.
func (d *beneath) cut(path string) (head, rest string) {
	if d.plain.Load() {
		head, rest, _ = strings.Cut(path, "/")
		return head, rest
	}
	return cutLong(path)
}

func cutLong(path string) (head, rest string) {
	if len(path) <= chunk {
		return path, ""
	}
	i := strings.LastIndexByte(path[:chunk], '/')
	return path[:i], path[i+1:]
}

func openat(dir int, path string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, path, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// stat is lstat of path.
func (d *beneath) stat(path string, st *unix.Stat_t) error {
	if path != "" && strings.IndexByte(path, '/') < 0 {
		d.mu.RLock()
		defer d.mu.RUnlock()
		if d.fd < 0 {
			return kindError(Closed)
		}
		return fstatat(d.fd, path, st) // one component: nothing to follow
	}
	fd, err := d.open(path, unix.O_PATH)
	if err != nil {
		return err
	}
	err = unix.Fstat(fd, st)
	unix.Close(fd)
	return err
}

func fstatat(dir int, name string, st *unix.Stat_t) error {
	for {
		err := unix.Fstatat(dir, name, st, unix.AT_SYMLINK_NOFOLLOW)
		if err != unix.EINTR {
			return err
		}
	}
}

func (d *beneath) readlink(path string) (string, error) {
	fd, err := d.open(path, unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return readlinkat(fd, "")
}

func readlinkat(fd int, path string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(fd, path, buf)
		if err != nil {
			if err == unix.EINVAL || path == "" && err == unix.ENOENT {
				return "", kindError(NotSymlink)
			}
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// list appends the entries of the directory at path, in no order.
func (d *beneath) list(path string, out []DirEntry) ([]DirEntry, error) {
	fd, err := d.open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return out, err
	}
	defer unix.Close(fd)
	return listFd(fd, out)
}

var direntBufs = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func listFd(fd int, out []DirEntry) ([]DirEntry, error) {
	buf := direntBufs.Get().(*[32 << 10]byte)
	defer direntBufs.Put(buf)
	for {
		n, err := unix.Getdents(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return out, err
		}
		for rest := buf[:n]; len(rest) > 0; {
			// Read by offsets: a unix.Dirent is as long as the longest name, and
			// may reach over the end of the buffer.
			const (
				reclen = int(unsafe.Offsetof(unix.Dirent{}.Reclen))
				typ    = int(unsafe.Offsetof(unix.Dirent{}.Type))
				header = int(unsafe.Offsetof(unix.Dirent{}.Name))
			)
			ino, kind := binary.NativeEndian.Uint64(rest), rest[typ]
			length := binary.NativeEndian.Uint16(rest[reclen:])
			name := rest[header:length]
			rest = rest[length:]
			if i := bytes.IndexByte(name, 0); i >= 0 {
				name = name[:i]
			}
			if s := string(name); s != "." && s != ".." {
				e := DirEntry{Name: s, Mode: uint32(kind) << 12, Ino: ino}
				if kind == unix.DT_UNKNOWN {
					var st unix.Stat_t
					if fstatat(fd, s, &st) != nil {
						continue // gone meanwhile
					}
					e.Mode = st.Mode & unix.S_IFMT
				}
				out = append(out, e)
			}
		}
	}
}

func isDir(mode uint32) bool { return mode&unix.S_IFMT == unix.S_IFDIR }
func isReg(mode uint32) bool { return mode&unix.S_IFMT == unix.S_IFREG }
func isLnk(mode uint32) bool { return mode&unix.S_IFMT == unix.S_IFLNK }

func attrOf(st *unix.Stat_t) Attr {
	return Attr{
		Mode: st.Mode, Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid, Rdev: uint64(st.Rdev),
		Size: st.Size, Blocks: st.Blocks, BlockSize: uint32(st.Blksize), Ino: st.Ino,
		Atime: timeOfSpec(st.Atim), Mtime: timeOfSpec(st.Mtim), Ctime: timeOfSpec(st.Ctim),
	}
}

// baseBit marks versions that are derived from the base.
const baseBit = 1 << 63

// mix folds v into the hash h (the finaliser of splitmix64).
func mix(h, v uint64) uint64 {
	h += v + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

func mixTime(h uint64, t Time) uint64 { return mix(mix(h, uint64(t.Sec)), uint64(t.Nsec)) }

// baseVersion is Node.Version and Node.Stamp of something in the base.
func baseVersion(st *unix.Stat_t) (version, stamp uint64) {
	v := mix(mix(1, uint64(st.Dev)), st.Ino)
	stamp = mixTime(mixTime(mix(v, uint64(st.Size)), timeOfSpec(st.Mtim)), timeOfSpec(st.Ctim)) | baseBit
	if isDir(st.Mode) {
		return v | baseBit, stamp
	}
	return stamp, stamp
}
