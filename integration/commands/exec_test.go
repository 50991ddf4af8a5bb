package commands

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shadowlsp/integration/stage"
)

// A command gives what it gives natively: streams, status, place, environment.
func TestAsIfRunDirectly(t *testing.T) {
	w := newWorld(t)
	for _, script := range []string{
		"cat a.txt link; pwd; ls -lA | tail -n +2 | awk '{print $1, $NF}'",
		"exit 7",
		"kill -TERM $$",
		"kill -KILL $$",
		"kill -SEGV $$",
		"echo out; echo err >&2; umask; echo $VARIABLE",
		"./run.sh a 'b c'",
		"cd lib && pwd && ls",
		"stat -c '%n %i %s %Y %a' a.txt lib/lib.go; readlink link",
		"git log --format=%s; GIT_OPTIONAL_LOCKS=0 git status --short",
		"no-such-program",
	} {
		run := func(argv ...string) (string, int) {
			cmd := w.command(argv...)
			cmd.Env = append(cmd.Env, "VARIABLE=a value")
			return finish(t, cmd)
		}
		want, wantCode := run("sh", "-c", script)
		got, code := run(w.binary, "exec", "--branch", "direct", "--", "sh", "-c", script)
		if got != want || code != wantCode {
			t.Errorf("%s\nin a branch: %q, %d\nnatively:    %q, %d", script, got, code, want, wantCode)
		}
	}
	if out, code := w.exec(t, "--", "no-such-program"); code != 127 || !strings.Contains(out, "no-such-program") {
		t.Errorf("what is not there: %q, %d", out, code)
	}
	if out, code := w.exec(t, "--", "./a.txt"); code != 126 {
		t.Errorf("what cannot be run: %q, %d", out, code)
	}
	cmd := w.command(w.binary, "exec", "--branch", "direct", "--", "pwd")
	cmd.Dir = w.path("lib")
	if out, _ := finish(t, cmd); out != w.path("lib")+"\n" {
		t.Errorf("the working directory is %q", out)
	}
}

// Binary streams of some size arrive as they are, through stdin and stdout.
func TestStreams(t *testing.T) {
	w := newWorld(t)
	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	cmd := w.command(w.binary, "exec", "--", "cat")
	cmd.Stdin = bytes.NewReader(data)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || !bytes.Equal(out, data) || errs.Len() > 0 {
		t.Errorf("%d bytes of %d, %v, stderr %q", len(out), len(data), err, errs.String())
	}
	// A file as stdout is the caller's own.
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer file.Close()
	cmd = w.command(w.binary, "exec", "--", "sh", "-c", "echo one; echo two")
	cmd.Stdout = file
	must(t, cmd.Run())
	if text, _ := os.ReadFile(file.Name()); string(text) != "one\ntwo\n" {
		t.Errorf("in the file: %q", text)
	}
	// A reader that goes away is one for the command, too.
	cmd = w.command("sh", "-c", `"$0" exec -- yes | head -n 1`, w.binary)
	if out, code := finish(t, cmd); out != "y\n" || code != 0 {
		t.Errorf("a closed pipe: %q, %d", out, code)
	}
}

// What commands write is the branch's: other branches and the person see none of
// it, later commands and forks do.
func TestBranches(t *testing.T) {
	w := newWorld(t)
	w.in(t, "one", "echo one >a.txt; mkdir new; echo x >new/file; rm run.sh")
	w.in(t, "two", "echo two >a.txt")
	for branch, want := range map[string]string{"one": "one\nx\n", "two": "two\ntwo\n"} {
		if out, _ := w.in(t, branch, "cat a.txt; cat new/file 2>/dev/null || cat a.txt"); out != want {
			t.Errorf("%s: %q and not %q", branch, out, want)
		}
	}
	if out, _ := w.exec(t, "--branch", "three", "--from", "one", "--", "cat", "a.txt"); out != "one\n" {
		t.Errorf("a fork: %q", out)
	}
	if out, code := w.exec(t, "--from", "none", "--", "true"); code != 125 || !strings.Contains(out, "none") {
		t.Errorf("a fork of nothing: %q, %d", out, code)
	}
	// A fresh one goes with its command, unless it is kept.
	w.exec(t, "--", "touch", "x")
	if out, _ := w.exec(t, "--keep", "--", "sh", "-c", "echo $SHADOWLSP_BRANCH; touch kept"); out == "" {
		t.Error("the branch has no name")
	} else if got, _ := w.in(t, strings.TrimSpace(out), "ls kept"); got != "kept\n" {
		t.Errorf("the kept branch: %q", got)
	}
	if n := len(w.status(t).Branches); n != 4 {
		t.Errorf("%d branches", n)
	}
	// The person's change is seen at once.
	must(t, os.WriteFile(w.path("b.txt"), []byte("just now"), 0o644))
	if out, _ := w.in(t, "one", "cat b.txt"); out != "just now" {
		t.Errorf("the person's new file: %q", out)
	}
	must(t, os.Remove(w.path("b.txt")))
	w.before = nil // the directory has another time
	w.before = w.Tree(t)
}

