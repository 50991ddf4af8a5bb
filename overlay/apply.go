package overlay

import (
	"bytes"
	"slices"

	"golang.org/x/sys/unix"
)

// ApplyOptions choose what of a branch reaches the base, and how.
type ApplyOptions struct {
	// Include says whether a path belongs to what is applied; nil means all. Paths
	// in a .git directory never do.
	Include func(path string) bool
	// Force applies over what the base has become since.
	Force bool
	// DryRun finds out and changes nothing.
	DryRun bool
	// Before is told the paths that will change, before any does; its error ends
	// it all. It may read the branch, but not change it.
	Before func(paths []string) error
}

// Applied says what an apply has done, or would do.
type Applied struct {
	// Paths are those of the base that were made, changed or removed.
	Paths []string
	// Same are those where the base held already what the branch does.
	Same []string
	// Skipped are fifos, sockets and devices: only files, links and directories
	// are applied.
	Skipped []string
	// Conflicts are the paths whose base has changed since the branch first
	// covered them. Where there are any and Force is not set, nothing was done.
	Conflicts []Conflict
}

// Apply makes the base what the branch shows, all of it or nothing: each file
// changes in one step, a failure takes back those before it, and what a kill
// interrupts the next Open takes back. A path whose base has changed since the
// branch first covered it is a Conflict, and then nothing is done. What was
// applied is no override of the branch any more, with all that its checkpoints
// and children hold left as it is.
//
// Files get the branch's modes and the present as their mtime. No symlink is
// followed, nothing outside the base is reached.
func (b *Branch) Apply(o ApplyOptions) (Applied, error) {
	b.store.applying.Lock()
	defer b.store.applying.Unlock()
	first := application{b: b, o: o}
	first.o.DryRun, first.o.Before = true, nil
	err := b.locked(first.run)
	if err != nil || o.DryRun && o.Before == nil {
		return first.result, b.wrap("apply", "", err)
	}
	if !o.DryRun && (len(first.result.Conflicts) == 0 || o.Force) {
		err = b.store.settleOthers(b, first.touched())
	}
	a := application{b: b, o: o}
	if err == nil {
		err = b.locked(a.run)
	}
	b.flush()
	return a.result, b.wrap("apply", "", err)
}

// application is one apply. Its branch's write lock is held.
type application struct {
	b      *Branch
	o      ApplyOptions
	result Applied
	plan   []planned
	// live are the paths of the base whose files the branch shows elsewhere: moved
	// with their directory, they follow the person's changes.
	live map[string]bool
}

// planned is one step that the base takes.
type planned struct {
	change
	do stepKind
}

func (a *application) run() error {
	a.live = map[string]bool{}
	if err := a.makePlan(); err != nil {
		return err
	}
	for _, p := range a.plan {
		if c, is := a.conflict(p); is {
			if len(a.result.Conflicts) >= maxShown {
				c.Then, c.Now, c.Branch = c.Then.unshown(), c.Now.unshown(), c.Branch.unshown()
			}
			a.result.Conflicts = append(a.result.Conflicts, c)
		}
	}
	if len(a.result.Conflicts) > 0 && !a.o.Force && !a.o.DryRun {
		return kindError(Conflicting)
	}
	if a.o.Before != nil && len(a.plan) > 0 {
		if err := a.o.Before(a.result.Paths); err != nil {
			return err
		}
	}
	if a.o.DryRun || len(a.plan)+len(a.result.Same) == 0 {
		return nil
	}
	if err := a.b.settle(a.touched()); err != nil {
		return err
	}
	for i := range a.plan {
		if p := &a.plan[i]; !p.removes() {
			n, err := a.b.nodeAt(p.path) // it may be a copy now
			if err != nil {
				return err
			}
			p.now = n
		}
	}
	l := newLanding(a.b)
	for _, list := range [][]string{a.result.Paths, a.result.Same} {
		for _, p := range list {
			l.record.Paths = append(l.record.Paths, []byte(p))
		}
	}
	if err := l.land(a.plan); err != nil {
		return err
	}
	if err := a.b.rebase(l.record.paths(), false, l.held); err != nil {
		return err // the next Open tries again
	}
	return l.finish()
}

// touched are the paths of the plan, and all directories above them.
func (a *application) touched() map[string]bool {
	out := map[string]bool{}
	for _, p := range a.plan {
		for path := p.path; path != "" && !out[path]; path, _ = split(path) {
			out[path] = true
		}
	}
	return out
}

