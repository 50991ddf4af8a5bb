package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// process is one that the test did not start itself. Its descriptor makes sure
// that another one with the same number is not taken for it.
type process struct {
	pid  int
	fd   int
	name string
}

// observe takes hold of a process.
func observe(t testing.TB, pid int) process {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return process{pid, fd, commandLine(pid)}
}

// gone waits for the end of a process.
func (p process) gone(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		left := max(time.Until(deadline), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if n > 0 {
			return true
		}
		if err == nil || !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}

// family takes hold of a process and of all that descend from it.
func family(t testing.TB, pid int) []process {
	t.Helper()
	children := map[int][]int{}
	for _, p := range processes() {
		parent := parentOf(p)
		children[parent] = append(children[parent], p)
	}
	var all []process
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		fd, err := unix.PidfdOpen(next[0], 0)
		if err != nil {
			continue // ended meanwhile
		}
		t.Cleanup(func() { unix.Close(fd) })
		all = append(all, process{next[0], fd, commandLine(next[0])})
		next = append(next, children[next[0]]...)
	}
	return all
}

// allGone waits for the end of a family.
func allGone(t testing.TB, all []process) {
	t.Helper()
	for _, p := range all {
		if !p.gone(patience) {
			t.Errorf("process %d (%s) goes on", p.pid, p.name)
		}
	}
}

// processes lists all that this process can see.
func processes() (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// "pid (name) state parent …"; the name may hold anything.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

func commandLine(pid int) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.TrimSpace(strings.ReplaceAll(string(raw), "\x00", " "))
}

// traces lists the processes that have to do with a folder, by their command
// line, environment or mounts (of whatever namespace).
func traces(folder string) (found []string) {
	for _, pid := range processes() {
		if pid == os.Getpid() {
			continue
		}
		for _, file := range []string{"cmdline", "environ", "mountinfo"} {
			raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
			if err == nil && strings.Contains(string(raw), folder+"/") {
				found = append(found, fmt.Sprintf("%d (%s) by its %s", pid, commandLine(pid), file))
				break
			}
		}
	}
	return found
}

// servers are the gopls that are instances of a daemon. (A gopls may start
// another one for its own purposes.)
func servers(t testing.TB, daemon int) (found []process) {
	t.Helper()
	isGopls := func(pid int) bool {
		program, _, _ := strings.Cut(commandLine(pid), " ")
		return filepath.Base(program) == "gopls"
	}
	for _, p := range family(t, daemon) {
		if isGopls(p.pid) && !isGopls(parentOf(p.pid)) {
			found = append(found, p)
		}
	}
	return found
}

func (p process) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err != nil {
		t.Fatalf("signalling %d (%s): %v", p.pid, p.name, err)
	}
}
