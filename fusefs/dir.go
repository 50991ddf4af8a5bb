package fusefs

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// A directory is read without being opened, and the kernel keeps the listing
// until a name in it changes. Why what it keeps is right: a change is made, then
// a name in the directory is told of, then the listing's pages are dropped.
//
//   - The kernel holds the directory's lock shared from asking for names to
//     having kept the answer, and takes it exclusively for a notification about a
//     name, known or not. After that no answer of before the change is under way,
//     and none comes.
//   - What was kept before goes with the pages. All that a listing has in common
//     is its beginning: where the first page is missing, the rest is not used,
//     even where somebody who began before the change reads on and adds to it.
//
// (fs/fuse/readdir.c, and fuse_reverse_inval_entry in fs/fuse/dir.c. In the other
// order an answer under way fills what was dropped: FUSE.md's wrong listings.)
//
// The kernel does its part of this where the view itself makes or removes a name,
// but looks at it only when somebody begins to read: who began after the change
// may go on, at the second call, in what one who began before has completed
// since (TestListingsUnderHammer saw it once in ten thousand). So the pages are
// dropped there, too, by the handler: the kernel holds the directory's lock
// exclusively meanwhile, so nobody who reads it has a page of it locked.
//
// The price: pages that are dropped while a listing of several calls is half kept
// keep it from ever being kept whole, until the kernel forgets the directory.
// It is then read from us each time.
//
// Without an open there is no snapshot: each answer is of its own moment. A
// position is therefore the hash of a name, so that who reads on finds all that
// was there all the time once, whatever has come or gone between.

// Positions: "." and "..", then what nameAt gives, then the end.
const (
	atSelf    = 1
	atParent  = 2
	afterLast = 1 << 62
)

// nameAt is the position behind a name. Within a listing those that collide are
// set apart, which is stable while both are there.
func (v *View) nameAt(name string) uint64 {
	return atParent + 1 + maphash.String(v.seed, name)>>3
}

// maxListings is how many large directories may be half read at once without
// being listed again for each answer.
const maxListings = 16

// listings are those of directories that did not fit into one answer, from
// their last beginning, while they are right.
type listings struct {
	mu    sync.Mutex // guards the fields below; innermost
	of    map[*node][]fuse.DirEntry
	order []*node // oldest first
}

func (l *listings) keep(n *node, entries []fuse.DirEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(n)
	if l.of == nil {
		l.of = map[*node][]fuse.DirEntry{}
	}
	if len(l.order) == maxListings {
		l.forgetLocked(l.order[0])
	}
	l.of[n] = entries
	l.order = append(l.order, n)
}

func (l *listings) get(n *node) []fuse.DirEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[n]
}

func (l *listings) forget(n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(n)
}

func (l *listings) forgetLocked(n *node) {
	if _, there := l.of[n]; there {
		delete(l.of, n)
		l.order = slices.DeleteFunc(l.order, func(m *node) bool { return m == n })
	}
}

// changedNames tells what the view itself has done to a directory's names. It is
// called by the handler of that, before the answer; name: one that has gone.
func (v *View) changedNames(n *node, gone string) {
	if !v.keepsListings() {
		return
	}
	if gone == "" {
		v.listings.forget(n)
	} else {
		v.listings.removed(n, gone)
	}
	v.content(n)
}

// removed takes one name out: who removes all of a large directory as he reads
// it must not have it listed again for each answer.
func (l *listings) removed(n *node, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := l.of[n]
	for i := range entries {
		if entries[i].Name == name {
			// Copied, since somebody may be reading it.
			l.of[n] = slices.Delete(slices.Clone(entries), i, i+1)
			return
		}
	}
}

// OpenDir implements fuse.RawFileSystem: there is no such operation, and the
// kernel keeps listings; or there is, for kernels that cannot be told reliably.
func (v *View) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if v.keepsListings() {
		return fuse.ENOSYS
	}
	return fuse.OK
}

// ReadDir implements fuse.RawFileSystem.
func (v *View) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	n := v.table.find(in.NodeId)
	if n == nil || !n.dir {
		return fuse.Status(unix.ESTALE)
	}
	if n == v.table.root && in.Offset == 0 && v.trial.on.Load() {
		v.listing()
	}
	entries, st := v.listFrom(n, in.Offset)
	if st != fuse.OK {
		return st
	}
	first, _ := slices.BinarySearchFunc(entries, in.Offset+1, func(e fuse.DirEntry, off uint64) int {
		return int(int64(e.Off) - int64(off)) // below 1 << 63 both
	})
	for i, e := range entries[first:] {
		if first+i == len(entries)-1 {
			e.Off = afterLast // so that the end is known without listing again
		}
		if !out.AddDirEntry(e) {
			v.listings.keep(n, entries)
			return fuse.OK
		}
	}
	return fuse.OK
}

// listFrom lists a directory, in the order of positions. An answer that begins
// at 0 is always of now.
func (v *View) listFrom(n *node, off uint64) ([]fuse.DirEntry, fuse.Status) {
	switch {
	case off >= afterLast:
		return nil, fuse.OK
	case off > 0:
		if entries := v.listings.get(n); entries != nil {
			return entries, fuse.OK
		}
	}
	entries, st := v.list(n)
	if v.listed != nil {
		v.listed()
	}
	slices.SortFunc(entries, func(a, b fuse.DirEntry) int { return int(int64(a.Off) - int64(b.Off)) })
	for i := range entries[min(1, len(entries)):] {
		entries[i+1].Off = max(entries[i+1].Off, entries[i].Off+1)
	}
	return entries, st
}

// list reads a directory, with the two names that every one has.
func (v *View) list(n *node) ([]fuse.DirEntry, fuse.Status) {
	v.moving.RLock()
	defer v.moving.RUnlock()
	watched := v.watched(n)
	path, self, st := v.current(n)
	if st != fuse.OK {
		if st == fuse.ENOENT {
			return nil, fuse.OK // removed while it was open: empty
		}
		return nil, st
	}
	if !watched {
		// Kept for the moment it takes to drop it.
		v.tell.add(news{what: ofListing, path: path})
	}
	if st := v.allowed(self, unix.R_OK); st != fuse.OK {
		return nil, st
	}
	if !v.trial.on.Load() { // which is ours
		v.asked.list(path)
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
		fuse.DirEntry{Name: ".", Mode: unix.S_IFDIR, Ino: self.Attr.Ino, Off: atSelf},
		fuse.DirEntry{Name: "..", Mode: unix.S_IFDIR, Ino: up, Off: atParent})
	for _, e := range found {
		entries = append(entries, v.dirEntry(e))
	}
	return entries, fuse.OK
}

func (v *View) dirEntry(e overlay.DirEntry) fuse.DirEntry {
	return fuse.DirEntry{Name: e.Name, Mode: e.Mode, Ino: e.Ino, Off: v.nameAt(e.Name)}
}

// FsyncDir implements fuse.RawFileSystem: the overlay's operations on names are
// atomic, and durable as the file system below makes them.
func (v *View) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return fuse.OK }
