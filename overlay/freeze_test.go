package overlay

import (
	"os"
	"strings"
	"testing"
)

// A fork fails while it carries open files from one layer to the next: nothing is
// lost, and what is open goes on. The next fork succeeds; where some files were
// carried and others not, once these are closed.
func TestCarryingFails(t *testing.T) {
	for _, failing := range []int{1, 2} {
		b := newBranch(t)
		files := map[string]*File{}
		for _, path := range []string{"dir/file", "dir/fresh"} {
			check(t, b.WriteFile(path, []byte("old "+path), 0))
			_, f, err := b.OpenWrite(path, false, Origin{})
			check(t, err)
			files[path] = f
		}
		carried := 0
		b.store.stepped = func(name string) {
			if name != "carried" {
				return
			}
			if carried++; carried == failing {
				// The copy that is to take the file's place goes away.
				work := procPath(b.top().fd) + "/../work"
				entries, err := os.ReadDir(work)
				check(t, err)
				for _, e := range entries {
					check(t, os.Remove(work+"/"+e.Name()))
				}
			}
		}
		_, err := b.Fork("fails", false)
		b.store.stepped = nil
		if err == nil || carried < failing {
			t.Fatalf("%v after %d files were carried", err, carried)
		}
		if _, err := b.store.Branch("fails"); KindOf(err) != NotExist {
			t.Errorf("the branch that could not be forked: %v", err)
		}
		for path, f := range files {
			if data, err := b.ReadFile(path); err != nil || string(data) != "old "+path {
				t.Errorf("after failure %d: %s holds %q, %v", failing, path, data, err)
			}
			_, err := f.WriteAt([]byte("NEW"), 0)
			check(t, err)
			f.Wrote(Origin{})
		}
		if failing == 2 { // one of them is left in a layer that is frozen by now
			if _, err := b.Fork("busy", false); KindOf(err) != Busy {
				t.Errorf("a fork under a writer of a frozen layer: %v", err)
			}
			for _, f := range files {
				check(t, f.Close())
			}
			files = nil
		}
		fork := must(b.Fork("works", false))(t)
		for _, f := range files {
			_, err := f.WriteAt([]byte("now"), 0)
			check(t, err)
			f.Wrote(Origin{})
			check(t, f.Close())
		}
		for _, path := range []string{"dir/file", "dir/fresh"} {
			for at, want := range map[*Branch]string{b: "now", fork: "NEW"} {
				if files == nil {
					want = "NEW"
				}
				if data, err := at.ReadFile(path); err != nil || !strings.HasPrefix(string(data), want) {
					t.Errorf("%s: %s holds %q, %v; want %s", at.Name(), path, data, err, want)
				}
			}
		}
	}
}
