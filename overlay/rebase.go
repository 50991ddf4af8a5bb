package overlay

import (
	"slices"

	"golang.org/x/sys/unix"
)

// rebase drops the overrides at these paths of the base, which shows the same by
// now: the branch shows what it showed before, at every step. What it overrides
// beside them comes to its top layer, and what is below is left to checkpoints and
// children. Needs write.
func (b *Branch) rebase(paths map[string]bool) error {
	top := b.top()
	if err := top.make(); err != nil {
		return err
	}
	var rest []override
	err := b.overrides(func(v override) {
		if !paths[v.Path] {
			rest = append(rest, v)
		}
	})
	if err != nil {
		return err
	}
	for _, v := range rest {
		if err := b.hold(v); err != nil {
			return err
		}
		b.store.step("held")
	}
	if err := b.detach(paths); err != nil {
		return err
	}
	for path := range paths {
		if err := top.forget(path); err != nil {
			return err
		}
	}
	return b.uncover(top.root, "", paths)
}

// hold makes the top layer own an override, whatever is below it.
func (b *Branch) hold(v override) error {
	switch v.Kind {
	case Dir:
		e, err := b.dirEntry(v.Path)
		if err != nil || e.dir.own {
			return err
		}
		return b.changeDir(v.Path, v.node, Origin{}, func(*layer, *entry) error { return nil })
	case Deleted:
		if e := b.top().find(v.Path); e != nil && e.kind == whiteEntry {
			return nil
		}
		dir, name := split(v.Path)
		parent, err := b.dirEntry(dir)
		if err != nil {
			return err
		}
		if err := b.makeWhite(v.Path, parent); err != nil {
			return err
		}
		top := b.top()
		top.mu.Lock()
		defer top.mu.Unlock()
		b.enterIndex(parent, &entry{name: name, kind: whiteEntry})
		return nil
	}
	_, err := b.own(v.Path, false, Origin{})
	return err
}

// detach makes the top layer the only one, with what the others remember of the base.
func (b *Branch) detach(paths map[string]bool) error {
	old := b.chain.Load()
	top := old.layers[0]
	if len(old.layers) == 1 {
		return nil
	}
	type kept struct {
		in *layer
		f  thenFile
	}
	first := map[string]kept{}
	for _, l := range old.layers[1:] {
		for path, f := range l.then.records {
			if !paths[path] {
				first[path] = kept{l, f} // that of the lowest layer counts
			}
		}
	}
	for path, k := range first {
		content, _ := k.in.thenContent(k.f)
		if err := top.note(thenRecord{Path: []byte(path), thenFile: k.f}, content); err != nil {
			return err
		}
	}
	next := &chain{layers: []*layer{top}}
	b.store.retain(next)
	if err := b.recordChain(next); err != nil {
		b.store.releaseChain(next)
		return err
	}
	b.store.step("detached")
	top.mu.Lock()
	b.chain.Store(next)
	for _, p := range differ(old, next) {
		b.changed(p, OpReplace, Origin{})
	}
	top.mu.Unlock()
	b.store.releaseChain(old)
	return nil
}

// uncover takes the entries at these paths, and what says nothing any more, out
// of a directory of the top layer, which is all of the branch. A directory merges
// with the base's before its entries go.
func (b *Branch) uncover(dir *entry, at string, paths map[string]bool) error {
	names := make([]string, 0, len(dir.dir.children))
	for name := range dir.dir.children {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c, path := dir.dir.children[name], join(at, name)
		var err error
		switch c.kind {
		case dirEntry:
			err = b.uncoverDir(c, path, paths)
		case fileEntry:
			if paths[path] {
				err = b.uncoverFile(c, path)
			}
		case whiteEntry:
			_, gone := b.store.baseMtime(path)
			if k := KindOf(gone); paths[path] || k == NotExist || k == NotDir {
				err = b.uncoverWhite(c, path, gone == nil)
			}
		}
		if err != nil {
			return err
		}
		b.store.step("uncovered")
	}
	return nil
}

