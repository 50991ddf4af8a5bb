package overlay

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var (
	modelSteps = flag.Int("model.steps", 2000, "steps of the model test")
	modelSeed  = flag.Uint64("model.seed", 1, "first seed of the model test")
	modelLog   = flag.Int("model.log", 25, "steps to print after a failure")
	modelSeeds = flag.Int("model.seeds", 2, "seeds of the model test")
)

// TestModel does the same random changes to branches and to plain directories,
// with forks, rollbacks, kills and edits of the live base in between, and
// compares all they show.
func TestModel(t *testing.T) {
	for i := range *modelSeeds {
		seed := *modelSeed + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runModel(t, seed, *modelSteps, false) })
	}
	t.Run("lesser kernel", func(t *testing.T) { runModel(t, *modelSeed, *modelSteps/3, true) })
}

type model struct {
	t      *testing.T
	r      *rand.Rand
	lesser bool
	opts   Options
	store  *Store
	dir    string                       // of the plain directories
	plain  map[string]string            // branch → directory
	points map[string]map[string]string // branch → checkpoint → directory
	files  []*openFile
	n      int
	log    []string
}

type openFile struct {
	branch string
	f      *File
	plain  *os.File
}

// runModel is one run; lesser: without openat2, RENAME_WHITEOUT and whiteout devices.
func runModel(t *testing.T, seed uint64, steps int, lesser bool) {
	root := t.TempDir()
	m := &model{
		t: t, lesser: lesser, r: rand.New(rand.NewPCG(seed, 7)), dir: filepath.Join(root, "plain"),
		opts:  Options{Base: filepath.Join(root, "base"), State: filepath.Join(root, "state")},
		plain: map[string]string{}, points: map[string]map[string]string{},
	}
	m.must(os.MkdirAll(m.dir, 0o755))
	m.makeBase()
	m.open()
	m.create("")
	defer func() {
		if t.Failed() {
			for _, l := range m.log[max(0, len(m.log)-*modelLog):] {
				t.Log(l)
			}
		}
		m.closeFiles("")
		m.store.Close()
	}()
	for i := range steps {
		m.step()
		if t.Failed() {
			t.Fatalf("seed %d failed at step %d", seed, i)
		}
		if i%50 == 49 {
			m.compareAll()
		}
		if i%250 == 249 {
			m.comparePatches()
		}
	}
	m.compareAll()
}

func (m *model) must(err error) {
	if err != nil {
		m.t.Helper()
		m.t.Fatal(err)
	}
}

var names = []string{"a", "b", "c", "d", "e\xff", "f g"}

func (m *model) path() string {
	var p []string
	for range 1 + m.r.IntN(3) {
		p = append(p, names[m.r.IntN(len(names))])
	}
	return strings.Join(p, "/")
}

func (m *model) data() []byte {
	if m.r.IntN(8) == 0 {
		return []byte(fmt.Sprintf("binary\x00%d", m.r.IntN(1000)))
	}
	if m.r.IntN(8) == 0 {
		return []byte("no newline at the end")
	}
	return []byte(strings.Repeat(fmt.Sprintf("%d\n", m.r.IntN(8)), m.r.IntN(5)))
}

func (m *model) makeBase() {
	m.must(os.Mkdir(m.opts.Base, 0o755))
	for _, a := range names[:4] {
		for _, b := range names[:4] {
			p := filepath.Join(m.opts.Base, a, b)
			m.must(os.MkdirAll(filepath.Dir(p), 0o755))
			switch m.r.IntN(4) {
			case 0:
				m.must(os.WriteFile(p, m.data(), 0o644))
			case 1:
				m.must(os.Symlink("../x", p))
			case 2:
				m.must(os.Mkdir(p, 0o750))
				for _, c := range names[:3] {
					m.must(os.WriteFile(filepath.Join(p, c), m.data(), 0o640))
				}
			}
		}
	}
}

func (m *model) open() {
	s, repairs, err := Open(m.opts)
	m.must(err)
	if len(repairs) > 0 {
		m.t.Errorf("unexpected repairs: %v", repairs)
	}
	if m.lesser {
		s.renameWhite, s.xattrWhites = false, true
		s.base.plain.Store(true)
	}
	m.store = s
}

func (m *model) copyTree(from string) string {
	m.n++
	to := filepath.Join(m.dir, fmt.Sprint(m.n))
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%v: %s", err, out)
	}
	return to
}