// makePlan sorts out what has to be done: deletions, then what is made, parents
// before children.
func (a *application) makePlan() error {
	list, err := a.b.changes()
	if err != nil {
		return err
	}
	include := a.o.Include
	if include == nil {
		include = func(string) bool { return true }
	}
	for _, c := range list {
		if c.leaf() && c.now.inBase && c.now.base != c.path {
			a.live[c.now.base] = true
		}
	}
	needed := map[string]bool{} // what is applied, and the directories that it is in
	for _, c := range list {
		empty := c.now.IsDir() && c.adds() && a.b.mustBeEmpty(c.path) == nil
		if (c.leaf() || empty) && include(c.path) && !special(c.now) {
			needed[c.path] = true
			for dir, _ := split(c.path); dir != "" && !needed[dir]; dir, _ = split(dir) {
				needed[dir] = true
			}
		}
	}
	for _, c := range list {
		var do stepKind
		switch {
		case special(c.now):
			if include(c.path) {
				a.result.Skipped = append(a.result.Skipped, c.path)
			}
			continue
		case c.now.IsDir() && c.adds():
			if !needed[c.path] {
				continue
			}
			do = stepMkdir
		case !include(c.path):
			continue
		case c.removes() && c.old.IsDir():
			do = stepRmdir
		case c.removes():
			do = stepRemove
		case c.now.IsDir():
			do = stepChmod
		case c.adds():
			do = stepCreate
		default:
			if do, err = replacing(c); err != nil {
				return err
			}
		}
		if do == 0 {
			a.result.Same = append(a.result.Same, c.path)
			continue
		}
		a.plan = append(a.plan, planned{c, do})
		a.result.Paths = append(a.result.Paths, c.path)
	}
	slices.SortFunc(a.result.Paths, comparePaths)
	a.result.Paths = slices.Compact(a.result.Paths) // a file in place of a directory is two steps
	return nil
}

func special(n Node) bool {
	m := n.Attr.Mode
	return m != 0 && !isReg(m) && !isLnk(m) && !isDir(m)
}

// replacing is what must be done to a file that both sides have; 0: nothing.
func replacing(c change) (stepKind, error) {
	same, err := sameContent(c.old, c.now)
	switch {
	case err != nil:
		return 0, err
	case !same:
		return stepReplace, nil
	case isReg(c.now.Attr.Mode) && c.old.Attr.Mode != c.now.Attr.Mode:
		return stepChmod, nil
	}
	return 0, nil
}

// Conflict is a path whose base is not what it was when the branch first covered it.
type Conflict struct {
	Path string
	// Since is what has happened to it in the base: "changed", "made" or "deleted".
	Since             string
	Then, Now, Branch Side
}

// Side is one of the three sides of a conflict. Mode is 0 where it is nothing.
type Side struct {
	Mode uint32
	// Data is the content or the link's target; Known is false where it was not
	// kept, or is too large to be shown.
	Data  []byte
	Known bool
}

// maxShown bounds the conflicts that come with contents.
const maxShown = 100

func (s Side) unshown() Side { return Side{Mode: s.Mode, Known: s.Mode == 0} }

func (a *application) conflict(p planned) (c Conflict, is bool) {
	if !p.leaf() {
		return c, false
	}
	b := a.b
	then, in, known := b.then(p.path)
	c = Conflict{Path: p.path, Now: sideOf(p.old), Branch: sideOf(p.now), Then: Side{Known: true}}
	if known {
		c.Then.Mode = then.Mode
		c.Then.Data, c.Then.Known = in.thenContent(then)
	}
	switch {
	case p.adds() && !known, !p.adds() && !known && a.live[p.path]:
		return c, false
	case p.adds():
		c.Since = "deleted"
	case !known:
		c.Since = "made"
	case then.is(p.old.Attr):
		return c, false
	case c.Then.Known && c.Now.Known && then.Mode == p.old.Attr.Mode && bytes.Equal(c.Then.Data, c.Now.Data):
		return c, false // touched, or saved as it was
	default:
		c.Since = "changed"
	}
	if !p.adds() && b.was(p.old) {
		return c, false
	}
	return c, true
}

// was says that the branch itself has shown what the base holds now, in one of
// its frozen layers: somebody applied that, and the branch went on from there.
func (b *Branch) was(now Node) bool {
	for _, l := range b.chain.Load().layers[1:] {
		e := l.find(now.Path)
		if e == nil || e.kind != fileEntry {
			continue
		}
		var st unix.Stat_t
		if l.stat(now.Path, &st) != nil || st.Mode != now.Attr.Mode {
			continue
		}
		old := Node{Path: now.Path, branch: b, file: e.file, Attr: attrOf(&st)}
		if same, err := sameContent(old, now); err == nil && same {
			return true
		}
	}
	return false
}

func sideOf(n Node) Side {
	s := Side{Mode: n.Attr.Mode}
	if s.Mode == 0 {
		s.Known = true
		return s
	}
	if special(n) || n.IsDir() || n.Attr.Size > maxThenFile {
		return s
	}
	var err error
	s.Data, err = n.content()
	s.Known = err == nil
	return s
}
