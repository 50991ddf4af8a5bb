package root

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheRootIsTheEnclosingVersionControlTopLevel(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"repo/.git", "repo/a/b", "plain/a", "outer/.hg", "outer/inner/.jj", "outer/inner/x"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A git worktree has a file .git.
	if err := os.MkdirAll(filepath.Join(top, "worktree/a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "worktree/.git"), []byte("gitdir: elsewhere\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(top, "repo/a"), filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"repo": "repo", "repo/a/b": "repo", "plain/a": "plain/a", "outer/inner/x": "outer/inner",
		"worktree/a": "worktree", "link/b": "repo",
	} {
		got, err := Find(filepath.Join(top, dir))
		if err != nil || got != filepath.Join(top, want) {
			t.Errorf("%s: %s, %v; want %s", dir, got, err, want)
		}
	}
	for _, dir := range []string{"missing", "worktree/.git"} {
		if got, err := Find(filepath.Join(top, dir)); err == nil {
			t.Errorf("%s: %s", dir, got)
		}
	}
	if got, err := Find("/"); err == nil && got == "/" {
		t.Error("/ is a workspace")
	}
}

func TestPlacesArePrivate(t *testing.T) {
	dirs := Dirs{Home: t.TempDir(), Temp: t.TempDir()}
	p, err := At("/some/root", dirs)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Errorf("again: %v", err)
	}
	if q, _ := At("/some/other", dirs); q.Runtime == p.Runtime || q.State == p.State {
		t.Error("two roots share a place")
	}
	lock, err := p.Lock("lock", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Lock("lock", false); !errors.Is(err, ErrLocked) {
		t.Errorf("the second lock: %v", err)
	}
	lock.Close()
	if again, err := p.Lock("lock", false); err != nil {
		t.Errorf("after the first has gone: %v", err)
	} else {
		again.Close()
	}
	// Somebody else may have made the directory in a shared temp folder.
	if err := os.Chmod(filepath.Dir(p.Runtime), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("an open directory: %v", err)
	}
}

func TestARootDoesNotContainItsOwnPlace(t *testing.T) {
	home := t.TempDir()
	if _, err := At(home, Dirs{Home: home, Temp: "/elsewhere"}); err == nil || !strings.Contains(err.Error(), "XDG_STATE_HOME") {
		t.Errorf("a root that is the home: %v", err)
	}
	if _, err := At("/r", Dirs{Temp: "/tmp"}); err == nil {
		t.Error("neither HOME nor XDG_STATE_HOME, and no error")
	}
}
