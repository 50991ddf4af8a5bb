package overlay

import "golang.org/x/sys/unix"

// RenameFlags are those of renameat2(2).
type RenameFlags uint32

const (
	NoReplace RenameFlags = 1 << iota // Exist instead of replacing
	Exchange                          // both must exist and change places
)

// Rename moves a file or directory, atomically replacing what newPath names. A
// directory that comes from below is not copied: it leaves a deletion behind
// and takes along a redirect to where its content is.
func (b *Branch) Rename(oldPath, newPath string, flags RenameFlags, by Origin) error {
	return b.mutate("rename", oldPath, func() error {
		if err := checkPath(newPath); err != nil {
			return err
		}
		if newPath == "" {
			return kindError(Busy)
		}
		if flags&^(NoReplace|Exchange) != 0 || flags == NoReplace|Exchange {
			return kindError(Invalid)
		}
		m := &move{b: b, from: oldPath, to: newPath, by: by}
		if err := m.check(flags); err != nil || m.same {
			return err
		}
		if flags == Exchange {
			return m.exchange()
		}
		return m.rename()
	})
}

// move is one rename in progress.
type move struct {
	b        *Branch
	from, to string
	by       Origin
	src, dst Node
	replaces bool // dst exists
	same     bool // nothing to do
}

// check finds both ends and refuses what rename(2) refuses.
func (m *move) check(flags RenameFlags) error {
	var h hit
	var err error
	if m.src, err = m.b.resolve(m.from, &h); err != nil {
		return err
	}
	m.dst, err = m.b.resolve(m.to, &h)
	switch k := KindOf(err); {
	case k == 0:
		m.replaces = true
	case k != NotExist:
		return err
	case flags == Exchange:
		return err
	}
	if !m.replaces {
		dir, _ := split(m.to)
		if n, err := m.b.resolve(dir, &h); err != nil {
			return err
		} else if !n.IsDir() {
			return kindError(NotDir)
		}
	}
	switch {
	case flags == NoReplace && m.replaces:
		return kindError(Exist)
	case m.from == m.to || m.replaces && m.src.file != nil && m.src.file == m.dst.file:
		m.same = true // two names of one file stay, says POSIX
		return nil
	case below(m.to, m.from), flags == Exchange && below(m.from, m.to):
		return kindError(Invalid)
	case flags == Exchange:
		return nil
	case m.replaces && m.src.IsDir() && !m.dst.IsDir():
		return kindError(NotDir)
	case m.replaces && !m.src.IsDir() && m.dst.IsDir():
		return kindError(IsDir)
	case m.replaces && m.dst.IsDir():
		return m.b.mustBeEmpty(m.to)
	}
	return nil
}

// lift makes the top layer own what path shows, such that its entry can be put
// anywhere: a file with its bytes, a directory with a redirect to what it
// merges with, or opaque where it merges with nothing.
func (m *move) lift(path string, n Node) (*entry, error) {
	b := m.b
	top := b.top()
	if !n.IsDir() {
		if _, err := b.own(path, false, m.by); err != nil {
			return nil, err
		}
		return top.find(path), nil
	}
	e, err := b.dirEntry(path)
	if err != nil {
		return nil, err
	}
	if e.dir.redirect != "" || e.dir.opaque {
		return e, nil
	}
	var h hit
	merges, err := b.under(path, &h)
	if err != nil {
		return nil, err
	}
	if merges && h.file != nil { // it hides a file
		merges = false
	}
	if !merges {
		if err := top.setXattr(path, xattrOpaque, []byte("y")); err != nil {
			return nil, err
		}
		top.mu.Lock()
		e.dir.opaque = true
		if !e.dir.own {
			e.dir.own, e.dir.mode = true, n.Attr.Mode&0o7777
		}
		top.setSum(e, b.store.unique())
		top.mu.Unlock()
		return e, nil
	}
	low, err := b.lowPath(path)
	if err != nil {
		return nil, err
	}
	// At its old place the redirect says what is the case anyway.
	if err := top.setXattr(path, xattrRedirect, []byte("/"+low)); err != nil {
		return nil, err
	}
	top.mu.Lock()
	e.dir.redirect, e.dir.ino = low, n.Attr.Ino
	top.setSum(e, b.store.unique())
	top.mu.Unlock()
	b.store.step("redirect set")
	return e, nil
}

// lowPath is the path in the layers below the top that path falls through to.
func (b *Branch) lowPath(path string) (string, error) {
	dir, name := split(path)
	h := hit{low: dir, known: len(dir) + 1}
	if top := b.top(); top.used && !top.walk(&h) {
		return "", kindError(Corrupt)
	}
	return join(h.low, name), nil
}

func (m *move) rename() error {
	b, top := m.b, m.b.top()
	if m.replaces && m.dst.inBase {
		if err := b.remember(m.dst.base); err != nil {
			return err
		}
	}
	e, err := m.lift(m.from, m.src)
	if err != nil {
		return err
	}
	if !m.replaces || !m.dst.IsDir() {
		if err := b.clearBare(m.to); err != nil {
			return err
		}
	}
	toDir, toName := split(m.to)
	parent, err := b.dirEntry(toDir)
	if err != nil {
		return err
	}
	var h hit
	hide, err := b.under(m.from, &h)
	if err != nil {
		return err
	}
	old := parent.dir.children[toName]
	if old != nil && old.kind == dirEntry {
		if err := b.hollow(m.to, old); err != nil {
			return err
		}
	}
	b.store.step("ready to rename")
	top.mu.Lock()
	defer top.mu.Unlock()
	if err := m.swap(e, old, hide); err != nil {
		return err
	}
	fromParent, fromName := e.parent, e.name
	b.dropIndex(old)
	b.moveIndex(e, parent, toName)
	if hide {
		b.enterIndex(fromParent, &entry{name: fromName, kind: whiteEntry})
	}
	b.store.touch(fromParent.dir)
	if e.kind == fileEntry {
		e.file.born = b.store.now()
		e.file.stamp = b.store.serial()
	}
	b.changed(m.from, OpRemove, m.by)
	op := OpCreate
	if m.replaces {
		op = OpReplace
	}
	b.changed(m.to, op, m.by)
	return nil
}