// A time-out, and signals to the caller.
func TestEnding(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	if out, code := w.exec(t, "--timeout", "300ms", "--", "sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000; sleep 1000"); code != 124 {
		t.Errorf("time-out: %q, %d", out, code)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a time-out of 0.3 s took %v", took)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1} {
		cmd := w.command(w.binary, "exec", "--branch", "end", "--", "sh", "-c", "trap 'echo got; exit 9' TERM INT USR1; echo ready; while :; do sleep 0.01; done")
		out := start(t, cmd)
		out.until(t, "ready\n")
		must(t, cmd.Process.Signal(sig))
		out.until(t, "got\n")
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 9 {
			t.Errorf("%v: exit status %d", sig, code)
		}
	}
	// The caller is killed: so is all that it started.
	cmd := w.command(w.binary, "exec", "--branch", "end", "--", "sh", "-c", "(setsid sleep 987654 &); sleep 987654 & echo ready; wait")
	out := start(t, cmd)
	out.until(t, "ready\n")
	must(t, cmd.Process.Kill())
	cmd.Wait()
	gone := func() bool { return !running("sleep\x00987654") }
	if err := stage.Await(gone); err != nil {
		t.Error("what the command started goes on")
	}
	// Nothing survives the command's own end.
	w.in(t, "end", "(setsid sleep 987654 >/dev/null 2>&1 &); sleep 987654 >/dev/null 2>&1 & exit 0")
	if !gone() {
		t.Error("a daemon survived its command")
	}
}

// kill -9 of the daemon ends all commands, and the caller says so.
func TestTheDaemonDies(t *testing.T) {
	w := newWorld(t)
	cmd := w.command(w.binary, "exec", "--branch", "a", "--", "sh", "-c", "echo kept >new; (setsid sleep 987655 &); echo ready; sleep 987655")
	out := start(t, cmd)
	out.until(t, "ready\n")
	must(t, w.Kill())
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 125 {
		t.Errorf("exit status %d", code)
	}
	if err := stage.Await(func() bool { return !running("sleep\x00987655") }); err != nil {
		t.Error("what the command started goes on")
	}
	w.LeavesNothing(t)
	if out, _ := w.in(t, "a", "cat new"); out != "kept\n" {
		t.Errorf("what it wrote: %q", out)
	}
}

// running says whether a process has this in its command line.
func running(words string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), words) {
			return true
		}
	}
	return false
}

// output is what a started program writes.
type output struct {
	from *os.File
	text []byte
}

// start starts cmd, whose stdout is read by the test.
func start(t testing.TB, cmd *exec.Cmd) *output {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	must(t, cmd.Start())
	w.Close()
	t.Cleanup(func() { r.Close() })
	return &output{from: r}
}

// until reads until a text has come.
func (o *output) until(t testing.TB, text string) {
	t.Helper()
	must(t, o.from.SetReadDeadline(time.Now().Add(patience)))
	buf := make([]byte, 4096)
	for !strings.Contains(string(o.text), text) {
		n, err := o.from.Read(buf)
		o.text = append(o.text, buf[:n]...)
		if err != nil {
			t.Fatalf("no %q in %q: %v", text, o.text, err)
		}
	}
}
