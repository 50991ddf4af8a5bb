// Package stage answers: where do a person, their agents and a daemon of their
// own meet, away from everything else on this machine?
//
// Model: a [Stage] is a temporary folder with a workspace (a copy of a real
// module) and private runtime and state folders, so that the programs started
// with [Stage.Env] never meet a daemon that the stage did not start. [Tree] is
// the exact state of a folder, to be compared later, a [Process] one that the
// program did not start itself.
//
// Invariants: Close ends the stage's daemons and removes everything, wherever
// the program was; the module cache is only read. Tests wait for conditions,
// [Patience] long at most.
//
// Absent on purpose: what is played on the stage.
//
// Locks and goroutines: none.
package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stage is a workspace with its own daemon.
type Stage struct {
	// Dir is the workspace folder, a real path.
	Dir string
	// Env is to be added to the environment of every program on the stage.
	Env []string

	top, runtime string
}

// New sets up a stage whose workspace is a copy of the module in the folder
// from, committed to a git repository of its own.
func New(ctx context.Context, from string) (_ *Stage, err error) {
	// A short path: socket names are limited to about 100 bytes.
	top, err := os.MkdirTemp("", "stage-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(top)
		}
	}()
	if top, err = filepath.EvalSymlinks(top); err != nil {
		return nil, err
	}
	s := &Stage{top: top, Dir: filepath.Join(top, "project"), runtime: filepath.Join(top, "run")}
	state := filepath.Join(top, "state")
	for _, dir := range []string{s.runtime, state} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	s.Env = []string{"XDG_RUNTIME_DIR=" + s.runtime, "XDG_STATE_HOME=" + state, "GOWORK=off", "GOFLAGS="}
	if err := Copy(s.Dir, from); err != nil {
		return nil, fmt.Errorf("copying %s: %w", from, err)
	}
	commands := [][]string{
		{"git", "init", "--quiet"},
		{"git", "add", "--all"},
		{"git", "-c", "user.name=person", "-c", "user.email=person@example.test", "commit", "--quiet", "--message", "as it was"},
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "go.mod")); err == nil {
		// What the module needs goes into the cache now, so that no server
		// fetches it while something is measured.
		commands = append(commands, []string{"go", "mod", "download"})
	}
	for _, args := range commands {
		if err := s.run(ctx, args...); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// run runs a command in the workspace.
func (s *Stage) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = s.Dir, append(os.Environ(), s.Env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Copy copies a folder of files and folders, which become writable for their
// owner; from is a module in the cache, in which there is nothing else.
func Copy(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() == fs.ModeSymlink {
			return err
		}
		st, err := entry.Info()
		if err != nil {
			return err
		}
		return os.Chmod(name, st.Mode().Perm()|0o200)
	})
}

// Daemon returns the process that listens on the control socket of the stage's
// only root, 0 when there is none.
func (s *Stage) Daemon() int {
	sockets, _ := filepath.Glob(filepath.Join(s.runtime, "shadowlsp", "*", "control.sock"))
	for _, socket := range sockets {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			continue // left behind by a daemon that was killed
		}
		defer conn.Close()
		raw, err := conn.(*net.UnixConn).SyscallConn()
		if err != nil {
			continue
		}
		var peer *unix.Ucred
		raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
		if err == nil {
			return int(peer.Pid)
		}
	}
	return 0
}

// Mounts returns the mounts on or below the workspace that this process sees;
// there must never be any.
func (s *Stage) Mounts() ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && (fields[4] == s.Dir || strings.HasPrefix(fields[4], s.top+"/")) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found, nil
}

// stopTime is how long a daemon may take to end in good order.
const stopTime = 10 * time.Second

// Close ends the daemon and removes the stage.
func (s *Stage) Close() error {
	var failed error
	if pid := s.Daemon(); pid != 0 {
		syscall.Kill(pid, syscall.SIGCONT) // it may have been stopped
		syscall.Kill(pid, syscall.SIGTERM)
		if !gone(pid, stopTime) {
			failed = fmt.Errorf("the daemon (process %d) did not end on SIGTERM within %v", pid, stopTime)
			syscall.Kill(pid, syscall.SIGKILL)
			gone(pid, stopTime)
		}
	}
	return errors.Join(failed, os.RemoveAll(s.top))
}

// Kill kills the daemon as kill -9 does and returns when it has gone.
func (s *Stage) Kill() error {
	pid := s.Daemon()
	if pid == 0 {
		return errors.New("no daemon runs")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	if !gone(pid, stopTime) {
		return fmt.Errorf("the daemon (process %d) survived SIGKILL", pid)
	}
	return nil
}

// gone waits for the end of a process that is no child of ours.
func gone(pid int, limit time.Duration) bool {
	p, err := observe(pid)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer p.close()
	return p.Gone(limit)
}
