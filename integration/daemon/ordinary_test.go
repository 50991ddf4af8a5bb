package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
)

// The core of it: two agents in turn, twenty lints, a change of the base, a
// kill -9, and what is kept; beside a person who sees none of it.
func TestCore(t *testing.T) {
	w := newWorld(t, module)
	person := w.person(t)
	agents := []connected{w.connect(t, "", "--branch", "a"), w.connect(t, "use", "--branch", "b")}
	for _, c := range agents {
		if err := c.initialize(t.Context(), attach{}); err != nil {
			t.Fatalf("%v: %s", err, c.stderr)
		}
	}
	for i := range 20 {
		c := agents[i%2]
		word := fmt.Sprintf("Core%d", i)
		if i < 2 {
			c.open(t, "lib/lib.go", libText(word), 1)
		} else {
			c.change(t, "lib/lib.go", i, whole(libText(word)))
		}
		c.names(t, []string{"use/use.go", "use/use.go", "lib/lib.go"}[i%3], map[bool][]string{true: nil, false: {word}}[i%3 == 2]...)
	}
	w.hover(t, person)
	w.unchanged(t, w.before)

	w.write(t, "own/own.go", ownText("savedByThePerson"))
	before, err := stage.Read(w.Dir)
	must(t, err)
	for _, c := range agents {
		c.names(t, "own/own.go", "savedByThePerson")
	}
	w.unchanged(t, before)
	must(t, os.WriteFile(w.path("own/own.go"), []byte(module["own/own.go"]), 0o644))
	agents[1].clean(t, "own/own.go")
	w.before = nil // it is as git has it, at another time

	all := family(t, w.Daemon())
	must(t, w.Kill())
	allGone(t, all)
	w.hover(t, person)
	if mounts, err := w.Mounts(); err != nil || len(mounts) > 0 {
		t.Errorf("mounted: %q, %v", mounts, err)
	}
	for i, name := range []string{"a", "b"} {
		c := w.connect(t, "", "--branch", name)
		if err := c.initialize(t.Context(), attach{}); err != nil {
			t.Fatalf("%v: %s", err, c.stderr)
		}
		c.names(t, "use/use.go", fmt.Sprintf("Core%d", 18+i))
	}
	eventually(t, "the front has joined the new daemon", func() bool { return len(w.fronts(t)) == 1 })
	w.hover(t, person)
}

// ordinaryUID owns nothing.
const ordinaryUID = 48323

// The same, and what else tells the two ways of mounting apart, as an ordinary
// user in a user namespace.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user: every test of this package is that test")
	}
	t.Parallel() // it takes turns with tests that wait
	need.FUSE(t)
	openDevice(t)
	home, err := os.MkdirTemp("", "home-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	must(t, os.Chown(home, ordinaryUID, ordinaryUID))
	must(t, os.Chmod(home, 0o700))
	// What root has, where the user can reach it.
	bin, err := os.MkdirTemp("", "bin-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(bin) })
	must(t, os.Chmod(bin, 0o755))
	for name, from := range map[string]string{"shadowlsp": binary(t), "gopls": tool(t, "gopls")} {
		must(t, exec.Command("cp", from, filepath.Join(bin, name)).Run())
		must(t, os.Chmod(filepath.Join(bin, name), 0o755))
	}
	self, err := os.Executable()
	must(t, err)
	test := filepath.Join(bin, "daemon.test")
	must(t, exec.Command("cp", self, test).Run())
	must(t, os.Chmod(test, 0o755))

	cmd := exec.Command(test, "-test.run=^(TestCore|TestKill9.*|TestTheServerDies|TestTheEditors.*|TestFilesComeAndGo)$", "-test.v="+strconv.FormatBool(testing.Verbose()), "-test.timeout=5m")
	cmd.Dir = home
	cmd.Env = []string{
		"HOME=" + home, "TMPDIR=" + home, "GOCACHE=" + filepath.Join(home, "gocache"), "GOPATH=" + filepath.Join(home, "go"), "GOTOOLCHAIN=local", "GOPROXY=off",
		"PATH=" + bin + ":" + os.Getenv("PATH"), binaryVariable + "=" + filepath.Join(bin, "shadowlsp"), toolsVariable + "=" + bin,
		"SHADOWLSP_CI=" + os.Getenv("SHADOWLSP_CI"),
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
