package life

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// person is all of the repository that a commit to another branch must not touch.
func (w *world) person(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{
		"HEAD": w.read(t, ".git/HEAD"), "config": w.read(t, ".git/config"),
		"index": w.read(t, ".git/index"), "status": w.git(t, "--no-optional-locks", "status", "--porcelain=v2", "--ignored"),
	}
	for path, what := range w.Tree(t) {
		if path != ".git" && !strings.HasPrefix(path, ".git/") {
			out["tree "+path] = what
		}
	}
	return out
}

// commits commits a branch and says what else has changed.
func (w *world) commits(t testing.TB, branch, name string, args ...string) {
	t.Helper()
	before := w.person(t)
	w.branch(t, append([]string{"apply", branch, "--git", name}, args...)...)
	for what, is := range w.person(t) {
		if before[what] != is {
			t.Errorf("the person's %s was %.100q and is %.100q", what, before[what], is)
		}
		delete(before, what)
	}
	for what := range before {
		t.Errorf("the person's %s is gone", what)
	}
}

// TestCommit commits beside a person who is in the middle of everything.
func TestCommit(t *testing.T) {
	w := newWorld(t)
	// Hooks, filters, signing and a sparse checkout, all of the person's.
	ran := filepath.Join(w.top, "hooks")
	for _, hook := range []string{"pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change", "post-rewrite"} {
		must(t, os.WriteFile(w.path(".git/hooks/"+hook), []byte("#!/bin/sh\necho "+hook+" >> '"+ran+"'\n"), 0o755))
	}
	w.write(t, ".gitattributes", "*.up filter=upper\n*.crlf text eol=crlf\n")
	must(t, os.Mkdir(w.path("aside"), 0o755))
	w.write(t, "aside/file", "aside\n")
	w.write(t, "x.up", "before\n")
	w.write(t, "x.crlf", "one\r\n")
	w.git(t, "config", "filter.upper.clean", "tr a-z A-Z")
	w.git(t, "config", "filter.upper.smudge", "tr A-Z a-z")
	w.git(t, "config", "commit.gpgSign", "true")
	w.git(t, "add", "--all")
	w.git(t, "-c", "commit.gpgSign=false", "commit", "--quiet", "--message", "set up")
	w.git(t, "sparse-checkout", "set", "--no-cone", "/*", "!/aside/")
	_ = os.Remove(ran)

	// The person's uncommitted work: staged, not staged, new, deleted.
	edit := func(path, old, new string) { w.write(t, path, strings.Replace(w.read(t, path), old, new, 1)) }
	edit("text", "one\n", "ONE of the person\n")
	w.git(t, "add", "text")
	_ = os.Remove(ran)
	w.write(t, "untracked", "the person's\n")
	must(t, os.Remove(w.path("dir/b")))

	w.shell(t, "b", `sed -i 's/seven/seven and more/' text; printf 'after\n' > x.up; printf 'one\r\ntwo\r\n' > x.crlf
		mv dir/a lib/a; mkdir -p target; echo o > target/o; printf '#!/bin/sh\n' > tool; chmod +x tool; ln -s tool link; rm use/use.go; printf 'bin\0ary' > bin`)
	w.commits(t, "b", "topic", "-m", "What it does\n\nand why")
	if hooks, err := os.ReadFile(ran); err == nil {
		t.Errorf("hooks have run: %s", hooks)
	}
	if got, want := w.git(t, "diff", "--no-renames", "--name-status", "HEAD", "topic"), `A	bin
D	dir/a
A	lib/a
A	link
M	text
A	tool
D	use/use.go
M	x.crlf
M	x.up
`; got != want {
		t.Errorf("the commit changes\n%s", got)
	}
	for path, want := range map[string]string{
		"text": strings.Replace(module["text"], "seven", "seven and more", 1),
		"x.up": "AFTER\n", "x.crlf": "one\ntwo\n", "link": "tool", "aside/file": "aside\n", "dir/b": "b\n", "bin": "bin\x00ary",
	} {
		if got := w.git(t, "cat-file", "blob", "topic:"+path); got != want {
			t.Errorf("%s is %q in the commit, want %q", path, got, want)
		}
	}
	if got := w.git(t, "log", "-1", "--format=%P %an %s", "topic"); got != strings.TrimSpace(w.git(t, "rev-parse", "HEAD"))+" person What it does\n" {
		t.Errorf("the commit is %q", got)
	}
	if mode := w.git(t, "ls-tree", "topic", "tool", "link"); !strings.Contains(mode, "120000") || !strings.Contains(mode, "100755") {
		t.Errorf("modes\n%s", mode)
	}

	before := w.person(t)
	w.refused(t, 2, "there is a git branch topic", "apply", "b", "--git", "topic")
	w.refused(t, 1, "cannot name a git branch", "apply", "b", "--git", "no..name")
	// What cannot be told apart: the same line, and a file that HEAD does not know.
	w.shell(t, "b", "sed -i 's/ONE of the person/ours/' text; echo ours >> untracked")
	w.refused(t, 2, "HEAD is not what the branch began with at text, untracked", "apply", "b", "--git", "second")
	if _, _, code := w.run("git", "rev-parse", "--verify", "--quiet", "refs/heads/second"); code == 0 {
		t.Error("a refused commit has made a branch")
	}
	for what, is := range w.person(t) {
		if before[what] != is {
			t.Errorf("refused, the person's %s has changed", what)
		}
	}
	w.commits(t, "b", "second", "--force")
	if got := w.git(t, "cat-file", "blob", "second:untracked"); got != "the person's\nours\n" {
		t.Errorf("forced, untracked is %q", got)
	}
}

