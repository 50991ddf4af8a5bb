package overlay

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Difference of a branch from its base: what a patch or [Branch.Apply] is about.
// A path may stand in two, where a directory gives way to a file or the reverse.
type Difference struct {
	Path string
	// Old and New are modes as in stat(2); 0: nothing there.
	Old, New uint32
}

// Differences lists what the branch changes of its base as it is now: files,
// symlinks, special files and directories, each by itself also below a directory
// that was deleted or moved; what is in a .git directory is left out. Deletions
// come first, children before parents; then the rest, parents before children.
func (b *Branch) Differences() ([]Difference, error) {
	list, err := b.changes()
	var out []Difference
	for _, c := range list {
		out = append(out, Difference{c.path, c.old.Attr.Mode, c.now.Attr.Mode})
	}
	return out, b.wrap("list changes", "", err)
}

// change is a Difference with its nodes; a side that is nothing is zero.
type change struct {
	path     string
	old, now Node
}

func (c change) removes() bool { return c.now.Attr.Mode == 0 }
func (c change) adds() bool    { return c.old.Attr.Mode == 0 }
func (c change) leaf() bool    { return !c.old.IsDir() && !c.now.IsDir() }

// differencer collects the changes of a branch.
type differencer struct {
	b             *Branch
	removed, made []change
}

func (b *Branch) changes() ([]change, error) {
	d := differencer{b: b}
	var all []override
	err := b.overrides(func(v override) { all = append(all, v) })
	for _, v := range all {
		if err == nil && !InGit(v.Path) {
			err = d.override(v)
		}
	}
	slices.Reverse(d.removed)
	return append(d.removed, d.made...), err
}

// InGit says that a path is a .git directory (or file), or in one: those are in no
// patch, and no apply brings them.
func InGit(path string) bool {
	for rest := path; rest != ""; {
		var name string
		if name, rest = cutFirst(rest); name == ".git" {
			return true
		}
	}
	return false
}

func (d *differencer) override(v override) error {
	var st unix.Stat_t
	err := d.b.store.base.stat(v.Path, &st)
	if k := KindOf(err); k == NotExist || k == NotDir {
		if v.Kind != Deleted {
			d.made = append(d.made, change{path: v.Path, now: v.node})
		}
		return nil
	}
	if err != nil {
		return err
	}
	old := d.b.baseNode(v.Path, &st)
	switch {
	case v.Kind == Deleted:
		return d.remove(old)
	case old.IsDir() && v.Kind == Dir:
		if v.node.Attr.Mode != st.Mode {
			d.made = append(d.made, change{v.Path, old, v.node})
		}
	case old.IsDir() || v.Kind == Dir:
		d.made = append(d.made, change{path: v.Path, now: v.node})
		return d.remove(old)
	default:
		d.made = append(d.made, change{v.Path, old, v.node})
	}
	return nil
}

// baseNode is what the base holds at path, whatever the branch shows.
func (b *Branch) baseNode(path string, st *unix.Stat_t) Node {
	return Node{Path: path, branch: b, base: path, inBase: true, Attr: attrOf(st)}
}

// remove adds the deletion of a file of the base, or of a directory with all in it.
func (d *differencer) remove(old Node) error {
	d.removed = append(d.removed, change{path: old.Path, old: old})
	if !old.IsDir() {
		return nil
	}
	entries, err := d.b.store.base.list(old.Path, nil)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b DirEntry) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range entries {
		var st unix.Stat_t
		at := join(old.Path, e.Name)
		err := d.b.store.base.stat(at, &st)
		if KindOf(err) == NotExist || e.Name == ".git" {
			continue
		}
		if err != nil {
			return err
		}
		if err := d.remove(d.b.baseNode(at, &st)); err != nil {
			return err
		}
	}
	return nil
}

// sameContent says that two files or links hold the same bytes.
func sameContent(a, b Node) (bool, error) {
	if a.Attr.Mode&unix.S_IFMT != b.Attr.Mode&unix.S_IFMT {
		return false, nil
	}
	if !isReg(a.Attr.Mode) {
		if !isLnk(a.Attr.Mode) {
			return a.Attr.Rdev == b.Attr.Rdev, nil
		}
		ca, err := a.content()
		if err != nil {
			return false, err
		}
		cb, err := b.content()
		return bytes.Equal(ca, cb), err
	}
	if a.Attr.Size != b.Attr.Size {
		return false, nil
	}
	fa, err := a.open(false)
	if err != nil {
		return false, err
	}
	defer fa.Close()
	fb, err := b.open(false)
	if err != nil {
		return false, err
	}
	defer fb.Close()
	return sameStream(fa, fb)
}

func sameStream(a, b io.Reader) (bool, error) {
	const block = 64 << 10
	var x, y [block]byte
	for {
		n, err := io.ReadFull(a, x[:])
		m, err2 := io.ReadFull(b, y[:])
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return err2 == err, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// Base is what the base holds at path, whatever the branch shows there; no symlink
// is followed.
func (b *Branch) Base(path string) (Node, error) {
	var st unix.Stat_t
	err := checkPath(path)
	if err == nil {
		err = b.store.base.stat(path, &st)
	}
	if err != nil {
		return Node{}, b.wrap("look at the folder", path, err)
	}
	return b.baseNode(path, &st), nil
}
