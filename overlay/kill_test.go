package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/integration/need"
)

// killed is what the hook panics with in place of a SIGKILL.
type killed struct{}

// changes are the mutators, each on a branch "b" that prepare has made.
var changes = []struct {
	name    string
	prepare func(b *Branch) error
	do      func(b *Branch) error
}{
	{"write over base", nil, func(b *Branch) error { return b.WriteFile("dir/file", []byte("x"), 0) }},
	{"write over own", func(b *Branch) error { return b.WriteFile("dir/file", []byte("y"), 0) },
		func(b *Branch) error { return b.WriteFile("dir/file", []byte("x"), 0) }},
	{"write back", func(b *Branch) error { return b.WriteFile("dir/file", []byte("y"), 0) },
		func(b *Branch) error { return b.WriteFile("dir/file", []byte("base"), 0) }},
	{"write over deleted", func(b *Branch) error { return b.Unlink("dir/file", Origin{}) },
		func(b *Branch) error { return b.WriteFile("dir/file", []byte("x"), 0) }},
	{"create", func(b *Branch) error { return b.Unlink("dir/file", Origin{}) }, func(b *Branch) error {
		_, f, err := b.Create("dir/file", 0o700, Origin{})
		if err == nil {
			f.Close()
		}
		return err
	}},
	{"mkdir over deleted", func(b *Branch) error { return b.RemoveAll("dir", Origin{}) }, func(b *Branch) error {
		_, err := b.Mkdir("dir", 0o500, Origin{})
		return err
	}},
	{"link", func(b *Branch) error { return b.Unlink("dir/sub/deep", Origin{}) }, func(b *Branch) error {
		_, err := b.Link("dir/file", "dir/sub/deep", Origin{})
		return err
	}},
	{"chmod of base", nil, func(b *Branch) error {
		_, err := b.SetAttr("dir/file", AttrChange{Mask: SetMode, Mode: 0o755}, Origin{})
		return err
	}},
	{"chmod of base directory", nil, func(b *Branch) error {
		_, err := b.SetAttr("dir", AttrChange{Mask: SetMode, Mode: 0o700}, Origin{})
		return err
	}},
	{"unlink of base", nil, func(b *Branch) error { return b.Unlink("dir/file", Origin{}) }},
	{"unlink of override", func(b *Branch) error { return b.WriteFile("dir/file", []byte("y"), 0) },
		func(b *Branch) error { return b.Unlink("dir/file", Origin{}) }},
	{"unlink of own", func(b *Branch) error { return b.WriteFile("new", nil, 0) },
		func(b *Branch) error { return b.Unlink("new", Origin{}) }},
	{"rmdir of emptied", func(b *Branch) error { return b.Unlink("dir/sub/deep", Origin{}) },
		func(b *Branch) error { return b.Rmdir("dir/sub", Origin{}) }},
	{"remove tree", func(b *Branch) error { return b.WriteFile("dir/sub/new", nil, 0) },
		func(b *Branch) error { return b.RemoveAll("dir", Origin{}) }},
	{"rename of base file", nil, func(b *Branch) error { return b.Rename("dir/file", "moved", 0, Origin{}) }},
	{"rename over base file", nil, func(b *Branch) error { return b.Rename("dir/file", "dir/sub/deep", 0, Origin{}) }},
	{"rename of base directory", nil, func(b *Branch) error { return b.Rename("dir", "moved", 0, Origin{}) }},
	{"rename of written directory", func(b *Branch) error { return b.WriteFile("dir/sub/new", nil, 0) },
		func(b *Branch) error { return b.Rename("dir/sub", "moved", 0, Origin{}) }},
	{"rename of own directory onto deleted", func(b *Branch) error {
		if err := b.WriteFile("own/f", nil, 0); err != nil {
			return err
		}
		return b.RemoveAll("dir", Origin{})
	}, func(b *Branch) error { return b.Rename("own", "dir", 0, Origin{}) }},
	{"rename of base directory onto deleted", func(b *Branch) error { return b.RemoveAll("other", Origin{}) },
		func(b *Branch) error { return b.Rename("dir", "other", 0, Origin{}) }},
	{"rename of directory onto emptied", func(b *Branch) error { return b.Unlink("dir/sub/deep", Origin{}) },
		func(b *Branch) error { return b.Rename("other", "dir/sub", 0, Origin{}) }},
	{"exchange", nil, func(b *Branch) error { return b.Rename("dir/file", "other", Exchange, Origin{}) }},
	{"truncate", nil, func(b *Branch) error {
		_, err := b.SetAttr("dir/file", AttrChange{Mask: SetSize, Size: 2}, Origin{})
		return err
	}},
	{"fork", func(b *Branch) error { return b.WriteFile("dir/file", []byte("y"), 0) },
		func(b *Branch) error { _, err := b.Fork("child", true); return err }},
	{"fork with open file", func(b *Branch) error {
		if err := b.WriteFile("dir/file", []byte("y"), 0); err != nil {
			return err
		}
		if _, err := b.Link("dir/file", "dir/sub/link", Origin{}); err != nil {
			return err
		}
		_, _, err := b.OpenWrite("dir/file", false, Origin{})
		return err
	}, func(b *Branch) error { _, err := b.Fork("child", true); return err }},
	{"checkpoint", func(b *Branch) error { return b.WriteFile("dir/file", []byte("y"), 0) },
		func(b *Branch) error { _, err := b.Checkpoint("c"); return err }},
	{"rollback", func(b *Branch) error {
		if _, err := b.Checkpoint("c"); err != nil {
			return err
		}
		return b.WriteFile("dir/file", []byte("y"), 0)
	}, func(b *Branch) error { return b.Rollback("c") }},
}

