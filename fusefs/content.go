package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

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

// close ends all that keeps the content.
func (f *openFile) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closeReaderLocked()
	f.closeWriterLocked()
	f.unpinLocked()
}

func (f *openFile) closeReaderLocked() {
	if f.reader != nil {
		f.reader.Close()
		f.reader = nil
	}
}

func (f *openFile) closeWriterLocked() {
	if f.writer != nil {
		f.on = f.writer.Node()
		f.writer.Close()
		f.writer = nil
	}
}

func (f *openFile) unpinLocked() {
	if f.pinned {
		f.on.Unpin()
		f.pinned = false
	}
}

// becomeLocked puts the layer's own file in the place of what was read so far.
func (f *openFile) becomeLocked(on overlay.Node, w *overlay.File) {
	f.unpinLocked()
	f.closeReaderLocked()
	f.on, f.writer = on, w
	f.pinned = on.Pin()
}

// movedLocked notes that the same content is another version now.
func (f *openFile) movedLocked(on overlay.Node) error {
	if f.writer != nil || f.on.Version == on.Version {
		return nil
	}
	f.unpinLocked()
	f.on, f.pinned = on, on.Pin()
	if f.reader == nil {
		return nil
	}
	f.closeReaderLocked()
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

// copyUpLocked opens the branch's own file behind n, whole or empty: this is
// where a file of the base is copied. n.open.mu and v.moving are held.
func (v *View) copyUpLocked(n *node, truncate bool) error {
	f := &n.open
	branch, path, _, st := v.home(n)
	switch st {
	case fuse.OK:
		on, w, err := branch.OpenWrite(path, truncate, v.origin)
		if err != nil {
			return err
		}
		f.becomeLocked(on, w)
		v.own(n, on)
		return nil
	case fuse.ENOENT, fuse.Status(unix.ESTALE):
	default:
		return unix.Errno(st)
	}
	// It has no name any more, or an agent has replaced it: what is written must
	// not land in the new one. It may have been opened and closed here before.
	if w, err := f.on.OpenWrite(); err == nil {
		f.becomeLocked(f.on, w)
		return nil
	}
	on, w, err := v.branch.OpenUnlinked(f.on)
	if err != nil {
		return err
	}
	f.becomeLocked(on, w)
	v.table.orphaned(n, on)
	return nil
}

// maxShown is how many of the branches last shown are remembered.
const maxShown = 16

// home is the branch that a change of n belongs to, and n there: the branch that
// is shown, while n is what its name means in it; else the last that was shown
// in which it was. v.moving is held.
func (v *View) home(n *node) (*overlay.Branch, string, overlay.Node, fuse.Status) {
	path, on, st := v.current(n)
	if st != fuse.Status(unix.ESTALE) {
		return v.branch, path, on, st
	}
	for i := len(v.shown) - 1; i >= 0; i-- {
		if path, on, st := v.currentIn(v.shown[i], n); st == fuse.OK {
			return v.shown[i], path, on, st
		}
	}
	return v.branch, path, on, st
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