func (m *model) create(from string) {
	m.n++
	name := fmt.Sprint("br", m.n)
	_, err := m.store.Create(name, CreateOptions{From: from, Keep: true})
	m.must(err)
	src := m.opts.Base
	if from != "" {
		src = m.plain[from]
	}
	m.plain[name] = m.copyTree(src)
	m.points[name] = map[string]string{}
}

func (m *model) pick() string {
	var all []string
	for n := range m.plain {
		all = append(all, n)
	}
	slices.Sort(all)
	return all[m.r.IntN(len(all))]
}

func (m *model) closeFiles(branch string) {
	m.files = slices.DeleteFunc(m.files, func(f *openFile) bool {
		if branch != "" && f.branch != branch {
			return false
		}
		f.f.Close()
		f.plain.Close()
		return true
	})
}

func (m *model) step() {
	name := m.pick()
	b, err := m.store.Branch(name)
	m.must(err)
	switch k := m.r.IntN(1000); {
	case k < 12 && len(m.plain) < 6:
		m.log = append(m.log, "fork "+name)
		m.create(name)
	case k < 18 && len(m.plain) > 1:
		m.log = append(m.log, "drop "+name)
		m.closeFiles(name)
		m.must(m.store.Drop(name))
		m.must(os.RemoveAll(m.plain[name]))
		delete(m.plain, name)
		delete(m.points, name)
	case k < 24:
		cp, err := b.Checkpoint("")
		m.must(err)
		m.log = append(m.log, "checkpoint "+name+" "+cp.ID)
		m.points[name][cp.ID] = m.copyTree(m.plain[name])
	case k < 30:
		cps := b.Checkpoints()
		if len(cps) == 0 {
			return
		}
		cp := cps[m.r.IntN(len(cps))].ID
		m.log = append(m.log, "rollback "+name+" "+cp)
		m.closeFiles(name)
		m.must(b.Rollback(cp))
		m.plain[name] = m.copyTree(m.points[name][cp])
	case k < 36:
		m.log = append(m.log, "reopen")
		m.closeFiles("")
		if m.r.IntN(2) == 0 {
			m.must(m.store.Close())
		} else {
			m.store.abandon()
		}
		m.open()
	case k < 60:
		m.editBase()
	case k < 100:
		m.writeOpen()
	case k < 115:
		m.moveBack(name, b)
	default:
		m.change(name, b)
	}
}

// editBase changes a file of the live base, and where it shows through.
func (m *model) editBase() {
	p := m.path()
	if st, err := os.Lstat(filepath.Join(m.opts.Base, p)); err != nil || !st.Mode().IsRegular() {
		return
	}
	data := m.data()
	m.log = append(m.log, "edit base "+p)
	replace := func(path string) { m.must(os.WriteFile(path, data, 0)) }
	for name, dir := range m.plain {
		b, err := m.store.Branch(name)
		m.must(err)
		m.walk(b, "", func(n Node) {
			if from, ok := n.FromBase(); ok && from == p {
				replace(filepath.Join(dir, n.Path))
			}
		})
		// What the plain copies of checkpoints should show now is too much to ask.
		for id := range m.points[name] {
			m.must(b.DropCheckpoint(id))
			delete(m.points[name], id)
		}
	}
	replace(filepath.Join(m.opts.Base, p))
}

// writeOpen opens files for writing and writes through ones opened earlier.
func (m *model) writeOpen() {
	if len(m.files) > 4 {
		m.closeFiles(m.files[0].branch)
	}
	if len(m.files) > 0 && m.r.IntN(3) > 0 {
		f := m.files[m.r.IntN(len(m.files))]
		data := m.data()
		off := int64(m.r.IntN(10))
		m.log = append(m.log, fmt.Sprintf("write %s %q at %d", f.branch, f.f.Name(), off))
		_, err := f.f.WriteAt(data, off)
		m.must(err)
		_, err = f.plain.WriteAt(data, off)
		m.must(err)
		f.f.Wrote(Origin{})
		return
	}
	name, p := m.pick(), m.path()
	b, err := m.store.Branch(name)
	m.must(err)
	if n, err := b.Lookup(p); err != nil || n.Attr.Nlink > 1 || !isReg(n.Attr.Mode) {
		return
	}
	m.log = append(m.log, fmt.Sprintf("open %s %q", name, p))
	_, f, err := b.OpenWrite(p, false, Origin{})
	m.must(err)
	plain, err := os.OpenFile(filepath.Join(m.plain[name], p), os.O_RDWR, 0)
	m.must(err)
	m.files = append(m.files, &openFile{name, f, plain})
}