// swap does the real rename, in one system call where the kernel has it. old is
// the top's entry at the destination; hide: a deletion must stay at the source.
// Needs the top's mutex.
func (m *move) swap(e, old *entry, hide bool) error {
	b, top := m.b, m.b.top()
	grave := ""
	var err error
	if old != nil && old.kind == fileEntry {
		if grave, err = top.keepPinned(old); err != nil {
			return err
		}
	}
	switch {
	case old != nil && old.kind != dirEntry && e.kind == dirEntry:
		// A recorded deletion is in the way of a directory: they change places,
		// which leaves a deletion at the source.
		if err = top.rename(m.from, m.to, unix.RENAME_EXCHANGE); err == nil && (!hide || old.kind != whiteEntry) {
			b.store.step("exchanged")
			err = top.unlink(m.from)
			if err == nil && hide {
				err = b.makeWhite(m.from, e.parent)
			}
		}
	case hide && b.store.renameWhite && !b.store.xattrWhites:
		err = top.rename(m.from, m.to, unix.RENAME_WHITEOUT)
	case hide:
		err = m.announced(e)
	default:
		err = top.rename(m.from, m.to, 0)
	}
	if err != nil {
		if grave != "" {
			top.unlink(grave)
		}
		return err
	}
	if old != nil && old.kind == fileEntry {
		old.file.lose(top, old, grave)
	}
	return nil
}

// announced renames and then records the deletion, with a note of it in the
// intent log: for kernels and file systems that cannot do both at once.
func (m *move) announced(e *entry) error {
	top := m.b.top()
	done, err := m.b.store.announce(intent{Op: intentRename, Layer: top.id, From: m.from, To: m.to})
	if err != nil {
		return err
	}
	if err := top.rename(m.from, m.to, 0); err != nil {
		done()
		return err
	}
	m.b.store.step("renamed")
	if err := m.b.makeWhite(m.from, e.parent); err != nil {
		if undo := top.rename(m.to, m.from, 0); undo != nil {
			return err // the intent stays: the next Open completes it
		}
		done()
		return err
	}
	m.b.store.step("deletion made")
	done()
	return nil
}

// hollow prepares a directory that shows no entries for being replaced:
// recorded deletions in it go, after it was made opaque, which says the same.
func (b *Branch) hollow(path string, e *entry) error {
	top := b.top()
	if !e.dir.opaque {
		if err := top.setXattr(path, xattrOpaque, []byte("y")); err != nil {
			return err
		}
		if e.dir.redirect != "" {
			if err := top.removeXattr(path, xattrRedirect); err != nil {
				return err
			}
		}
		b.store.step("made opaque")
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	if !e.dir.opaque {
		e.dir.opaque, e.dir.redirect = true, ""
		top.setSum(e, b.store.unique())
	}
	for name, c := range e.dir.children {
		if err := top.unlink(join(path, name)); err != nil {
			return err
		}
		b.dropIndex(c)
		b.store.step("deletion removed")
	}
	return nil
}

// moveIndex moves an entry in the index. Needs the top's mutex.
func (b *Branch) moveIndex(e *entry, parent *entry, name string) {
	top := b.top()
	delete(e.parent.dir.children, e.name)
	e.name = name
	parent.add(e)
	b.resum(top, e)
	b.store.touch(parent.dir)
}

// resum gives a moved entry the share of its new path. What is below a moved
// directory keeps the shares of its old paths: that of the directory is unique
// now, so no other state has the same sum.
func (b *Branch) resum(l *layer, e *entry) {
	if e.kind == dirEntry {
		l.setSum(e, b.store.unique())
		e.dir.ctime, e.dir.stamp = b.store.now(), b.store.serial()
		if e.dir.mtime.IsZero() {
			e.dir.ctime = Time{}
		}
		return
	}
	l.setSum(e, b.shareOf(e))
}

// exchange lets two paths change places.
func (m *move) exchange() error {
	b, top := m.b, m.b.top()
	e1, err := m.lift(m.from, m.src)
	if err != nil {
		return err
	}
	e2, err := m.lift(m.to, m.dst)
	if err != nil {
		return err
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	if err := top.rename(m.from, m.to, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	p1, n1, p2, n2 := e1.parent, e1.name, e2.parent, e2.name
	e1.name, e2.name = n2, n1
	p1.add(e2)
	p2.add(e1)
	for _, e := range []*entry{e1, e2} {
		b.resum(top, e)
		b.store.touch(e.parent.dir)
		if e.kind == fileEntry {
			e.file.born, e.file.stamp = b.store.now(), b.store.serial()
		}
	}
	b.changed(m.from, OpReplace, m.by)
	b.changed(m.to, OpReplace, m.by)
	return nil
}