// TestKill kills each change at each of its steps, and opens the store again:
// it must show what was before or what should be after.
func TestKill(t *testing.T) {
	for _, mode := range []string{"all abilities", "no RENAME_WHITEOUT", "no whiteout devices"} {
		for _, c := range changes {
			t.Run(mode+"/"+c.name, func(t *testing.T) {
				run := func(killAt int) (tree []string, done bool, repairs []Repair) {
					o := Options{Base: t.TempDir(), State: t.TempDir()}
					makeTree(t, o.Base)
					s := mustOpen(t, o)
					s.renameWhite = s.renameWhite && mode == "all abilities"
					s.xattrWhites = mode == "no whiteout devices"
					b := must(s.Create("b", CreateOptions{Keep: true}))(t)
					if c.prepare != nil {
						check(t, c.prepare(b))
					}
					steps := 0
					s.stepped = func(name string) {
						if steps++; steps == killAt {
							panic(killed{})
						}
					}
					func() {
						defer func() {
							if r := recover(); r != nil && r != (killed{}) {
								panic(r)
							}
						}()
						if killAt > 0 {
							check(t, c.do(b))
							done = true
						}
					}()
					s.abandon()
					s, repairs, err := Open(o)
					check(t, err)
					defer s.Close()
					s.check(t)
					b = must(s.Branch("b"))(t)
					tree = treeOf(t, b)
					if child, err := s.Branch("child"); err == nil {
						if got := treeOf(t, child); !slices.Equal(got, tree) {
							t.Errorf("killed at %d: the child shows\n%q, the parent\n%q", killAt, got, tree)
						}
					} else if done && strings.HasPrefix(c.name, "fork") {
						t.Error("the child is gone")
					}
					if left := leftOver(t, o.State); len(left) > 0 {
						t.Errorf("left over: %q", left)
					}
					return tree, done, repairs
				}
				before, _, _ := run(0)
				after, done, repairs := run(1 << 30)
				if !done || len(repairs) > 0 {
					t.Fatalf("without a kill: done %v, repairs %v", done, repairs)
				}
				for k := 1; ; k++ {
					tree, done, _ := run(k)
					if done {
						if k == 1 && c.name != "rollback" && c.name != "truncate" {
							t.Log("no step to kill at")
						}
						break
					}
					if !slices.Equal(tree, before) && !slices.Equal(tree, after) {
						t.Errorf("killed at step %d:\n%q\nbefore:\n%q\nafter:\n%q", k, tree, before, after)
					}
				}
			})
		}
	}
}

