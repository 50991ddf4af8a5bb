package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one that the test did not start itself. Its descriptor makes sure
// that another one with the same number is not taken for it.
type Process struct {
	PID  int
	Line string // its command line
	fd   int
}

// Observe takes hold of a process, to the end of t.
func Observe(t testing.TB, pid int) Process {
	t.Helper()
	p, err := observe(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func observe(pid int) (Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return Process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return Process{pid, CommandLine(pid), fd}, nil
}

// Family takes hold of a process and of all that descend from it, itself first,
// to the end of t. Those that have ended meanwhile are left out.
func Family(t testing.TB, pid int) (all []Process) {
	t.Helper()
	for _, pid := range Descendants(pid) {
		if p, err := observe(pid); err == nil {
			t.Cleanup(p.close)
			all = append(all, p)
		}
	}
	return all
}

// Descendants lists a process and all that descend from it, itself first.
func Descendants(pid int) []int {
	children := map[int][]int{}
	for _, p := range Processes() {
		parent := Parent(p)
		children[parent] = append(children[parent], p)
	}
	all := []int{pid}
	for n := 0; n < len(all); n++ {
		all = append(all, children[all[n]]...)
	}
	return all
}

// AllGone waits for the end of a family.
func AllGone(t testing.TB, all []Process) {
	t.Helper()
	for _, p := range all {
		if !p.Gone(Patience) {
			t.Errorf("process %d (%s) goes on", p.PID, p.Line)
		}
	}
}

func (p Process) close() { unix.Close(p.fd) }

// Gone waits for the end of the process.
func (p Process) Gone(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		left := max(time.Until(deadline), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if n > 0 {
			return true
		}
		if !errors.Is(err, unix.EINTR) { // as Go's own signals do
			return false
		}
	}
}

// Signal sends a signal to the process.
func (p Process) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err != nil {
		t.Fatalf("signalling %d (%s): %v", p.PID, p.Line, err)
	}
}

// Processes lists all that this process can see.
func Processes() (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// Parent returns the parent of a process, 0 where it has ended.
func Parent(pid int) int {
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

// CommandLine returns the program and arguments of a process, "" where it has
// ended.
func CommandLine(pid int) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.TrimSpace(strings.ReplaceAll(string(raw), "\x00", " "))
}

// Traces lists the processes that have to do with a folder, by their command
// line, environment or mounts (of whatever namespace).
func Traces(folder string) (found []string) {
	named := regexp.MustCompile(regexp.QuoteMeta(folder) + `([/:\s\x00]|$)`)
	for _, pid := range Processes() {
		if pid == os.Getpid() {
			continue
		}
		for _, file := range []string{"cmdline", "environ", "mountinfo"} {
			raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
			if err == nil && named.Match(raw) {
				found = append(found, fmt.Sprintf("%d (%s) by its %s", pid, CommandLine(pid), file))
				break
			}
		}
	}
	return found
}
