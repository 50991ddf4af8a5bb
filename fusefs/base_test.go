package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// gather collects what subscribers hear.
type gather struct {
	mu   sync.Mutex
	seen []BaseChange
}

func (g *gather) take(c []BaseChange) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, c...)
}

func (g *gather) all() []BaseChange {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.seen)
}

func TestBaseSubscribers(t *testing.T) {
	s := newStage(t, someFiles)
	var g gather
	cancel := s.base.Subscribe(g.take)
	s.eye.sh("ls dir; cat a.txt dir/b.txt")
	must(t, os.WriteFile(s.outside("dir/new"), []byte("x"), 0o644))
	s.sync()
	must(t, os.WriteFile(s.outside("dir/b.txt"), []byte("x"), 0o644))
	s.sync()
	must(t, os.Remove(s.outside("dir/new")))
	must(t, os.WriteFile(s.outside("dir/deep/unseen"), nil, 0o644)) // not looked into
	s.sync()
	cancel()
	must(t, os.Remove(s.outside("dir/b.txt")))
	s.sync()
	want := []BaseChange{{Path: "dir/new", Kind: Created}, {Path: "dir/b.txt", Kind: Changed}, {Path: "dir/new", Kind: Deleted}}
	got := slices.DeleteFunc(g.all(), func(c BaseChange) bool {
		return c == BaseChange{Path: "dir/new", Kind: Changed} // made and written may be two events
	})
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Where no more watches are to be had, nothing is kept.
func TestWatchLimit(t *testing.T) {
	s := newStage(t, someFiles)
	s.base.watch.mu.Lock()
	s.base.watch.limit = len(s.base.watch.byPath)
	s.base.watch.mu.Unlock()
	s.eye.sh("cat dir/b.txt dir/deep/c.txt; ! cat dir/none")
	for i := range 20 {
		text := fmt.Sprint("version ", i)
		must(t, os.WriteFile(s.outside("dir/b.txt"), []byte(text), 0o644))
		must(t, os.WriteFile(s.outside("dir/deep/tmp"), []byte(text), 0o644))
		must(t, os.Rename(s.outside("dir/deep/tmp"), s.outside("dir/deep/c.txt")))
		must(t, os.WriteFile(s.outside("dir/none"), []byte(text), 0o644))
		if got := s.eye.sh("cat dir/b.txt dir/deep/c.txt dir/none; stat -c %s dir/b.txt"); got != text+text+text+fmt.Sprintln(len(text)) {
			t.Fatalf("round %d: %q", i, got)
		}
		must(t, os.Remove(s.outside("dir/none")))
		if got := s.eye.sh("ls dir; ! cat dir/none 2>/dev/null"); got != "b.txt\ndeep\nup\n" {
			t.Fatalf("round %d: %q", i, got)
		}
	}
}

// When the kernel drops events, everything is looked at again.
func TestLostEvents(t *testing.T) {
	s := newStage(t, someFiles)
	var g gather
	hold, holding := make(chan struct{}), make(chan struct{})
	var once sync.Once
	cancel := s.base.Subscribe(func(c []BaseChange) {
		once.Do(func() { close(holding); <-hold })
		g.take(c)
	})
	defer cancel()
	s.eye.sh("cat a.txt dir/b.txt dir/deep/c.txt; ! cat dir/none; ls -R .")
	must(t, os.WriteFile(s.outside("dir/first"), nil, 0o644))
	<-holding
	// More events than the queue holds, before the changes that matter.
	name := s.outside("dir/noise")
	for range 6000 {
		must(t, os.WriteFile(name, []byte("x"), 0o644))
		must(t, os.Remove(name))
	}
	must(t, os.WriteFile(s.outside("a.txt"), []byte("new a"), 0o644))
	must(t, os.WriteFile(s.outside("dir/none"), []byte("there"), 0o644))
	must(t, os.RemoveAll(s.outside("dir/deep")))
	must(t, os.WriteFile(s.outside("dir/deep"), []byte("a file"), 0o644))
	// The barrier's own event is lost with the others, if it is asked for now.
	early := make(chan error)
	go func() { early <- s.base.Sync(t.Context()) }()
	waitFor(t, "a barrier", func() bool {
		s.base.mu.Lock()
		defer s.base.mu.Unlock()
		return len(s.base.armed) > 0
	})
	close(hold)
	must(t, <-early)
	if got := s.eye.sh("cat a.txt dir/b.txt dir/none dir/deep"); got != "new abase btherea file" {
		t.Errorf("%q", got)
	}
	if !slices.ContainsFunc(g.all(), func(c BaseChange) bool { return c.Everything }) {
		t.Error("nobody was told")
	}
}

// A directory that is renamed and looked at again before its first event was
// read keeps its watch.
func TestRenamedDirectoryStaysWatched(t *testing.T) {
	s := newStage(t, map[string]string{"a/f": "one", "a/sub/g": "two"})
	s.eye.sh("cat a/f a/sub/g")
	for range 30 {
		must(t, os.Rename(s.outside("a"), s.outside("b")))
		s.eye.try("read", "b/f")
		s.eye.try("read", "b/sub/g")
		s.sync()
		if got := s.eye.do("read", "b/f"); got != "one" {
			t.Fatal(got)
		}
		must(t, os.WriteFile(s.outside("b/f"), []byte("changed"), 0o644))
		must(t, os.WriteFile(s.outside("b/sub/g"), []byte("changed"), 0o644))
		s.sync()
		if got := s.eye.sh("cat b/f b/sub/g; ! ls a 2>/dev/null"); got != "changedchanged" {
			t.Fatal(got)
		}
		must(t, os.WriteFile(s.outside("b/f"), []byte("one"), 0o644))
		must(t, os.Rename(s.outside("b"), s.outside("a")))
		s.sync()
		if got := s.eye.sh("cat a/f; ! ls b 2>/dev/null"); got != "one" {
			t.Fatal(got)
		}
	}
}

func TestWatchesAreGivenBack(t *testing.T) {
	root := t.TempDir()
	var dirs []string
	for i := range 50 {
		dirs = append(dirs, fmt.Sprintf("d%d", i))
		must(t, os.Mkdir(filepath.Join(root, dirs[i]), 0o755))
	}
	b, err := NewBase(root, testLog(t))
	must(t, err)
	defer b.Close()
	if !b.watch.watch("") {
		t.Fatal("the root is not watched")
	}
	for _, d := range dirs {
		if !b.watch.watch(d) {
			t.Fatal(d)
		}
	}
	if b.Watches() != 51 {
		t.Error(b.Watches())
	}
	for _, d := range dirs {
		must(t, os.Remove(filepath.Join(root, d)))
	}
	must(t, b.Sync(t.Context()))
	if b.Watches() != 1 {
		t.Error(b.Watches())
	}
}
