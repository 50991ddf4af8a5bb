package commands

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"shadowlsp/integration/client"
	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/internal/workspace"
	"shadowlsp/lsp/docuri"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds everything that is waited for.
const patience = stage.Patience

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// module is the person's folder.
var module = stage.Module(map[string]string{"a.txt": "the person's\n", "run.sh": "#!/bin/sh\necho run: \"$@\"\n"})

// world is a workspace with its own daemon.
type world struct {
	*stage.Stage
	top, binary, home, temp string
	before                  stage.Tree
}

func newWorld(t testing.TB) *world {
	t.Helper()
	need.View(t)
	tools := filepath.Dir(need.Tool(t, "gopls"))
	from := t.TempDir()
	must(t, stage.Plant(from, module))
	must(t, os.Symlink("a.txt", filepath.Join(from, "link")))
	s, err := stage.New(t.Context(), from)
	must(t, err)
	w := &world{Stage: s, top: filepath.Dir(s.Dir), binary: need.Shadowlsp(t)}
	w.home = filepath.Join(w.top, "home")
	must(t, os.Mkdir(w.home, 0o755))
	w.temp = filepath.Join(w.top, "temp")
	must(t, os.Mkdir(w.temp, 0o755))
	s.Env = append(s.Env, "PATH="+tools+":"+os.Getenv("PATH"), "HOME="+w.home, "TMPDIR="+w.temp, "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod")
	w.native(t, "git", "status", "--short")
	w.before = s.Tree(t)
	t.Cleanup(func() { w.lookOver(t) })
	return w
}

// lookOver ends a world and says what is not as it must be.
func (w *world) lookOver(t testing.TB) {
	w.Unchanged(t, w.before)
	if out, _ := w.native(t, "git", "status", "--short", "--ignored"); out != "" {
		t.Errorf("the person's folder is not clean:\n%s", out)
	}
	if mounts, err := w.Mounts(); err != nil || len(mounts) > 0 {
		t.Errorf("mounted on the person's folder: %q, %v", mounts, err)
	}
	w.ReadLogs(t)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	w.LeavesNothing(t)
}

func (w *world) path(name string) string { return filepath.Join(w.Dir, name) }
func (w *world) uri(name string) string  { return docuri.FromPath(w.path(name)) }

// native is a program in the person's folder, as the person runs it.
func (w *world) native(t testing.TB, argv ...string) (out string, code int) {
	t.Helper()
	return finish(t, w.command(argv...))
}

// exec runs `shadowlsp exec` with these flags, "--" and command.
func (w *world) exec(t testing.TB, args ...string) (out string, code int) {
	t.Helper()
	return finish(t, w.command(append([]string{w.binary, "exec"}, args...)...))
}

// in runs a shell script in a branch.
func (w *world) in(t testing.TB, branch, script string) (out string, code int) {
	t.Helper()
	return w.exec(t, "--branch", branch, "--", "sh", "-c", script)
}

func (w *world) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = w.Dir, slices.DeleteFunc(append(os.Environ(), w.Env...), func(pair string) bool {
		return strings.HasPrefix(pair, "GOCACHE=") // the home's
	})
	return cmd
}

// finish runs cmd and returns what it wrote to both streams, and its exit status
// as a shell has it.
func finish(t testing.TB, cmd *exec.Cmd) (string, int) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", cmd.Args, err)
	}
	code := cmd.ProcessState.ExitCode()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	return string(out), code
}

// status asks the daemon.
func (w *world) status(t testing.TB) (s workspace.Status) {
	t.Helper()
	out, err := w.command(w.binary, "status", "--json").Output()
	must(t, err)
	must(t, json.Unmarshal(out, &s))
	return s
}

// agent is a client on the agent port, with what commands of its write.
type agent struct {
	*client.Client
	w *world

	mu      sync.Mutex // guards the fields below
	out     map[string]*strings.Builder
	omitted int64
}

// agent connects by a command, on a branch.
func (w *world) agent(t testing.TB, command ...string) *agent {
	t.Helper()
	a := &agent{w: w, out: map[string]*strings.Builder{"stdout": {}, "stderr": {}}}
	cmd := w.command(command...)
	var err error
	a.Client, err = client.Start(client.Config{Command: command, Dir: w.Dir, Env: cmd.Env, Stderr: os.Stderr, Notify: a.notified})
	must(t, err)
	t.Cleanup(func() { a.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	capabilities := map[string]any{"textDocument": map[string]any{"diagnostic": map[string]any{}}}
	_, err = a.Initialize(ctx, w.uri(""), capabilities, nil)
	must(t, err)
	return a
}

func (a *agent) notified(method string, params json.RawMessage) {
	var p struct {
		Stream, Data string
		Base64       []byte
		Omitted      int64
	}
	if method != "shadowlsp/output" || json.Unmarshal(params, &p) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.omitted += p.Omitted
	a.out[p.Stream].WriteString(p.Data)
	a.out[p.Stream].Write(p.Base64)
}

// take returns what came on a stream, and forgets it.
func (a *agent) take(stream string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := a.out[stream].String()
	a.out[stream].Reset()
	return text
}

type ran struct {
	ExitCode  int
	Signal    string
	TimedOut  bool
	Truncated bool
	Omitted   int64
	Stdout    int64
}

// run asks for a command.
func (a *agent) run(ctx context.Context, params map[string]any) (r ran, err error) {
	raw, err := a.Call(ctx, "shadowlsp/run", params)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	return r, err
}

// lint returns the messages of a file's diagnostics, which must be final.
func (a *agent) lint(t testing.TB, name string) (messages []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	raw, err := a.Call(ctx, "shadowlsp/lint", map[string]any{"uris": []string{a.w.uri(name)}})
	must(t, err)
	var r struct {
		Items []struct {
			Verdict     string
			Diagnostics []struct{ Message string }
		}
	}
	must(t, json.Unmarshal(raw, &r))
	for _, item := range r.Items {
		if item.Verdict != "fresh" {
			t.Fatalf("lint of %s: %s", name, raw)
		}
		for _, d := range item.Diagnostics {
			messages = append(messages, d.Message)
		}
	}
	return messages
}

// The whole package again, as an ordinary user without any set-up.
func TestAsAnOrdinaryUser(t *testing.T) {
	home := need.Ordinary{
		UID: 48325, In: "/opt", // outside /tmp, which programs in branches have for themselves
		Programs: []string{"shadowlsp", "gopls"},
		Args:     []string{"-test.timeout=5m", "-test.run=" + os.Getenv("SHADOWLSP_TEST_RUN")},
		Env:      []string{manyVariable + "=" + os.Getenv(manyVariable)},
	}.Run(t)
	if left := stage.Traces(home); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
