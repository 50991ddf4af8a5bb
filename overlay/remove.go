package overlay

import "golang.org/x/sys/unix"

// Unlink removes anything but a directory.
func (b *Branch) Unlink(path string, by Origin) error {
	return b.mutate("unlink", path, func() error {
		var h hit
		n, err := b.resolve(path, &h)
		if err != nil {
			return err
		}
		if n.IsDir() {
			return kindError(IsDir)
		}
		return b.remove(path, by)
	})
}

// Rmdir removes an empty directory.
func (b *Branch) Rmdir(path string, by Origin) error {
	return b.mutate("rmdir", path, func() error {
		if err := b.mustBeEmpty(path); err != nil {
			return err
		}
		return b.remove(path, by)
	})
}

// RemoveAll removes the path with all below it, in one step.
func (b *Branch) RemoveAll(path string, by Origin) error {
	return b.mutate("remove", path, func() error {
		var h hit
		if _, err := b.resolve(path, &h); err != nil {
			return err
		}
		return b.remove(path, by)
	})
}

// mustBeEmpty checks that path is a directory without entries.
func (b *Branch) mustBeEmpty(path string) error {
	var h hit
	n, err := b.resolve(path, &h)
	if err != nil {
		return err
	}
	if !n.IsDir() {
		return kindError(NotDir)
	}
	entries, err := b.readDir(path)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return kindError(NotEmpty)
	}
	return nil
}

// remove takes away what path shows: the top's own entry, and what shows from
// below by recording a deletion. Needs write; path exists.
func (b *Branch) remove(path string, by Origin) error {
	var h hit
	hide, err := b.under(path, &h)
	if err != nil {
		return err
	}
	if err := b.rememberShown(path); err != nil {
		return err
	}
	dir, name := split(path)
	parent, err := b.dirEntry(dir)
	if err != nil {
		return err
	}
	top := b.top()
	old := parent.dir.children[name]
	white := path // where a deletion is recorded: at once in its place, if that is free
	if old != nil {
		white = top.temp()
	}
	if hide { // never refused for want of room: it is how room is made
		if err := b.makeWhite(white, parent); err != nil {
			return err
		}
		b.store.step("deletion made")
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	if old != nil {
		if err := b.takeAway(path, old, white, hide); err != nil {
			if hide {
				top.unlink(white)
			}
			return err
		}
	}
	b.dropIndex(old)
	if hide {
		b.enterIndex(parent, &entry{name: name, kind: whiteEntry})
	} else {
		delete(parent.dir.children, name)
		b.store.touch(parent.dir)
	}
	b.changed(path, OpRemove, by)
	return nil
}

// takeAway removes the top's own object at path, in one rename, leaving the
// deletion at white in its place if hide. Needs the top's mutex.
func (b *Branch) takeAway(path string, old *entry, white string, hide bool) error {
	top := b.top()
	switch {
	case old.kind == dirEntry:
		if err := b.buryPinned(old); err != nil {
			return err
		}
		rubbish := white
		if hide {
			if err := top.rename(white, path, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
		} else {
			rubbish = top.temp()
			if err := top.rename(path, rubbish, 0); err != nil {
				return err
			}
		}
		b.store.step("directory taken away")
		top.discard(rubbish)
		return nil
	case hide:
		return b.putOver(white, path, old)
	case old.kind != fileEntry:
		return top.unlink(path)
	}
	grave, err := top.keepPinned(old)
	if err != nil {
		return err
	}
	b.store.step("grave")
	if err := top.unlink(path); err != nil {
		if grave != "" {
			top.unlink(grave)
		}
		return err
	}
	old.file.lose(top, old, grave)
	return nil
}

// buryPinned gives the pinned files below a directory that goes away a second
// name in the graveyard, and takes all files' names there.
func (b *Branch) buryPinned(dir *entry) error {
	top := b.top()
	for _, c := range dir.dir.children {
		switch c.kind {
		case dirEntry:
			if err := b.buryPinned(c); err != nil {
				return err
			}
		case fileEntry:
			grave, err := top.keepPinned(c)
			if err != nil {
				return err
			}
			c.file.lose(top, c, grave)
		}
	}
	return nil
}

// dropIndex forgets an entry with all below it: sums and charges. Files have
// lost their names already. Needs the top's mutex.
func (b *Branch) dropIndex(e *entry) {
	if e == nil {
		return
	}
	top := b.top()
	top.setSum(e, StateID{})
	top.charge(-entryCost)
	if e.kind == dirEntry {
		for _, c := range e.dir.children {
			b.dropIndex(c)
		}
	}
	delete(e.parent.dir.children, e.name)
}

// makeWhite records a deletion at a place in the layer: a character device 0/0,
// which any user may make since Linux 5.8, else an empty file with the
// attribute that overlayfs reads in its place (in a directory that says so).
func (b *Branch) makeWhite(at string, parent *entry) error {
	top := b.top()
	if !b.store.xattrWhites {
		return top.at(at, func(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFCHR, 0) })
	}
	if !parent.dir.opaque {
		if err := top.setXattr(parent.path(), xattrOpaque, []byte("x")); err != nil {
			return err
		}
	}
	var fd int
	err := top.at(at, func(dir int, name string) (err error) {
		fd, err = unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fsetxattr(fd, xattrWhite, []byte("y"), 0); err != nil {
		top.unlink(at)
		return err
	}
	return nil
}
