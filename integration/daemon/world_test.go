package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/internal/launch"
	"shadowlsp/internal/root"
	"shadowlsp/internal/workspace"
	"shadowlsp/lsp/docuri"
)

// module is the person's folder in most tests: an exported function, a package
// that calls it and is not opened by anyone, and a file of its own.
var module = map[string]string{
	"go.mod":     "module example.test/m\n\ngo 1.24\n",
	"lib/lib.go": libText("int"),
	"use/use.go": "// Package use calls lib.\npackage use\n\nimport \"example.test/m/lib\"\n\n// V is of lib.\nvar V = lib.F(1)\n",
	"own/own.go": "// Package own stands alone.\npackage own\n\n// N is a number.\nconst N = 1\n",
	".gitignore": "*.ignored\n",
}

// libText is lib/lib.go with a parameter type; any other than int is declared
// there and makes the call in use/use.go an error that names it.
func libText(parameter string) string {
	text := "// Package lib is called by use.\npackage lib\n\n// F returns what it is given.\nfunc F(a " + parameter + ") " + parameter + " { return a }\n"
	if parameter != "int" {
		text += "\n// " + parameter + " is no int.\ntype " + parameter + " struct{}\n"
	}
	return text
}

// ownText is own/own.go with one error that names undefined, or none for "".
func ownText(undefined string) string {
	text := module["own/own.go"]
	if undefined != "" {
		text += "\nvar _ = " + undefined + "\n"
	}
	return text
}

// world is a workspace with its own daemon, or without one yet.
type world struct {
	*stage.Stage
	top    string // all of it
	binary string
	place  root.Place
	// before is the folder as the test found it; nil where the test changes it.
	before stage.Tree
}

// newWorld makes a workspace of files, and looks it over at the end of t.
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	need.FUSE(t)
	if os.Geteuid() != 0 {
		need.UserNS(t)
	}
	from := t.TempDir()
	for name, text := range files {
		name = filepath.Join(from, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	gopls := tool(t, "gopls")
	s, err := stage.New(t.Context(), from)
	must(t, err)
	w := &world{Stage: s, top: filepath.Dir(s.Dir), binary: binary(t)}
	s.Env = append(s.Env, "PATH="+filepath.Dir(gopls)+":"+os.Getenv("PATH"))
	w.place, err = root.At(s.Dir, root.Dirs{Runtime: filepath.Join(w.top, "run"), State: filepath.Join(w.top, "state")})
	must(t, err)
	// What git keeps about the files' times is settled before the tree is taken.
	w.git(t, "status", "--short")
	w.before, err = stage.Read(s.Dir)
	must(t, err)
	t.Cleanup(func() { w.lookOver(t) })
	return w
}

// lookOver ends a world and says what is not as it must be.
func (w *world) lookOver(t *testing.T) {
	mounts, err := w.Mounts()
	if err != nil || len(mounts) > 0 {
		t.Errorf("mounted on the person's folder: %q, %v", mounts, err)
	}
	if w.before != nil {
		w.unchanged(t, w.before)
	}
	if dirty := w.git(t, "status", "--short", "--ignored"); dirty != "" {
		t.Errorf("the person's folder is not clean:\n%s", dirty)
	}
	daemon := w.Daemon()
	var all []process
	if daemon != 0 {
		all = family(t, daemon)
	}
	if daemon != 0 {
		if err := syscall.Kill(daemon, syscall.SIGCONT); err == nil {
			must(t, syscall.Kill(daemon, syscall.SIGTERM))
		}
		if !all[0].gone(stopTime) {
			t.Errorf("the daemon did not end within %v of SIGTERM", stopTime)
		}
	}
	w.readLog(t)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	allGone(t, all)
	if err := await(patience, func() bool { return len(traces(w.top)) == 0 }); err != nil {
		t.Errorf("left behind: %s", strings.Join(traces(w.top), "\n"))
	}
}

// stopTime is how long a daemon may take to end in good order.
const stopTime = 10 * time.Second

// readLog looks for what must never be in a daemon's log, and shows its end when
// the test has failed.
func (w *world) readLog(t *testing.T) {
	log, err := os.ReadFile(w.place.Log())
	if err != nil {
		return // no daemon was started in the background
	}
	for _, never := range []string{"DATA RACE", "panic", "fatal error", `"level":"error"`} {
		if _, after, found := strings.Cut(string(log), never); found {
			t.Errorf("the daemon's log holds %s%.3000s", never, after)
		}
	}
	if t.Failed() {
		const most = 6000
		t.Logf("the daemon's log ends:\n%s", log[max(len(log)-most, 0):])
	}
}

// unchanged says what in the person's folder is not as it was.
func (w *world) unchanged(t testing.TB, before stage.Tree) {
	t.Helper()
	after, err := stage.Read(w.Dir)
	must(t, err)
	for _, path := range before.Differences(after) {
		t.Errorf("the person's %s was %q and is %q", path, before[path], after[path])
	}
}

// git runs git as the person.
func (w *world) git(t testing.TB, args ...string) string {
	t.Helper()
	return w.output(t, "git", append([]string{"-c", "user.name=person", "-c", "user.email=person@example.test"}, args...)...)
}

// output runs a program in the workspace, which must succeed.
func (w *world) output(t testing.TB, program string, args ...string) string {
	t.Helper()
	cmd := w.command(program, args...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
	return string(out)
}

func (w *world) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = w.Dir, append(os.Environ(), w.Env...)
	return cmd
}

// serve starts the daemon.
func (w *world) serve(t testing.TB, flags ...string) {
	t.Helper()
	w.output(t, w.binary, append([]string{"serve", "--detach"}, flags...)...)
}

// shared makes a world with a daemon for several tests.
func shared(t *testing.T, flags ...string) *world {
	t.Helper()
	w := newWorld(t, module)
	w.serve(t, flags...)
	return w
}

// status asks the running daemon; ok is false where none runs.
func (w *world) status(t testing.TB) (s workspace.Status, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := launch.Join(ctx, w.place, launch.Status)
	if err != nil {
		return s, false
	}
	defer c.Close()
	if err := json.NewDecoder(c).Decode(&s); err != nil {
		return s, false
	}
	return s, true
}

// branch returns what the daemon says of a branch.
func (w *world) branch(t testing.TB, name string) (workspace.BranchStatus, bool) {
	t.Helper()
	s, _ := w.status(t)
	for _, b := range s.Branches {
		if b.Name == name {
			return b, true
		}
	}
	return workspace.BranchStatus{}, false
}

// dial opens a connection to the agent port's unix socket.
func (w *world) dial(t testing.TB) net.Conn {
	t.Helper()
	s, ok := w.status(t)
	if !ok {
		t.Fatal("no daemon runs")
	}
	c, err := net.Dial("unix", s.Agent.Unix)
	must(t, err)
	return c
}

func (w *world) path(name string) string { return filepath.Join(w.Dir, name) }
func (w *world) uri(name string) string  { return docuri.FromPath(w.path(name)) }

// write is the person saving a file.
func (w *world) write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.WriteFile(w.path(name), []byte(text), 0o644))
}
