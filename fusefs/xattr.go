package fusefs

import (
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// GetXAttr implements fuse.RawFileSystem.
func (v *View) GetXAttr(cancel <-chan struct{}, header *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	if attr == PokeAttr && v.isPoker(header) {
		next, err := v.nextPoke()
		if err != nil {
			return 0, status(err)
		}
		return fits(next, dest)
	}
	if attr == TryAttr && header.NodeId == fuse.FUSE_ROOT_ID && v.next() {
		return fits([]byte{1}, dest)
	}
	v.moving.RLock()
	defer v.moving.RUnlock()
	path, _, st := v.named(header.NodeId)
	if st == fuse.ENOENT {
		return v.orphanXAttr(header.NodeId, func(fd int) ([]byte, error) {
			if overlay.Reserved(attr) {
				return nil, unix.ENODATA
			}
			return readXattr(func(b []byte) (int, error) { return unix.Fgetxattr(fd, attr, b) })
		}, dest)
	}
	if st != fuse.OK {
		return 0, st
	}
	value, err := v.branch.GetXattr(path, attr)
	if err != nil {
		return 0, status(err)
	}
	return fits(value, dest)
}

// ListXAttr implements fuse.RawFileSystem.
func (v *View) ListXAttr(cancel <-chan struct{}, header *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	v.moving.RLock()
	defer v.moving.RUnlock()
	path, _, st := v.named(header.NodeId)
	if st == fuse.ENOENT {
		return v.orphanXAttr(header.NodeId, orphanNames, dest)
	}
	if st != fuse.OK {
		return 0, st
	}
	names, err := v.branch.ListXattr(path)
	if err != nil {
		return 0, status(err)
	}
	var list []byte
	for _, name := range names {
		list = append(append(list, name...), 0)
	}
	return fits(list, dest)
}

func fits(value, dest []byte) (uint32, fuse.Status) {
	if len(value) > len(dest) {
		return uint32(len(value)), fuse.ERANGE
	}
	return uint32(copy(dest, value)), fuse.OK
}

// SetXAttr implements fuse.RawFileSystem.
func (v *View) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	return v.changeXAttr(in.NodeId, attr, func(branch *overlay.Branch, path string) error {
		return branch.SetXattr(path, attr, data, int(in.Flags), v.origin)
	}, func(fd int) error { return unix.Fsetxattr(fd, attr, data, int(in.Flags)) })
}

// RemoveXAttr implements fuse.RawFileSystem.
func (v *View) RemoveXAttr(cancel <-chan struct{}, header *fuse.InHeader, attr string) fuse.Status {
	return v.changeXAttr(header.NodeId, attr, func(branch *overlay.Branch, path string) error {
		return branch.RemoveXattr(path, attr, v.origin)
	}, func(fd int) error { return unix.Fremovexattr(fd, attr) })
}

// changeXAttr changes an attribute by path, or by descriptor where there is no
// path any more.
func (v *View) changeXAttr(id uint64, attr string, change func(branch *overlay.Branch, path string) error, orphan func(fd int) error) fuse.Status {
	v.moving.RLock()
	defer v.moving.RUnlock()
	n := v.table.find(id)
	if n == nil {
		return fuse.Status(unix.ESTALE)
	}
	f := &n.open
	f.mu.Lock()
	defer f.mu.Unlock()
	branch, path, on, st := v.home(n)
	if st == fuse.ENOENT && n.typ == unix.S_IFREG {
		if overlay.Reserved(attr) {
			return fuse.EACCES
		}
		if f.writer == nil {
			if err := v.copyUpLocked(n, false); err != nil {
				return status(err)
			}
		}
		return status(orphan(int(f.writer.Fd())))
	}
	if st != fuse.OK {
		return st
	}
	if st := v.allowed(on, unix.W_OK); st != fuse.OK {
		return st
	}
	if err := change(branch, path); err != nil {
		return status(err)
	}
	on, err := branch.Lookup(path)
	if err != nil {
		return status(err)
	}
	if n.dir {
		v.table.touch(n)
		return fuse.OK
	}
	if err := f.movedLocked(on); err != nil {
		return status(err)
	}
	v.own(n, on)
	return fuse.OK
}

// named is current by id.
func (v *View) named(id uint64) (string, overlay.Node, fuse.Status) {
	n := v.table.find(id)
	if n == nil {
		return "", overlay.Node{}, fuse.Status(unix.ESTALE)
	}
	return v.current(n)
}

// orphanXAttr reads from a file that is open and has no name any more.
func (v *View) orphanXAttr(id uint64, read func(fd int) ([]byte, error), dest []byte) (uint32, fuse.Status) {
	f, st := v.reading(id)
	if st != fuse.OK {
		return 0, st
	}
	defer f.mu.RUnlock()
	value, err := read(f.fd())
	if err != nil {
		return 0, status(err)
	}
	return fits(value, dest)
}

func orphanNames(fd int) ([]byte, error) {
	list, err := readXattr(func(b []byte) (int, error) { return unix.Flistxattr(fd, b) })
	if err != nil {
		return nil, err
	}
	var kept []byte
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if name != "" && !overlay.Reserved(name) {
			kept = append(append(kept, name...), 0)
		}
	}
	return kept, nil
}

// maxXattr is the kernel's limit for a value and for a list of names.
const maxXattr = 64 << 10

func readXattr(get func([]byte) (int, error)) ([]byte, error) {
	buf := make([]byte, maxXattr)
	n, err := get(buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}