func makeTree(t testing.TB, base string) {
	for p, data := range map[string]string{"dir/file": "base", "dir/sub/deep": "deep", "other/x": "x"} {
		check(t, os.MkdirAll(filepath.Join(base, filepath.Dir(p)), 0o755))
		check(t, os.WriteFile(filepath.Join(base, p), []byte(data), 0o644))
	}
}

func check(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// must hands on a value that came without error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, repairs, err := Open(o)
	check(t, err)
	if len(repairs) > 0 {
		t.Errorf("repairs: %v", repairs)
	}
	return s
}

// treeOf is all that a branch shows.
func treeOf(t testing.TB, b *Branch) (out []string) {
	t.Helper()
	var walk func(dir string)
	walk = func(dir string) {
		for _, e := range must(b.ReadDir(dir))(t) {
			n := must(b.Lookup(join(dir, e.Name)))(t)
			d := ""
			if isReg(n.Attr.Mode) {
				d = string(must(b.ReadFile(n.Path))(t))
			}
			out = append(out, fmt.Sprintf("%s %o %s", n.Path, n.Attr.Mode, d))
			if n.IsDir() {
				walk(n.Path)
			}
		}
	}
	walk("")
	return out
}

// leftOver is the files in the state directory that should not outlive Open.
func leftOver(t testing.TB, state string) (out []string) {
	for _, pattern := range []string{"trash/*", "intents/*", "layers/*/work/*", "layers/*/grave/*"} {
		out = append(out, must(filepath.Glob(filepath.Join(state, pattern)))(t)...)
	}
	return out
}

func TestUnreadableIntent(t *testing.T) {
	o := Options{Base: t.TempDir(), State: t.TempDir()}
	s := mustOpen(t, o)
	check(t, s.Close())
	check(t, os.WriteFile(filepath.Join(o.State, "intents", "1-torn"), []byte(`{"Op":"ren`), 0o600))
	s, repairs, err := Open(o)
	check(t, err)
	defer s.Close()
	if len(repairs) != 1 {
		t.Errorf("repairs: %v", repairs)
	}
}

func TestOneProcess(t *testing.T) {
	o := Options{Base: t.TempDir(), State: t.TempDir()}
	s := mustOpen(t, o)
	if _, _, err := Open(o); KindOf(err) != Busy {
		t.Errorf("second open: %v", err)
	}
	check(t, s.Close())
	check(t, mustOpen(t, o).Close())
}

// TestKernelReadsLayer mounts a layer with the kernel's overlayfs.
func TestKernelReadsLayer(t *testing.T) {
	need.Root(t)
	o := Options{Base: t.TempDir(), State: t.TempDir()}
	makeTree(t, o.Base)
	s := mustOpen(t, o)
	defer s.Close()
	b := must(s.Create("b", CreateOptions{}))(t)
	check(t, b.WriteFile("dir/file", []byte("mine"), 0))
	check(t, b.Unlink("dir/sub/deep", Origin{}))
	check(t, b.RemoveAll("other", Origin{}))
	check(t, b.WriteFile("other/new", []byte("n"), 0))
	at := t.TempDir()
	layer := filepath.Join(o.State, b.top().dirName())
	opts := fmt.Sprintf("lowerdir=%s,upperdir=%s/fs,workdir=%s/work,userxattr", o.Base, layer, layer)
	if err := unix.Mount("overlay", at, "overlay", 0, opts); err != nil {
		need.Unmet(t, false, "no overlayfs on this file system: %v", err)
	}
	defer unix.Unmount(at, 0)
	m := model{t: t}
	got, want := m.showPlain(at), m.show(b)
	if !slices.Equal(got, want) {
		t.Errorf("the kernel shows\n%q\nwe show\n%q", got, want)
	}
}
