package front

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// server is the person's real server. It is started and waited for by one
// goroutine that is tied to its thread.
type server struct {
	pid    int
	stdin  *os.File // its writing end
	stdout *os.File // its reading end
}

// startServer starts command as the editor itself would: same environment, same
// directory, same process group, same further descriptors, stderr as it is.
// The calling goroutine must be tied to its thread until the server has ended.
func startServer(command, env []string, stderr *os.File) (*server, error) {
	path, err := lookup(command[0], env)
	if err != nil {
		return nil, err
	}
	var in, out [2]int
	if err := syscall.Pipe2(in[:], syscall.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	if err := syscall.Pipe2(out[:], syscall.O_CLOEXEC); err != nil {
		closeAll(in[:])
		return nil, os.NewSyscallError("pipe", err)
	}
	// Not stderr.Fd, which may change how everyone's stderr waits.
	stderrFD := uintptr(2)
	if raw, err := stderr.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { stderrFD = fd })
	}
	attr := &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{uintptr(in[0]), uintptr(out[1]), stderrFD},
		// See the package doc: who kills the front kills the server.
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	pid, _, err := syscall.StartProcess(path, command, attr)
	if err == syscall.ENOEXEC {
		// A script without a first line that says whose: execvp, which editors
		// use, gives it to the shell.
		pid, _, err = syscall.StartProcess("/bin/sh", append([]string{"/bin/sh", path}, command[1:]...), attr)
	}
	closeAll([]int{in[0], out[1]})
	if err != nil {
		closeAll([]int{in[1], out[0]})
		return nil, err
	}
	// Only our own ends do not block: the waiting is Go's, so that a read can be
	// given up when the server has ended.
	_ = syscall.SetNonblock(in[1], true)
	_ = syscall.SetNonblock(out[0], true)
	return &server{
		pid:    pid,
		stdin:  os.NewFile(uintptr(in[1]), "the server's stdin"),
		stdout: os.NewFile(uintptr(out[0]), "the server's stdout"),
	}, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}

// wait returns when the server has ended; until reap its pid stays its own. It
// blocks its thread, on which the server's life depends.
func (s *server) wait() {
	for unix.Waitid(unix.P_PID, s.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// reap returns how the server ended.
func (s *server) reap() syscall.WaitStatus {
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(s.pid, &status, 0, nil); err != syscall.EINTR {
			return status
		}
	}
}

// lookup finds a command as execvp does: a name with a slash as it is, any other
// in PATH, the current directory included where PATH says so.
func lookup(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path, ok := "", false
	for _, v := range env {
		if value, found := strings.CutPrefix(v, "PATH="); found {
			path, ok = value, true
			break // execvp takes the first
		}
	}
	if !ok {
		path = "/bin:/usr/bin" // as glibc does
	}
	err := error(exec.ErrNotFound)
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		if !strings.Contains(candidate, "/") {
			candidate = "./" + candidate
		}
		info, e := os.Stat(candidate)
		switch {
		case e != nil:
		case info.Mode().IsRegular() && executable(candidate):
			return candidate, nil
		default: // there is something, but it cannot be run; go on looking
			err = fs.ErrPermission
		}
	}
	return "", err
}

func executable(path string) bool {
	const xOK = 1
	return syscall.Access(path, xOK) == nil
}

// startFailure returns the exit status and the reason for a command that could
// not be started, as shells have it: 127 if there is none, 126 if there is one.
func startFailure(err error) (code int, reason string) {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return 127, "it is not in PATH; install it, or name it by its path"
	case errors.Is(err, fs.ErrNotExist):
		return 127, "no such file (or its interpreter is missing)"
	case errors.Is(err, fs.ErrPermission):
		return 126, "it is not executable"
	}
	return 126, err.Error()
}
