package life

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"shadowlsp/integration/client"
	"shadowlsp/integration/stage"
)

// TestLife takes branches through their lives, with agents that lint all along.
func TestLife(t *testing.T) {
	w := newWorld(t)
	w.branch(t, "new", "b")
	w.refused(t, 1, "there is a branch", "new", "b")
	w.refused(t, 1, "cannot name a branch", "new", "no/name")
	w.refused(t, 1, "there is no branch", "fork", "nobody", "x")
	a := w.agent(t, "b")
	a.expect(t, "at first", "")

	var cp struct{ ID string }
	a.ask(t, "shadowlsp/checkpoint", map[string]any{"id": "clean"}, &cp)
	a.put(t, "lib/lib.go", stage.LibText("Mine"))
	a.put(t, "extra/extra.go", "package extra\n\nvar _ = undefined\n")
	a.expect(t, "edited", "Mine")
	w.branch(t, "fork", "b", "child")
	a.put(t, "lib/lib.go", stage.LibText("Later"))
	a.expect(t, "edited again", "Later")
	child := w.agent(t, "child")
	child.expect(t, "the child", "Mine")

	// An open document shows the files again.
	must(t, a.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": w.uri("lib/lib.go"), "languageId": "go", "version": 1, "text": stage.LibText("Open"),
	}}))
	a.expect(t, "with an open document", "Open")
	w.branch(t, "checkpoint", "b", "open")
	a.ask(t, "shadowlsp/rollback", map[string]any{"id": "clean"}, nil)
	a.expect(t, "rolled back", "")
	if _, err := a.try(t, "shadowlsp/read", map[string]any{"uri": w.uri("extra/extra.go")}); err == nil {
		t.Error("rolled back, the branch still shows what was made since")
	}
	w.refused(t, 2, "attached", "rollback", "b", "open")
	w.branch(t, "rollback", "b", "open", "--force")
	a.expect(t, "rolled forward", "Open")
	child.expect(t, "the child beside it", "Mine")
	w.refused(t, 1, "no checkpoint", "rollback", "b", "nothing", "--force")

	// Applied, it is the folder's: for this agent, for the other, and for a new one.
	var applied struct{ Paths []string }
	a.ask(t, "shadowlsp/apply", map[string]any{}, &applied)
	if len(applied.Paths) != 3 { // the file, extra, and what is in it
		t.Errorf("applied %q", applied.Paths)
	}
	if got := w.read(t, "lib/lib.go"); got != stage.LibText("Open") {
		t.Errorf("the folder has %q", got)
	}
	a.expect(t, "applied", "Open")
	child.expect(t, "the child, after that", "Mine")
	fresh := w.agent(t, "fresh")
	fresh.expect(t, "a new branch", "Open")
	if changes, _, _ := w.list(t, "b"); changes != 0 {
		t.Errorf("applied, it has %d changes", changes)
	}
	// The person goes on from there, and the branch sees it.
	w.write(t, "lib/lib.go", stage.LibText("Persons"))
	must(t, a.Notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": w.uri("lib/lib.go")}}))
	a.expect(t, "the person goes on", "Persons")

	// The child changed what has changed since.
	w.refused(t, 2, "lib/lib.go was changed", "apply", "child")
	_, err := child.try(t, "shadowlsp/apply", map[string]any{})
	if err == nil || !strings.Contains(err.Error(), "lib/lib.go was changed") {
		t.Errorf("the child's apply: %v", err)
	}
	w.branch(t, "apply", "child", "--force")
	child.expect(t, "forced", "Mine")
	fresh.expect(t, "forced, the others", "Mine")

	w.refused(t, 2, "attached", "drop", "child")
	w.branch(t, "drop", "child", "--force")
	if _, _, there := w.list(t, "child"); there {
		t.Error("the child is still there")
	}
	if _, err := child.try(t, "shadowlsp/status", struct{}{}); err == nil {
		t.Error("the child's agent is still attached")
	}
	var all struct{ Branches []struct{ Name string } }
	a.ask(t, "shadowlsp/branches", struct{}{}, &all)
	if len(all.Branches) != 2 {
		t.Errorf("branches %+v", all)
	}
	a.ask(t, "shadowlsp/fork", map[string]any{"name": "another"}, nil)
	a.ask(t, "shadowlsp/drop", map[string]any{"branch": "another"}, nil)
}

