package stage

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shadowlsp/integration/need"
)

func TestATreeTellsEveryChange(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	state := func() Tree {
		t.Helper()
		tree, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	write("same", "1")
	write("text", "1")
	write("mode", "1")
	write("time", "1")
	write("gone", "1")
	// File systems count time in steps of milliseconds: make this one recognisable.
	if err := os.Chtimes(dir, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	before := state()
	if again := state(); len(before.Differences(again)) != 0 || before.Sum() != again.Sum() {
		t.Error("an untouched folder differs from itself")
	}
	write("text", "2")
	write("new", "1")
	if err := os.Chmod(filepath.Join(dir, "mode"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, "time"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	after := state()
	if got, want := before.Differences(after), []string{".", "gone", "mode", "new", "text", "time"}; !slices.Equal(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
	if before.Sum() == after.Sum() {
		t.Error("equal sums of different trees")
	}
}

func TestQuantilesByNearestRank(t *testing.T) {
	var d []time.Duration
	for i := 100; i >= 1; i-- {
		d = append(d, time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := Quantile(d, q); got != want {
			t.Errorf("quantile %v: %d, want %d", q, got, want)
		}
	}
	if Quantile(nil, 0.5) != 0 {
		t.Error("of none")
	}
}

func TestAStageIsAloneAndLeavesNothing(t *testing.T) {
	s, err := New(t.Context(), need.Source(t, "xmod"))
	if err != nil {
		t.Fatal(err)
	}
	if pid := s.Daemon(); pid != 0 {
		t.Errorf("a daemon (%d) on a new stage", pid)
	}
	if mounts, err := s.Mounts(); err != nil || len(mounts) != 0 {
		t.Errorf("mounts: %v, %v", mounts, err)
	}
	if err := s.Kill(); err == nil {
		t.Error("killed a daemon that is not there")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.top); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}
