package fusefs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// In a fixed view the kernel opens and closes files without saying so. Each
// regular file that it knows is therefore treated as one that is open, by one
// handle that may write: from its first look-up until the kernel forgets it. So
// what a layer holds stays readable through every descriptor and mapping,
// whatever becomes of its name.
//
// What cannot be kept that way is the base: a file of the base that the person
// replaces or removes can be read on through a descriptor of ours only. Those
// of the files read last are kept; a program that opened such a file earlier and
// reads on where the kernel has no page gets ESTALE, not other content.
//
// This is why a view that switches asks to be told of each open: what is
// written into a file of the base that both branches show belongs to the branch
// it was opened in, and only the opening says which.

const (
	// maxReaders and maxWriters bound the descriptors that a fixed view keeps.
	// Each file open for writing is copied when its branch is forked.
	maxReaders = 512
	maxWriters = 16
)

// fileCache is the nodes whose files are open, in the order of their opening.
type fileCache struct {
	mu               sync.Mutex // guards the fields below; innermost
	readers, writers []*node
}

// opened notes a node and returns the one whose file is to be closed.
func (c *fileCache) opened(n *node, writer bool) (oldest *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, limit := &c.readers, maxReaders
	if writer {
		list, limit = &c.writers, maxWriters
	}
	*list = append(*list, n)
	if len(*list) <= limit {
		return nil
	}
	oldest = (*list)[0]
	(*list)[0] = nil
	*list = (*list)[1:]
	return oldest
}

// keep makes the content of n readable until the kernel forgets it. false: it
// has gone already, look the name up again. v.moving is held.
func (v *View) keep(n *node) bool {
	if !v.fixed || n.typ != unix.S_IFREG {
		return true
	}
	f := &n.open
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.handles == 0 {
		f.enterLocked(v.branch, true)
	}
	if !f.pinned {
		f.pinned = f.on.Pin()
	}
	return f.pinned
}

// letGo ends what keep began, for nodes that have left the table.
func (v *View) letGo(nodes []*node) {
	for _, n := range nodes {
		n.open.mu.RLock()
		kept := n.open.handles > 0
		n.open.mu.RUnlock()
		if kept {
			n.open.leave(true)
		}
	}
}

// keptOpen counts a file just opened, and closes another one instead. No
// node's mutex is held.
func (v *View) keptOpen(n *node, writer bool) {
	old := v.files.opened(n, writer)
	if old == nil || old == n {
		return
	}
	f := &old.open
	f.mu.Lock()
	busy := false
	switch {
	case !writer && f.reader != nil:
		f.reader.Close()
		f.reader = nil
	case writer && f.writer != nil:
		if busy = f.using > 0; !busy {
			f.on = f.writer.Node()
			f.writer.Close()
			f.writer = nil
		}
	}
	f.mu.Unlock()
	if busy {
		v.files.mu.Lock()
		v.files.writers = append(v.files.writers, old)
		v.files.mu.Unlock()
	}
}

// reading finds the file to read from, with its mutex held shared.
func (v *View) reading(id, fh uint64) (*openFile, fuse.Status) {
	if !v.fixed {
		h := v.handle(fh)
		if h == nil {
			return nil, fuse.EBADF
		}
		h.node.open.mu.RLock()
		return &h.node.open, fuse.OK
	}
	n := v.table.find(id)
	if n == nil || n.typ != unix.S_IFREG {
		return nil, fuse.Status(unix.ESTALE)
	}
	f := &n.open
	f.mu.RLock()
	for f.fd() < 0 {
		f.mu.RUnlock()
		f.mu.Lock()
		closed := f.fd() < 0
		err := f.readableLocked(f.on)
		f.mu.Unlock()
		if err != nil {
			return nil, status(err)
		}
		if closed {
			v.keptOpen(n, false)
		}
		f.mu.RLock()
	}
	return f, fuse.OK
}

// written is the layer's file behind a descriptor that may write, and what to
// call when it was written.
func (v *View) written(id, fh uint64) (n *node, w *overlay.File, end func(), st fuse.Status) {
	v.moving.RLock()
	defer v.moving.RUnlock()
	if !v.fixed {
		h := v.handle(fh)
		if h == nil || !h.writes {
			return nil, nil, nil, fuse.EBADF
		}
		// The handle keeps w open.
		w, err := v.writable(h.node)
		return h.node, w, func() {}, status(err)
	}
	n = v.table.find(id)
	if n == nil || n.typ != unix.S_IFREG {
		return nil, nil, nil, fuse.Status(unix.ESTALE)
	}
	f := &n.open
	f.mu.Lock()
	closed := f.writer == nil
	var err error
	if closed {
		err = v.copyUpLocked(n, f.branch, false)
	}
	if err == nil {
		f.using++
		w = f.writer
	}
	f.mu.Unlock()
	if err != nil {
		return nil, nil, nil, status(err)
	}
	if closed {
		v.keptOpen(n, true)
	}
	return n, w, func() {
		f.mu.Lock()
		f.using--
		f.mu.Unlock()
	}, fuse.OK
}

// truncate is what an open with O_TRUNC does to what is there.
func (v *View) truncate(n *node) fuse.Status {
	f := &n.open
	f.mu.Lock()
	defer f.mu.Unlock()
	_, on, st := v.current(n)
	if st != fuse.OK {
		return st
	}
	if st := v.allowed(on, unix.W_OK); st != fuse.OK {
		return st
	}
	if f.writer == nil {
		return status(v.copyUpLocked(n, f.branch, true))
	}
	if err := f.writer.Truncate(0); err != nil {
		return status(err)
	}
	v.wrote(n, f.writer)
	return fuse.OK
}

// takeDropped is the files that have left the table since the last call.
func (t *table) takeDropped() []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dropped
	t.dropped = nil
	return d
}

// files are all regular files of the table and those that have left it.
func (t *table) files() []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.dropped
	t.dropped = nil
	for _, n := range t.byID {
		if n.typ == unix.S_IFREG {
			all = append(all, n)
		}
	}
	return all
}

// written are the files that were ever written through.
func (t *table) written() map[*node]struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := map[*node]struct{}{}
	for _, n := range t.byID {
		if n.wrote && n.typ == unix.S_IFREG {
			found[n] = struct{}{}
		}
	}
	return found
}
