package workspace

import (
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// maxNews bounds the files that are listed for directories that came, went or
// moved as a whole. A server that would need more of them is better off with the
// directory alone, which is always told.
const maxNews = 50_000

// news are paths that changed, and whether they did not exist before.
type news map[string]bool

func (n news) add(path string, created bool) {
	if _, known := n[path]; !known {
		n[path] = created
	}
}

// differs adds a path that two branches show differently. Below a directory that
// is another one in each, everything differs.
func (n news) differs(path string, old, new *overlay.Branch) {
	was, errWas := old.Lookup(path)
	is, errIs := new.Lookup(path)
	n.add(path, errWas != nil)
	if errWas == nil && errIs == nil && was.Version == is.Version {
		return
	}
	if errWas == nil && was.IsDir() {
		n.files(path, old, false)
	}
	if errIs == nil && is.IsDir() {
		n.files(path, new, true) // what was there before is known by now, as not new
	}
}

// below adds what is in directories that are new.
func (n news) below(b *overlay.Branch) {
	var made []string
	for path, created := range n {
		if created {
			made = append(made, path)
		}
	}
	for _, path := range made {
		if on, err := b.Lookup(path); err == nil && on.IsDir() {
			n.files(path, b, true)
		}
	}
}

// files adds all below a directory.
func (n news) files(dir string, b *overlay.Branch, created bool) {
	entries, err := b.ReadDir(dir)
	if err != nil {
		return // gone meanwhile: that is news of its own
	}
	for _, e := range entries {
		if len(n) >= maxNews {
			return
		}
		path := dir + "/" + e.Name
		n.add(path, created)
		if e.Mode&unix.S_IFMT == unix.S_IFDIR {
			n.files(path, b, created)
		}
	}
}
