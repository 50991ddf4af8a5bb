package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// handle is an open file description of the kernel's.
type handle struct {
	node   *node
	branch *overlay.Branch // where it was opened
	writes bool
}

func (v *View) newHandle(h *handle) uint64 {
	v.table.hold(h.node)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lastHandle++
	v.handles[v.lastHandle] = h
	return v.lastHandle
}

// handle is nil for a number that was never given, which the kernel does not use.
func (v *View) handle(fh uint64) *handle {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.handles[fh]
}

// Release implements fuse.RawFileSystem.
func (v *View) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	v.mu.Lock()
	h := v.handles[in.Fh]
	delete(v.handles, in.Fh)
	v.mu.Unlock()
	if h != nil {
		v.drop(h)
	}
}

// drop undoes newHandle, and enter for a file.
func (v *View) drop(h *handle) {
	h.node.open.leave(h.writes)
	v.table.release(h.node)
}

// fd is the descriptor to read from. f.mu is held.
func (f *openFile) fd() int {
	switch {
	case f.writer != nil:
		return int(f.writer.Fd())
	case f.reader != nil:
		return int(f.reader.Fd())
	}
	return -1
}

// enterLocked counts a handle opened in branch.
func (f *openFile) enterLocked(branch *overlay.Branch, writes bool) {
	// The branch stays that of the first handle: those that write are all of it.
	if f.handles == 0 {
		f.branch = branch
	} else if f.branch != branch {
		f.mixed = true
	}
	f.handles++
	if writes {
		f.writers++
	}
	if !f.pinned {
		f.pinned = f.on.Pin()
	}
}

func (f *openFile) leave(writes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handles--
	if writes {
		f.writers--
	}
	if f.handles > 0 {
		return
	}
	f.closeLocked()
	f.branch, f.mixed = nil, false
}

func (f *openFile) closeLocked() {
	if f.reader != nil {
		f.reader.Close()
		f.reader = nil
	}
	if f.writer != nil {
		f.on = f.writer.Node()
		f.writer.Close()
		f.writer = nil
	}
	if f.pinned {
		f.on.Unpin()
		f.pinned = false
	}
}

// becomeLocked puts the layer's own file in the place of what was read so far.
func (f *openFile) becomeLocked(on overlay.Node, w *overlay.File) {
	if f.pinned {
		f.on.Unpin()
		f.pinned = false
	}
	if f.reader != nil {
		f.reader.Close()
		f.reader = nil
	}
	f.on, f.writer = on, w
	if f.handles > 0 {
		f.pinned = on.Pin()
	}
}

// movedLocked notes that the same content is another version now.
func (f *openFile) movedLocked(on overlay.Node) error {
	if f.writer != nil || f.on.Version == on.Version {
		return nil
	}
	if f.pinned {
		f.on.Unpin()
		f.pinned = on.Pin()
	}
	f.on = on
	if f.reader == nil {
		return nil
	}
	f.reader.Close()
	f.reader = nil
	return f.readableLocked(on)
}

// readableLocked opens the file for reading if it is not open yet.
func (f *openFile) readableLocked(on overlay.Node) error {
	if f.reader != nil || f.writer != nil {
		return nil
	}
	r, err := on.Open()
	if err != nil {
		return err
	}
	f.reader, f.on = r, on
	return nil
}

// writable makes n the layer's own file, if it is not yet: this is where a file
// of the base is copied. v.moving is held.
func (v *View) writable(n *node) (*overlay.File, error) {
	f := &n.open
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writer == nil {
		if err := v.copyUpLocked(n, f.branch, false); err != nil {
			return nil, err
		}
	}
	return f.writer, nil
}

// copyUpLocked opens the branch's own file behind n, whole or empty. n.open.mu
// is held.
func (v *View) copyUpLocked(n *node, branch *overlay.Branch, truncate bool) error {
	f := &n.open
	path, named := v.table.path(n)
	if named {
		// An agent may have replaced the file since it was opened: then what is
		// written must not land in the new one.
		now, err := branch.Lookup(path)
		if k := overlay.KindOf(err); k == overlay.NotExist || k == overlay.NotDir {
			named = false
		} else if err != nil {
			return err
		} else if now.Version != v.table.versionOf(n) {
			named = false
		}
	}
	if !named && v.fixed {
		// It may have been opened and closed here before.
		if w, err := f.on.OpenWrite(); err == nil {
			f.becomeLocked(f.on, w)
			return nil
		}
	}
	if !named {
		on, w, err := branch.OpenUnlinked(f.on)
		if err != nil {
			return err
		}
		f.becomeLocked(on, w)
		v.table.orphaned(n, on)
		return nil
	}
	on, w, err := branch.OpenWrite(path, truncate, v.origin)
	if err != nil {
		return err
	}
	f.becomeLocked(on, w)
	v.own(n, on)
	return nil
}

// own notes that n is now on: the look-ups of its names must find it, and no
// older node.
func (v *View) own(n *node, on overlay.Node) {
	for _, l := range v.table.became(n, on) {
		v.tell.add(news{what: ofBranch, path: l, op: overlay.OpReplace})
	}
}

// wrote counts what was written to n, before it is acknowledged.
func (v *View) wrote(n *node, w *overlay.File) {
	v.table.touch(n)
	w.Wrote(v.origin)
}

func wantsWrite(flags uint32) bool { return flags&unix.O_ACCMODE != unix.O_RDONLY }
