package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The state and the parent stand behind the name, which is in parentheses and
	// may hold any.
	if f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); len(f) > 1 {
		ppid, err := strconv.Atoi(f[1])
		if err == nil {
			return ppid
		}
	}
	return 0
}
