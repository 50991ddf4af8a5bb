package overlay

import (
	"os"
	"testing"
)

// What an apply leaves behind of a directory, times of its files, is none of the
// branch's when the person's directory has gone.
func TestAnAppliedDirectoryGoesWithTheBase(t *testing.T) {
	applied := func(t *testing.T) *Branch {
		b := newBranch(t)
		check(t, os.MkdirAll(b.inBase("lib/deep"), 0o755))
		for _, name := range []string{"lib/a", "lib/deep/b"} {
			check(t, os.WriteFile(b.inBase(name), []byte("x"), 0o644))
			check(t, b.WriteFile(name, []byte("applied"), 0))
		}
		must(b.Apply(ApplyOptions{}))(t)
		if e := b.top().find("lib"); e == nil || !e.bare() {
			t.Fatal("nothing is left, so nothing is tried")
		}
		m := model{t: t}
		if got := m.show(b); len(differing(got, m.showPlain(b.store.basePath))) > 0 {
			t.Errorf("applied, it shows %q", got)
		}
		check(t, os.RemoveAll(b.inBase("lib")))
		return b
	}
	same := func(t *testing.T, b *Branch, extra ...string) {
		t.Helper()
		var overrides []string
		for _, o := range must(b.Overrides())(t) {
			overrides = append(overrides, o.Path)
		}
		if len(differing(overrides, extra)) > 0 {
			t.Errorf("overrides %q, want %q", overrides, extra)
		}
		b.store.check(t)
	}
	for name, try := range map[string]func(t *testing.T, b *Branch){
		"gone": func(t *testing.T, b *Branch) {
			for _, path := range []string{"lib", "lib/a", "lib/deep", "lib/deep/b"} {
				if _, err := b.Lookup(path); KindOf(err) != NotExist {
					t.Errorf("%s: %v", path, err)
				}
			}
			for _, e := range must(b.ReadDir(""))(t) {
				if e.Name == "lib" {
					t.Error("lib is listed")
				}
			}
			if _, _, err := b.Create("lib/c", 0o644, Origin{}); KindOf(err) != NotExist {
				t.Errorf("a file in it: %v", err)
			}
			same(t, b)
		},
		"made again by the branch": func(t *testing.T, b *Branch) {
			must(b.Mkdir("lib", 0o755, Origin{}))(t)
			if list := must(b.ReadDir("lib"))(t); len(list) != 0 {
				t.Errorf("it holds %v", list)
			}
			same(t, b, "lib")
		},
		"written below": func(t *testing.T, b *Branch) {
			check(t, b.WriteFile("lib/deep/new", []byte("n"), 0))
			same(t, b, "lib", "lib/deep", "lib/deep/new")
		},
		"a file in its place": func(t *testing.T, b *Branch) {
			check(t, b.WriteFile("lib", []byte("a file"), 0))
			same(t, b, "lib")
		},
		"something moved there": func(t *testing.T, b *Branch) {
			check(t, b.Rename("dir", "lib", 0, Origin{}))
			must(b.Lookup("lib/file"))(t)
			b.store.check(t)
		},
		"a file moved there": func(t *testing.T, b *Branch) {
			check(t, b.Rename("dir/file", "lib", 0, Origin{}))
			if string(must(b.ReadFile("lib"))(t)) == "" {
				t.Error("it is empty")
			}
			b.store.check(t)
		},
		"made again by the person": func(t *testing.T, b *Branch) {
			check(t, os.Mkdir(b.inBase("lib"), 0o755))
			check(t, os.WriteFile(b.inBase("lib/a"), []byte("again"), 0o644))
			if got := string(must(b.ReadFile("lib/a"))(t)); got != "again" {
				t.Errorf("lib/a holds %q", got)
			}
			same(t, b)
		},
		"a file of the person in its place": func(t *testing.T, b *Branch) {
			check(t, os.WriteFile(b.inBase("lib"), []byte("a file"), 0o644))
			if got := string(must(b.ReadFile("lib"))(t)); got != "a file" {
				t.Errorf("lib holds %q", got)
			}
			same(t, b)
			check(t, b.WriteFile("lib", []byte("the branch's"), 0))
			same(t, b, "lib")
		},
		"after a restart": func(t *testing.T, b *Branch) {
			check(t, b.Keep(true))
			o := Options{Base: b.store.basePath, State: statePath(b.store)}
			check(t, b.store.Close())
			s := mustOpen(t, o)
			t.Cleanup(func() { s.Close() })
			again := must(s.Branch("b"))(t)
			if _, err := again.Lookup("lib"); KindOf(err) != NotExist {
				t.Errorf("%v", err)
			}
			same(t, again)
		},
	} {
		t.Run(name, func(t *testing.T) { try(t, applied(t)) })
	}
}
