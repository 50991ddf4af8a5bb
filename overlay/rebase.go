package overlay

import (
	"slices"

	"golang.org/x/sys/unix"
)

// rebase drops the overrides at these paths of the base, which shows the same by
// now: the branch shows what it showed before, at every step. What it overrides
// beside them comes to its top layer, and what is below is left to checkpoints and
// children. Needs write.
//
// held says that the top owns all of that already; else holding is told when it does.
// From then on the branch may be half rebased, and only going on makes it whole.
func (b *Branch) rebase(paths map[string]bool, held bool, holding func() error) error {
	top := b.top()
	err := top.make()
	if err == nil && !held {
		if err = b.holdRest(paths); err == nil {
			err = holding()
		}
	}
	if err != nil {
		return err
	}
	merging, err := b.mergers(top.root, "", paths, nil)
	if err == nil {
		err = b.detach(paths, merging)
	}
	if err == nil {
		err = b.mergeOnDisk(merging)
	}
	if err != nil {
		return err
	}
	for path := range paths {
		if err := top.forget(path); err != nil {
			return err
		}
	}
	return b.uncover(top.root, "", paths)
}

// holdRest makes the top layer own all overrides but those at paths.
func (b *Branch) holdRest(paths map[string]bool) error {
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
	return nil
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

// detach makes the top layer the only one, with what the others remember of the
// base, and lets the base's directories show at the same time.
func (b *Branch) detach(paths map[string]bool, merging []merging) error {
	old := b.chain.Load()
	top := old.layers[0]
	if len(old.layers) == 1 {
		top.mu.Lock()
		defer top.mu.Unlock()
		b.mergeLocked(merging)
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
	b.store.step("recorded alone")
	top.mu.Lock()
	b.chain.Store(next)
	for _, p := range differ(old, next) {
		b.changed(p, OpReplace, Origin{})
	}
	b.mergeLocked(merging)
	top.mu.Unlock()
	b.store.releaseChain(old)
	return nil
}

// merging is a directory of the top layer that is to merge with the base's.
type merging struct {
	e    *entry
	path string
	own  bool // keeps attributes of its own
}

// mergers are the directories of the top that hide or replace the base's, where
// that is there. applied: the base has their modes.
func (b *Branch) mergers(dir *entry, at string, applied map[string]bool, out []merging) ([]merging, error) {
	for name, c := range dir.dir.children {
		if c.kind != dirEntry {
			continue
		}
		path := join(at, name)
		var st unix.Stat_t
		err := b.store.base.stat(path, &st)
		if k := KindOf(err); err != nil && k != NotExist && k != NotDir {
			return nil, err
		}
		if err == nil && isDir(st.Mode) {
			own := c.dir.own && !applied[path] && c.dir.mode != st.Mode&0o7777
			if c.dir.opaque || c.dir.redirect != "" || c.dir.own != own {
				out = append(out, merging{c, path, own})
			}
		}
		if out, err = b.mergers(c, path, applied, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mergeLocked makes directories merge, in the index. Needs the top's mutex.
func (b *Branch) mergeLocked(all []merging) {
	for _, m := range all {
		d := m.e.dir
		d.opaque, d.redirect, d.own = false, "", m.own
		d.stamp = b.store.serial()
		sum := b.shareOf(m.e)
		if m.own {
			sum = b.store.unique()
		}
		b.top().setSum(m.e, sum)
		b.changed(m.path, OpReplace, Origin{})
	}
}

// mergeOnDisk does the same on disk. A kill before its end leaves directories
// that hide what was applied, until the next Open rebases the branch again.
func (b *Branch) mergeOnDisk(all []merging) error {
	top := b.top()
	for _, m := range all {
		names := []string{xattrOpaque, xattrRedirect, xattrMode}
		if m.own {
			names = names[:2]
		}
		for _, name := range names {
			if err := top.removeXattr(m.path, name); err != nil && err != unix.ENODATA {
				return err
			}
		}
		if b.store.xattrWhites && len(m.e.dir.children) > 0 {
			if err := top.setXattr(m.path, xattrOpaque, []byte("x")); err != nil {
				return err
			}
		}
		b.store.step("merged")
	}
	return nil
}

// uncover takes the entries at these paths, and what says nothing any more, out
// of a directory of the top layer, which is all of the branch, where the base's
// directories show by now.
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
	err := b.store.base.stat(path, &st)
	if k := KindOf(err); err != nil && k != NotExist && k != NotDir {
		return err
	}
	alone := err != nil || !isDir(st.Mode)
	if err := b.uncover(e, path, paths); err != nil {
		return err
	}
	if alone && !paths[path] {
		return nil // a directory of the branch alone
	}
	if e.dir.own || e.dir.opaque || len(e.dir.children) > 0 {
		return nil
	}
	err = top.at(path, func(dir int, name string) error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
	if err != nil {
		return err
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	b.dropIndex(e)
	b.changed(path, OpAttr, Origin{})
	return nil
}

// uncoverFile lets the base's file show, with the time that was shown where the
// base's is earlier. Who has the override open has a file without a name from then
// on, as when it is replaced. (It cannot be kept until they close it: views keep
// files open for writing that no program has open.)
func (b *Branch) uncoverFile(e *entry, path string) error {
	s, top := b.store, b.top()
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
