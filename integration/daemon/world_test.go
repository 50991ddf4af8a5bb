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

// module is the person's folder in most tests, with a package that is alone.
var module = stage.Module(map[string]string{
	"own/own.go": "// Package own stands alone.\npackage own\n\n// N is a number.\nconst N = 1\n",
	".gitignore": "*.ignored\n",
})

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
	need.View(t)
	gopls := need.Tool(t, "gopls")
	s := stage.Set(t, files)
	w := &world{Stage: s, top: filepath.Dir(s.Dir), binary: need.Shadowlsp(t)}
	s.Env = append(s.Env, "PATH="+filepath.Dir(gopls)+":"+os.Getenv("PATH"))
	var err error
	w.place, err = root.At(s.Dir, root.Dirs{Runtime: filepath.Join(w.top, "run"), State: filepath.Join(w.top, "state")})
	must(t, err)
	// What git keeps about the files' times is settled before the tree is taken.
	w.git(t, "status", "--short")
	w.before = s.Tree(t)
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
		w.Unchanged(t, w.before)
	}
	if dirty := w.git(t, "status", "--short", "--ignored"); dirty != "" {
		t.Errorf("the person's folder is not clean:\n%s", dirty)
	}
	daemon := w.Daemon()
	var all []stage.Process
	if daemon != 0 {
		all = stage.Family(t, daemon)
	}
	if daemon != 0 {
		if err := syscall.Kill(daemon, syscall.SIGCONT); err == nil {
			must(t, syscall.Kill(daemon, syscall.SIGTERM))
		}
		if !all[0].Gone(stopTime) {
			t.Errorf("the daemon did not end within %v of SIGTERM", stopTime)
		}
	}
	w.ReadLogs(t)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	stage.AllGone(t, all)
	w.LeavesNothing(t)
}

// stopTime is how long a daemon may take to end in good order.
const stopTime = 10 * time.Second

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
