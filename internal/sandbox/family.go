package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Commands are the command lines of the program and of the processes below it, as
// they are right now, outermost first, after that of the init that keeps them; below
// one only if through says so.
func (p *Process) Commands(through func(command []string) bool) (commands [][]string) {
	walk(p.Pid(), func(pid int) (below bool) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if line = bytes.TrimRight(line, "\x00"); err != nil || len(line) == 0 {
			return false // it has ended
		}
		command := strings.Split(string(line), "\x00")
		commands = append(commands, command)
		return len(commands) == 1 || through(command)
	})
	return commands
}

// walk visits a process, and its descendants as far as visit lets it go below.
func walk(pid int, visit func(pid int) (below bool)) {
	if !visit(pid) {
		return
	}
	// A process is the child of one of the threads.
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well formed
	for _, list := range lists {
		children, _ := os.ReadFile(list) // it may have ended
		for child := range strings.FieldsSeq(string(children)) {
			if pid, err := strconv.Atoi(child); err == nil {
				walk(pid, visit)
			}
		}
	}
}

// Family is a program's processes as they were when it was last looked at. Its
// methods are not for use by several goroutines at once.
type Family struct {
	init    int
	members []int // pidfds: a number might be another's by now
}

// Look brings the family up to date.
func (f *Family) Look(p *Process) {
	f.Close()
	f.init = p.Pid()
	known := map[int]bool{f.init: true}
	walk(f.init, func(pid int) (below bool) {
		if pid == f.init {
			return true
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return false // it has ended
		}
		// Whoever has that number now is a member only if it belongs here.
		if !known[parentOf(pid)] {
			unix.Close(fd)
			return false
		}
		known[pid] = true
		f.members = append(f.members, fd)
		return true
	})
}

// Stop stops the members; Continue lets them go on. What has ended is no matter,
// and the init, which collects the dead, is never stopped.
func (f *Family) Stop()     { f.signal(unix.SIGSTOP) }
func (f *Family) Continue() { f.signal(unix.SIGCONT) }

func (f *Family) signal(sig unix.Signal) {
	for _, fd := range f.members {
		unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// Close forgets the members. Who is stopped stays so.
func (f *Family) Close() {
	for _, fd := range f.members {
		unix.Close(fd)
	}
	f.members = nil
}

// parentOf is the process id of a process's parent, 0 where it is gone.
func parentOf(pid int) (parent int) {
	if f := statFields(fmt.Sprintf("/proc/%d/stat", pid)); len(f) > 1 {
		parent, _ = strconv.Atoi(f[1])
	}
	return parent
}
