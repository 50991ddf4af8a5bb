package fusefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
)

// posixDir in the environment makes TestPosixInside run go-fuse's own suite.
const posixDir = "FUSEFS_TEST_POSIX"

func init() {
	eyeDoes["posix"] = func(root string, args []string) (string, error) {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestPosixInside$", "-test.v")
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), posixDir+"="+root)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

func TestPosixInside(t *testing.T) {
	root := os.Getenv(posixDir)
	if root == "" {
		t.Skip("runs inside of TestPosix")
	}
	var names []string
	for name := range posixtest.All {
		// It asks for a conflict between two locks of one process, which no local
		// file system gives: it tests locks that are forwarded.
		if name != "FcntlFlockLocksFile" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(root, name)
			must(t, os.Mkdir(dir, 0o755))
			posixtest.All[name](t, dir)
		})
	}
}

func TestPosix(t *testing.T) {
	s := newStage(t, nil)
	out, err := s.eye.try("posix")
	t.Log(out)
	must(t, err)
}