func (b *Branch) uncoverDir(e *entry, path string, paths map[string]bool) error {
	top := b.top()
	var st unix.Stat_t
	if err := b.store.base.stat(path, &st); err == nil && isDir(st.Mode) {
		if err := b.merge(e, path, &st, paths[path]); err != nil {
			return err
		}
		if err := b.uncover(e, path, paths); err != nil {
			return err
		}
	} else if k := KindOf(err); err == nil || k == NotExist || k == NotDir {
		if err := b.uncover(e, path, paths); err != nil {
			return err
		}
		if !paths[path] {
			return nil // a directory of the branch alone
		}
	} else {
		return err
	}
	if e.dir.own || e.dir.opaque || len(e.dir.children) > 0 {
		return nil
	}
	err := top.at(path, func(dir int, name string) error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
	if err != nil {
		return err
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	b.dropIndex(e)
	b.changed(path, OpAttr, Origin{})
	return nil
}

// merge makes a directory of the top one that merges with the base's, which is
// there. applied: the base has its mode.
func (b *Branch) merge(e *entry, path string, st *unix.Stat_t, applied bool) error {
	top := b.top()
	own := e.dir.own && !applied && e.dir.mode != st.Mode&0o7777
	if !e.dir.opaque && e.dir.redirect == "" && e.dir.own == own {
		return nil
	}
	for name, drop := range map[string]bool{xattrOpaque: e.dir.opaque, xattrRedirect: e.dir.redirect != "", xattrMode: !own} {
		if !drop {
			continue
		}
		if err := top.removeXattr(path, name); err != nil && err != unix.ENODATA {
			return err
		}
		b.store.step("merging")
	}
	if b.store.xattrWhites && len(e.dir.children) > 0 {
		if err := top.setXattr(path, xattrOpaque, []byte("x")); err != nil {
			return err
		}
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	e.dir.opaque, e.dir.redirect, e.dir.own = false, "", own
	e.dir.stamp = b.store.serial()
	sum := b.shareOf(e)
	if own {
		sum = b.store.unique()
	}
	top.setSum(e, sum)
	b.changed(path, OpReplace, Origin{})
	return nil
}

// uncoverFile lets the base's file show. It keeps the override while somebody
// writes it, and the time that was shown where the base's is earlier.
func (b *Branch) uncoverFile(e *entry, path string) error {
	s, top := b.store, b.top()
	s.mu.Lock()
	written := e.file.writers > 0
	s.mu.Unlock()
	if written {
		return b.remember(path)
	}
	var base, own unix.Stat_t
	if err := top.stat(path, &own); err != nil {
		return err
	}
	err := s.base.stat(path, &base)
	if err == nil && isReg(base.Mode) && isReg(own.Mode) && s.marks && timeOfSpec(base.Mtim).Before(timeOfSpec(own.Mtim)) {
		a := attrOf(&base)
		return b.markOver(path, e.parent, a, timeOfSpec(own.Mtim))
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	grave, err := top.keepPinned(e)
	if err != nil {
		return err
	}
	if err := top.unlink(path); err != nil {
		if grave != "" {
			top.unlink(grave)
		}
		return err
	}
	e.file.lose(top, e, grave)
	b.dropIndex(e)
	b.changed(path, OpReplace, Origin{})
	return nil
}

func (b *Branch) uncoverWhite(e *entry, path string, shows bool) error {
	top := b.top()
	top.mu.Lock()
	defer top.mu.Unlock()
	if err := top.unlink(path); err != nil {
		return err
	}
	b.dropIndex(e)
	if shows {
		b.changed(path, OpCreate, Origin{})
	}
	return nil
}

// markOver puts a dropped override in the place of the top's file at path: the
// base's file shows, which has the attributes a, with the mtime t. Needs write.
func (b *Branch) markOver(path string, parent *entry, a Attr, t Time) error {
	top := b.top()
	a.Mtime = t
	tmp := top.temp()
	if err := top.writeTemp(tmp, nil, &a, true); err != nil {
		top.discard(tmp)
		return err
	}
	b.store.step("mark made")
	_, name := split(path)
	top.mu.Lock()
	defer top.mu.Unlock()
	if err := b.putOver(tmp, path, parent.dir.children[name]); err != nil {
		top.discard(tmp)
		return err
	}
	v := b.store.serial()
	b.enterIndex(parent, &entry{name: name, kind: markEntry, mark: &markState{version: v, stamp: v, time: t}})
	b.changed(path, OpReplace, Origin{})
	return nil
}
