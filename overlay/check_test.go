package overlay

import (
	"fmt"
	"slices"
	"testing"
)

// check verifies the invariants that the fields state: the index of each layer
// says what its directory says, sums and charges add up, references are those
// of chains, checkpoints and pins.
func (s *Store) check(t testing.TB) {
	t.Helper()
	refs := map[*layer]int{}
	for _, b := range s.all() {
		b.write.Lock()
		chains := []*chain{b.chain.Load()}
		for _, cp := range b.checkpoints {
			chains = append(chains, cp.chain)
		}
		for i, c := range chains {
			for j, l := range c.layers {
				refs[l]++
				if l.frozen != (i > 0 || j > 0) && l.used {
					t.Errorf("branch %s: layer %d of chain %d: frozen is %v", b.name, j, i, l.frozen)
				}
			}
		}
		b.write.Unlock()
	}
	used := int64(0)
	for l, chains := range refs {
		used += l.bytes.Load()
		l.mu.RLock()
		pins := 0
		var sum StateID
		bytes := int64(0)
		seen := map[*file]bool{}
		var walk func(e *entry)
		walk = func(e *entry) {
			if e.kind == fileEntry && !seen[e.file] {
				seen[e.file] = true
				pins += e.file.pins
				bytes += e.file.size
				if e.file.layer.Load() != l {
					t.Errorf("file %q is in another layer", e.path())
				}
			}
			sum = sum.plus(e.sum)
			if e.parent != nil {
				bytes += entryCost
			}
			if e.kind == dirEntry {
				for name, c := range e.dir.children {
					if c.parent != e || c.name != name {
						t.Errorf("%q: wrong parent or name", c.path())
					}
					walk(c)
				}
			}
		}
		walk(l.root)
		for f := range l.open {
			if f.grave != "" { // removed while open
				pins += f.pins
				bytes += f.size
			}
		}
		bytes += l.then.size
		if sum != l.sum {
			t.Errorf("layer %s: sum is %v, shares add up to %v", l.id, l.sum, sum)
		}
		if bytes != l.bytes.Load() {
			t.Errorf("layer %s: charged %d, has %d", l.id, l.bytes.Load(), bytes)
		}
		if l.refs != chains+pins {
			t.Errorf("layer %s: %d references, %d chains and %d pins", l.id, l.refs, chains, pins)
		}
		memory := l.describe()
		l.mu.RUnlock()
		if l.fd < 0 {
			if len(memory) > 0 {
				t.Errorf("layer %s has entries and no directory", l.id)
			}
			continue
		}
		again := s.layerOf(l.id)
		before := s.used.Load()
		if _, err := again.load(); err != nil {
			t.Errorf("layer %s: %v", l.id, err)
		}
		s.used.Store(before)
		disk := again.describe()
		again.shut()
		if !slices.Equal(memory, disk) {
			t.Errorf("layer %s: index and directory differ\nindex: %q\ndisk:  %q", l.id, memory, disk)
		}
	}
	if got := s.used.Load(); got != used {
		t.Errorf("store is charged %d, layers %d", got, used)
	}
}

func (l *layer) describe() (out []string) {
	var walk func(e *entry)
	walk = func(e *entry) {
		d := ""
		if e.kind == dirEntry {
			d = fmt.Sprintf(" opaque=%v redirect=%q", e.dir.opaque, e.dir.redirect)
			if e.dir.own && e.dir.mode&0o700 != 0o700 {
				d += fmt.Sprintf(" mode=%o", e.dir.mode)
			}
			for _, c := range e.dir.children {
				walk(c)
			}
		} else if e.kind == fileEntry {
			d = fmt.Sprintf(" %o", e.file.mode|e.file.perm)
		}
		if e.parent != nil {
			out = append(out, fmt.Sprintf("%s %d%s", e.path(), e.kind, d))
		}
	}
	walk(l.root)
	slices.Sort(out)
	return out
}
