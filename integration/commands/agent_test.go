package commands

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"shadowlsp/integration/stage"
	"shadowlsp/lsp/wire"
)

// An agent's commands: output streamed, status, input, limits, cancelling.
func TestRun(t *testing.T) {
	w := newWorld(t)
	a := w.agent(t, w.binary, "connect", "--branch", "run")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, c := range []struct {
		params   map[string]any
		code     int
		out, err string
	}{
		{map[string]any{"command": "cat a.txt; echo oh >&2; exit 4"}, 4, "the person's\n", "oh\n"},
		{map[string]any{"argv": []string{"pwd"}, "cwd": w.uri("lib")}, 0, w.path("lib") + "\n", ""},
		{map[string]any{"argv": []string{"pwd"}, "cwd": "use"}, 0, w.path("use") + "\n", ""},
		{map[string]any{"command": "tr a-z A-Z; echo $X", "stdin": "some text ", "env": map[string]string{"X": "y"}}, 0, "SOME TEXT y\n", ""},
		{map[string]any{"command": `printf 'a\377b'`}, 0, "a\xffb", ""},
		{map[string]any{"command": "kill -9 $$"}, 128 + 9, "", ""},
	} {
		r, err := a.run(ctx, c.params)
		if out, errs := a.take("stdout"), a.take("stderr"); err != nil || r.ExitCode != c.code || out != c.out || errs != c.err {
			t.Errorf("%v: %+v, %v, stdout %q, stderr %q", c.params, r, err, out, errs)
		}
	}
	r, err := a.run(ctx, map[string]any{"command": "echo first; seq 1 1000000; echo last", "maxOutput": 4000})
	out := a.take("stdout")
	if err != nil || !r.Truncated || r.Omitted+int64(len(out)) != r.Stdout || r.Omitted != a.omitted || !strings.HasPrefix(out, "first\n") || !strings.HasSuffix(out, "last\n") {
		t.Errorf("much output: %+v, %v, %d bytes came", r, err, len(out))
	}
	if r, err := a.run(ctx, map[string]any{"command": "sleep 1000", "timeout": 0.2}); err != nil || !r.TimedOut {
		t.Errorf("time-out: %+v, %v", r, err)
	}
	for _, wrong := range []map[string]any{
		{}, {"argv": []string{"true"}, "command": "true"}, {"argv": []string{"no-such-program"}}, {"command": "true", "net": "some"},
		{"command": "true", "timeout": -1}, {"command": "true", "maxOutput": 1 << 30}, {"command": "true", "cwd": "none"}, {"comand": "true"},
	} {
		var refused *wire.Error
		if _, err := a.run(ctx, wrong); !errors.As(err, &refused) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// Cancelling a request, and the end of its connection, end the command with all
// that it started.
func TestRunIsCancelled(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, how := range []string{"cancel", "leave", "kill"} {
		a := w.agent(t, w.binary, "connect", "--branch", "cancelled")
		done := make(chan error, 1)
		go func() {
			_, err := a.run(ctx, map[string]any{"command": "(setsid sleep 987656 &); sleep 987656"})
			done <- err
		}()
		if err := stage.Await(func() bool { return running("sleep\x00987656") }); err != nil {
			t.Fatal("the command does not run")
		}
		switch how {
		case "cancel":
			// The requests of this client are numbered; initialize was the first.
			must(t, a.Notify("$/cancelRequest", map[string]any{"id": 2}))
			var refused *wire.Error
			if err := <-done; !errors.As(err, &refused) || refused.Code != wire.CodeRequestCancelled {
				t.Errorf("cancelled: %v", err)
			}
		case "leave":
			must(t, a.Notify("exit", nil))
			go a.Close() // waits for the process
			<-done
		case "kill":
			p, err := os.FindProcess(a.Pid())
			must(t, err)
			must(t, p.Kill())
			<-done
		}
		if err := stage.Await(func() bool { return !running("sleep\x00987656") }); err != nil {
			t.Errorf("%s: the command goes on", how)
		}
	}
}

// What a command writes, the next lint sees; what an agent edits, the next
// command sees.
func TestLintsAndCommandsAgree(t *testing.T) {
	w := newWorld(t)
	a := w.agent(t, w.binary, "connect", "--branch", "both", "--", "gopls")
	if got := a.lint(t, "use/use.go"); len(got) != 0 {
		t.Fatalf("before: %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 3 {
		if out, code := w.in(t, "both", "sed -i 's/a int) int/a string) string/' lib/lib.go && go vet ./... 2>&1 | grep -c 'cannot use'"); out != "1\n" || code != 0 {
			t.Errorf("go vet after a command's edit: %q, %d", out, code)
		}
		if got := a.lint(t, "use/use.go"); len(got) != 1 || !strings.Contains(got[0], "string") {
			t.Errorf("a lint after a command's edit: %q", got)
		}
		_, err := a.Call(ctx, "shadowlsp/write", map[string]any{"edits": []any{map[string]any{"uri": w.uri("lib/lib.go"), "text": module["lib/lib.go"]}}})
		must(t, err)
		if r, err := a.run(ctx, map[string]any{"argv": []string{"go", "vet", "./..."}}); err != nil || r.ExitCode != 0 {
			t.Errorf("go vet after an agent's edit: %+v, %v: %s", r, err, a.take("stderr"))
		}
		if got := a.lint(t, "use/use.go"); len(got) != 0 {
			t.Errorf("a lint after an agent's edit: %q", got)
		}
	}
	// What was written through a mapping is there when the command has ended.
	must(t, finishOK(t, w, "both", `python3 -c "
import mmap
f = open('mapped.txt', 'w+b'); f.truncate(8192); m = mmap.mmap(f.fileno(), 8192)
m[:8192] = b'mapped! ' * 1024
"`))
	raw, err := a.Call(ctx, "shadowlsp/read", map[string]any{"uri": w.uri("mapped.txt")})
	if err != nil || strings.Count(string(raw), "mapped! ") != 1024 {
		t.Errorf("what was mapped: %.200s, %v", raw, err)
	}
	must(t, finishOK(t, w, "both", "go build -o bin ./use 2>&1; printf 'package lib\\n\\nvar _ = nothing\\n' >lib/more.go"))
	if got := a.lint(t, "lib/more.go"); len(got) != 1 || !strings.Contains(got[0], "nothing") {
		t.Errorf("a lint of a command's new file: %q", got)
	}
}

func finishOK(t *testing.T, w *world, branch, script string) error {
	t.Helper()
	if out, code := w.in(t, branch, script); code != 0 {
		return errors.New(out)
	}
	return nil
}

// An agent that runs in a branch reaches its own branch by `shadowlsp connect`,
// and no other; what it writes shows in its lints.
func TestAgentInside(t *testing.T) {
	w := newWorld(t)
	inside := w.agent(t, w.binary, "exec", "--branch", "inside", "--", w.binary, "connect")
	outside := w.agent(t, w.binary, "connect", "--branch", "other", "--", "gopls")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := inside.run(ctx, map[string]any{"command": "echo $SHADOWLSP_BRANCH; printf 'package lib\\n\\nvar _ = nothing\\n' >lib/more.go"})
	if out := inside.take("stdout"); err != nil || r.ExitCode != 0 || out != "inside\n" {
		t.Errorf("its branch: %q, %+v, %v", out, r, err)
	}
	if got := inside.lint(t, "lib/more.go"); len(got) != 1 || !strings.Contains(got[0], "nothing") {
		t.Errorf("its lint: %q", got)
	}
	if got := outside.lint(t, "lib/lib.go"); len(got) != 0 {
		t.Errorf("another's lint: %q", got)
	}
	for _, args := range []string{"connect --branch other", "exec --branch other -- true", "status", "stop", "serve --detach"} {
		script := `printf 'Content-Length: 75\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}\n' | ` + w.binary + " " + args
		out, code := w.in(t, "inside", script)
		if code == 0 && !strings.Contains(out, `"error"`) {
			t.Errorf("inside, shadowlsp %s: %q, %d", args, out, code)
		}
	}
	// A command inside is in the branch already.
	if out, code := w.in(t, "inside", w.binary+" exec -- sh -c 'ls lib; exit 5'"); out != "lib.go\nmore.go\n" || code != 5 {
		t.Errorf("exec inside: %q, %d", out, code)
	}
	// A fresh branch goes with its agent.
	before := len(w.status(t).Branches)
	fresh := w.agent(t, w.binary, "exec", "--", w.binary, "connect")
	if r, err := fresh.run(ctx, map[string]any{"command": "echo x >x"}); err != nil || r.ExitCode != 0 {
		t.Errorf("in a fresh branch: %+v, %v", r, err)
	}
	if n := len(w.status(t).Branches); n != before+1 {
		t.Errorf("%d branches, before %d", n, before)
	}
	must(t, syscall.Kill(fresh.Pid(), syscall.SIGKILL))
	if err := stage.Await(func() bool { return len(w.status(t).Branches) == before }); err != nil {
		t.Error("the fresh branch has stayed")
	}
	began := time.Now()
	w.in(t, "inside", "true")
	t.Logf("a command in a warm branch took %v", time.Since(began))
}
