package life

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script is a random shell script that makes, changes, moves and removes files of
// every kind, in directories and in their places.
func script(r *rand.Rand, steps int) string {
	names := []string{"a", "b", "c d", `q"uote`, "ü", "t\tab", "-dash", "new\nline"}
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	path := func() string {
		var p []string
		for range 1 + r.IntN(3) {
			p = append(p, names[r.IntN(len(names))])
		}
		return "./" + []string{"", "dir/", "lib/"}[r.IntN(3)] + strings.Join(p, "/")
	}
	var out strings.Builder
	for range steps {
		p, q := quoted(path()), quoted(path())
		dir := fmt.Sprintf("mkdir -p \"$(dirname -- %s.)\" 2>/dev/null && ", p)
		switch r.IntN(9) {
		case 0, 1, 2:
			n := r.IntN(60)
			fmt.Fprintf(&out, "%sseq %d %d > %s\n", dir, r.IntN(9), n, p)
		case 3:
			fmt.Fprintf(&out, "%shead -c %d /dev/urandom > %s\n", dir, r.IntN(9000), p)
		case 4:
			fmt.Fprintf(&out, "%sprintf 'no newline' >> %s\n", dir, p)
		case 5:
			fmt.Fprintf(&out, "rm -rf %s\n", p)
		case 6:
			fmt.Fprintf(&out, "mv -T %s %s\n", p, q)
		case 7:
			fmt.Fprintf(&out, "%sln -s %s %s\n", dir, q, p)
		case 8:
			fmt.Fprintf(&out, "chmod %s %s\n", []string{"+x", "-x"}[r.IntN(2)], p)
		}
	}
	// What is in somebody's way fails, and the script goes on.
	return "exec 2>/dev/null; set +e\n" + out.String() +
		"mv dir moved; echo more >> moved/a; mv text text2; mkdir -p target && echo built > target/out\ntrue\n"
}

// TestPatchesAndApplies makes random branches. Their patch, applied by git to a copy
// of the folder, their apply, and their git commit all give the branch's tree.
func TestPatchesAndApplies(t *testing.T) {
	w := newWorld(t)
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			name := fmt.Sprint("random", seed)
			w.shell(t, name, script(r, 40))
			if seed%2 == 1 {
				w.branch(t, "checkpoint", name)
				w.branch(t, "fork", name, name+"child")
				name += "child"
				w.shell(t, name, script(r, 30))
			}
			want := w.tree(t, name)
			patch := w.branch(t, "diff", name, "--all")
			if seed == 0 && !strings.Contains(patch, "\nrename from ") {
				t.Error("no rename in the patch")
			}
			copied := filepath.Join(t.TempDir(), "copy")
			must(t, exec.Command("cp", "-a", w.Dir, copied).Run())
			apply := exec.Command("git", "apply", "--binary", "--whitespace=nowarn", "-")
			apply.Dir, apply.Stdin = copied, strings.NewReader(patch)
			if out, err := apply.CombinedOutput(); err != nil {
				t.Fatalf("git apply: %v: %s\n%s", err, out, patch)
			}
			same(t, "git apply", readTree(t, copied), want)

			w.git(t, "add", "--all") // the person has changes of the round before
			w.git(t, "commit", "--quiet", "--allow-empty", "--message", "so far")
			index := w.git(t, "ls-files", "--stage", "--debug")
			w.branch(t, "apply", name, "--git", "topic-"+name)
			if now := w.git(t, "ls-files", "--stage", "--debug"); now != index {
				t.Error("the index has changed")
			}
			checked := filepath.Join(t.TempDir(), "checked")
			w.git(t, "worktree", "add", "--quiet", checked, "topic-"+name)
			committed := readTree(t, checked)
			delete(committed, ".git")
			w.git(t, "worktree", "remove", "--force", checked)
			for path := range want {
				if strings.HasPrefix(path, "target/") {
					delete(want, path)
				}
			}
			same(t, "the commit", committed, want)

			w.branch(t, "apply", name)
			same(t, "the folder", readTree(t, w.Dir), want)
			if rest := w.branch(t, "diff", name); rest != "" {
				t.Errorf("applied, the branch still changes\n%s", rest)
			}
			w.branch(t, "apply", name, "--all")
			if changes, _, _ := w.list(t, name); changes != 0 {
				t.Errorf("applied, the branch has %d changes: %s", changes, w.branch(t, "apply", "-n", "--all", name))
			}
			must(t, os.RemoveAll(w.path("target")))
			w.branch(t, "drop", name)
		})
	}
}
