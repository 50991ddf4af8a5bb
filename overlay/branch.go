package overlay

import (
	"sync"
	"sync/atomic"
	"time"
)

// Origin says who changes a branch. The zero value is an agent's edit.
type Origin struct {
	// View is handed to subscribers as Change.Origin, so that a view can ignore
	// its own changes.
	View any
	// Own: what is created belongs to UID and GID instead of this process's
	// user (only root can give files away).
	Own      bool
	UID, GID uint32
}

// Branch is one line of edits. Paths are slash-separated, relative to the root,
// without "." and ".." and empty components; "" is the root; any bytes but NUL.
type Branch struct {
	store   *Store
	name    string
	from    string
	created time.Time
	since   Time // when the oldest began of the branches that it was forked from; no version of a layer is older

	// chain is what the branch shows; nil once it is dropped. Stored with write
	// and the mutex of the chain's old top held, so that who holds that mutex
	// and finds the chain unchanged may use all its layers.
	chain atomic.Pointer[chain]
	feed  feed

	// write serialises mutators.
	write sync.Mutex
	// guarded by write:
	keep        bool
	checkpoints []checkpoint
}

func (b *Branch) Name() string { return b.name }

// top is the layer that takes writes. Needs write.
func (b *Branch) top() *layer { return b.chain.Load().layers[0] }

// mutate runs a change: f with the write lock, then the subscribers. It is the
// frame of every mutator.
func (b *Branch) mutate(op, path string, f func() error) error {
	err := checkPath(path)
	if err == nil && path == "" {
		err = kindError(Busy)
	}
	if err == nil {
		err = b.locked(f)
		b.flush()
	}
	return b.wrap(op, path, err)
}

func (b *Branch) locked(f func() error) error {
	b.write.Lock()
	defer b.write.Unlock()
	if b.chain.Load() == nil {
		return kindError(Closed)
	}
	return f()
}

// mustBeAbsent resolves a path that is about to be made.
func (b *Branch) mustBeAbsent(path string) error {
	var h hit
	_, err := b.resolve(path, &h)
	switch KindOf(err) {
	case 0:
		return kindError(Exist)
	case NotExist:
		return b.clearBare(path)
	}
	return err
}

// clearBare takes away the top's directory at a path that shows nothing.
func (b *Branch) clearBare(path string) error {
	top := b.top()
	e := top.find(path)
	if e == nil || e.kind != dirEntry || !e.bare() {
		return nil
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	if err := b.takeAway(path, e, "", false); err != nil {
		return err
	}
	b.dropIndex(e)
	return nil
}

// dirEntry is the top's entry of the directory at path, made if need be: a
// directory of the layer that merges with all that is below it and changes
// nothing that the branch shows. Needs write.
func (b *Branch) dirEntry(path string) (*entry, error) {
	top := b.top()
	if err := top.make(); err != nil {
		return nil, err
	}
	if path == "" {
		return top.root, nil
	}
	e := top.find(path)
	if e != nil && e.kind == dirEntry && !e.bare() {
		return e, nil
	}
	var h hit
	n, err := b.resolve(path, &h)
	if err != nil {
		return nil, err
	}
	if e != nil && e.kind == dirEntry {
		return e, nil
	}
	if !n.IsDir() {
		return nil, kindError(NotDir)
	}
	dir, name := split(path)
	parent, err := b.dirEntry(dir)
	if err != nil {
		return nil, err
	}
	// The real directory's attributes are not shown (own is false). It is
	// writable for us whatever the mode is.
	real := n.Attr
	real.Mode |= 0o700
	real.Mtime = Time{}
	err = top.at(path, func(fd int, name string) error { return mkdirat(fd, name, 0o700) })
	if err != nil {
		return nil, err
	}
	b.store.step("parent made")
	if err := top.settle(path, &real); err != nil {
		return nil, err
	}
	e = &entry{name: name, kind: dirEntry, dir: &dirState{version: b.store.serial(), ino: n.Attr.Ino}}
	top.mu.Lock()
	parent.add(e)
	top.used = true
	top.mu.Unlock()
	top.charge(entryCost)
	return e, nil
}

// find is the entry at path itself, nil if the layer has none.
func (l *layer) find(path string) *entry {
	e := l.root
	for path != "" && e != nil {
		if e.kind != dirEntry {
			return nil
		}
		var name string
		name, path = cutFirst(path)
		e = e.dir.children[name]
	}
	return e
}

// under finds what the top layer hides at path: what path would show if the top
// had no entry of its own there. Needs write.
func (b *Branch) under(path string, h *hit) (exists bool, err error) {
	dir, name := split(path)
	ph := hit{low: dir, known: len(dir) + 1}
	c := b.chain.Load()
	if top := c.layers[0]; top.used && !top.walk(&ph) {
		*h = hit{}
		return false, nil
	}
	c.walk(1, join(ph.low, name), h)
	if h.file != nil || len(h.dirs) > 0 {
		return true, nil
	}
	if !h.inBase {
		return false, nil
	}
	_, err = b.store.baseMtime(h.low)
	if k := KindOf(err); k == NotExist || k == NotDir {
		return false, nil
	}
	return err == nil, err
}

// touch gives the directory of the top layer the time of a change in it. Needs
// the layer's mutex.
func (s *Store) touch(d *dirState) {
	t := s.now()
	d.mtime, d.ctime, d.set = t, t, false
	d.stamp = s.serial()
}
