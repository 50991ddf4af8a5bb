package overlay

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newBranch is a branch "b" over the small tree of makeTree.
func newBranch(t testing.TB, change ...func(*Options)) *Branch {
	t.Helper()
	o := Options{Base: t.TempDir(), State: t.TempDir()}
	for _, f := range change {
		f(&o)
	}
	makeTree(t, o.Base)
	s := mustOpen(t, o)
	t.Cleanup(func() { s.Close() })
	return must(s.Create("b", CreateOptions{}))(t)
}

func (b *Branch) inBase(path string) string { return filepath.Join(b.store.basePath, path) }

func lookup(t testing.TB, b *Branch, path string) Node {
	t.Helper()
	return must(b.Lookup(path))(t)
}

func TestWriteOfTheSame(t *testing.T) {
	b := newBranch(t)
	state, rev := b.State(), b.Rev()
	check(t, b.WriteFile("dir/file", []byte("base"), 0))
	if b.Rev() != rev || b.State() != state || b.top().used {
		t.Error("writing what the base holds changed the branch")
	}
	check(t, b.WriteFile("dir/file", []byte("x"), 0))
	n, rev := lookup(t, b, "dir/file"), b.Rev()
	check(t, b.WriteFile("dir/file", []byte("x"), 0))
	check(t, b.WriteFile("dir/file", []byte("x"), 0o644))
	if m := lookup(t, b, "dir/file"); m.Version != n.Version || m.Stamp != n.Stamp || b.Rev() != rev {
		t.Error("writing what the branch shows made a new version")
	}
	check(t, b.WriteFile("dir/file", []byte("x"), 0o755))
	if m := lookup(t, b, "dir/file"); m.Version != n.Version || m.Attr.Mode != unix.S_IFREG|0o755 || m.Attr.Mtime != n.Attr.Mtime {
		t.Errorf("a change of mode alone: %+v", m)
	}
}

func TestRevert(t *testing.T) {
	b := newBranch(t)
	base := lookup(t, b, "dir/file")
	empty := b.State()
	check(t, b.WriteFile("dir/file", []byte("x"), 0))
	over := lookup(t, b, "dir/file")
	check(t, b.WriteFile("dir/file", []byte("base"), 0))
	back := lookup(t, b, "dir/file")
	if p, ok := back.FromBase(); !ok || p != "dir/file" {
		t.Error("the override was not dropped")
	}
	if !over.Attr.Mtime.Before(back.Attr.Mtime) || back.Attr.Ino != base.Attr.Ino || back.Version == base.Version || back.Version == over.Version {
		t.Errorf("base %+v\noverride %+v\nreverted %+v", base, over, back)
	}
	if b.State() != empty {
		t.Error("the state differs from that of an untouched branch")
	}
	if o := must(b.Overrides())(t); len(o) > 0 {
		t.Errorf("overrides: %v", o)
	}
	b.store.check(t)
	// The base is live again for this path.
	check(t, os.WriteFile(b.inBase("dir/file"), []byte("edited"), 0))
	if data := must(b.ReadFile("dir/file"))(t); string(data) != "edited" {
		t.Errorf("%q", data)
	}
	later := time.Now().Add(time.Minute)
	check(t, os.Chtimes(b.inBase("dir/file"), later, later))
	if n := lookup(t, b, "dir/file"); n.Attr.Mtime.Sec != later.Unix() {
		t.Errorf("a newer base file shows %v", n.Attr.Mtime)
	}
	// And the next write overrides it again.
	check(t, b.WriteFile("dir/file", []byte("again"), 0))
	if n := lookup(t, b, "dir/file"); n.inBase || !(Time{Sec: later.Unix()}).Before(n.Attr.Mtime) {
		t.Errorf("%+v", n)
	}
	b.store.check(t)
}