// moveBack writes into a directory, moves it away, lets the branch be frozen,
// and moves it back: nothing that chance does often.
func (m *model) moveBack(name string, b *Branch) {
	dir, to := names[m.r.IntN(4)], m.path()
	if n, err := b.Lookup(dir); err != nil || !n.IsDir() {
		return
	}
	if _, err := b.Lookup(to); err == nil || below(to, dir) {
		return
	}
	entries, err := b.ReadDir(dir)
	m.must(err)
	for _, e := range entries {
		if p, data := join(dir, e.Name), m.data(); isReg(e.Mode) {
			m.log = append(m.log, fmt.Sprintf("%s: WriteFile %q %q", name, p, data))
			m.must(b.WriteFile(p, data, 0))
			m.must(plainWrite(m.plain[name], p, data))
			break
		}
	}
	m.log = append(m.log, fmt.Sprintf("%s: move %q to %q, freeze, move back", name, dir, to))
	if b.Rename(dir, to, 0, Origin{}) != nil {
		return // there is no such parent
	}
	cp, err := b.Checkpoint("")
	m.must(err)
	m.must(b.DropCheckpoint(cp.ID))
	m.must(b.Rename(to, dir, 0, Origin{}))
}

func (m *model) change(name string, b *Branch) {
	p, q, data := m.path(), m.path(), m.data()
	real := func(p string) string { return filepath.Join(m.plain[name], p) }
	var desc string
	var got, want error
	switch m.r.IntN(14) {
	case 0, 1, 2, 3:
		desc = fmt.Sprintf("WriteFile %q %q", p, data)
		got = b.WriteFile(p, data, 0)
		want = plainWrite(m.plain[name], p, data)
	case 4:
		desc = fmt.Sprintf("revert %q", p)
		base, err := os.ReadFile(filepath.Join(m.opts.Base, p))
		if st, e := os.Lstat(filepath.Join(m.opts.Base, p)); err != nil || e != nil || !st.Mode().IsRegular() {
			return
		}
		got = b.WriteFile(p, base, 0)
		want = plainWrite(m.plain[name], p, base)
	case 5:
		desc = fmt.Sprintf("create %q", p)
		_, f, err := b.Create(p, 0o600, Origin{})
		got = err
		if err == nil {
			f.Write(data)
			f.Wrote(Origin{})
			f.Close()
		}
		var g *os.File
		if g, want = os.OpenFile(real(p), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); want == nil {
			g.Write(data)
			g.Close()
		}
	case 6:
		desc = fmt.Sprintf("unlink %q", p)
		got, want = b.Unlink(p, Origin{}), unix.Unlink(real(p))
	case 7:
		desc = fmt.Sprintf("rmdir %q", p)
		got, want = b.Rmdir(p, Origin{}), unix.Rmdir(real(p))
	case 8:
		mode := []uint32{0o755, 0o500, 0o711}[m.r.IntN(3)]
		if os.Geteuid() != 0 {
			mode |= 0o200 // who may write where is the kernel's to check, in the view
		}
		desc = fmt.Sprintf("mkdir %q %o", p, mode)
		_, got = b.Mkdir(p, mode, Origin{})
		want = unix.Mkdir(real(p), mode)
	case 9, 10:
		flags := []RenameFlags{0, 0, NoReplace, Exchange}[m.r.IntN(4)]
		if x, err := b.Lookup(p); err == nil && x.Attr.Nlink > 1 {
			if y, err := b.Lookup(q); err == nil && x.Attr.Ino == y.Attr.Ino {
				return // names of one file, which are copies in the model
			}
		}
		desc = fmt.Sprintf("rename %q %q %d", p, q, flags)
		got = b.Rename(p, q, flags, Origin{})
		want = unix.Renameat2(unix.AT_FDCWD, real(p), unix.AT_FDCWD, real(q), uint(flags))
	case 11:
		if m.r.IntN(2) == 0 {
			desc = fmt.Sprintf("symlink %q", p)
			_, got = b.Symlink("target "+q, p, Origin{})
			want = os.Symlink("target "+q, real(p))
			break
		}
		desc = fmt.Sprintf("removeall %q", p)
		got = b.RemoveAll(p, Origin{})
		if _, want = os.Lstat(real(p)); want == nil {
			want = os.RemoveAll(real(p))
		}
	case 12:
		n, err := b.Lookup(p)
		if err == nil && n.IsDir() {
			return
		}
		desc = fmt.Sprintf("link %q %q", p, q)
		m.closeFiles(name)
		_, got = b.Link(p, q, Origin{})
		// A copy: writing in place through linked files is not part of the model.
		want = plainLink(real(p), real(q))
	case 13:
		c := AttrChange{Mask: SetMode, Mode: []uint32{0o755, 0o740, 0o700}[m.r.IntN(3)]}
		n, err := b.Lookup(p)
		if err == nil && (isLnk(n.Attr.Mode) || n.Attr.Nlink > 1 && !n.IsDir()) {
			return
		}
		desc = fmt.Sprintf("chmod %q %o", p, c.Mode)
		if m.r.IntN(3) == 0 && err == nil && isReg(n.Attr.Mode) {
			c.Mask |= SetSize
			c.Size = int64(m.r.IntN(6))
			desc += fmt.Sprint(" size ", c.Size)
		}
		_, got = b.SetAttr(p, c, Origin{})
		if want = unix.Chmod(real(p), c.Mode); want == nil && c.Mask&SetSize != 0 {
			want = unix.Truncate(real(p), c.Size)
		}
	}
	m.log = append(m.log, fmt.Sprintf("%s: %s: %v", name, desc, got))
	if !sameError(got, want) {
		m.t.Errorf("%s: %s: got %v, want %v", name, desc, got, want)
	}
	if got != nil && KindOf(got) != 0 {
		var e *Error
		if !errors.As(got, &e) || e.Op == "" {
			m.t.Errorf("%s: error without operation: %#v", desc, got)
		}
	}
}

