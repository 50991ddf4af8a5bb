package overlay

import (
	"slices"
	"strings"
)

// Differ is every path that may resolve differently in a and b (names,
// versions, stamps, times), parents before children. Below a listed path that is
// not a directory of the same Version in both, what differs need not be listed.
// Its cost follows the layers that a and b do not share. A closed branch shows nothing.
func Differ(a, b *Branch) []string {
	if a == b {
		return nil
	}
	if a.name > b.name {
		a, b = b, a // one order, so that two calls cannot wait for each other's writers
	}
	ca := a.enter()
	if ca != nil {
		defer ca.leave()
	}
	cb := b.enter()
	if cb != nil {
		defer cb.leave()
	}
	if ca == nil {
		ca = &chain{}
	}
	if cb == nil {
		cb = &chain{}
	}
	return differ(ca, cb)
}

// differ lists the names in the layers that are not in both chains, where they
// are shown: what a layer holds below a directory that a layer above it moved is
// below the directory's new place. Saying only that the directory moved is not
// enough: one that was moved away and back is what it was before, with the same
// Version, and yet shows what the layers between hold.
//
// That what the shared layers hold needs no listing rests on this: a directory
// of the shared part is shown at one place at most in each branch, so where both
// branches show the same directory, they came to it on the same path.
func differ(a, b *chain) []string {
	shared := 0
	for shared < len(a.layers) && shared < len(b.layers) &&
		a.layers[len(a.layers)-1-shared] == b.layers[len(b.layers)-1-shared] {
		shared++
	}
	seen := map[string]struct{}{}
	for _, c := range []*chain{a, b} {
		var above moves
		for _, l := range c.layers[:len(c.layers)-shared] {
			if l.used {
				var own []moved
				collect(l.root, "", seen, above, &own)
				if len(own) > 0 {
					above = append(above, own)
				}
			}
		}
	}
	out := make([]string, 0, len(seen))
	for p := range seen {
		out = append(out, p)
	}
	slices.SortFunc(out, comparePaths)
	return out
}

// moves are the moved directories of layers, topmost layer first.
type moves [][]moved

// moved is a directory of a layer that is from in the layers below.
type moved struct{ from, to string }

// shown is where a path of the layer below all these is shown.
func (ms moves) shown(path string) string {
	for i := len(ms) - 1; i >= 0; i-- {
		best := -1
		for j, m := range ms[i] {
			// The innermost move counts.
			if below(path, m.from) && (best < 0 || len(m.from) > len(ms[i][best].from)) {
				best = j
			}
		}
		if best >= 0 {
			m := ms[i][best]
			path = m.to + path[len(m.from):]
		}
	}
	return path
}

// collect adds where e, at path in its layer, and all in it are shown, and to
// own the moves that e's layer makes.
func collect(e *entry, path string, seen map[string]struct{}, above moves, own *[]moved) {
	seen[above.shown(path)] = struct{}{}
	if r := e.dir.redirect; r != "" {
		*own = append(*own, moved{r, path})
	}
	for name, c := range e.dir.children {
		if p := join(path, name); c.kind == dirEntry {
			collect(c, p, seen, above, own)
		} else {
			seen[above.shown(p)] = struct{}{}
		}
	}
}

// comparePaths orders a directory before what is in it, and that before the
// next name.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := 0; i < n; i++ {
		if a[i] != b[i] {
			switch {
			case a[i] == '/':
				return -1
			case b[i] == '/':
				return 1
			}
			return strings.Compare(a[i:i+1], b[i:i+1])
		}
	}
	return len(a) - len(b)
}
