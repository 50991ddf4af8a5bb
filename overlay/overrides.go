package overlay

import "slices"

// OverrideKind says what a branch shows in place of the base.
type OverrideKind uint8

const (
	Regular OverrideKind = iota + 1
	Dir
	Symlink
	Special // fifo, socket, device
	Deleted
)

var overrideNames = [...]string{Regular: "file", Dir: "dir", Symlink: "symlink", Special: "special", Deleted: "deleted"}

func (k OverrideKind) String() string {
	if int(k) < len(overrideNames) && overrideNames[k] != "" {
		return overrideNames[k]
	}
	return "invalid"
}

// Override is one path whose resolution differs from the base.
type Override struct {
	Path    string
	Kind    OverrideKind
	Version uint64 // as Node.Version; 0 for Deleted
	Stamp   uint64 // as Node.Stamp; 0 for Deleted
}

// Overrides are all paths whose resolution differs from the base, sorted,
// parents before children. A deleted directory stands for all below it; a
// directory that is new, or was moved here, is listed with all below it, and
// what it hides of the base as Deleted. A directory that merges with the
// base's is listed only when its own attributes were set. The cost follows the
// overrides (and, below moved and replaced directories, their entries).
func (b *Branch) Overrides() ([]Override, error) {
	var out []Override
	err := b.overrides(func(o override) { out = append(out, o.Override) })
	return out, b.wrap("list overrides", "", err)
}

// override is an Override with what a patch needs to know.
type override struct {
	Override
	node Node // zero for Deleted
}

// overrides calls emit for each override, in order.
func (b *Branch) overrides(emit func(override)) error {
	c := b.enter()
	if c == nil {
		return kindError(Closed)
	}
	defer c.leave()
	w := walker{b: b, c: c, emit: emit}
	return w.dir("", true)
}

// walker walks what differs from the base.
type walker struct {
	b    *Branch
	c    *chain
	emit func(override)
}

// dir walks the directory at path of the branch, which exists. merges: it is
// the base's directory of that path with entries of layers over it, so only
// those count.
func (w *walker) dir(path string, merges bool) error {
	names, err := w.names(path, merges)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := w.path(join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// names is what may differ in a directory, sorted.
func (w *walker) names(path string, merges bool) ([]string, error) {
	seen := map[string]struct{}{}
	var h hit
	w.c.walk(0, path, &h)
	for _, e := range h.dirs {
		for name := range e.dir.children {
			seen[name] = struct{}{}
		}
	}
	if !merges {
		// All of it is new, and hides all of the base's.
		shown, err := w.b.list(w.c, path, &h)
		if err != nil {
			return nil, err
		}
		hidden, err := w.b.store.base.list(path, nil)
		if err != nil && KindOf(err) != NotExist && KindOf(err) != NotDir {
			return nil, err
		}
		for _, e := range append(shown, hidden...) {
			seen[e.Name] = struct{}{}
		}
	}
	names := make([]string, 0, len(seen))
	for n := range seen {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

func (w *walker) path(path string) error {
	var h hit
	w.c.walk(0, path, &h)
	n, err := w.b.nodeOf(path, &h)
	switch k := KindOf(err); {
	case k == NotExist || k == NotDir:
		if _, err := w.b.store.baseMtime(path); err == nil {
			w.emit(override{Override: Override{Path: path, Kind: Deleted}})
		}
		return nil
	case err != nil:
		return err
	case !n.IsDir():
		if n.inBase && n.base == path {
			return nil // a dropped override, or a name that only the base has
		}
		w.emit(override{Override{path, kindOfNode(n), n.Version, n.Stamp}, n})
		return nil
	}
	merges := n.base == path // with the base's directory of the same path
	if !merges || h.shown(true) != nil {
		w.emit(override{Override{path, Dir, n.Version, n.Stamp}, n})
	}
	return w.dir(path, merges)
}

func kindOfNode(n Node) OverrideKind {
	switch {
	case isReg(n.Attr.Mode):
		return Regular
	case isLnk(n.Attr.Mode):
		return Symlink
	case n.IsDir():
		return Dir
	}
	return Special
}
