package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A branch finds the person's Go build cache, and what it changes of it neither
// the person nor another branch sees; with the branch it goes.
func TestGoBuildCache(t *testing.T) {
	w := newWorld(t)
	cache := filepath.Join(w.home, ".cache", "go-build")
	must(t, os.MkdirAll(cache, 0o755))
	entry := filepath.Join(cache, "entry")
	must(t, os.WriteFile(entry, []byte("the person's"), 0o644))
	const look = `cd "$(go env GOCACHE)" && cat entry mine 2>/dev/null`
	if out, code := w.in(t, "a", `cd "$(go env GOCACHE)" && echo a >mine && echo changed >entry && cd - && go build ./...`); code != 0 {
		t.Fatal(out)
	}
	for branch, want := range map[string]string{"a": "changed\na\n", "b": "the person's"} {
		if out, _ := w.in(t, branch, look); out != want {
			t.Errorf("branch %s finds %q, want %q", branch, out, want)
		}
	}
	if text, err := os.ReadFile(entry); err != nil || string(text) != "the person's" {
		t.Errorf("the person finds %q, %v", text, err)
	}
	if names, err := os.ReadDir(cache); err != nil || len(names) != 1 {
		t.Errorf("the person finds %v, %v", names, err)
	}
	if out, code := w.native(t, w.binary, "branch", "drop", "a"); code != 0 {
		t.Fatal(out)
	}
	left, err := filepath.Glob(filepath.Join(w.top, "state", "shadowlsp", "*", "cache-layers", "*"))
	if err != nil || len(left) != 1 { // b's
		t.Errorf("after the drop there are %v, %v", left, err)
	}
	if out, _ := w.in(t, "a", look); strings.Contains(out, "changed") {
		t.Errorf("a new branch of that name finds %q", out)
	}
}
