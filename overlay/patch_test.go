package overlay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// TestPatch has git apply one patch with everything in it.
func TestPatch(t *testing.T) {
	b := newBranch(t)
	big := make([]byte, 100_000)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(big)
	lines := func(n int, change string) []byte {
		var out []byte
		for i := range n {
			if i == n/2 {
				out = append(out, change...)
			}
			out = append(out, "line "+string(rune('a'+i%26))+"\r\n"...)
		}
		return out
	}
	check(t, os.WriteFile(b.inBase("long"), lines(500, ""), 0o644))
	check(t, os.WriteFile(b.inBase("bin"), append(big[:5000:5000], 0), 0o644))
	check(t, os.Symlink("dir", b.inBase("link")))
	check(t, os.WriteFile(b.inBase("becomes dir"), []byte("f\n"), 0o644))
	check(t, os.WriteFile(b.inBase("becomes link"), []byte("f\n"), 0o644))
	check(t, os.Mkdir(b.inBase(".git"), 0o755))
	plain := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", b.store.basePath, plain).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	var o Origin
	for _, err := range []error{
		b.WriteFile("long", lines(500, "new line\n"), 0),
		b.WriteFile("bin", big, 0),
		b.WriteFile("tab\tquote\"back\\slash ü \x01", []byte("no newline"), 0),
		b.WriteFile("with blank", []byte("x\n"), 0o755),
		b.WriteFile("empty", nil, 0),
		b.WriteFile("dir/file", []byte("base"), 0o755), // mode alone
		b.Unlink("link", o), b.WriteFile("link/now a dir", []byte("x\n"), 0),
		b.Unlink("becomes dir", o), b.WriteFile("becomes dir/x/y", []byte("x\n"), 0),
		b.Unlink("becomes link", o),
		b.RemoveAll("other", o), b.WriteFile("other", []byte("a file\n"), 0),
		b.Rename("dir/sub", "moved", 0, o),
		b.WriteFile(".git/config", []byte("not in a patch"), 0),
	} {
		check(t, err)
	}
	_, err := b.Symlink("dir/file", "becomes link", o)
	check(t, err)
	_, err = b.Mknod("fifo", unix.S_IFIFO|0o600, 0, o)
	check(t, err)

	var patch bytes.Buffer
	stats := must(b.Diff(&patch, DiffOptions{}))(t)
	if !slices.Equal(stats.Skipped, []string{"fifo"}) {
		t.Errorf("skipped %q", stats.Skipped)
	}
	if out, err := gitApply(plain, patch.Bytes()); err != nil {
		t.Fatalf("git apply: %v: %s\n%s", err, out, patch.Bytes())
	}
	check(t, b.Unlink("fifo", o))
	check(t, b.RemoveAll(".git", o))
	check(t, os.RemoveAll(filepath.Join(plain, ".git")))
	m := model{t: t}
	if got, want := m.showPlain(plain), m.show(b); !slices.Equal(got, want) {
		t.Errorf("git apply gives\n%.2000q\nthe branch is\n%.2000q", got, want)
	}

	patch.Reset()
	stats = must(b.Diff(&patch, DiffOptions{Include: func(p string) bool { return strings.HasPrefix(p, "dir/") }}))(t)
	if stats.Files != 2 { // dir/file and the deletion of dir/sub/deep
		t.Errorf("%+v\n%s", stats, patch.Bytes())
	}
}

// TestPatchRenames pairs files by what the overlay knows, by content, and by most of it.
func TestPatchRenames(t *testing.T) {
	b := newBranch(t)
	var long []byte
	for i := range 50 {
		long = fmt.Appendf(long, "line %d\n", i)
	}
	for _, name := range []string{"dir/long", "edited", "mode", "rewritten", "latin"} {
		check(t, os.WriteFile(b.inBase(name), append(long, name...), 0o644))
	}
	check(t, os.WriteFile(b.inBase("empty"), nil, 0o644))
	check(t, os.Symlink("dir", b.inBase("link")))
	plain := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", b.store.basePath, plain).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var o Origin
	for _, err := range []error{
		b.Rename("dir", "moved", 0, o), b.WriteFile("moved/long", append(long, "more\n"...), 0),
		b.Rename("edited", "edited2", 0, o), b.WriteFile("edited2", append([]byte("first\n"), long...), 0),
		b.Rename("mode", "mode2", 0, o), b.WriteFile("mode2", append(long, "mode"...), 0o755),
		b.Rename("rewritten", "rewritten2", 0, o), b.WriteFile("rewritten2", []byte("nothing of it\n"), 0),
		b.Rename("empty", "empty2", 0, o), b.Rename("link", "link2", 0, o),
		b.WriteFile("latin", []byte("gr\xfc\xdfe\n"), 0),
	} {
		check(t, err)
	}
	var patch bytes.Buffer
	must(b.Diff(&patch, DiffOptions{UTF8: true}))(t)
	var renames []string
	for line := range strings.Lines(patch.String()) {
		if from, ok := strings.CutPrefix(line, "rename from "); ok {
			renames = append(renames, strings.TrimSpace(from))
		}
	}
	slices.Sort(renames)
	if want := []string{"dir/file", "dir/long", "dir/sub/deep", "edited", "mode"}; !slices.Equal(renames, want) {
		t.Errorf("renamed are %q, want %q", renames, want)
	}
	if !utf8.Valid(patch.Bytes()) {
		t.Error("the patch is no UTF-8")
	}
	if out, err := gitApply(plain, patch.Bytes()); err != nil {
		t.Fatalf("git apply: %v: %s\n%s", err, out, patch.Bytes())
	}
	m := model{t: t}
	if d := differing(m.showPlain(plain), m.show(b)); len(d) > 0 {
		t.Errorf("git apply: %q", d)
	}
}
