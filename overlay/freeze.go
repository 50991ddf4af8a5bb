package overlay

import "golang.org/x/sys/unix"

// freeze makes what the branch shows now a chain of frozen layers, which the
// caller holds a reference on.
func (b *Branch) freeze() (c *chain, err error) {
	err = b.locked(func() error {
		c, err = b.freezeLocked()
		return err
	})
	return c, err
}

// freezeLocked is freeze with write held. An empty top stays the top.
func (b *Branch) freezeLocked() (*chain, error) {
	s, old := b.store, b.chain.Load()
	top := old.layers[0]
	if !top.used {
		c := &chain{layers: old.layers[1:]}
		s.retain(c)
		return c, nil
	}
	for _, l := range old.layers[1:] {
		// Left in a frozen layer by a freeze that failed half way: what is written
		// to it would show in whatever stands on that layer.
		if len(b.openFiles(l, nil)) > 0 {
			return nil, kindError(Busy)
		}
	}
	next := s.onTop(old)
	// The record comes first: should this process be killed before the end, the
	// old layer still holds everything, and nobody else refers to it yet.
	if err := b.recordChain(next); err != nil {
		s.releaseChain(next)
		return nil, err
	}
	s.step("recorded")
	if err := b.carryAll(top, next); err != nil {
		if next.layers[0].used {
			return nil, err // half carried: both layers are in use from now on
		}
		b.recordChain(old)
		s.releaseChain(next)
		return nil, err
	}
	s.retain(old) // for the caller
	s.releaseChain(old)
	return old, nil
}

// carried is a file that is open for writing when its layer is frozen. It goes
// on in the new top, and the frozen layer gets the copy.
type carried struct {
	file *file
	size int64
	temp []string // the copy under as many names as the file has, in the old top's work directory
}

// carryAll moves the open files of the old top to the new and makes next the
// chain of the branch. Needs write.
func (b *Branch) carryAll(top *layer, next *chain) error {
	done := map[*file]*carried{}
	defer func() {
		for _, c := range done {
			for _, t := range c.temp {
				top.unlink(t) // left over only after an error
			}
		}
	}()
	for {
		missing := b.openFiles(top, done)
		for _, f := range missing {
			c, err := b.copyOpen(top, f)
			if err != nil {
				return err
			}
			done[f] = c
		}
		b.store.step("open files copied")
		if err := next.layers[0].makeIf(len(done) > 0); err != nil {
			return err
		}
		if again, err := b.carry(top, next, done); !again {
			return err
		}
	}
}

func (l *layer) makeIf(need bool) error {
	if !need {
		return nil
	}
	return l.make()
}

// openFiles are the named files of l that are open for writing and not in done.
func (b *Branch) openFiles(l *layer, done map[*file]*carried) (out []*file) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	for f := range l.open {
		if done[f] == nil && f.grave == "" {
			out = append(out, f)
		}
	}
	return out
}

// copyOpen makes the copy that stays in the frozen layer. Needs write, which
// keeps the names of f as they are.
func (b *Branch) copyOpen(top *layer, f *file) (*carried, error) {
	n, err := b.nodeAt(f.names[0].path())
	if err != nil {
		return nil, err
	}
	if err := b.store.room(weightOf(n.Attr)); err != nil {
		return nil, err
	}
	c := &carried{file: f, size: weightOf(n.Attr)}
	for range f.names {
		t := top.temp()
		if len(c.temp) == 0 {
			err = b.copyFile(t, n, false)
		} else {
			err = top.link(c.temp[0], t)
		}
		c.temp = append(c.temp, t)
		if err != nil {
			for _, t := range c.temp {
				top.unlink(t)
			}
			return nil, err
		}
	}
	return c, nil
}

// carry does the renames and the index; again: a file was opened meanwhile.
func (b *Branch) carry(top *layer, next *chain, done map[*file]*carried) (again bool, err error) {
	top.mu.Lock()
	defer top.mu.Unlock()
	if len(b.openFiles(top, done)) > 0 {
		return true, nil
	}
	to := next.layers[0]
	to.mu.Lock()
	defer to.mu.Unlock()
	var failed error
	for f, c := range done {
		if failed = b.carryFile(top, to, f, c); failed != nil {
			break
		}
		delete(done, f)
	}
	if failed != nil && !to.used {
		return false, failed
	}
	top.frozen = true
	b.chain.Store(next)
	return false, failed
}

func (b *Branch) carryFile(top, to *layer, f *file, c *carried) error {
	s := b.store
	stay := &file{version: s.serial(), mode: f.mode, perm: f.perm, ino: f.ino, cid: s.unique(), born: f.born, base: f.base, size: c.size}
	stay.stamp = stay.version
	stay.opened.Store(true)
	stay.layer.Store(top)
	names := f.names
	for i, e := range names {
		path := e.path()
		if err := to.mirror(e.parent); err != nil {
			return err
		}
		finish, err := s.announce(intent{Op: intentCarry, Layer: top.id, From: path, Target: to.id, To: c.temp[i]})
		if err != nil {
			return err
		}
		if err := renameBetween(top, path, to, path); err != nil {
			finish()
			return err
		}
		s.step("carried")
		if err := top.rename(c.temp[i], path, 0); err != nil {
			if renameBetween(to, path, top, path) == nil {
				finish()
			} // else the intent stays
			return err
		}
		s.step("copy left behind")
		finish()

		moved := &entry{name: e.name, kind: fileEntry, file: f}
		parentAt(to, e.parent).add(moved)
		to.used = true
		to.charge(entryCost)
		f.names[i] = moved
		to.setSum(moved, share(path, fileEntry, f.mode|f.perm, f.cid))
		e.file = stay
		stay.names = append(stay.names, e)
		top.setSum(e, share(path, fileEntry, f.mode|f.perm, stay.cid))
	}
	top.charge(c.size - f.size)
	to.charge(f.size)
	s.mu.Lock()
	top.refs -= f.pins
	to.refs += f.pins
	delete(top.open, f)
	if f.writers > 0 { // it may have been closed since it was copied
		to.open[f] = struct{}{}
	}
	s.mu.Unlock()
	f.layer.Store(to)
	return nil
}

// mirror makes the directory that another layer has as e, with all parents, one
// that merges in l.
func (l *layer) mirror(e *entry) error {
	if e.parent == nil || parentAt(l, e) != nil {
		return nil
	}
	if err := l.mirror(e.parent); err != nil {
		return err
	}
	if err := l.at(e.path(), func(dir int, name string) error { return mkdirat(dir, name, 0o755) }); err != nil && err != unix.EEXIST {
		return err
	}
	parentAt(l, e.parent).add(&entry{name: e.name, kind: dirEntry, dir: &dirState{version: l.store.serial(), ino: e.dir.ino}})
	l.charge(entryCost)
	return nil
}

// parentAt is the directory of l at the path of e in e's layer.
func parentAt(l *layer, e *entry) *entry { return l.find(e.path()) }

// renameBetween moves a file from one layer to another.
func renameBetween(from *layer, path string, to *layer, target string) error {
	return from.at(path, func(fd int, name string) error {
		return to.at(target, func(tfd int, tname string) error { return unix.Renameat(fd, name, tfd, tname) })
	})
}
