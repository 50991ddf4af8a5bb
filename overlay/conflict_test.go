package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestConflicts has the person change what a branch has covered.
func TestConflicts(t *testing.T) {
	write := func(b *Branch, path, text string) error { return os.WriteFile(b.inBase(path), []byte(text), 0o644) }
	var o Origin
	tests := []struct {
		name   string
		branch func(b *Branch) error
		person func(b *Branch) error
		since  string // of dir/file or new; "": no conflict
		path   string
		then   string // "-": nothing, "?": not known
	}{
		{"changed", func(b *Branch) error { return b.WriteFile("dir/file", []byte("mine"), 0) },
			func(b *Branch) error { return write(b, "dir/file", "theirs") }, "changed", "dir/file", "base"},
		{"touched", func(b *Branch) error { return b.WriteFile("dir/file", []byte("mine"), 0) },
			func(b *Branch) error { return os.Chtimes(b.inBase("dir/file"), time.Now(), time.Now()) }, "", "", ""},
		{"changed to the same", func(b *Branch) error { return b.WriteFile("dir/file", []byte("mine"), 0) },
			func(b *Branch) error { return write(b, "dir/file", "mine") }, "", "", ""},
		{"deleted", func(b *Branch) error { return b.WriteFile("dir/file", []byte("mine"), 0) },
			func(b *Branch) error { return os.Remove(b.inBase("dir/file")) }, "deleted", "dir/file", "base"},
		{"deleted by both", func(b *Branch) error { return b.Unlink("dir/file", o) },
			func(b *Branch) error { return os.Remove(b.inBase("dir/file")) }, "", "", ""},
		{"deleted here, changed there", func(b *Branch) error { return b.Unlink("dir/file", o) },
			func(b *Branch) error { return write(b, "dir/file", "theirs") }, "changed", "dir/file", "base"},
		{"made by both", func(b *Branch) error { return b.WriteFile("new", []byte("mine"), 0) },
			func(b *Branch) error { return write(b, "new", "theirs") }, "made", "new", "-"},
		{"made in a directory that is deleted", func(b *Branch) error { return b.RemoveAll("dir", o) },
			func(b *Branch) error { return write(b, "dir/sub/new", "theirs") }, "made", "dir/sub/new", "-"},
		{"made in a directory that has moved", func(b *Branch) error { return b.Rename("dir", "moved", 0, o) },
			func(b *Branch) error { return write(b, "dir/sub/new", "theirs") }, "", "", ""},
		{"changed after a move", func(b *Branch) error { return b.Rename("dir/file", "moved", 0, o) },
			func(b *Branch) error { return write(b, "dir/file", "theirs") }, "changed", "dir/file", "base"},
		{"a mode", func(b *Branch) error { return b.WriteFile("dir/file", []byte("mine"), 0) },
			func(b *Branch) error { return os.Chmod(b.inBase("dir/file"), 0o755) }, "changed", "dir/file", "base"},
		{"large", func(b *Branch) error { return b.WriteFile("large", []byte("mine"), 0) },
			func(b *Branch) error { return write(b, "large", "theirs") }, "changed", "large", "?"},
		{"reverted", func(b *Branch) error {
			return errors.Join(b.WriteFile("dir/file", []byte("mine"), 0), b.WriteFile("dir/file", []byte("base"), 0))
		}, func(b *Branch) error {
			return errors.Join(write(b, "dir/file", "theirs"), b.WriteFile("dir/file", []byte("mine"), 0))
		}, "", "", ""},
		{"a link in the place of a directory", func(b *Branch) error { return b.WriteFile("dir/sub/deep", []byte("mine"), 0) },
			func(b *Branch) error {
				out := filepath.Join(filepath.Dir(b.store.basePath), "outside")
				return errors.Join(os.Rename(b.inBase("dir/sub"), out), os.Symlink(out, b.inBase("dir/sub")))
			}, "made", "dir/sub", "-"},
	}
	for _, test := range tests {
		for _, layers := range []string{"one layer", "two layers", "opened again"} {
			t.Run(test.name+"/"+layers, func(t *testing.T) {
				opts := Options{Base: filepath.Join(t.TempDir(), "base"), State: t.TempDir()}
				check(t, os.Mkdir(opts.Base, 0o755))
				makeTree(t, opts.Base)
				check(t, os.WriteFile(filepath.Join(opts.Base, "large"), make([]byte, maxThenFile+1), 0o644))
				s := mustOpen(t, opts)
				defer func() { s.Close() }()
				b := must(s.Create("b", CreateOptions{Keep: true}))(t)
				check(t, test.branch(b))
				switch layers {
				case "two layers":
					must(b.Checkpoint("c"))(t)
				case "opened again":
					s.abandon()
					s = mustOpen(t, opts)
					b = must(s.Branch("b"))(t)
				}
				check(t, test.person(b))
				m := model{t: t}
				before, shown := m.showPlain(opts.Base), m.show(b)
				a, err := b.Apply(ApplyOptions{})
				if test.since == "" {
					check(t, err)
					if d := differing(m.showPlain(opts.Base), m.show(b)); len(d) > 0 || len(differing(m.show(b), shown)) > 0 {
						t.Errorf("the base %q", d)
					}
					return
				}
				if KindOf(err) != Conflicting || len(a.Conflicts) == 0 {
					t.Fatalf("%v, %+v", err, a)
				}
				c := a.Conflicts[0]
				then := string(c.Then.Data)
				if !c.Then.Known {
					then = "?"
				} else if c.Then.Mode == 0 {
					then = "-"
				}
				if c.Since != test.since || c.Path != test.path || then != test.then {
					t.Errorf("%s was %s, then %q", c.Path, c.Since, then)
				}
				if d := differing(m.showPlain(opts.Base), before); len(d) > 0 {
					t.Errorf("the base %q", d)
				}
				dry := must(b.Apply(ApplyOptions{DryRun: true}))(t)
				if len(dry.Conflicts) != len(a.Conflicts) || !slices.Equal(dry.Paths, a.Paths) {
					t.Errorf("dry run: %+v", dry)
				}
				must(b.Apply(ApplyOptions{Force: true}))(t)
				if d := differing(m.showPlain(opts.Base), shown); len(d) > 0 && !strings.Contains(test.name, "link in") {
					t.Errorf("forced, the base %q", d)
				}
				if _, err := os.Stat(filepath.Join(filepath.Dir(opts.Base), "outside", "deep")); strings.Contains(test.name, "link in") && err != nil {
					t.Error(err)
				}
				s.check(t)
			})
		}
	}
}