// TestMovedPackage applies a package that has moved: every branch that shows it goes on
// doing so.
func TestMovedPackage(t *testing.T) {
	w := newWorld(t)
	w.branch(t, "new", "b")
	w.branch(t, "checkpoint", "b", "before")
	b := w.agent(t, "b")
	b.expect(t, "at first", "")
	w.shell(t, "b", "mv lib library; sed -i 's,m/lib,m/library,' use/use.go")
	b.expect(t, "moved", "")
	w.branch(t, "checkpoint", "b", "moved")
	w.branch(t, "fork", "b", "child")
	child := w.agent(t, "child")
	child.put(t, "library/lib.go", stage.LibText("Childs"))
	child.expect(t, "the child", "Childs")
	b.put(t, "library/lib.go", stage.LibText("Mine"))
	b.expect(t, "the parent", "Mine")
	w.branch(t, "apply", "b")
	if _, err := os.Lstat(w.path("lib")); err == nil {
		t.Error("lib is still there")
	}
	b.expect(t, "applied, the parent", "Mine")
	child.expect(t, "applied, the child", "Childs")
	fresh := w.agent(t, "fresh")
	fresh.expect(t, "applied, a new branch", "Mine")
	w.branch(t, "rollback", "b", "moved", "--force")
	b.expect(t, "rolled back to the move", "")
	w.branch(t, "rollback", "b", "before", "--force")
	b.expect(t, "rolled back to nothing", "Mine")
}

// TestInUse refuses what would pull the files from under a command.
func TestInUse(t *testing.T) {
	w := newWorld(t)
	w.shell(t, "b", "echo x > made")
	w.branch(t, "checkpoint", "b", "cp")
	cmd := exec.Command(w.binary, "exec", "--branch", "b", "--", "sh", "-c", "echo ready; read x; echo no")
	cmd.Dir, cmd.Env = w.Dir, append(os.Environ(), w.Env...)
	in, err := cmd.StdinPipe()
	must(t, err)
	defer in.Close()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil {
		t.Fatal(err)
	}
	w.refused(t, 2, "a command runs", "rollback", "b", "cp")
	w.refused(t, 2, "a command runs", "drop", "b")
	// A command in a branch reaches neither the folder nor other branches.
	if _, said, code := w.run(w.binary, "exec", "--branch", "b", "--", w.binary, "branch", "apply", "b"); code == 0 || !strings.Contains(said, "runs in the branch") {
		t.Errorf("apply from inside: %d, %s", code, said)
	}
	within, err := client.Start(client.Config{Command: []string{w.binary, "exec", "--branch", "b", "--", w.binary, "connect"}, Dir: w.Dir, Env: w.Env, Stderr: t.Output()})
	must(t, err)
	_, err = within.Initialize(t.Context(), w.uri(""), struct{}{}, nil)
	must(t, err)
	for method, params := range map[string]any{
		"shadowlsp/apply": struct{}{}, "shadowlsp/fork": map[string]any{"name": "x"}, "shadowlsp/drop": map[string]any{"branch": "other", "force": true},
	} {
		if _, err := within.Call(t.Context(), method, params); err == nil || !strings.Contains(err.Error(), "reaches out of the branch") {
			t.Errorf("%s from inside: %v", method, err)
		}
	}
	must(t, within.Close())
	w.branch(t, "rollback", "b", "cp", "--force")
	w.branch(t, "drop", "b", "--force")
	if err := cmd.Wait(); err == nil {
		t.Error("the command has ended well")
	}
}