// TestTimes: no two versions of a path may share mtime or ctime, nor, where
// somebody saw them, the second; nor may an override share the base's second.
func TestTimes(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	b := newBranch(t, func(o *Options) { o.Clock = func() time.Time { return now } })
	check(t, os.Chtimes(b.inBase("dir/file"), now, now))
	fork := must(b.Fork("fork", false))(t)
	seen := map[Time]bool{}
	last := Time{Sec: now.Unix()}
	for i := range 5 {
		check(t, b.WriteFile("dir/file", []byte(fmt.Sprint(i)), 0))
		n := lookup(t, b, "dir/file")
		if n.Attr.Mtime.Sec <= last.Sec || seen[n.Attr.Mtime] || n.Attr.Ctime.Before(n.Attr.Mtime) {
			t.Errorf("version %d: mtime %v, ctime %v after %v", i, n.Attr.Mtime, n.Attr.Ctime, last)
		}
		seen[n.Attr.Mtime], last = true, n.Attr.Mtime
		f := must(n.Open())(t)
		f.Close()
	}
	// Nobody opens these: they need not run ahead of the clock.
	first := lookup(t, b, "dir/file").Attr.Mtime
	for i := range 50 {
		check(t, b.WriteFile("dir/file", []byte(fmt.Sprint("burst", i)), 0))
		n := lookup(t, b, "dir/file")
		if seen[n.Attr.Mtime] || !last.Before(n.Attr.Mtime) {
			t.Errorf("%v after %v", n.Attr.Mtime, last)
		}
		last = n.Attr.Mtime
	}
	if last.Sec > first.Sec+1 {
		t.Errorf("a burst of unseen versions ran %d seconds ahead", last.Sec-first.Sec)
	}
	check(t, fork.WriteFile("dir/file", []byte("f"), 0))
	if n := lookup(t, fork, "dir/file"); n.Attr.Mtime.Sec == now.Unix() {
		t.Errorf("the fork's version is in the base's second")
	}
}

