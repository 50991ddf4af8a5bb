package overlay

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The attributes with which a layer says what the kernel's overlayfs (mounted
// with userxattr) and fuse-overlayfs read too, and one of our own.
const (
	xattrOpaque   = "user.overlay.opaque"
	xattrRedirect = "user.overlay.redirect"
	xattrMeta     = "user.overlay.metacopy"
	xattrWhite    = "user.overlay.whiteout"
	xattrMode     = "user.shadowlsp.mode" // octal: the mode to show of a directory
)

// Reserved says that an attribute belongs to the layer, not to what it shows.
func Reserved(name string) bool {
	return strings.HasPrefix(name, "user.overlay.") || strings.HasPrefix(name, "user.shadowlsp.")
}

// procPath names an open descriptor: the calls for extended attributes take no
// directory, and an O_PATH descriptor not at all.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func (l *layer) setXattr(at, name string, value []byte) error {
	return l.onPath(at, func(p string) error { return unix.Setxattr(p, name, value, 0) })
}

func (l *layer) removeXattr(at, name string) error {
	return l.onPath(at, func(p string) error { return unix.Removexattr(p, name) })
}

func (l *layer) setMode(at string, mode uint32) error {
	return l.setXattr(at, xattrMode, []byte(strconv.FormatUint(uint64(mode), 8)))
}

func (l *layer) getXattr(at, name string) (v []byte, err error) {
	err = l.onPath(at, func(p string) (err error) {
		v, err = getXattr(p, name)
		return err
	})
	return v, err
}

func (l *layer) onPath(at string, f func(p string) error) error {
	fd, err := l.openAt(at, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(procPath(fd))
}

func getXattr(p, name string) ([]byte, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := unix.Getxattr(p, name, buf)
		if err == unix.ERANGE && size < 1<<17 {
			continue
		}
		if err != nil {
			return nil, err
		}
		return buf[:n], nil
	}
}

func listXattr(p string) ([]string, error) {
	for size := 1024; ; size *= 4 {
		buf := make([]byte, size)
		n, err := unix.Listxattr(p, buf)
		if err == unix.ERANGE && size < 1<<17 {
			continue
		}
		if err != nil || n == 0 {
			return nil, err
		}
		var names []string
		for _, s := range bytes.Split(buf[:n-1], []byte{0}) {
			if !Reserved(string(s)) {
				names = append(names, string(s))
			}
		}
		return names, nil
	}
}

// copyXattrs copies what is to be shown. Attributes that this user may not set
// stay behind, as with cp.
func copyXattrs(from, to string) error {
	names, err := listXattr(from)
	if err != nil {
		if err == unix.EOPNOTSUPP {
			return nil
		}
		return err
	}
	for _, name := range names {
		v, err := getXattr(from, name)
		if err == nil {
			err = unix.Setxattr(to, name, v, 0)
		}
		switch err {
		case nil, unix.ENODATA, unix.EPERM, unix.EACCES, unix.EOPNOTSUPP:
		default:
			return err
		}
	}
	return nil
}

// onXattrs calls f with a path to the object that has the attributes to show.
func (b *Branch) onXattrs(path string, f func(p string) error) error {
	var h hit
	n, err := b.resolve(path, &h)
	if err != nil {
		return err
	}
	if n.file != nil {
		l := n.file.hold()
		defer l.mu.RUnlock()
		at, err := n.file.reach(l)
		if err != nil {
			return err
		}
		return l.onPath(at, f)
	}
	if e := h.shown(n.base != "" || path == "" || n.inBase); e != nil {
		c := b.enter()
		if c == nil {
			return kindError(Closed)
		}
		defer c.leave()
		l := b.layerAt(e)
		if l == nil {
			return kindError(Stale)
		}
		return l.onPath(e.path(), f)
	}
	fd, err := b.store.base.open(n.base, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(procPath(fd))
}

// GetXattr is the value of one extended attribute; NoAttr if there is none.
func (b *Branch) GetXattr(path, name string) (v []byte, err error) {
	if Reserved(name) {
		return nil, b.wrap("getxattr", path, kindError(NoAttr))
	}
	err = b.onXattrs(path, func(p string) (err error) {
		v, err = getXattr(p, name)
		return err
	})
	return v, b.wrap("getxattr", path, err)
}

// ListXattr is the names of the extended attributes.
func (b *Branch) ListXattr(path string) (names []string, err error) {
	err = b.onXattrs(path, func(p string) (err error) {
		names, err = listXattr(p)
		return err
	})
	return names, b.wrap("listxattr", path, err)
}

// SetXattr sets one extended attribute; flags are those of setxattr(2).
func (b *Branch) SetXattr(path, name string, value []byte, flags int, by Origin) error {
	return b.changeXattr("setxattr", path, name, by, func(p string) error {
		return unix.Setxattr(p, name, value, flags)
	})
}

// RemoveXattr removes one extended attribute.
func (b *Branch) RemoveXattr(path, name string, by Origin) error {
	return b.changeXattr("removexattr", path, name, by, func(p string) error {
		return unix.Removexattr(p, name)
	})
}

func (b *Branch) changeXattr(op, path, name string, by Origin, f func(p string) error) error {
	return b.mutateAny(op, path, func() error {
		if Reserved(name) {
			return kindError(Permission)
		}
		var h hit
		n, err := b.resolve(path, &h)
		if err != nil {
			return err
		}
		if n.IsDir() {
			return b.changeDir(path, n, by, func(l *layer, e *entry) error { return l.onPath(path, f) })
		}
		file, err := b.own(path, false, by)
		if err != nil {
			return err
		}
		top := b.top()
		top.mu.Lock()
		defer top.mu.Unlock()
		if err := top.onPath(file.names[0].path(), f); err != nil {
			return err
		}
		file.born = b.store.now()
		file.changed(top, b.store.unique())
		b.announce(top, file, OpAttr, by)
		return nil
	})
}