// TestUnsavedText keeps an apply from files that the editor has not saved.
func TestUnsavedText(t *testing.T) {
	w := newWorld(t)
	w.shell(t, "b", "echo eight >> text; echo // more >> lib/lib.go")
	editor, err := client.Start(client.Config{Command: []string{w.binary, "--", "gopls"}, Dir: w.Dir, Env: w.Env, Stderr: t.Output()})
	must(t, err)
	defer editor.Close()
	_, err = editor.Initialize(t.Context(), w.uri(""), struct{}{}, nil)
	must(t, err)
	open := func(text string, version int) {
		must(t, editor.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
			"uri": w.uri("lib/lib.go"), "languageId": "go", "version": version, "text": text,
		}}))
		_, err := editor.Call(t.Context(), "textDocument/documentSymbol", map[string]any{"textDocument": map[string]any{"uri": w.uri("lib/lib.go")}})
		must(t, err)
	}
	attached := func(words string) func() bool {
		return func() bool {
			_, said, code := w.run(w.binary, "branch", "apply", "-n", "b")
			return (words == "") == (code == 0) && strings.Contains(said, words)
		}
	}
	open(stage.LibText("int")+"// typing\n", 1)
	stage.Eventually(t, "the daemon knows of the unsaved text", attached("unsaved text of "+w.path("lib/lib.go")))
	before := readTree(t, w.Dir)
	w.refused(t, 2, "unsaved text", "apply", "b")
	same(t, "the folder", readTree(t, w.Dir), before)
	w.branch(t, "apply", "b", "text")
	if got := w.read(t, "text"); !strings.HasSuffix(got, "eight\n") {
		t.Errorf("text is %q", got)
	}
	// Saved: the open text is the disk's.
	must(t, editor.Notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": w.uri("lib/lib.go")}}))
	open(stage.LibText("int"), 2)
	stage.Eventually(t, "the daemon knows that all is saved", attached(""))
	w.branch(t, "apply", "b")
	if got := w.read(t, "lib/lib.go"); !strings.HasSuffix(got, "// more\n") {
		t.Errorf("lib/lib.go is %q", got)
	}
	// A daemon that has not seen the editor open its files does not guess.
	w.shell(t, "c", "echo nine >> text")
	must(t, w.Kill())
	stage.Eventually(t, "the editor is with the next daemon", editorIsThere(w))
	w.refused(t, 2, "is not known for sure", "apply", "c")
	w.branch(t, "apply", "c", "--force")
}

// editorIsThere says that an editor is attached to the daemon, starting one where none runs.
func editorIsThere(w *world) func() bool {
	return func() bool {
		w.run(w.binary, "branch", "list")
		out, _, _ := w.run(w.binary, "status")
		return strings.Contains(out, "editor")
	}
}

// TestIgnored leaves out what git would ignore in the branch.
func TestIgnored(t *testing.T) {
	w := newWorld(t)
	must(t, os.Mkdir(w.path("target"), 0o755))
	w.write(t, "target/old", "built before\n")
	w.shell(t, "b", `rm -r target; mkdir -p target/deep sub; echo o > target/deep/o; echo l > x.log; echo k > sub/keep.log
		printf '*.log\n' >> .gitignore; printf '!keep.log\n' > sub/.gitignore; echo t >> text; mkdir empty; echo f > forced.log; git add -f forced.log`)
	paths := func(args ...string) string {
		return strings.Join(strings.Fields(w.branch(t, append([]string{"apply", "-n", "b"}, args...)...)), " ")
	}
	if got, want := paths(), ".gitignore empty forced.log sub sub/.gitignore sub/keep.log text"; got != want {
		t.Errorf("applied would be %s, want %s", got, want)
	}
	if got, want := paths("--all"), ".gitignore empty forced.log sub sub/.gitignore sub/keep.log target/deep target/deep/o target/old text x.log"; got != want {
		t.Errorf("with --all %s, want %s", got, want)
	}
	if got, want := paths("sub", "text"), "sub sub/.gitignore sub/keep.log text"; got != want {
		t.Errorf("of two paths %s, want %s", got, want)
	}
	w.refused(t, 1, "changes nothing at", "apply", "b", "dir/a")
	w.refused(t, 1, "outside", "apply", "b", "../elsewhere")
	if patch := w.branch(t, "diff", "b"); strings.Contains(patch, "x.log") || strings.Contains(patch, "b/target") || !strings.Contains(patch, "keep.log") {
		t.Errorf("the patch is\n%s", patch)
	}
	w.branch(t, "apply", "b")
	if got := w.read(t, "target/old"); got != "built before\n" {
		t.Errorf("target/old is %q", got)
	}
	// What was left out is in the branch as before.
	if got := w.shell(t, "b", "cat target/deep/o x.log; ls target"); got != "o\nl\ndeep\n" {
		t.Errorf("the branch shows %q", got)
	}
}

