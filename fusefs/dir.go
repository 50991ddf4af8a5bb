package fusefs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// listing is what one open directory reads: a snapshot from its beginning, so
// that no name comes twice or is left out while others come and go.
type listing struct {
	mu      sync.Mutex // guards entries; the kernel reads one after the other
	entries []fuse.DirEntry
}

// OpenDir implements fuse.RawFileSystem.
//
// FOPEN_CACHE_DIR is not set: listings would be wrong after a switch.
func (v *View) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	v.moving.RLock()
	defer v.moving.RUnlock()
	n := v.table.find(in.NodeId)
	if n == nil || !n.dir {
		return fuse.Status(unix.ESTALE)
	}
	if v.userNS {
		_, on, st := v.current(n)
		if st != fuse.OK {
			return st
		}
		if st := v.allowed(on, unix.R_OK); st != fuse.OK {
			return st
		}
	}
	out.Fh = v.newHandle(&handle{node: n, branch: v.branch, list: &listing{}})
	return fuse.OK
}

// ReadDir implements fuse.RawFileSystem.
func (v *View) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	h := v.handle(in.Fh)
	if h == nil || h.list == nil {
		return fuse.EBADF
	}
	l := h.list
	l.mu.Lock()
	defer l.mu.Unlock()
	if in.Offset == 0 {
		entries, st := v.list(h.node)
		if st != fuse.OK {
			return st
		}
		l.entries = entries
	}
	// An offset is the number of entries before it.
	for i := in.Offset; i < uint64(len(l.entries)); i++ {
		e := l.entries[i]
		e.Off = i + 1
		if !out.AddDirEntry(e) {
			break
		}
	}
	return fuse.OK
}

// list reads a directory, with the two names that every one has.
func (v *View) list(n *node) ([]fuse.DirEntry, fuse.Status) {
	v.moving.RLock()
	defer v.moving.RUnlock()
	path, self, st := v.current(n)
	if st != fuse.OK {
		if st == fuse.ENOENT {
			return nil, fuse.OK // removed while it was open: empty
		}
		return nil, st
	}
	found, err := v.branch.ReadDir(path)
	if err != nil {
		return nil, status(err)
	}
	up := self.Attr.Ino
	if path != "" {
		dir, _ := splitPath(path)
		if on, err := v.branch.Lookup(dir); err == nil {
			up = on.Attr.Ino
		}
	}
	entries := make([]fuse.DirEntry, 0, len(found)+2)
	entries = append(entries,
		fuse.DirEntry{Name: ".", Mode: unix.S_IFDIR, Ino: self.Attr.Ino},
		fuse.DirEntry{Name: "..", Mode: unix.S_IFDIR, Ino: up})
	for _, e := range found {
		entries = append(entries, dirEntry(e))
	}
	return entries, fuse.OK
}

func dirEntry(e overlay.DirEntry) fuse.DirEntry {
	return fuse.DirEntry{Name: e.Name, Mode: e.Mode, Ino: e.Ino}
}

// FsyncDir implements fuse.RawFileSystem: the overlay's operations on names are
// atomic, and durable as the file system below makes them.
func (v *View) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return fuse.OK }
