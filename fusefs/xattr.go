package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// GetXAttr implements fuse.RawFileSystem.
func (v *View) GetXAttr(cancel <-chan struct{}, header *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	v.moving.RLock()
	defer v.moving.RUnlock()
	path, _, st := v.named(header.NodeId)
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
	return v.changeXAttr(in.NodeId, func(path string) error {
		return v.branch.SetXattr(path, attr, data, int(in.Flags), v.origin)
	})
}

// RemoveXAttr implements fuse.RawFileSystem.
func (v *View) RemoveXAttr(cancel <-chan struct{}, header *fuse.InHeader, attr string) fuse.Status {
	return v.changeXAttr(header.NodeId, func(path string) error {
		return v.branch.RemoveXattr(path, attr, v.origin)
	})
}

func (v *View) changeXAttr(id uint64, change func(path string) error) fuse.Status {
	v.moving.RLock()
	defer v.moving.RUnlock()
	n := v.table.find(id)
	if n == nil {
		return fuse.Status(unix.ESTALE)
	}
	f := &n.open
	f.mu.Lock()
	defer f.mu.Unlock()
	path, on, st := v.current(n)
	if st != fuse.OK {
		return st
	}
	if st := v.allowed(on, unix.W_OK); st != fuse.OK {
		return st
	}
	if f.handles > 0 && f.writer == nil && (f.mixed || f.branch != v.branch) {
		v.table.part(n)
		return fuse.Status(unix.ESTALE)
	}
	if err := change(path); err != nil {
		return status(err)
	}
	on, err := v.branch.Lookup(path)
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
