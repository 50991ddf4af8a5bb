package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"go.uber.org/goleak"

	"shadowlsp/integration/client"
	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/internal/workspace"
	"shadowlsp/lsp/docuri"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Names by which a run as an ordinary user is told what only root's can make.
const (
	binaryVariable = "SHADOWLSP_TEST_BINARY"
	toolsVariable  = "SHADOWLSP_TEST_TOOLS"
)

// patience bounds everything that is waited for, on a machine that others keep
// busy.
const patience = 60 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// module is the person's folder.
var module = map[string]string{
	"go.mod":     "module example.test/m\n\ngo 1.24\n",
	"lib/lib.go": "// Package lib is called by use.\npackage lib\n\n// F returns what it is given.\nfunc F(a int) int { return a }\n",
	"use/use.go": "// Package use calls lib.\npackage use\n\nimport \"example.test/m/lib\"\n\n// V is of lib.\nvar V = lib.F(1)\n",
	"a.txt":      "the person's\n",
	"run.sh":     "#!/bin/sh\necho run: \"$@\"\n",
}

// world is a workspace with its own daemon.
type world struct {
	*stage.Stage
	top, binary, home, temp string
	before                  stage.Tree
}

func newWorld(t testing.TB) *world {
	t.Helper()
	need.FUSE(t)
	if os.Geteuid() != 0 {
		need.UserNS(t)
	}
	from := t.TempDir()
	for name, text := range module {
		name = filepath.Join(from, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	must(t, os.Chmod(filepath.Join(from, "run.sh"), 0o755))
	must(t, os.Symlink("a.txt", filepath.Join(from, "link")))
	tools := os.Getenv(toolsVariable)
	binary := os.Getenv(binaryVariable)
	if tools == "" {
		tools = filepath.Dir(need.Tool(t, "gopls"))
		binary = need.Shadowlsp(t)
	}
	s, err := stage.New(context.Background(), from)
	must(t, err)
	w := &world{Stage: s, top: filepath.Dir(s.Dir), binary: binary}
	w.home = filepath.Join(w.top, "home")
	must(t, os.Mkdir(w.home, 0o755))
	w.temp = filepath.Join(w.top, "temp")
	must(t, os.Mkdir(w.temp, 0o755))
	s.Env = append(s.Env, "PATH="+tools+":"+os.Getenv("PATH"), "HOME="+w.home, "TMPDIR="+w.temp, "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod")
	w.native(t, "git", "status", "--short")
	w.before, err = stage.Read(s.Dir)
	must(t, err)
	t.Cleanup(func() { w.lookOver(t) })
	return w
}

// lookOver ends a world and says what is not as it must be.
func (w *world) lookOver(t testing.TB) {
	after, err := stage.Read(w.Dir)
	must(t, err)
	for _, path := range w.before.Differences(after) {
		t.Errorf("the person's %s was %q and is %q", path, w.before[path], after[path])
	}
	if out, _ := w.native(t, "git", "status", "--short", "--ignored"); out != "" {
		t.Errorf("the person's folder is not clean:\n%s", out)
	}
	if mounts, err := w.Mounts(); err != nil || len(mounts) > 0 {
		t.Errorf("mounted on the person's folder: %q, %v", mounts, err)
	}
	logs, _ := filepath.Glob(filepath.Join(w.top, "state", "shadowlsp", "*", "daemon.log"))
	for _, name := range logs {
		log, _ := os.ReadFile(name)
		for _, never := range []string{"DATA RACE", "panic", "fatal error", `"level":"error"`} {
			if bytes.Contains(log, []byte(never)) {
				t.Errorf("the daemon's log holds %s:\n%s", never, log)
			}
		}
		if t.Failed() {
			t.Logf("the daemon's log ends:\n%s", log[max(len(log)-4000, 0):])
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	w.nothingLeft(t)
}

// nothingLeft waits until no process has anything to do with the stage.
func (w *world) nothingLeft(t testing.TB) {
	t.Helper()
	var left []string
	if !await(func() bool { left = traces(w.top); return len(left) == 0 }) {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

// await looks at a condition again and again: other processes tell of their
// changes in no common way.
func await(holds func() bool) bool {
	late, again := time.NewTimer(patience), time.NewTicker(5*time.Millisecond)
	defer late.Stop()
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-late.C:
			return false
		}
	}
	return true
}

// traces lists the processes that have to do with a folder, by their command
// line, environment or mounts.
func traces(folder string) (found []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, file := range []string{"cmdline", "environ", "mountinfo"} {
			text, _ := os.ReadFile(filepath.Join("/proc", e.Name(), file))
			if bytes.Contains(text, []byte(folder)) {
				found = append(found, fmt.Sprintf("%d %s", pid, file))
				break
			}
		}
	}
	return found
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

// ordinaryUID owns nothing.
const ordinaryUID = 48325

// The whole package again, as an ordinary user without any set-up.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user: every test of this package is that test")
	}
	need.FUSE(t)
	openDevice(t)
	home, err := os.MkdirTemp("/opt", "home-") // outside /tmp, which programs in branches have for themselves
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	must(t, os.Chown(home, ordinaryUID, ordinaryUID))
	bin, err := os.MkdirTemp("", "bin-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(bin) })
	must(t, os.Chmod(bin, 0o755))
	self, err := os.Executable()
	must(t, err)
	for name, from := range map[string]string{"shadowlsp": need.Shadowlsp(t), "gopls": need.Tool(t, "gopls"), "commands.test": self} {
		must(t, exec.Command("cp", from, filepath.Join(bin, name)).Run())
		must(t, os.Chmod(filepath.Join(bin, name), 0o755))
	}
	cmd := exec.Command(filepath.Join(bin, "commands.test"), "-test.v="+strconv.FormatBool(testing.Verbose()), "-test.timeout=5m", "-test.run="+os.Getenv("SHADOWLSP_TEST_RUN"))
	cmd.Dir = home
	cmd.Env = []string{
		"HOME=" + home, "TMPDIR=" + home, "GOPATH=" + filepath.Join(home, "go"), "GOTOOLCHAIN=local", "GOPROXY=off", "PATH=" + bin + ":" + os.Getenv("PATH"),
		binaryVariable + "=" + filepath.Join(bin, "shadowlsp"), toolsVariable + "=" + bin, "SHADOWLSP_CI=" + os.Getenv("SHADOWLSP_CI"),
		manyVariable + "=" + os.Getenv(manyVariable),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUID, Gid: ordinaryUID}}
	out, err := cmd.CombinedOutput()
	t.Logf("as uid %d:\n%s", ordinaryUID, out)
	must(t, err)
	if left := traces(home); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// openDevice lets ordinary users open /dev/fuse for the time of a test. Only one
// test process at a time does: the next would take 0666 for what was there.
func openDevice(t *testing.T) {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "shadowlsp-test-device.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	must(t, err)
	t.Cleanup(func() { lock.Close() })
	must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	var st unix.Stat_t
	must(t, unix.Stat("/dev/fuse", &st))
	if err := os.Chmod("/dev/fuse", 0o666); err != nil {
		t.Skip("cannot open /dev/fuse to ordinary users: ", err)
	}
	t.Cleanup(func() { os.Chmod("/dev/fuse", os.FileMode(st.Mode&0o777)) })
}

func mustTree(t testing.TB, w *world) stage.Tree {
	t.Helper()
	tree, err := stage.Read(w.Dir)
	must(t, err)
	return tree
}
