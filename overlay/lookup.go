package overlay

import (
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// enter takes the chain of the branch and holds its top for reading: the caller
// ends with leave. nil: the branch is closed, and nothing is held.
func (b *Branch) enter() *chain {
	for {
		c := b.chain.Load()
		if c == nil {
			return nil
		}
		c.layers[0].mu.RLock()
		if b.chain.Load() == c {
			return c
		}
		c.leave() // frozen, rolled back or dropped meanwhile
	}
}

func (c *chain) leave() { c.layers[0].mu.RUnlock() }

// Lookup resolves one path. It never follows a symlink.
func (b *Branch) Lookup(path string) (Node, error) {
	var h hit
	n, err := b.resolve(path, &h)
	return n, b.wrap("lookup", path, err)
}

// resolve is Lookup that leaves behind how the path was found.
func (b *Branch) resolve(path string, h *hit) (Node, error) {
	if err := checkPath(path); err != nil {
		return Node{}, err
	}
	c := b.enter()
	if c == nil {
		return Node{}, kindError(Closed)
	}
	defer c.leave()
	c.walk(0, path, h)
	return b.nodeOf(path, h)
}

// nodeOf makes the node that h found. The top's mutex is held.
func (b *Branch) nodeOf(path string, h *hit) (Node, error) {
	n := Node{Path: path, branch: b}
	if h.file != nil {
		return n, h.fileNode(&n)
	}
	var st unix.Stat_t
	inBase := false
	if h.inBase {
		err := b.store.base.stat(h.low, &st)
		if (err != nil || !isDir(st.Mode)) && h.bare() {
			h.dirs = nil
		}
		switch {
		case err == nil:
			inBase = len(h.dirs) == 0 || isDir(st.Mode)
		case len(h.dirs) == 0:
			return Node{}, h.baseError(err)
		case KindOf(err) == NotExist || KindOf(err) == NotDir:
		default:
			return Node{}, err
		}
	}
	switch {
	case len(h.dirs) > 0:
		return n, b.dirNode(&n, h, &st, inBase)
	case inBase:
		n.base, n.inBase = h.low, true
		n.Attr = attrOf(&st)
		n.Version, n.Stamp = baseVersion(&st)
		if isReg(st.Mode) {
			if t := b.store.floor(h.low, &st); !t.IsZero() {
				n.Attr.Mtime = later(n.Attr.Mtime, t)
				n.Stamp = mixTime(n.Stamp, t) | baseBit
			}
			b.dated(&n, h.low)
		}
		if h.mark != nil && isReg(st.Mode) {
			m := h.mark.mark
			n.Attr.Mtime, n.Attr.Ctime = later(n.Attr.Mtime, m.time), later(n.Attr.Ctime, m.time)
			n.Version, n.Stamp = mix(n.Version, m.version)|baseBit, mix(n.Stamp, m.stamp)|baseBit
		}
		return n, nil
	case h.notDir:
		return Node{}, kindError(NotDir)
	}
	return Node{}, kindError(NotExist)
}

// baseError is the error for a path that falls through to the base and is not
// there. A component that is no directory in the base may be one in a layer.
func (h *hit) baseError(err error) error {
	k := KindOf(err)
	if k != NotDir {
		if k == NotExist {
			return kindError(NotExist)
		}
		return err
	}
	left := 0
	if i := strings.LastIndexByte(h.low, '/'); i >= 0 {
		left = len(h.low) - i
	}
	if h.known <= left {
		return kindError(NotExist)
	}
	return kindError(NotDir)
}

// fileNode fills n with a layer's file.
func (h *hit) fileNode(n *Node) error {
	f := h.file.file
	var st unix.Stat_t
	if err := h.layer.stat(h.at, &st); err != nil {
		if err == unix.ENOENT {
			return &Error{Op: "lookup", Branch: n.branch.name, Path: n.Path, Kind: Corrupt, Err: err}
		}
		return err
	}
	n.file, n.Version, n.Stamp = f, f.version, f.stamp
	n.Attr = f.attr(&st)
	return nil
}

// attr is what a layer's file shows. Needs the layer's mutex.
func (f *file) attr(st *unix.Stat_t) Attr {
	a := attrOf(st)
	a.Ino = f.ino
	a.Ctime = later(a.Ctime, f.born)
	if f.grave != "" {
		a.Nlink = 0
	}
	return a
}

// dirNode fills n with a directory that at least one layer has.
func (b *Branch) dirNode(n *Node, h *hit, st *unix.Stat_t, inBase bool) error {
	bottom := h.dirs[len(h.dirs)-1].dir
	at := h.shown(inBase)
	if inBase {
		n.base = h.low
		n.Version, n.Stamp = baseVersion(st)
		n.Attr = attrOf(st)
	} else {
		n.Version, n.Stamp = bottom.version, bottom.version
	}
	if at != nil {
		var own unix.Stat_t
		l := b.layerAt(at)
		if l.fd < 0 { // the root of a layer that is still empty
			return kindError(Corrupt)
		}
		if err := l.stat(at.path(), &own); err != nil {
			return err
		}
		a := attrOf(&own)
		if at.dir.own {
			a.Mode = unix.S_IFDIR | at.dir.mode
		}
		if inBase {
			n.Attr.Mode, n.Attr.UID, n.Attr.GID, n.Attr.Atime = a.Mode, a.UID, a.GID, a.Atime
		} else {
			n.Attr, n.Attr.Ino = a, bottom.ino
		}
	}
	if inBase || len(h.dirs) > 1 {
		n.Attr.Nlink = 1 // as overlayfs: nobody counts the merged subdirectories
	}
	for i := len(h.dirs) - 1; i >= 0; i-- {
		d := h.dirs[i].dir
		n.Stamp = mix(n.Stamp, d.stamp) | baseBit
		if d.mtime.IsZero() {
			continue
		}
		if d.set && !d.below.Before(n.Attr.Mtime) {
			n.Attr.Mtime = d.mtime
		} else {
			n.Attr.Mtime = later(d.mtime, n.Attr.Mtime)
		}
		n.Attr.Ctime = later(d.ctime, n.Attr.Ctime)
	}
	return nil
}

// shown is the layer's directory whose mode, owner and xattrs are shown; nil: the base's.
func (h *hit) shown(inBase bool) *entry {
	for _, e := range h.dirs {
		if e.dir.own {
			return e
		}
	}
	if inBase || len(h.dirs) == 0 {
		return nil
	}
	return h.dirs[len(h.dirs)-1]
}

// bare says that the directories found are nobody's: see entry.bare.
func (h *hit) bare() bool {
	return !slices.ContainsFunc(h.dirs, func(e *entry) bool { return !e.bare() })
}

// layerAt is the layer that e is in.
func (b *Branch) layerAt(e *entry) *layer {
	for e.parent != nil {
		e = e.parent
	}
	for _, l := range b.chain.Load().layers {
		if l.root == e {
			return l
		}
	}
	return nil
}

// ReadDir lists a directory, merged, sorted by name, without "." and "..".
func (b *Branch) ReadDir(path string) ([]DirEntry, error) {
	out, err := b.readDir(path)
	return out, b.wrap("readdir", path, err)
}

func (b *Branch) readDir(path string) ([]DirEntry, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	c := b.enter()
	if c == nil {
		return nil, kindError(Closed)
	}
	defer c.leave()
	var h hit
	c.walk(0, path, &h)
	return b.list(c, path, &h)
}

// list merges the directory at path, which h found. The top's mutex is held.
func (b *Branch) list(c *chain, path string, h *hit) ([]DirEntry, error) {
	if h.file != nil || h.notDir {
		return nil, kindError(NotDir)
	}
	if len(h.dirs) == 0 && !h.inBase {
		return nil, kindError(NotExist)
	}
	var out []DirEntry
	if h.inBase {
		var err error
		if out, err = b.store.base.list(h.low, nil); err != nil {
			if len(h.dirs) == 0 {
				return nil, h.baseError(err)
			}
			if k := KindOf(err); k != NotExist && k != NotDir {
				return nil, err
			}
		}
	}
	if len(h.dirs) > 0 {
		var err error
		if out, err = b.mergeDirs(c, path, h, out); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b DirEntry) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// mergeDirs puts the entries of layers (topmost first) over those of the base.
func (b *Branch) mergeDirs(ch *chain, path string, h *hit, base []DirEntry) ([]DirEntry, error) {
	// covered says that a layer above index i has its say about the name.
	covered := func(i int, name string) bool {
		for _, d := range h.dirs[:i] {
			if c := d.dir.children[name]; c != nil && c.kind != markEntry {
				return true
			}
		}
		return false
	}
	kept := base[:0]
	for _, e := range base {
		if !covered(len(h.dirs), e.Name) {
			kept = append(kept, e)
		}
	}
	for i, d := range h.dirs {
		for name, c := range d.dir.children {
			if c.kind == markEntry || c.kind == whiteEntry || covered(i, name) {
				continue
			}
			if c.kind == fileEntry {
				kept = append(kept, DirEntry{Name: name, Mode: c.file.mode, Ino: c.file.ino})
				continue
			}
			var sub hit
			ch.walk(0, join(path, name), &sub)
			n, err := b.nodeOf(path, &sub) // which number it has is decided by what it merges with
			if KindOf(err) == NotExist {
				continue // bare
			}
			if err != nil {
				return nil, err
			}
			kept = append(kept, DirEntry{Name: name, Mode: n.Attr.Mode & unix.S_IFMT, Ino: n.Attr.Ino})
		}
	}
	return kept, nil
}

// ReadFile is the whole content of a regular file.
func (b *Branch) ReadFile(path string) ([]byte, error) {
	data, err := b.readFile(path)
	return data, b.wrap("read", path, err)
}

// staleTries bounds how often an operation starts again because the base was
// changed under it.
const staleTries = 10

func (b *Branch) readFile(path string) ([]byte, error) {
	for try := 0; ; try++ {
		var h hit
		n, err := b.resolve(path, &h)
		if err != nil {
			return nil, err
		}
		data, err := n.read()
		if KindOf(err) != Stale || try == staleTries {
			return data, err
		}
	}
}

func (n Node) read() ([]byte, error) {
	f, err := n.open(false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, 0, n.Attr.Size+1)
	for {
		m, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+m]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
	}
}
