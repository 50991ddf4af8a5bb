package overlay

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// What a directory holds that was moved away, frozen there, and moved back: the
// directory is what it was before, so only the listing tells.
func TestDifferAfterAMoveBack(t *testing.T) {
	b := newBranch(t)
	for _, p := range []string{"d/e", "x"} {
		check(t, os.MkdirAll(b.inBase(p), 0o755))
	}
	for _, p := range []string{"d/e/y", "d/e/z", "x/y"} {
		check(t, os.WriteFile(b.inBase(p), []byte("base"), 0o644))
	}
	other := must(b.store.Create("other", CreateOptions{}))(t)
	fork := func(name string) {
		t.Helper()
		must(b.Fork(name, false))(t)
	}
	move := func(from, to string) {
		t.Helper()
		check(t, b.Rename(from, to, 0, Origin{}))
	}
	check(t, b.WriteFile("d/e/y", []byte("changed"), 0))
	move("d", "b")
	fork("one")
	check(t, b.WriteFile("b/e/z", []byte("changed"), 0))
	move("b/e", "b/f") // a move inside one that was moved
	fork("two")
	move("b", "c")
	fork("three")
	move("c/f", "c/e")
	move("c", "d")
	paths := Differ(b, other)
	for _, p := range []string{"d", "d/e", "d/e/y", "d/e/z"} {
		if !slices.Contains(paths, p) {
			t.Errorf("%q is not listed: %q", p, paths)
		}
	}
	for _, p := range paths {
		if strings.HasPrefix(p, "x") {
			t.Errorf("%q is listed, and nothing was done there", p)
		}
	}
	for _, miss := range undisclosed(t, b, other) {
		t.Error(miss)
	}
}

// undisclosed compares two whole trees and returns what differs and Differ does
// not disclose.
func undisclosed(t *testing.T, a, b *Branch) (missing []string) {
	t.Helper()
	ta, tb := nodesOf(t, a), nodesOf(t, b)
	paths := Differ(a, b)
	if !slices.IsSortedFunc(paths, comparePaths) {
		t.Errorf("Differ is not in order: %q", paths)
	}
	listed := map[string]bool{}
	for _, p := range paths {
		listed[p] = true
	}
	// told says that p is listed, or below what is listed and not the same
	// directory in both.
	told := func(p string) bool {
		if listed[p] {
			return true
		}
		for p != "" {
			p, _ = split(p)
			na, ina := ta[p]
			nb, inb := tb[p]
			if listed[p] && !(ina && inb && na.IsDir() && nb.IsDir() && na.Version == nb.Version) {
				return true
			}
		}
		return false
	}
	compare := func(p string) {
		na, ina := ta[p]
		nb, inb := tb[p]
		if (ina != inb || na.Version != nb.Version || na.Stamp != nb.Stamp || na.Attr != nb.Attr) && !told(p) {
			missing = append(missing, "Differ of "+a.name+" and "+b.name+" lacks "+p+": "+strings.Join(paths, " "))
		}
	}
	for p := range ta {
		compare(p)
	}
	for p := range tb {
		if _, both := ta[p]; !both {
			compare(p)
		}
	}
	return missing
}

// nodesOf is all that a branch shows, by path.
func nodesOf(t *testing.T, b *Branch) map[string]Node {
	t.Helper()
	all := map[string]Node{}
	var visit func(path string)
	visit = func(path string) {
		n := lookup(t, b, path)
		n.Attr.Atime = Time{} // reading changes it
		all[path] = n
		if !n.IsDir() {
			return
		}
		for _, e := range must(b.ReadDir(path))(t) {
			visit(join(path, e.Name))
		}
	}
	visit("")
	return all
}
