package fusefs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// fingerprint is everything of a tree that a person could notice: names, modes,
// sizes, bytes, link targets and times (but for access times).
func fingerprint(t testing.TB, root string) string {
	t.Helper()
	h := sha256.New()
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		fmt.Fprintf(h, "%q %s\n", rel, statLine(&st))
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(h, "%x\n", sha256.Sum256(data))
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(h, "%q\n", target)
		}
		return nil
	}))
	return fmt.Sprintf("%x", h.Sum(nil))
}

var someFiles = map[string]string{
	"a.txt":           "base a",
	"dir/b.txt":       "base b",
	"dir/deep/c.txt":  "base c",
	"empty/":          "",
	"link -> a.txt":   "",
	"dir/up -> ../..": "",
}

func TestReadsEqualTheBase(t *testing.T) {
	s := newStage(t, someFiles)
	must(t, os.WriteFile(s.outside("na\xffme"), []byte("bytes"), 0o600))
	must(t, os.WriteFile(s.outside("big"), []byte(strings.Repeat("0123456789abcdef", 1<<16)), 0o644))
	must(t, os.Chmod(s.outside("dir/b.txt"), 0o751))
	s.sync()
	for _, path := range []string{"", "a.txt", "dir", "dir/b.txt", "dir/deep/c.txt", "empty", "link", "dir/up", "na\xffme", "big"} {
		var st unix.Stat_t
		must(t, unix.Lstat(s.outside(path), &st))
		if got, want := s.eye.do("stat", path), statLine(&st); got != want {
			t.Errorf("stat %q:\n%s inside\n%s outside", path, got, want)
		}
	}
	for _, path := range []string{"a.txt", "dir/b.txt", "dir/deep/c.txt", "link", "na\xffme", "big"} {
		want, err := os.ReadFile(s.outside(path))
		must(t, err)
		if got := s.eye.do("read", path); got != string(want) {
			t.Errorf("read %q: %d bytes, want %d", path, len(got), len(want))
		}
	}
	if got, want := s.eye.do("list", ""), "a.txt big dir empty link na\xffme"; got != want {
		t.Errorf("list: %q, want %q", got, want)
	}
	if _, err := s.eye.try("read", "none"); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
	if out := s.eye.sh("readlink link; readlink dir/up"); out != "a.txt\n../..\n" {
		t.Error(out)
	}
}

func TestWritesStayInTheLayer(t *testing.T) {
	s := newStage(t, someFiles)
	before := fingerprint(t, s.root)
	out := s.eye.sh(`
		echo new > n.txt; cat n.txt
		echo more >> a.txt; cat a.txt
		echo short > dir/b.txt; cat dir/b.txt
		mkdir -p x/y; echo z > x/y/z; cat x/y/z
		rm dir/deep/c.txt; ls -A dir/deep; rmdir dir/deep; ls dir
		mv a.txt moved.txt; cat moved.txt; ls
		ln -s target sym; readlink sym
		ln moved.txt hard; echo via-hard >> hard; cat moved.txt; stat -c %h moved.txt
		chmod 700 moved.txt; stat -c %a hard
		mv dir renamed; ls renamed; cat renamed/b.txt
		touch -d 2001-02-03T04:05:06 hard; stat -c %Y moved.txt
		truncate -s 3 moved.txt; cat moved.txt; echo
		mkfifo fifo; stat -c %F fifo
	`)
	want := `new
base amore
short
z
b.txt
up
base amore
dir
empty
link
moved.txt
n.txt
x
target
base amore
via-hard
2
700
b.txt
up
short
` + fmt.Sprint(981173106) + `
bas
fifo
`
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if after := fingerprint(t, s.root); after != before {
		t.Error("the base has changed")
	}
	// What the kernel believes is what the overlay holds.
	data, err := s.branch.ReadFile("moved.txt")
	if err != nil || string(data) != "bas" {
		t.Errorf("%q %v", data, err)
	}
}

