package need

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Device gives /dev/fuse a mode for the time of a test, which only root can.
// Only one test process at a time has it: the next would take the mode for what
// was there.
func Device(t testing.TB, mode os.FileMode) {
	t.Helper()
	Root(t)
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "shadowlsp-test-device.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	for {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
		if err == nil {
			break
		}
		if err != syscall.EINTR { // Go's own signals interrupt it
			t.Fatal(err)
		}
	}
	st, err := os.Stat("/dev/fuse")
	if err != nil {
		Unmet(t, false, "no FUSE on this machine: %v", err)
	}
	if err := os.Chmod("/dev/fuse", mode); err != nil {
		Unmet(t, true, "the mode of /dev/fuse cannot be changed: %v", err)
	}
	t.Cleanup(func() { os.Chmod("/dev/fuse", st.Mode().Perm()) })
}

// againVariable tells a run as an ordinary user that it is one.
const againVariable = "SHADOWLSP_TEST_AGAIN"

// Again says whether this test process is [Ordinary.Run]'s, and has of root's
// programs only those that were named.
func Again() bool { return os.Getenv(againVariable) != "" }

// Ordinary is a run of this test program again, by a user who owns nothing but
// his home.
type Ordinary struct {
	// UID is the user; one for each package, because some of the kernel's limits
	// are per user.
	UID int
	// In is the directory for the home; "" is that for temporary files.
	In string
	// Programs are found by [Tool] (shadowlsp by [Shadowlsp]) and copied to where
	// the user can reach them.
	Programs []string
	Args     []string // flags of the test program
	Env      []string // in addition
}

// Run returns the home when all is done; it is removed at the end of t. The test
// fails with the run. There is nothing to do for who is no root: then the first
// run is it.
func (o Ordinary) Run(t testing.TB) (home string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user: every test of this package is that test")
	}
	FUSE(t)
	Device(t, 0o666)
	folder := func(in, name string) string {
		dir, err := os.MkdirTemp(in, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	home, bin := folder(o.In, "home-"), folder("", "bin-")
	if err := os.Chown(home, o.UID, o.UID); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range o.Programs {
		from := ""
		if name == "shadowlsp" {
			from = Shadowlsp(t)
		} else {
			from = Tool(t, name)
		}
		if err := copyProgram(filepath.Join(bin, name), from); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/proc/self/exe", append([]string{"-test.v=" + strconv.FormatBool(testing.Verbose())}, o.Args...)...)
	cmd.Dir = home
	cmd.Env = append([]string{
		"HOME=" + home, "TMPDIR=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "GOTOOLCHAIN=local", "GOPROXY=off",
		"SHADOWLSP_CI=" + os.Getenv("SHADOWLSP_CI"), againVariable + "=1",
	}, o.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.UID)}}
	out, err := cmd.CombinedOutput()
	t.Logf("as uid %d:\n%s", o.UID, out)
	if err != nil {
		t.Fatal(err)
	}
	return home
}

func copyProgram(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
