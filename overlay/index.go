package overlay

import (
	"strings"
	"sync/atomic"
)

// entryKind says what a name in a layer means.
type entryKind uint8

const (
	dirEntry   entryKind = iota + 1 // merges with what is below, unless opaque
	fileEntry                       // anything but a directory
	whiteEntry                      // deleted
	markEntry                       // falls through to the base, with other times
)

// entry is one name in the index of a layer. Guarded by the mutex of the layer;
// immutable, but for what is atomic, once the layer is frozen.
type entry struct {
	name   string
	parent *entry // nil for the root of a layer
	kind   entryKind
	dir    *dirState // for dirEntry
	file   *file     // for fileEntry
	mark   *markState
	sum    StateID // its share in layer.sum
}

// dirState is the index's knowledge of a directory in a layer.
type dirState struct {
	children map[string]*entry
	opaque   bool   // nothing below shows through
	redirect string // path in the layers below that it merges with; "": its own
	// own: mode and owner are decided here; else by what is below.
	own  bool
	mode uint32 // permission bits, where own. The real directory may have more: see layer.mkdir
	// version and ino are shown when nothing below merges.
	version, ino uint64
	stamp        uint64
	// mtime and ctime are those of the last change made through this layer; zero: none.
	mtime, ctime Time
	// set: mtime was chosen by a program, when what is below showed below.
	set   bool
	below Time
}

// markState is a dropped override: the base's content with a later time.
type markState struct {
	version, stamp uint64
	time           Time
}

// file is one object of a layer that is not a directory. Hard links share it.
// Fields are guarded by the mutex of the layer it is in at the time, unless
// they say otherwise.
type file struct {
	layer   atomic.Pointer[layer]
	version uint64 // fixed
	mode    uint32 // type bits; fixed
	ino     uint64 // fixed

	perm  uint32   // permission bits
	names []*entry // empty once it has no name
	grave string   // where it lies without a name; "": nowhere
	stamp uint64
	// cid identifies the content for StateID; unique once written in place.
	cid  StateID
	born Time // the ctime shown is at least this
	// base is the mtime of the base file when it was overridden; zero: none.
	base Time
	size int64 // what it is charged
	// opened: somebody may remember the content under this mtime.
	opened atomic.Bool

	pins, writers int // guarded by Store.mu
}

// path is the path of e in its layer.
func (e *entry) path() string {
	n := -1
	for p := e; p.parent != nil; p = p.parent {
		n += len(p.name) + 1
	}
	if n <= 0 {
		return ""
	}
	buf := make([]byte, n)
	for p := e; p.parent != nil; p = p.parent {
		n -= len(p.name)
		copy(buf[n:], p.name)
		if n > 0 {
			n--
			buf[n] = '/'
		}
	}
	return string(buf)
}

// at is the path of the file in its layer's fs directory.
func (f *file) at() (string, bool) {
	if len(f.names) > 0 {
		return f.names[0].path(), true
	}
	if f.grave != "" {
		return f.grave, true
	}
	return "", false
}

// bare says of a directory in a layer that it holds nothing but times for files of
// the base, as an apply leaves it. Where the base has no such directory any more,
// the branch has none either: it never made one.
func (e *entry) bare() bool {
	d := e.dir
	if e.parent == nil || d.own || d.opaque || d.redirect != "" || len(d.children) == 0 {
		return false
	}
	for _, c := range d.children {
		if c.kind != markEntry && (c.kind != dirEntry || !c.bare()) {
			return false
		}
	}
	return true
}

func (e *entry) add(c *entry) {
	if e.dir.children == nil {
		e.dir.children = make(map[string]*entry)
	}
	c.parent = e
	e.dir.children[c.name] = c
}

// hit is what walk found out about a path.
type hit struct {
	// file is the entry that decides, in layer at path at.
	file  *entry
	layer *layer
	at    string
	// dirs are the merged directories, topmost first.
	dirs []*entry
	// mark is the topmost dropped override, if the path falls through to the base.
	mark *entry
	// inBase: low is the path in the base that decides, or merges.
	inBase bool
	low    string
	// notDir: a component before the last is not a directory.
	notDir bool
	// known: all of the path but its last known bytes is a directory for sure.
	known int
}

// walk resolves path through the layers from index from on. The top's mutex
// must be held. It allocates only for directories that a layer has and for
// paths below a redirect.
func (c *chain) walk(from int, path string, h *hit) {
	*h = hit{low: path, known: len(path) + 1}
	for _, l := range c.layers[from:] {
		if !l.used {
			continue
		}
		if !l.walk(h) {
			return
		}
	}
	h.inBase = true
}

// walk resolves h.low in one layer; true: look further below, at h.low.
func (l *layer) walk(h *hit) (further bool) {
	rest, e, off := h.low, l.root, 0
	low, moved, blocked := "", false, false
	for off < len(rest) {
		end := strings.IndexByte(rest[off:], '/')
		if end < 0 {
			end = len(rest)
		} else {
			end += off
		}
		left := len(rest) - end
		c := e.dir.children[rest[off:end]]
		switch {
		case c == nil || c.kind == markEntry && left > 0:
			if blocked {
				return false
			}
			if moved {
				h.low = join(low, rest[off:])
			}
			return true
		case c.kind == whiteEntry:
			return false
		case c.kind != dirEntry:
			switch {
			case h.known <= left || len(h.dirs) > 0: // hidden by a directory above
				return false
			case left > 0:
				h.notDir = true
				return false
			case c.kind == fileEntry:
				h.file, h.layer, h.at = c, l, rest
				return false
			}
			if h.mark == nil {
				h.mark = c
			}
			if blocked {
				return false
			}
			if moved {
				h.low = join(low, rest[off:])
			}
			return true
		}
		e = c
		h.known = min(h.known, left)
		switch d := c.dir; {
		case d.redirect != "":
			low, moved, blocked = d.redirect, true, false
		case d.opaque:
			blocked = true
		case moved:
			low = join(low, c.name)
		}
		off = end + 1
	}
	h.dirs = append(h.dirs, e)
	if moved {
		h.low = low
	}
	return !blocked
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// split is the parent and the last name of a path that is not the root.
func split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// below says that path is dir or below it.
func below(path, dir string) bool {
	return dir == "" || path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

const (
	maxName = 255
	// maxPath is more than the kernel takes in one call: paths relative to
	// deep working directories exist.
	maxPath = 1 << 16
)

// checkPath refuses what is no path of a branch.
func checkPath(path string) error {
	if path == "" {
		return nil
	}
	if len(path) > maxPath {
		return kindError(TooLong)
	}
	for start := 0; ; {
		end := strings.IndexByte(path[start:], '/')
		last := end < 0
		if last {
			end = len(path) - start
		}
		switch name := path[start : start+end]; {
		case name == "" && start == 0, name == ".", name == "..":
			return kindError(Outside)
		case name == "" || strings.IndexByte(name, 0) >= 0:
			return kindError(Invalid)
		case len(name) > maxName:
			return kindError(TooLong)
		}
		if last {
			return nil
		}
		start += end + 1
	}
}
