package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestSmoke(t *testing.T) {
	base, state := t.TempDir(), t.TempDir()
	os.MkdirAll(filepath.Join(base, "d/e"), 0o755)
	os.WriteFile(filepath.Join(base, "d/e/f"), []byte("hello"), 0o644)
	os.WriteFile(filepath.Join(base, "a"), []byte("A"), 0o644)
	s, rep, err := Open(Options{Base: base, State: state})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(rep, s.xattrWhites, s.renameWhite, s.marks)
	b, err := s.Create("b", CreateOptions{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(b.WriteFile("d/e/f", []byte("world"), 0))
	must(b.WriteFile("x/y/z", []byte("new"), 0))
	must(b.Unlink("a", Origin{}))
	must(b.Rename("d/e", "moved", 0, Origin{}))
	dump := func(b *Branch) {
		var rec func(p string)
		rec = func(p string) {
			es, err := b.ReadDir(p)
			must(err)
			for _, e := range es {
				q := join(p, e.Name)
				n, err := b.Lookup(q)
				must(err)
				if n.IsDir() {
					fmt.Println(q+"/", n.Attr.Ino, n.Attr.Mtime, n.Version)
					rec(q)
				} else {
					d, err := b.ReadFile(q)
					must(err)
					fmt.Printf("%s %q %d %v\n", q, d, n.Attr.Ino, n.Attr.Mtime)
				}
			}
		}
		rec("")
	}
	dump(b)
	o, err := b.Overrides()
	fmt.Println(o, err)
	c, err := b.Fork("c", true)
	must(err)
	must(c.WriteFile("moved/f", []byte("c"), 0))
	fmt.Println(Differ(b, c))
	must(s.Close())
	s, rep, err = Open(Options{Base: base, State: state})
	must(err)
	fmt.Println(rep, s.List())
	c, err = s.Branch("c")
	must(err)
	dump(c)
	must(s.Close())
}