// TestKilledApply kills the daemon in the middle of large applies. The folder is then
// as it was, or as it should be, when the next daemon has started.
func TestKilledApply(t *testing.T) {
	w := newWorld(t)
	const files = 600
	w.shell(t, "seed", "mkdir many; for i in $(seq 600); do echo before $i > many/$i; done")
	w.branch(t, "apply", "seed")
	w.git(t, "add", "--all")
	w.git(t, "commit", "--quiet", "--message", "many")
	w.shell(t, "b", "for i in $(seq 300); do echo after $i > many/$i; done; mv many moved; echo x > new; rm dir/a")
	before, after := readTree(t, w.Dir), w.tree(t, "b")
	for round := range 3 {
		var out bytes.Buffer
		cmd := exec.Command(w.binary, "branch", "apply", "b")
		cmd.Dir, cmd.Env = w.Dir, append(os.Environ(), w.Env...)
		cmd.Stdout, cmd.Stderr = &out, &out
		must(t, cmd.Start())
		var killing sync.WaitGroup
		killing.Go(func() {
			// In the middle: once the stage is there, after some more of it each time.
			stage.Eventually(t, "the apply has begun", func() bool {
				stages, _ := filepath.Glob(w.path(".git/shadowlsp-apply-*/*"))
				return len(stages) > round*250 || cmd.ProcessState != nil
			})
			if err := w.Kill(); err != nil {
				t.Log(err)
			}
		})
		killing.Wait()
		_ = cmd.Wait() // killed, or done just before
		w.branch(t, "list")
		now := readTree(t, w.Dir)
		switch {
		case len(now.Differences(before)) == 0:
			t.Logf("round %d: taken back", round)
		case len(now.Differences(after)) == 0:
			t.Logf("round %d: completed", round)
		default:
			same(t, "half applied", now, before)
		}
		same(t, "the branch", w.tree(t, "b"), after)
		if len(now.Differences(before)) > 0 {
			break
		}
	}
	w.branch(t, "apply", "b")
	same(t, "at last", readTree(t, w.Dir), after)
	if len(before) < files {
		t.Errorf("%d files", len(before))
	}
}

// TestApplyJSON is what a program gets.
func TestApplyJSON(t *testing.T) {
	w := newWorld(t)
	w.shell(t, "b", "echo mine > text; mkfifo pipe")
	w.write(t, "text", "theirs\n")
	out, _, code := w.run(w.binary, "branch", "apply", "--json", "b")
	var a struct {
		Refused bool
		Applied struct {
			Skipped   []string
			Conflicts []struct {
				Path, Since       string
				Then, Now, Branch struct{ Mode, Text string }
			}
		}
	}
	must(t, json.Unmarshal([]byte(out), &a))
	if code != 2 || !a.Refused || len(a.Applied.Conflicts) != 1 || len(a.Applied.Skipped) != 1 {
		t.Fatalf("%d, %s", code, out)
	}
	if c := a.Applied.Conflicts[0]; c.Path != "text" || c.Since != "changed" || c.Then.Text != module["text"] || c.Now.Text != "theirs\n" || c.Branch.Text != "mine\n" || c.Now.Mode != "100644" {
		t.Errorf("%+v", c)
	}
	_, said, _ := w.run(w.binary, "branch", "apply", "b")
	for _, line := range []string{"+++ folder now", "+++ branch", "+theirs", "+mine", "-one"} {
		if !strings.Contains(said, line) {
			t.Errorf("%q is not in\n%s", line, said)
		}
	}
}
