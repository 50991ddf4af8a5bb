package fusefs

import (
	"container/list"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// The kernel opens and closes files without saying so, and keeps what it has
// cached. Each regular file that it knows is therefore treated as one that is
// open for writing, from its first look-up until the kernel forgets it: what a
// layer holds stays readable through every descriptor and mapping, whatever
// becomes of its name.
//
// Two things cannot be kept that way.
//
// A file of the base that the person replaces or removes can be read on through
// a descriptor of ours only. Those of the files read last are kept; a program
// that opened such a file earlier and reads on where the kernel has no page gets
// ESTALE, not other content.
//
// Which branch a write belongs to. A file that is in a branch's own layer is
// that branch's, whatever is shown. What several branches show (a file of the
// base, or of a layer that was forked) is copied to the branch that is shown
// when it is first written, and whoever has it open goes along: descriptors of
// earlier turns see what is written, since they are the same node. The common
// way to write a file anew, truncating it first, is told apart: see parts.

const (
	// maxReaders bounds the descriptors that all views of a base keep of files
	// that were read, and readerShare what part they are of those that the process
	// may have.
	maxReaders  = 8192
	readerShare = 4
	// maxWriters bounds those that a view keeps of files that were written. Each is
	// copied when its branch is forked.
	maxWriters = 16
)

// readerLimit is maxReaders, or less where there are few descriptors.
func readerLimit() int {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return maxWriters
	}
	return int(min(r.Cur/readerShare, maxReaders))
}

// fileCache is nodes whose files are open, in the order of their opening.
type fileCache struct {
	limit int // fixed

	mu    sync.Mutex // guards the fields below; innermost
	order list.List  // of *node
	at    map[*node]*list.Element
}

// opened notes a node and returns the one whose file is to be closed.
func (c *fileCache) opened(n *node) (oldest *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.at[n]; e != nil {
		c.order.MoveToBack(e)
		return nil
	}
	if c.at == nil {
		c.at = map[*node]*list.Element{}
	}
	c.at[n] = c.order.PushBack(n)
	if c.order.Len() <= c.limit {
		return nil
	}
	oldest = c.order.Remove(c.order.Front()).(*node)
	delete(c.at, oldest)
	return oldest
}

// again notes a node that could not be closed: there is one too many until the
// next is opened.
func (c *fileCache) again(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[n] == nil {
		c.at[n] = c.order.PushBack(n)
	}
}

// remove forgets nodes, so that they and their branches can go.
func (c *fileCache) remove(nodes []*node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		if e := c.at[n]; e != nil {
			c.order.Remove(e)
			delete(c.at, n)
		}
	}
}

// Open implements fuse.RawFileSystem: there is no such operation, and the kernel
// neither asks again nor tells of a close.
func (v *View) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return fuse.ENOSYS
}

// keep makes the content of n readable until the kernel forgets it. false: it
// has gone already, look the name up again. v.moving is held.
func (v *View) keep(n *node) bool {
	if n.typ != unix.S_IFREG {
		return true
	}
	f := &n.open
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.pinned {
		f.pinned = f.on.Pin()
	}
	return f.pinned
}

// letGo ends what keep began, for nodes that have left the table.
func (v *View) letGo(nodes []*node) {
	for _, n := range nodes {
		n.open.close()
	}
	v.base.readers.remove(nodes)
	v.writers.remove(nodes)
}

// keptOpen counts a file just opened, and closes another one instead. No
// node's mutex is held.
func (v *View) keptOpen(n *node, writer bool) {
	files := &v.base.readers
	if writer {
		files = &v.writers
	}
	old := files.opened(n)
	if old == nil || old == n {
		return
	}
	f := &old.open
	f.mu.Lock()
	busy := writer && f.using > 0
	switch {
	case !writer:
		f.closeReaderLocked()
	case !busy:
		f.closeWriterLocked()
	}
	f.mu.Unlock()
	if busy {
		files.again(old)
	}
}

// reading finds the file to read from, with its mutex held shared.
func (v *View) reading(id uint64) (*openFile, fuse.Status) {
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

// writing is the layer's file behind a descriptor that may write, and what to
// call when it was written.
func (v *View) writing(id uint64) (n *node, w *overlay.File, end func(), st fuse.Status) {
	v.moving.RLock()
	defer v.moving.RUnlock()
	n = v.table.find(id)
	if n == nil || n.typ != unix.S_IFREG {
		return nil, nil, nil, fuse.Status(unix.ESTALE)
	}
	f := &n.open
	f.mu.Lock()
	closed := f.writer == nil
	var err error
	if closed {
		err = v.copyUpLocked(n, false)
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

// parts says whether a truncation by name (an open with O_TRUNC, mostly) must
// not be of n, but of another node for what on is in the branch shown: n is not
// that branch's own, and was there in an earlier turn, so that descriptors of
// that turn may read it. The kernel looks the name up again, and finds another.
// (Not where a descriptor is truncated: there the program would be told ESTALE.)
func (v *View) parts(n *node, on overlay.Node) bool {
	if n.open.writer != nil || !v.table.ofEarlierTurn(n) {
		return false
	}
	if w, err := on.OpenWrite(); err == nil {
		w.Close()
		return false // its own
	}
	v.table.part(n)
	return true
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
