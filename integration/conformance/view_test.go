package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"shadowlsp/fusefs"
	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/internal/sandbox"
	"shadowlsp/overlay"
)

// fullVariable asks for all there is.
const fullVariable = "SHADOWLSP_CONFORMANCE"

// inside are the parts that this binary plays in a view or natively: the first
// argument names one. Each prints what it found.
var inside = map[string]func(args []string) error{}

const insidePrefix = "conformance-inside-"

func TestMain(m *testing.M) {
	sandbox.Enter()
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], insidePrefix) {
		if err := inside[strings.TrimPrefix(os.Args[1], insidePrefix)](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// self is this binary in one of its parts, as a shell command.
func self(t testing.TB, part string, args ...string) string {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	quoted := []string{quote(exe), quote(insidePrefix + part)}
	for _, a := range args {
		quoted = append(quoted, quote(a))
	}
	return strings.Join(quoted, " ")
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// full skips a test that takes too long for every day.
func full(t testing.TB) {
	t.Helper()
	if os.Getenv(fullVariable) != "full" {
		t.Skip("long: make conformance runs it")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// view is a folder, and a shadow folder over it.
type view struct {
	t      testing.TB
	root   string // the person's folder
	store  *overlay.Store
	base   *fusefs.Base
	branch *overlay.Branch
	shown  *fusefs.View
	proc   *sandbox.Process
	before stage.Tree // the person's folder; nil where the test changes it
}

// overRoot shows a branch of the folder at root. Commands run in the view by
// entering its namespace, which only root may.
func overRoot(t testing.TB, root string) *view {
	t.Helper()
	need.FUSE(t)
	need.Root(t)
	need.Tool(t, "nsenter")
	root, err := filepath.EvalSymlinks(root)
	must(t, err)
	v := &view{t: t, root: root}
	v.before, err = stage.Read(root)
	must(t, err)
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	v.store, _, err = overlay.Open(overlay.Options{Base: root, State: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { v.store.Close() })
	v.base, err = fusefs.NewBase(root, log)
	must(t, err)
	t.Cleanup(func() { v.base.Close() })
	v.branch = v.create("main")
	v.proc, err = sandbox.Start(t.Context(), sandbox.Spec{
		Argv: []string{"sleep", "86400"}, Env: os.Environ(), Dir: root, Mount: root,
	})
	must(t, err)
	v.shown, err = fusefs.Serve(v.proc.Fuse, fusefs.Config{Branch: v.branch, Base: v.base, Log: log})
	if err != nil {
		v.proc.Kill()
		v.proc.Wait()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		v.proc.Kill()
		v.proc.Wait()
		if err := v.shown.Close(); err != nil {
			t.Error(err)
		}
		if v.before == nil {
			return
		}
		after, err := stage.Read(root)
		if err != nil {
			t.Error(err)
		}
		if d := v.before.Differences(after); len(d) > 0 {
			t.Errorf("the person's folder has changed:\n%.3000s", strings.Join(d, "\n"))
		}
	})
	must(t, v.proc.Exec())
	v.shown.SetPoker(fusefs.Poker{Thread: v.proc.Poker, Wake: v.proc.Poke})
	return v
}

// over is overRoot for a new folder with files.
func over(t testing.TB, files map[string]string) *view {
	t.Helper()
	root := t.TempDir()
	plant(t, root, files)
	return overRoot(t, root)
}

// planted is the mtime of files that a test begins with.
var planted = time.Now().Add(-time.Hour).Truncate(time.Second)

func plant(t testing.TB, root string, files map[string]string) {
	t.Helper()
	must(t, stage.Plant(root, files))
	for name := range files {
		// Not of just now: go test caches nothing that is younger than two
		// seconds, and make would warn of times in the future, because an edit of
		// a file shows another second than the file.
		must(t, os.Chtimes(filepath.Join(root, name), planted, planted))
	}
}

// origin is who changes a branch beside the view.
func (v *view) origin() overlay.Origin { return overlay.Origin{} }

func (v *view) create(name string) *overlay.Branch {
	v.t.Helper()
	b, err := v.store.Create(name, overlay.CreateOptions{})
	must(v.t, err)
	return b
}

func (v *view) agent(b *overlay.Branch, path, text string) {
	v.t.Helper()
	must(v.t, b.WriteFile(path, []byte(text), 0))
}

func (v *view) settle() {
	v.t.Helper()
	must(v.t, v.shown.Settled(v.t.Context()))
}

func (v *view) sync() {
	v.t.Helper()
	must(v.t, v.base.Sync(v.t.Context()))
}

func (v *view) switchTo(b *overlay.Branch) {
	v.t.Helper()
	_, err := v.shown.Switch(b)
	must(v.t, err)
}

// command is a script that will run in the view, in its root.
func (v *view) command(script string) *exec.Cmd {
	cmd := exec.CommandContext(v.t.Context(), "nsenter", "-t", strconv.Itoa(v.proc.Pid()), "-m", "-p",
		"/bin/sh", "-euc", "cd "+quote(v.root)+"\n"+script)
	cmd.Dir, cmd.Env = "/", environment()
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// environment is that of all commands: ours, without what changes how tools
// write.
func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "PYTHONDONTWRITEBYTECODE=") || strings.HasPrefix(kv, "GOFLAGS=")
	})
	return append(env, "GOFLAGS=", "GOTOOLCHAIN=local", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1")
}

// try runs a script in the view.
func (v *view) try(script string) (string, error) {
	out, err := v.command(script).CombinedOutput()
	return string(out), err
}

// sh is try that must succeed.
func (v *view) sh(script string) string {
	v.t.Helper()
	out, err := v.try(script)
	if err != nil {
		v.t.Fatalf("in the view: %s\n%s%v", script, out, err)
	}
	return out
}

// native runs a script in a folder on the disk.
func native(t testing.TB, dir, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-euc", script)
	cmd.Dir, cmd.Env = dir, environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("natively: %s\n%s%v", script, out, err)
	}
	return string(out)
}
