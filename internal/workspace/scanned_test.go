package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shadowlsp/fusefs"
)

// Every change between two Syncs is told by the second, and nothing twice once
// the folder rests.
func TestScannedTellsEveryChange(t *testing.T) {
	root := t.TempDir()
	path := func(name string) string { return filepath.Join(root, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(os.MkdirAll(path("dir/sub"), 0o755))
	do(os.MkdirAll(path(".git"), 0o755))
	write("dir/sub/a", "1")
	write("dir/only", "1")
	write("b", "1")
	s, err := newScanned(root, func() bool { return false })
	do(err)
	defer s.Close()
	var told []string
	cancel := s.Subscribe(func(changes []fusefs.BaseChange) {
		for _, c := range changes {
			told = append(told, fmt.Sprint(c.Kind, " ", c.Path))
		}
	})
	defer cancel()
	// rest waits until the times of all files are of the past.
	rest := func() {
		t.Helper()
		for {
			told = nil
			do(s.Sync(t.Context()))
			if len(told) == 0 {
				return
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"a write of the same size", func() { write("b", "2") }, []string{"changed b"}},
		{"a write with its old times", func() {
			st, err := os.Stat(path("b"))
			do(err)
			write("b", "3")
			do(os.Chtimes(path("b"), time.Time{}, st.ModTime()))
		}, []string{"changed b"}},
		{"a mode", func() { do(os.Chmod(path("b"), 0o600)) }, []string{"changed b"}},
		{"an atomic save", func() { write("b~", "4"); do(os.Rename(path("b~"), path("b"))) }, []string{"changed b"}},
		{"a new folder", func() { do(os.Mkdir(path("new"), 0o755)); write("new/x", "") }, []string{"created new", "created new/x"}},
		{"a moved folder", func() { do(os.Rename(path("dir/sub"), path("sub"))) }, []string{"created sub", "created sub/a", "deleted dir/sub", "deleted dir/sub/a"}},
		{"version control", func() { write(".git/index", "x") }, nil},
		{"a folder for file", func() { do(os.RemoveAll(path("dir"))); write("dir", "now a file") }, []string{"changed dir", "deleted dir/only"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rest()
			c.change()
			do(s.Sync(t.Context()))
			slices.Sort(told)
			if !slices.Equal(told, c.want) {
				t.Errorf("told %q, want %q", told, c.want)
			}
		})
	}
	do(os.RemoveAll(root))
	if err := s.Sync(t.Context()); err == nil {
		t.Error("the folder is gone, and nobody says so")
	}
}

// Two writes within one tick of the clock, with a Sync between, are two changes.
func TestScannedTwoWritesInATick(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "f")
	s, err := newScanned(root, func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	told := 0
	defer s.Subscribe(func(changes []fusefs.BaseChange) { told += len(changes) })()
	for i := range 200 {
		if err := os.WriteFile(file, fmt.Appendf(nil, "%03d", i), 0o644); err != nil {
			t.Fatal(err)
		}
		before := told
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if told == before {
			t.Fatalf("write %d was not told", i)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	root := b.TempDir()
	for i := range 100 {
		dir := filepath.Join(root, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range 100 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(j)), nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	s, err := newScanned(root, func() bool { return false })
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		if err := s.Sync(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