func TestPins(t *testing.T) {
	b := newBranch(t)
	var pinned []Node
	pin := func(path, data string) {
		check(t, b.WriteFile(path, []byte(data), 0))
		n := lookup(t, b, path)
		if !n.Pin() {
			t.Fatal("cannot pin")
		}
		pinned = append(pinned, n)
	}
	pin("dir/file", "0")
	pin("dir/file", "1")
	check(t, b.WriteFile("dir/file", []byte("base"), 0)) // dropped
	pin("new", "2")
	check(t, b.Unlink("new", Origin{}))
	pin("dir/sub/x", "3")
	check(t, b.RemoveAll("dir", Origin{}))
	pin("target", "4")
	check(t, b.WriteFile("source", []byte("s"), 0))
	check(t, b.Rename("source", "target", 0, Origin{}))
	pin("in/fork", "5")
	_ = must(b.Fork("fork", false))(t)
	check(t, b.WriteFile("in/fork", []byte("other"), 0))
	check(t, b.store.Drop("fork"))
	pin("dropped", "6")
	loose := lookup(t, b, "target")
	check(t, b.store.Drop("b"))
	for i, n := range pinned {
		data, err := n.read()
		if err != nil || string(data) != fmt.Sprint(i) {
			t.Errorf("version %d: %q, %v", i, data, err)
		}
		a, err := n.Stat()
		if err != nil || a.Size != 1 {
			t.Errorf("version %d: %+v, %v", i, a, err)
		}
	}
	if _, err := loose.Stat(); err != nil {
		t.Log("not pinned:", err) // its layer is pinned by others: it may be there
	}
	for i, n := range pinned {
		n.Unpin()
		if _, err := n.Open(); KindOf(err) != Stale && i != 5 && i != 6 && i != len(pinned)-1 {
			t.Errorf("version %d after unpinning: %v", i, err)
		}
	}
	if pinned[0].Pin() {
		t.Error("pinned what is gone")
	}
	if left := must(filepath.Glob(filepath.Join(statePath(b.store), "layers/*")))(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if used := b.store.Used(); used != 0 {
		t.Errorf("%d bytes are still charged", used)
	}
}

func statePath(s *Store) string {
	p, _ := os.Readlink(procPath(s.state.fd))
	return p
}

func TestForkIsolation(t *testing.T) {
	b := newBranch(t)
	check(t, b.WriteFile("open", []byte("before"), 0))
	n, f, err := b.OpenWrite("open", false, Origin{})
	check(t, err)
	c := must(b.Fork("c", false))(t)
	_, err = f.WriteAt([]byte("AFTER!"), 0)
	check(t, err)
	f.Wrote(Origin{})
	if got := must(b.ReadFile("open"))(t); string(got) != "AFTER!" {
		t.Errorf("the parent lost a write through an open file: %q", got)
	}
	if got := must(c.ReadFile("open"))(t); string(got) != "before" {
		t.Errorf("a write after the fork reached the child: %q", got)
	}
	if m := lookup(t, b, "open"); m.Version != n.Version || m.Attr.Ino != n.Attr.Ino {
		t.Error("the open file became another version")
	}
	check(t, f.Close())
	check(t, c.WriteFile("open", []byte("child"), 0))
	check(t, b.WriteFile("dir/file", []byte("parent"), 0))
	if got := must(c.ReadFile("dir/file"))(t); string(got) != "base" {
		t.Errorf("the parent's later edit moved the child: %q", got)
	}
	d := must(c.Fork("d", false))(t)
	if c.State() != d.State() || len(Differ(c, d)) > 1 {
		t.Errorf("a fresh fork differs: %q", Differ(c, d))
	}
	check(t, b.store.Drop("c"))
	if got := must(d.ReadFile("open"))(t); string(got) != "child" {
		t.Errorf("dropping the parent: %q", got)
	}
	b.store.check(t)
}

func TestState(t *testing.T) {
	b := newBranch(t)
	c := must(b.store.Create("c", CreateOptions{}))(t)
	if b.State() != c.State() {
		t.Error("two untouched branches differ")
	}
	for _, x := range []*Branch{b, c} {
		check(t, x.WriteFile("dir/file", []byte("same"), 0))
		check(t, x.Unlink("other/x", Origin{}))
		check(t, x.WriteFile("new/f", []byte("n"), 0))
	}
	if b.State() != c.State() {
		t.Error("the same edits give two states")
	}
	seen := map[StateID]int{b.State(): -1}
	for i, f := range []func() error{
		func() error { return b.WriteFile("dir/file", []byte("differs"), 0) },
		func() error { return b.Unlink("new/f", Origin{}) },
		func() error { return b.WriteFile("new/f", []byte("n"), 0o755) },
		func() error { return b.Rename("new", "newer", 0, Origin{}) },
		func() error { return b.Rename("dir", "moved", 0, Origin{}) },
		func() error {
			_, err := b.SetAttr("moved", AttrChange{Mask: SetMode, Mode: 0o700}, Origin{})
			return err
		},
		func() error { return b.SetXattr("newer/f", "user.x", nil, 0, Origin{}) },
		func() error {
			_, f, err := b.OpenWrite("newer/f", false, Origin{})
			if err == nil {
				f.WriteAt([]byte("n"), 0)
				f.Wrote(Origin{})
				f.Close()
			}
			return err
		},
	} {
		check(t, f())
		if j, ok := seen[b.State()]; ok {
			t.Errorf("after step %d the state is that after step %d", i, j)
		}
		seen[b.State()] = i
	}
	state := c.State()
	check(t, c.WriteFile("dir/file", []byte("for a moment"), 0))
	check(t, c.WriteFile("dir/file", []byte("same"), 0))
	if c.State() != state {
		t.Error("an edit taken back leaves another state")
	}
}

func TestDiffer(t *testing.T) {
	b := newBranch(t)
	check(t, b.WriteFile("shared/one", []byte("1"), 0))
	c := must(b.Fork("c", false))(t)
	check(t, b.WriteFile("dir/sub/deep", []byte("b"), 0))
	check(t, c.Unlink("dir/file", Origin{}))
	check(t, c.Rename("other", "moved", 0, Origin{}))
	want := []string{"", "dir", "dir/file", "dir/sub", "dir/sub/deep", "moved", "other"}
	for _, got := range [][]string{Differ(b, c), Differ(c, b)} {
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := Differ(b, b); got != nil {
		t.Errorf("%q", got)
	}
	if a, b := lookup(t, b, "dir"), lookup(t, c, "dir"); a.Version != b.Version || a.Stamp == b.Stamp {
		t.Error("a merged directory must be the same object with other attributes")
	}
}

func TestSubscribe(t *testing.T) {
	b := newBranch(t)
	var got []string
	view, rev := new(int), b.Rev()
	cancel := b.Subscribe(func(c Change) {
		if c.Rev != rev+1 {
			t.Errorf("%v after revision %d", c, rev)
		}
		rev = c.Rev
		if _, err := b.Lookup(c.Path); (err == nil) == (c.Op == OpRemove) {
			t.Errorf("%v: %v", c, err)
		}
		got = append(got, fmt.Sprintf("%s %s %v", c.Op, c.Path, c.Origin == view))
	})
	check(t, b.WriteFile("dir/file", []byte("x"), 0))
	check(t, b.WriteFile("a/b", []byte("x"), 0))
	check(t, b.Rename("dir/sub", "sub", 0, Origin{View: view}))
	_, f, err := b.OpenWrite("other/x", false, Origin{View: view})
	check(t, err)
	f.Wrote(Origin{View: view})
	check(t, f.Close())
	b.Wrote("other/x", Origin{})
	_, err = b.SetAttr("other/x", AttrChange{Mask: SetMode, Mode: 0o600}, Origin{})
	check(t, err)
	check(t, b.Unlink("other/x", Origin{}))
	cancel()
	check(t, b.WriteFile("dir/file", []byte("unheard"), 0))
	want := []string{"replace dir/file false", "create a false", "create a/b false", "remove dir/sub true", "create sub true",
		"copyup other/x true", "write other/x true", "write other/x false", "attr other/x false", "remove other/x false"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestRollback(t *testing.T) {
	b := newBranch(t)
	check(t, b.WriteFile("dir/file", []byte("1"), 0))
	cp := must(b.Checkpoint(""))(t)
	state := b.State()
	check(t, b.WriteFile("dir/file", []byte("2"), 0))
	check(t, b.Unlink("other/x", Origin{}))
	var heard []string
	b.Subscribe(func(c Change) { heard = append(heard, c.Path) })
	check(t, b.Rollback(cp.ID))
	if got := must(b.ReadFile("dir/file"))(t); string(got) != "1" || b.State() != state {
		t.Errorf("%q", got)
	}
	if !slices.Contains(heard, "dir/file") || !slices.Contains(heard, "other/x") {
		t.Errorf("heard of %q", heard)
	}
	check(t, b.WriteFile("dir/file", []byte("3"), 0))
	check(t, b.Rollback(cp.ID))
	b.store.check(t)
	if err := b.Rollback("none"); KindOf(err) != NotExist {
		t.Error(err)
	}
	check(t, b.DropCheckpoint(cp.ID))
	b.store.check(t)
}

func TestLimit(t *testing.T) {
	b := newBranch(t, func(o *Options) { o.Limit = 20 << 10 })
	big := bytes.Repeat([]byte("x"), 15<<10)
	check(t, b.WriteFile("dir/file", big, 0))
	if err := b.WriteFile("other/x", big, 0); KindOf(err) != NoSpace {
		t.Errorf("%v", err)
	}
	if got := must(b.ReadFile("other/x"))(t); string(got) != "x" {
		t.Errorf("%q", got)
	}
	check(t, b.WriteFile("dir/file", append(big, 'y'), 0)) // takes the place of the old
	check(t, os.WriteFile(b.inBase("huge"), big, 0o644))
	if _, _, err := b.OpenWrite("huge", false, Origin{}); KindOf(err) != NoSpace {
		t.Errorf("copy-up: %v", err)
	}
	if err := b.Room(10 << 10); KindOf(err) != NoSpace {
		t.Errorf("%v", err)
	}
	_, f, err := b.OpenWrite("huge", true, Origin{})
	check(t, err)
	f.Write(make([]byte, 4<<10))
	f.Wrote(Origin{})
	check(t, f.Close())
	if err := b.Room(1); KindOf(err) != NoSpace {
		t.Errorf("bytes written through an open file are not counted: %v", err)
	}
	for i := 0; ; i++ {
		if _, err := b.Mkdir(fmt.Sprint(i), 0o755, Origin{}); KindOf(err) == NoSpace {
			break
		} else if i > 100 {
			t.Fatal("names are free")
		}
	}
	check(t, b.Unlink("dir/file", Origin{})) // deleting makes room, though it must record the deletion
	check(t, b.WriteFile("other/x", big[:8<<10], 0))
	b.store.check(t)
	check(t, b.store.Drop("b"))
	if used := b.store.Used(); used != 0 {
		t.Errorf("%d bytes left", used)
	}
}

// TestEscape: whatever stands in the base, no look-up leaves it.
func TestEscape(t *testing.T) {
	for _, plain := range []bool{false, true} {
		b := newBranch(t)
		b.store.base.plain.Store(plain)
		outside := t.TempDir()
		check(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o644))
		check(t, os.Symlink(outside, b.inBase("out")))
		check(t, os.Symlink("..", b.inBase("dir/up")))
		check(t, os.Symlink("dir", b.inBase("in")))
		for path, want := range map[string]Kind{
			"out/secret": NotDir, "dir/up/dir/file": NotDir, "in/file": NotDir, "out/secret/x": NotDir,
			"../x": Outside, "dir/../dir/file": Outside, "/etc/passwd": Outside, ".": Outside, "dir/./file": Outside,
			"dir//file": Invalid, "dir/": Invalid, "a\x00b": Invalid,
		} {
			if _, err := b.Lookup(path); KindOf(err) != want {
				t.Errorf("plain %v: %q: %v, want %v", plain, path, err, want)
			}
			if err := b.WriteFile(path, []byte("x"), 0); KindOf(err) != want {
				t.Errorf("plain %v: writing %q: %v, want %v", plain, path, err, want)
			}
		}
		if _, err := b.ReadDir("out"); KindOf(err) != NotDir {
			t.Error(err)
		}
		if n := lookup(t, b, "out"); !isLnk(n.Attr.Mode) || must(n.Readlink())(t) != outside {
			t.Errorf("%+v", n)
		}
		for path, want := range map[string]string{"in/file": "dir/file", "dir/up/dir/sub": "dir/sub", "in/up/other/none": "other/none"} {
			if got, err := b.Resolve(path); err != nil || got != want {
				t.Errorf("%q resolves to %q, %v", path, got, err)
			}
		}
		check(t, os.Symlink(b.inBase("dir"), b.inBase("abs")))
		if got, err := b.Resolve("abs/file"); err != nil || got != "dir/file" {
			t.Errorf("%q, %v", got, err)
		}
		for _, path := range []string{"out/secret", "dir/up/../x"} {
			if _, err := b.Resolve(path); KindOf(err) != Outside {
				t.Errorf("%q: %v", path, err)
			}
		}
		if data := must(os.ReadFile(filepath.Join(outside, "secret")))(t); string(data) != "s" {
			t.Error("written outside")
		}
	}
}

func TestLongPaths(t *testing.T) {
	b := newBranch(t)
	dir := strings.Repeat("d", 250)
	p := dir
	for len(p) < 6000 {
		p += "/" + dir
	}
	check(t, b.WriteFile(p+"/file", []byte("deep"), 0))
	check(t, b.WriteFile(p+"/file", []byte("deeper"), 0))
	if got := must(b.ReadFile(p + "/file"))(t); string(got) != "deeper" {
		t.Errorf("%q", got)
	}
	check(t, b.Rename(p+"/file", p+"/moved", 0, Origin{}))
	_, err := b.SetAttr(p+"/moved", AttrChange{Mask: SetSize | SetMode, Size: 1, Mode: 0o600}, Origin{})
	check(t, err)
	if es := must(b.ReadDir(p))(t); len(es) != 1 || es[0].Name != "moved" {
		t.Errorf("%v", es)
	}
	b.store.check(t)
	check(t, b.RemoveAll(dir, Origin{}))
	// The same in the base, which long paths reach too.
	fd := must(unix.Open(b.store.basePath, unix.O_PATH, 0))(t)
	for range 20 {
		check(t, unix.Mkdirat(fd, dir, 0o755))
		next := must(unix.Openat(fd, dir, unix.O_PATH, 0))(t)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	deep := strings.Repeat(dir+"/", 19) + dir
	if n := lookup(t, b, deep); !n.IsDir() {
		t.Errorf("%+v", n)
	}
}

// TestConcurrent lets readers look while branches change, fork and go. Each
// file always holds one of the versions that were written, whole.
func TestConcurrent(t *testing.T) {
	b := newBranch(t)
	check(t, b.WriteFile("dir/file", bytes.Repeat([]byte("0"), 1000), 0))
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				data, err := b.ReadFile("dir/file")
				if err != nil && KindOf(err) != Stale || err == nil && (len(data) != 1000 || bytes.Count(data, data[:1]) != 1000) {
					t.Errorf("%d bytes, %v", len(data), err)
				}
				if _, err := b.ReadDir("dir"); err != nil {
					t.Error(err)
				}
				if n, err := b.Lookup("dir/file"); err == nil && n.Pin() {
					if _, err := n.read(); err != nil {
						t.Errorf("pinned: %v", err)
					}
					n.Unpin()
				}
				b.State()
			}
		})
	}
	for w := range 2 {
		writers.Go(func() {
			for i := range 100 {
				check(t, b.WriteFile("dir/file", bytes.Repeat([]byte{byte('a' + (i+w)%26)}, 1000), 0))
				if i%10 == 0 {
					name := fmt.Sprint("fork", w, "-", i)
					c, err := b.Fork(name, i%20 == 0)
					check(t, err)
					Differ(b, c)
					check(t, c.WriteFile("dir/other", []byte(name), 0))
					check(t, b.store.Drop(name))
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	b.store.check(t)
}

// TestCost holds the promise that branches are cheap: memory and descriptors of
// idle branches, allocations of look-ups.
func TestCost(t *testing.T) {
	b := newBranch(t)
	check(t, b.WriteFile("dir/file", []byte("x"), 0))
	fds := func() int { return len(must(os.ReadDir("/proc/self/fd"))(t)) }
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const many = 500
	fdsBefore, before := fds(), memory()
	for i := range many {
		_ = must(b.Fork(fmt.Sprint("idle", i), false))(t)
	}
	per := (memory() - before) / many
	t.Logf("an idle branch: %d bytes", per)
	if per > 8<<10 {
		t.Errorf("an idle branch costs %d bytes", per)
	}
	if n := fds() - fdsBefore; n > 5 {
		t.Errorf("%d idle branches cost %d descriptors", many, n)
	}
	for i := range many {
		check(t, b.store.Drop(fmt.Sprint("idle", i)))
	}
	if after := memory(); after > before+64<<10 {
		t.Errorf("%d bytes stay after the branches are dropped", after-before)
	}
	for path, most := range map[string]float64{"dir/file": 3, "other/x": 3, "other/missing": 4} {
		got := testing.AllocsPerRun(100, func() { b.Lookup(path) })
		t.Logf("look-up of %s: %v allocations", path, got)
		if got > most {
			t.Errorf("look-up of %s: %v allocations", path, got)
		}
	}
}

func BenchmarkLookup(bm *testing.B) {
	b := newBranch(bm)
	check(bm, b.WriteFile("dir/file", []byte("x"), 0))
	for _, path := range []string{"dir/file", "other/x", "dir/sub", "other/missing"} {
		bm.Run(path, func(bm *testing.B) {
			bm.ReportAllocs()
			for range bm.N {
				b.Lookup(path)
			}
		})
	}
}

func BenchmarkWriteFile(bm *testing.B) {
	b := newBranch(bm)
	for i := range bm.N {
		check(bm, b.WriteFile("dir/file", []byte(fmt.Sprint(i)), 0))
	}
}

func BenchmarkCreate(bm *testing.B) {
	b := newBranch(bm)
	for i := range bm.N {
		_, f, err := b.Create(fmt.Sprint("dir/", i), 0o644, Origin{})
		check(bm, err)
		f.Close()
	}
}

// A file of the base whose mtime goes back shows the present, in every branch,
// and goes on doing so until it is changed again.
func TestBaseMtimeNeverGoesBack(t *testing.T) {
	b := newBranch(t)
	past := time.Now().Add(-time.Hour)
	shown := lookup(t, b, "dir/file").Attr.Mtime
	check(t, os.Chtimes(b.inBase("dir/file"), past, past))
	back := lookup(t, b, "dir/file")
	if !shown.Before(back.Attr.Mtime) {
		t.Errorf("was %v, is %v", shown, back.Attr.Mtime)
	}
	check(t, os.Chmod(b.inBase("dir/file"), 0o600))
	other := must(b.store.Create("other", CreateOptions{}))(t)
	if n := lookup(t, other, "dir/file"); n.Attr.Mtime != back.Attr.Mtime || n.Attr.Mode&0o777 != 0o600 {
		t.Errorf("elsewhere, after a chmod: %v, want %v", n.Attr.Mtime, back.Attr.Mtime)
	}
	further := past.Add(-time.Hour)
	check(t, os.Chtimes(b.inBase("dir/file"), further, further))
	again := lookup(t, b, "dir/file")
	if !back.Attr.Mtime.Before(again.Attr.Mtime) {
		t.Errorf("was %v, is %v", back.Attr.Mtime, again.Attr.Mtime)
	}
	future := time.Now().Add(time.Hour)
	check(t, os.Chtimes(b.inBase("dir/file"), future, future))
	if n := lookup(t, b, "dir/file"); n.Attr.Mtime.Sec != future.Unix() {
		t.Errorf("%v is not the file's own", n.Attr.Mtime)
	}
	// A file that was not looked at before shows its own, however old.
	check(t, os.Chtimes(b.inBase("other/x"), past, past))
	if n := lookup(t, b, "other/x"); n.Attr.Mtime.Sec != past.Unix() {
		t.Errorf("%v is not the file's own", n.Attr.Mtime)
	}
}

// What the person builds is no newer than the branches that are there, nor their
// forks; also after the store was opened again.
func TestOutputsAreNoNewerThanBranches(t *testing.T) {
	var o Options
	b := newBranch(t, func(x *Options) { o = *x })
	for _, name := range []string{"dir/CACHEDIR.TAG", "other/y"} {
		check(t, os.WriteFile(b.inBase(name), nil, 0o600))
	}
	early := must(b.store.Create("early", CreateOptions{Keep: true}))(t)
	check(t, early.WriteFile("other/x", []byte("mine"), 0))
	built := time.Now().Add(time.Hour)
	check(t, os.Chtimes(b.inBase("dir/file"), built, built))
	check(t, os.Chtimes(b.inBase("other/y"), built, built))
	fork := must(early.Fork("fork", true))(t)
	late := must(b.store.Create("late", CreateOptions{}))(t)
	late.since = timeOf(built.Add(time.Minute).UnixNano()) // it begins then
	for _, x := range []*Branch{early, fork, late} {
		n := lookup(t, x, "dir/file")
		if own := x == late; (n.Attr.Mtime.Sec == built.Unix()) != own || !n.Elsewhere {
			t.Errorf("%s: %v, built %v", x.Name(), n.Attr.Mtime, built)
		}
		if mine := lookup(t, early, "other/x"); x != late && !n.Attr.Mtime.Before(mine.Attr.Mtime) {
			t.Errorf("%s: %v is not older than what the branch made, %v", x.Name(), n.Attr.Mtime, mine.Attr.Mtime)
		}
		if n := lookup(t, x, "other/y"); n.Attr.Mtime.Sec != built.Unix() || n.Elsewhere {
			t.Errorf("%s: what is nobody's output is %v", x.Name(), n.Attr.Mtime)
		}
	}
	was := lookup(t, fork, "dir/file").Attr.Mtime
	check(t, b.store.Close())
	s := mustOpen(t, o)
	defer s.Close()
	for _, name := range []string{"early", "fork"} {
		if n := lookup(t, must(s.Branch(name))(t), "dir/file"); n.Attr.Mtime != was {
			t.Errorf("%s, opened again: %v, was %v", name, n.Attr.Mtime, was)
		}
	}
}

// TestClose: what is called too late says so, and a File can still be closed.
func TestClose(t *testing.T) {
	b := newBranch(t)
	kept := must(b.Fork("kept", true))(t)
	check(t, b.WriteFile("dir/file", []byte("x"), 0))
	base, own := lookup(t, b, "other/x"), lookup(t, b, "dir/file")
	_, f, err := b.OpenWrite("dir/file", false, Origin{})
	check(t, err)
	var readers sync.WaitGroup
	for _, x := range []*Branch{b, kept} {
		readers.Go(func() {
			for {
				if _, err := x.Lookup("dir/file"); KindOf(err) == Closed {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	check(t, b.store.Close())
	check(t, b.store.Close())
	readers.Wait()
	f.Wrote(Origin{})
	if _, err := f.WriteAt([]byte("late"), 0); err != nil {
		t.Error(err)
	}
	check(t, f.Close())
	for _, n := range []Node{base, own} {
		if _, err := n.Open(); KindOf(err) != Closed && KindOf(err) != Stale {
			t.Error(err)
		}
	}
	if err := b.WriteFile("x", nil, 0); KindOf(err) != Closed {
		t.Error(err)
	}
	if _, err := b.store.Create("late", CreateOptions{}); KindOf(err) != Closed {
		t.Error(err)
	}
	if len(Differ(b, kept)) != 0 || b.State() != (StateID{}) {
		t.Error("a closed branch shows something")
	}
}