// TestCommitAfterThePerson: what the person has committed since the branch began is
// merged, or refused, and never taken back.
func TestCommitAfterThePerson(t *testing.T) {
	w := newWorld(t)
	w.shell(t, "b", "sed -i 's/seven/seven of the branch/' text; echo branch > dir/a; rm dir/b; echo branch > made")
	w.write(t, "text", strings.Replace(module["text"], "one", "one of the person", 1))
	w.git(t, "commit", "--quiet", "--all", "--message", "the person's")
	w.commits(t, "b", "merged", "-m", "m")
	if got := w.git(t, "cat-file", "blob", "merged:text"); !strings.Contains(got, "one of the person") || !strings.Contains(got, "seven of the branch") {
		t.Errorf("the commit has %q", got)
	}
	w.write(t, "dir/a", "person\n")
	w.write(t, "dir/b", "person\n")
	w.write(t, "made", "person\n")
	w.git(t, "add", "--all")
	w.git(t, "commit", "--quiet", "--message", "the person's again")
	w.refused(t, 2, "at dir/a, dir/b, made", "apply", "b", "--git", "refused")
	w.commits(t, "b", "part", "text")
}

// TestCommitWhereItCannotBe: no repository, nothing committed yet, nothing to commit, a
// submodule.
func TestCommitWhereItCannotBe(t *testing.T) {
	w := newWorld(t)
	w.shell(t, "none", "mkdir -p target; echo o > target/o")
	w.refused(t, 2, "changes nothing", "apply", "none", "--git", "x")

	sub := filepath.Join(w.top, "sub")
	w.git(t, "init", "--quiet", sub)
	w.git(t, "-C", sub, "commit", "--quiet", "--allow-empty", "--message", "sub")
	must(t, os.WriteFile(filepath.Join(sub, "f"), []byte("f\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(sub, ".gitignore"), []byte("*.o\n"), 0o644))
	w.git(t, "-C", sub, "add", "--all")
	w.git(t, "-C", sub, "commit", "--quiet", "--message", "f")
	w.git(t, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub, "sub")
	w.git(t, "commit", "--quiet", "--message", "with a submodule")
	w.shell(t, "b", "echo more >> sub/f; echo o > sub/x.o; echo more >> text")
	w.refused(t, 2, "a repository of its own", "apply", "b", "--git", "x")
	w.commits(t, "b", "y", "text")
	if got := strings.Fields(w.branch(t, "apply", "-n", "b")); strings.Join(got, " ") != "sub/f text" {
		t.Errorf("applied would be %q", got)
	}
	w.branch(t, "apply", "b")
	if got := w.read(t, "sub/f"); got != "f\nmore\n" {
		t.Errorf("sub/f is %q", got)
	}

	w.git(t, "submodule", "--quiet", "deinit", "--force", "sub")
	w.shell(t, "d", "echo new > sub/new")
	w.refused(t, 2, "in the submodule sub", "apply", "d", "--git", "x")

	must(t, os.RemoveAll(w.path(".git/modules")))
	must(t, os.RemoveAll(w.path("sub")))
	must(t, os.Rename(w.path(".git"), filepath.Join(w.top, "git")))
	w.shell(t, "c", "echo more >> text; mkdir -p target; echo o > target/o")
	w.refused(t, 2, "no git repository", "apply", "c", "--git", "x")
	if patch := w.branch(t, "diff", "c"); !strings.Contains(patch, "target/o") {
		t.Errorf("without git nothing is ignored, but the patch is\n%s", patch)
	}
	w.git(t, "init", "--quiet")
	w.branch(t, "apply", "c", "--git", "first", "text", "--force")
	if got := w.git(t, "ls-tree", "-r", "--name-only", "first"); got != "text\n" {
		t.Errorf("the first commit holds %q", got)
	}
}