// TestApplyOfAChild: what a branch's own checkpoint or parent has brought to the base
// is no change of the person's.
func TestApplyOfAChild(t *testing.T) {
	b := newBranch(t)
	check(t, b.WriteFile("dir/file", []byte("first"), 0))
	check(t, b.WriteFile("new", []byte("first"), 0))
	child := must(b.Fork("child", false))(t)
	check(t, child.WriteFile("dir/file", []byte("second"), 0))
	must(b.Apply(ApplyOptions{}))(t)
	if o := must(b.Overrides())(t); len(o) > 0 {
		t.Errorf("the parent overrides %v", o)
	}
	a := must(child.Apply(ApplyOptions{}))(t)
	if !slices.Equal(a.Paths, []string{"dir/file"}) || !slices.Equal(a.Same, []string{"new"}) {
		t.Errorf("%+v", a)
	}
	check(t, b.WriteFile("dir/file", []byte("third"), 0))
	must(b.Apply(ApplyOptions{}))(t)
	if got := must(os.ReadFile(b.inBase("dir/file")))(t); string(got) != "third" {
		t.Errorf("%q", got)
	}
	b.store.check(t)
}

// TestApplyMeetsTheWriter has the person write between the look at a file and its
// replacement: all is as the person left it.
func TestApplyMeetsTheWriter(t *testing.T) {
	for _, plain := range []bool{false, true} {
		b := newBranch(t)
		b.store.plainRename = plain
		check(t, b.WriteFile("dir/file", []byte("mine"), 0))
		check(t, b.WriteFile("dir/another", []byte("mine"), 0))
		check(t, b.Unlink("other/x", Origin{}))
		check(t, b.WriteFile("z/new", []byte("mine"), 0))
		m := model{t: t}
		var before []string
		b.store.stepped = func(name string) {
			if name == "staged" {
				check(t, os.WriteFile(b.inBase("dir/file"), []byte("just now"), 0o644))
				before = m.showPlain(b.store.basePath)
			}
		}
		_, err := b.Apply(ApplyOptions{})
		var e *Error
		if KindOf(err) != Stale || !errors.As(err, &e) || e.Path != "dir/file" {
			t.Errorf("%v", err)
		}
		after := m.showPlain(b.store.basePath)
		stage := func(l string) bool { return strings.Contains(l, "shadowlsp") }
		if d := differing(after, slices.DeleteFunc(before, stage)); len(d) > 0 {
			t.Errorf("the base %q", d)
		}
		b.store.stepped = nil
		if a, err := b.Apply(ApplyOptions{}); KindOf(err) != Conflicting {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// TestApplyOfAPart leaves the rest of the branch as it was.
func TestApplyOfAPart(t *testing.T) {
	b := newBranch(t)
	check(t, b.Rename("dir", "moved", 0, Origin{}))
	check(t, b.WriteFile("moved/out/made", []byte("x"), 0))
	check(t, b.WriteFile("build/deep/out", []byte("x"), 0))
	check(t, b.WriteFile("other/x", []byte("mine"), 0))
	check(t, b.WriteFile("two", []byte("mine"), 0))
	must(b.Checkpoint("c"))(t)
	m := model{t: t}
	shown := m.show(b)
	refused := errors.New("not now")
	if _, err := b.Apply(ApplyOptions{Before: func([]string) error { return refused }}); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	a := must(b.Apply(ApplyOptions{Include: func(p string) bool {
		return !strings.Contains(p, "out") && !strings.HasPrefix(p, "build") && p != "two"
	}}))(t)
	want := []string{"dir", "dir/file", "dir/sub", "dir/sub/deep", "moved", "moved/file", "moved/sub", "moved/sub/deep", "other/x"}
	if !slices.Equal(a.Paths, want) {
		t.Errorf("applied %q", a.Paths)
	}
	if d := differing(m.show(b), shown); len(d) > 0 {
		t.Errorf("the branch %q", d)
	}
	var left []string
	for _, o := range must(b.Overrides())(t) {
		left = append(left, o.Path)
	}
	if want := []string{"build", "build/deep", "build/deep/out", "moved/out", "moved/out/made", "two"}; !slices.Equal(left, want) {
		t.Errorf("left over it %q", left)
	}
	check(t, b.Rollback("c"))
	if d := differing(m.show(b), shown); len(d) > 0 {
		t.Errorf("rolled back, the branch %q", d)
	}
	b.store.check(t)
}

// TestApplyBesideOthers applies while others write, fork, check and roll back the same
// branch, and read it.
func TestApplyBesideOthers(t *testing.T) {
	b := newBranch(t)
	s := b.store
	stop := make(chan struct{})
	var all sync.WaitGroup
	beside := func(f func(i int) error) {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				switch err := f(i); KindOf(err) {
				case 0, NotExist, Exist, NotDir, IsDir, Stale, NotEmpty, Invalid:
				default:
					t.Errorf("%v", err)
				}
			}
		})
	}
	path := func(i int) string { return fmt.Sprintf("dir/d%d/f%d", i%3, i%7) }
	beside(func(i int) error { return b.WriteFile(path(i), fmt.Append(nil, i), 0) })
	beside(func(i int) error {
		return b.Rename(fmt.Sprint("dir/d", i%3), fmt.Sprint("dir/d", (i+1)%3), 0, Origin{})
	})
	beside(func(i int) error { return b.RemoveAll(path(i*5), Origin{}) })
	beside(func(i int) error {
		_, f, err := b.OpenWrite(path(i), false, Origin{})
		if err == nil {
			f.Write([]byte("x"))
			f.Wrote(Origin{})
			f.Close()
		}
		return err
	})
	beside(func(i int) error {
		child, err := b.Fork(fmt.Sprint("child", i), false)
		if err == nil {
			_, err = child.ReadFile(path(i))
			s.Drop(child.Name())
		}
		return err
	})
	beside(func(i int) error {
		if _, err := b.Checkpoint("c"); err != nil {
			return err
		}
		if i%3 == 0 {
			if err := b.Rollback("c"); err != nil {
				return err
			}
		}
		return b.DropCheckpoint("c")
	})
	beside(func(int) error { _, err := b.Overrides(); return err })
	for range 30 {
		_, err := b.Apply(ApplyOptions{Force: true})
		if k := KindOf(err); k != 0 && k != Stale && k != Exist {
			t.Errorf("%v", err)
		}
	}
	close(stop)
	all.Wait()
	must(b.Apply(ApplyOptions{Force: true}))(t)
	m := model{t: t}
	if d := differing(m.showPlain(s.basePath), m.show(b)); len(d) > 0 {
		t.Errorf("the base %q", d)
	}
	s.check(t)
	if left := must(filepath.Glob(b.inBase(".shadowlsp*")))(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
