package overlay

import "slices"

// settle gives the branch copies of what follows the base at another path, where
// the apply touches it: moved directories that merge with the base's keep no tie to
// it, so that the branch stays what it is whatever happens to the base.
//
// touched are paths with all directories above them. Needs write.
func (b *Branch) settle(touched map[string]bool) error {
	for i, cp := range b.checkpoints {
		if err := b.settleCheckpoint(i, cp, touched); err != nil {
			return err
		}
	}
	return b.settleChain(touched)
}

// settleOthers settles all branches but one.
func (s *Store) settleOthers(but *Branch, touched map[string]bool) error {
	for _, b := range s.all() {
		if b == but {
			continue
		}
		err := b.locked(func() error { return b.settle(touched) })
		b.flush()
		if err != nil && KindOf(err) != Closed {
			return b.wrap("settle", "", err)
		}
	}
	return nil
}

// settleCheckpoint puts what must be copied into a layer on top of a checkpoint's.
func (b *Branch) settleCheckpoint(i int, cp checkpoint, touched map[string]bool) error {
	s := b.store
	at := &Branch{store: s, name: b.name}
	at.chain.Store(s.onTop(cp.chain))
	err := at.settleChain(touched)
	next := at.chain.Load()
	if top := next.layers[0]; err != nil || !top.used {
		s.releaseChain(next)
		return err
	} else {
		top.mu.Lock()
		top.frozen = true
		top.mu.Unlock()
	}
	b.checkpoints = slices.Clone(b.checkpoints)
	b.checkpoints[i].chain = next
	if err := b.record(); err != nil {
		b.checkpoints[i].chain = cp.chain
		s.releaseChain(next)
		return err
	}
	s.releaseChain(cp.chain)
	return nil
}

func (b *Branch) settleChain(touched map[string]bool) error {
	var all []override
	if err := b.overrides(func(v override) { all = append(all, v) }); err != nil {
		return err
	}
	moved := map[string]bool{}
	for _, v := range all {
		if v.Kind != Dir {
			continue
		}
		// Not the node's base: what is nothing in the base now may be made there.
		if low, merges := b.mergesWith(v.Path); merges && low != v.Path && touched[low] {
			moved[v.Path] = true
		}
	}
	in := map[string]bool{} // a moved directory: all below one is listed, parents first
	for _, v := range all {
		if dir, _ := split(v.Path); v.Kind != Deleted && (moved[v.Path] || in[dir]) {
			in[v.Path] = true
			if err := b.hold(v); err != nil {
				return err
			}
			b.store.step("settled")
		}
	}
	for path := range moved {
		if err := b.cutOff(path); err != nil {
			return err
		}
		b.store.step("cut off")
	}
	return nil
}

// mergesWith is the path in the base that a directory of the branch merges with,
// whether anything is there or not.
func (b *Branch) mergesWith(path string) (low string, merges bool) {
	c := b.enter()
	defer c.leave()
	var h hit
	c.walk(0, path, &h)
	return h.low, h.inBase
}

// cutOff makes a directory of the top layer, which holds all that is shown in it,
// merge with nothing. Needs write.
func (b *Branch) cutOff(path string) error {
	top := b.top()
	e := top.find(path)
	if err := top.setXattr(path, xattrOpaque, []byte("y")); err != nil {
		return err
	}
	if e.dir.redirect != "" {
		if err := top.removeXattr(path, xattrRedirect); err != nil {
			return err
		}
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	e.dir.opaque, e.dir.redirect = true, ""
	top.setSum(e, b.store.unique())
	b.changed(path, OpReplace, Origin{})
	return nil
}
