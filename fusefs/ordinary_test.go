package fusefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/integration/need"
)

// ordinaryUID is an id that owns nothing.
const ordinaryUID = 48322

// TestOrdinary runs the whole suite again as an ordinary user, in user
// namespaces.
func TestOrdinary(t *testing.T) {
	if ordinary() {
		t.Skip("this is the ordinary user")
	}
	if testing.Short() {
		t.Skip("short: as root only")
	}
	openDevice(t)
	dir, err := os.MkdirTemp("", "fusefs-ordinary-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777))
	gocache := filepath.Join(dir, "gocache")
	cmd := exec.Command("/proc/self/exe", "-test.v="+strconv.FormatBool(testing.Verbose()))
	cmd.Dir = dir
	cmd.Env = []string{"TMPDIR=" + dir, "HOME=" + dir, "GOCACHE=" + gocache, "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUID, Gid: ordinaryUID}}
	out, err := cmd.CombinedOutput()
	t.Logf("as uid %d:\n%s", ordinaryUID, out)
	must(t, err)
}

// openDevice lets ordinary users open /dev/fuse for the time of a test. Only
// one test process at a time does: the next would take 0666 for what was there.
func openDevice(t *testing.T) {
	need.Root(t)
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "shadowlsp-test-device.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	must(t, err)
	t.Cleanup(func() { lock.Close() })
	must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	var st unix.Stat_t
	if err := unix.Stat("/dev/fuse", &st); err != nil {
		t.Skip("no /dev/fuse: ", err)
	}
	if err := os.Chmod("/dev/fuse", 0o666); err != nil {
		t.Skip("cannot open /dev/fuse to ordinary users: ", err)
	}
	t.Cleanup(func() { os.Chmod("/dev/fuse", os.FileMode(st.Mode&0o777)) })
}
