// Package need answers: may this test run here, and where is what it needs?
//
// Model: a test says what it needs, one call per thing. Where the thing is
// there, the call returns it; where it is not, the test is skipped with the
// reason. With SHADOWLSP_CI set to something other than "" and "0", a skip is a
// failure unless the machine itself cannot do better: a tool that scripts/setup
// installs, or a device that only lacks a permission, must be there; a kernel
// without FUSE or without user namespaces is still a skip.
//
// Invariants: every ability is tried, not guessed from versions or user ids.
// Tools are looked for in .tools/bin of the repository first, so that the
// pinned ones are used, and then on PATH.
//
// Absent on purpose: installing anything (scripts/setup does), and t.Parallel
// or t.Setenv, which are the test's own choice.
//
// Locks and goroutines: none that outlive a call, but for [Device]'s lock, which
// is held to the end of the test. The binary under test is built at most once per
// test process, behind a sync.Once.
package need

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// CI says whether skips of what this machine could run are failures.
func CI() bool {
	v := os.Getenv("SHADOWLSP_CI")
	return v != "" && v != "0"
}

// Unmet ends the test: something is not there that it needs and that has no
// function of its own here. fixable says that a person could give this machine
// what is missing.
func Unmet(t testing.TB, fixable bool, format string, args ...any) {
	t.Helper()
	reason := fmt.Sprintf(format, args...)
	if fixable && CI() {
		t.Fatalf("needed here, and this is CI: %s", reason)
	}
	t.Skip(reason)
}

// Repo returns the top folder of the repository.
func Repo(t testing.TB) string {
	t.Helper()
	dir, err := repo()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// repo goes up from the working directory, which `go test` sets to the
// package's own folder.
func repo() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}

// FindTool returns the absolute path of a program: the pinned one in
// .tools/bin, else the one on PATH. It is for programs that are not tests;
// tests call [Tool].
func FindTool(name string) (string, error) {
	if dir, err := repo(); err == nil {
		pinned := filepath.Join(dir, ".tools", "bin", name)
		if st, err := os.Stat(pinned); err == nil && st.Mode()&0o111 != 0 {
			return pinned, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither in .tools/bin nor on PATH: scripts/setup %s installs it where it can", name, name)
	}
	return filepath.Abs(path)
}

// Tool returns the absolute path of a program that the test runs.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := FindTool(name)
	if err != nil {
		Unmet(t, true, "%v", err)
	}
	return path
}

// FindSource returns the folder of sources that scripts/setup fetched as name
// ("xtools"). It is read-only and shared: copy it before changing anything. It
// is for programs that are not tests; tests call [Source].
func FindSource(name string) (string, error) {
	dir, err := repo()
	if err == nil {
		dir, err = filepath.EvalSymlinks(filepath.Join(dir, ".tools", "src", name))
	}
	if err != nil {
		return "", fmt.Errorf("no sources of %s: scripts/setup %s fetches them", name, name)
	}
	return dir, nil
}

// Source returns the folder of sources that a test copies.
func Source(t testing.TB, name string) string {
	t.Helper()
	dir, err := FindSource(name)
	if err != nil {
		Unmet(t, true, "%v", err)
	}
	return dir
}

// FUSE skips unless this process can open /dev/fuse for a mount.
func FUSE(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR|syscall.O_CLOEXEC, 0)
	switch {
	case err == nil:
		f.Close()
	case errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EPERM):
		Unmet(t, true, "%v: chmod 0666 /dev/fuse lets ordinary users mount", err)
	default: // no module, no device node, or forbidden by a device cgroup
		Unmet(t, false, "no FUSE on this machine: %v", err)
	}
}

// UserNS skips unless this process can enter a user and mount namespace of its
// own, as the daemon's children do when it is not root.
func UserNS(t testing.TB) {
	t.Helper()
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		Unmet(t, false, "no user namespaces on this machine: %v", err)
	}
}

// View skips unless this process can have shadow folders, as the daemon makes
// them.
func View(t testing.TB) {
	t.Helper()
	FUSE(t)
	if os.Geteuid() != 0 {
		UserNS(t)
	}
}

// Mounts is the mount table as this process sees it, to be compared with that
// after all tests. Left out is what mode elsewhere mounts on the stages of tests
// that run beside these.
func Mounts() string {
	table, _ := os.ReadFile("/proc/self/mounts")
	var kept strings.Builder
	for line := range strings.Lines(string(table)) {
		if !strings.Contains(line, "/stage-") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// Root skips unless the test runs as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Unmet(t, false, "only root can do this")
	}
}

// Shadowlsp builds the program from this tree and returns its path,
// bin/shadowlsp. Several test processes may build at once: each puts its whole,
// equal file in place by a rename.
func Shadowlsp(t testing.TB) string {
	t.Helper()
	if Again() {
		return Tool(t, "shadowlsp") // from root's run, on PATH
	}
	path, err := build(Repo(t))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	buildOnce sync.Once
	built     string
	buildErr  error
)

func build(top string) (string, error) {
	buildOnce.Do(func() {
		bin := filepath.Join(top, "bin")
		if buildErr = os.MkdirAll(bin, 0o755); buildErr != nil {
			return
		}
		fresh := filepath.Join(bin, fmt.Sprintf(".shadowlsp.%d", os.Getpid()))
		defer os.Remove(fresh)
		cmd := exec.Command("go", "build", "-trimpath", "-o", fresh, "./cmd/shadowlsp")
		cmd.Dir = top
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			buildErr = fmt.Errorf("building cmd/shadowlsp: %w\n%s", err, out)
			return
		}
		built = filepath.Join(bin, "shadowlsp")
		buildErr = os.Rename(fresh, built)
	})
	return built, buildErr
}
