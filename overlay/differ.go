package overlay

import (
	"slices"
	"strings"
)

// Differ is every path that may resolve differently in a and b (names,
// versions, stamps, times), parents before children. Where both show a
// directory of different Version, all below it differs without being listed.
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

// differ lists the names in the layers that are not in both chains. A path that
// a directory moved by a redirect shows elsewhere needs no translation: both
// ends of the move are listed, and the directory's Version is another one.
func differ(a, b *chain) []string {
	shared := 0
	for shared < len(a.layers) && shared < len(b.layers) &&
		a.layers[len(a.layers)-1-shared] == b.layers[len(b.layers)-1-shared] {
		shared++
	}
	seen := map[string]struct{}{}
	for _, c := range []*chain{a, b} {
		for _, l := range c.layers[:len(c.layers)-shared] {
			if l.used {
				collect(l.root, "", seen)
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

func collect(e *entry, path string, seen map[string]struct{}) {
	seen[path] = struct{}{}
	for name, c := range e.dir.children {
		if p := join(path, name); c.kind == dirEntry {
			collect(c, p, seen)
		} else {
			seen[p] = struct{}{}
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