func TestSwitch(t *testing.T) {
	s := newStage(t, someFiles)
	a, b := s.create("a"), s.create("b")
	s.agent(a, "a.txt", "branch a")
	s.agent(a, "dir/new.txt", "only in a")
	s.agent(b, "a.txt", "branch b, longer")
	must(t, b.Unlink("dir/b.txt", s.view.origin))
	check := func(text, dir, b, fresh string) {
		t.Helper()
		if got := s.eye.do("read", "a.txt"); got != text {
			t.Errorf("a.txt: %q, want %q", got, text)
		}
		if got := s.eye.do("list", "dir"); got != dir {
			t.Errorf("dir: %q, want %q", got, dir)
		}
		for name, want := range map[string]string{"dir/b.txt": b, "dir/new.txt": fresh} {
			got, err := s.eye.try("read", name)
			if want == "" && !errors.Is(err, syscall.ENOENT) || want != "" && (err != nil || got != want) {
				t.Errorf("%s: %q %v, want %q", name, got, err, want)
			}
		}
	}
	for range 20 {
		s.switchTo(s.branch)
		check("base a", "b.txt deep up", "base b", "")
		s.switchTo(a)
		check("branch a", "b.txt deep new.txt up", "base b", "only in a")
		s.switchTo(b)
		check("branch b, longer", "deep up", "", "")
		s.switchTo(a)
		check("branch a", "b.txt deep new.txt up", "base b", "only in a")
	}
}

func TestAgentsEditsAreSeen(t *testing.T) {
	s := newStage(t, someFiles)
	s.eye.do("read", "a.txt")
	if _, err := s.eye.try("read", "dir/new.txt"); !errors.Is(err, syscall.ENOENT) {
		t.Fatal(err)
	}
	for i := range 50 {
		text := strings.Repeat("x", i+1)
		s.agent(s.branch, "a.txt", text)
		s.agent(s.branch, "dir/new.txt", text+"!")
		s.settle()
		if got := s.eye.do("read", "a.txt"); got != text {
			t.Fatalf("edit %d: %q", i, got)
		}
		if got := s.eye.do("read", "dir/new.txt"); got != text+"!" {
			t.Fatalf("edit %d: new file: %q", i, got)
		}
		must(t, s.branch.Unlink("dir/new.txt", noOrigin))
		s.settle()
		if _, err := s.eye.try("read", "dir/new.txt"); !errors.Is(err, syscall.ENOENT) {
			t.Fatalf("edit %d: still there: %v", i, err)
		}
	}
}

func TestBaseChangesAreSeen(t *testing.T) {
	s := newStage(t, someFiles)
	s.eye.sh("cat a.txt dir/b.txt dir/deep/c.txt; ls -R . ; ! cat dir/none")
	for i := range 20 {
		text := fmt.Sprint("version ", strings.Repeat("y", i))
		// In place, by rename, new, deleted, a directory replaced.
		must(t, os.WriteFile(s.outside("a.txt"), []byte(text), 0o644))
		must(t, os.WriteFile(s.outside("dir/tmp"), []byte(text+" by rename"), 0o644))
		must(t, os.Rename(s.outside("dir/tmp"), s.outside("dir/b.txt")))
		must(t, os.WriteFile(s.outside("dir/none"), []byte(text), 0o644))
		must(t, os.RemoveAll(s.outside("dir/deep")))
		must(t, os.MkdirAll(s.outside("dir/deep/er"), 0o755))
		must(t, os.WriteFile(s.outside("dir/deep/c.txt"), []byte(text+" deep"), 0o644))
		s.sync()
		got := s.eye.sh("cat a.txt; echo; cat dir/b.txt; echo; cat dir/none; echo; cat dir/deep/c.txt; echo; ls dir/deep dir")
		want := text + "\n" + text + " by rename\n" + text + "\n" + text + " deep\ndir:\nb.txt\ndeep\nnone\nup\n\ndir/deep:\nc.txt\ner\n"
		if got != want {
			t.Fatalf("round %d: got\n%s\nwant\n%s", i, got, want)
		}
		must(t, os.Remove(s.outside("dir/none")))
		must(t, os.RemoveAll(s.outside("dir/deep/er")))
		s.sync()
		if got := s.eye.sh("ls dir/deep; ! cat dir/none 2>/dev/null"); got != "c.txt\n" {
			t.Fatalf("round %d: %s", i, got)
		}
	}
	if got := s.eye.do("read", "a.txt"); !strings.HasPrefix(got, "version") {
		t.Error(got)
	}
}

func TestSyncWithoutAnyView(t *testing.T) {
	b, err := NewBase(t.TempDir(), testLog(t))
	must(t, err)
	for range 100 {
		must(t, b.Sync(t.Context()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.Sync(ctx)
	must(t, b.Close())
	var e *Error
	if err := b.Sync(t.Context()); !errors.As(err, &e) || e.Kind != Closed {
		t.Error(err)
	}
}

var noOrigin = overlay.Origin{}