func sameError(got, want error) bool {
	class := func(err error) Kind {
		k := KindOf(err)
		if errors.Is(err, fs.ErrExist) && k == IO {
			k = Exist
		}
		switch k {
		case NotDir:
			return NotExist // which component is missing is the kernel's to say
		case NotEmpty, IsDir:
			return Exist
		}
		return k
	}
	return class(got) == class(want)
}

// plainWrite is WriteFile on a plain directory.
func plainWrite(dir, p string, data []byte) error {
	path := filepath.Join(dir, p)
	mode := fs.FileMode(0o644)
	if st, err := os.Lstat(path); err == nil {
		if st.IsDir() {
			return unix.EISDIR
		}
		if !st.Mode().IsRegular() {
			return unix.EINVAL
		}
		mode = st.Mode().Perm()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A symlink on the way is no directory.
	for d := filepath.Dir(p); d != "."; d = filepath.Dir(d) {
		if st, err := os.Lstat(filepath.Join(dir, d)); err == nil && !st.IsDir() {
			return unix.ENOTDIR
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(tmp, mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func plainLink(from, to string) error {
	if st, err := os.Lstat(from); err == nil && !st.Mode().IsRegular() {
		if _, err := os.Lstat(to); err == nil {
			return unix.EEXIST
		}
		return unix.Link(from, to)
	}
	if _, err := os.Lstat(from); err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return unix.EEXIST
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := exec.Command("cp", "-p", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", unix.ENOENT, out)
	}
	return nil
}

func (m *model) walk(b *Branch, dir string, f func(Node)) {
	entries, err := b.ReadDir(dir)
	m.must(err)
	for _, e := range entries {
		n, err := b.Lookup(join(dir, e.Name))
		m.must(err)
		if n.Attr.Mode&unix.S_IFMT != e.Mode || n.Attr.Ino != e.Ino {
			m.t.Errorf("%s: %q is %o %d in the listing and %o %d itself", b.name, n.Path, e.Mode, e.Ino, n.Attr.Mode, n.Attr.Ino)
		}
		f(n)
		if n.IsDir() {
			m.walk(b, n.Path, f)
		}
	}
}

// show is all that a branch shows.
func (m *model) show(b *Branch) (out []string) {
	m.walk(b, "", func(n Node) {
		d := ""
		switch {
		case isReg(n.Attr.Mode):
			data, err := b.ReadFile(n.Path)
			m.must(err)
			d = fmt.Sprintf("%q", data)
		case isLnk(n.Attr.Mode):
			d, _ = n.Readlink()
		}
		out = append(out, fmt.Sprintf("%q %o %s", n.Path, n.Attr.Mode, d))
	})
	slices.Sort(out)
	return out
}

// showPlain is all that a plain directory holds.
func (m *model) showPlain(dir string) (out []string) {
	m.must(filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		d := ""
		switch {
		case isReg(st.Mode):
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			d = fmt.Sprintf("%q", data)
		case isLnk(st.Mode):
			d, _ = os.Readlink(p)
		}
		out = append(out, fmt.Sprintf("%q %o %s", rel, st.Mode, d))
		return nil
	}))
	slices.Sort(out)
	return out
}

func (m *model) compareAll() {
	m.store.check(m.t)
	for name, dir := range m.plain {
		b, err := m.store.Branch(name)
		m.must(err)
		got, want := m.show(b), m.showPlain(dir)
		if !slices.Equal(got, want) {
			for _, l := range got {
				if !slices.Contains(want, l) {
					m.t.Errorf("%s shows %s", name, l)
				}
			}
			for _, l := range want {
				if !slices.Contains(got, l) {
					m.t.Errorf("%s lacks %s", name, l)
				}
			}
		}
		m.compareOverrides(b, dir)
	}
	m.compareDiffer()
	if m.t.Failed() {
		m.t.Fatal("differs")
	}
}

// comparePatches applies each branch's patch to a copy of the base with git.
func (m *model) comparePatches() {
	// What git knows: files with their executable bit, symlinks, no directories.
	known := func(dir string) (out []string) {
		for _, l := range m.showPlain(dir) {
			var path, data string
			var mode uint32
			fmt.Sscanf(l, "%q %o", &path, &mode)
			if _, data, _ = strings.Cut(l, fmt.Sprintf(" %o ", mode)); !isDir(mode) {
				out = append(out, fmt.Sprintf("%q %s %s", path, gitMode(mode), data))
			}
		}
		return out
	}
	for name, dir := range m.plain {
		b, err := m.store.Branch(name)
		m.must(err)
		var patch bytes.Buffer
		_, err = b.Diff(&patch, DiffOptions{})
		m.must(err)
		to := m.copyTree(m.opts.Base)
		if out, err := gitApply(to, patch.Bytes()); err != nil {
			m.t.Fatalf("%s: git apply: %v: %s\n%s", name, err, out, patch.Bytes())
		}
		if got, want := known(to), known(dir); !slices.Equal(got, want) {
			m.t.Errorf("%s: the patch gives\n%q\nwant\n%q\npatch:\n%s", name, got, want, patch.Bytes())
		}
		m.must(os.RemoveAll(to))
	}
}

// gitApply applies a patch to a directory that is no repository.
func gitApply(dir string, patch []byte) ([]byte, error) {
	if len(patch) == 0 {
		return nil, nil
	}
	cmd := exec.Command("git", "apply", "-p1", "-")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	cmd.Stdin = bytes.NewReader(patch)
	return cmd.CombinedOutput()
}

// compareDiffer checks that Differ of every two branches leaves nothing out.
func (m *model) compareDiffer() {
	var all []*Branch
	for name := range m.plain {
		b, err := m.store.Branch(name)
		m.must(err)
		for _, other := range all {
			for _, miss := range undisclosed(m.t, b, other) {
				m.t.Error(miss)
			}
		}
		all = append(all, b)
	}
}

// compareOverrides checks that what is not listed is the base's.
func (m *model) compareOverrides(b *Branch, dir string) {
	overrides, err := b.Overrides()
	m.must(err)
	listed := map[string]OverrideKind{}
	last := ""
	for i, o := range overrides {
		listed[o.Path] = o.Kind
		if i > 0 && comparePaths(last, o.Path) >= 0 {
			m.t.Errorf("overrides out of order: %q, %q", last, o.Path)
		}
		last = o.Path
	}
	above := func(p string, f func(k OverrideKind) bool) bool {
		for {
			if k, ok := listed[p]; ok && f(k) {
				return true
			}
			i := strings.LastIndexByte(p, '/')
			if i < 0 {
				return false
			}
			p = p[:i]
		}
	}
	got, base := m.showPlain(dir), m.showPlain(m.opts.Base)
	pathOf := func(line string) string {
		var p string
		fmt.Sscanf(line, "%q", &p)
		return p
	}
	for _, l := range got {
		if p := pathOf(l); !slices.Contains(base, l) && listed[p] == 0 {
			m.t.Errorf("%s: %s differs from the base and is no override", b.name, l)
		}
	}
	has := map[string]bool{}
	for _, l := range got {
		has[pathOf(l)] = true
	}
	for _, l := range base {
		p := pathOf(l)
		if !has[p] && !above(p, func(k OverrideKind) bool { return k != Dir }) {
			m.t.Errorf("%s: %q is gone and no override says so", b.name, p)
		}
	}
	for p, k := range listed {
		if has[p] == (k == Deleted) {
			m.t.Errorf("%s: override %q is %v, but it exists: %v", b.name, p, k, has[p])
		}
	}
}
