package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Priority makes room for the person. The zero value changes nothing.
type Priority struct {
	// Nice is added to the niceness, 0 to 19.
	Nice int
	// IdleCPU runs the program only when nothing else wants the processor.
	IdleCPU bool
	// IdleIO does its disk access only when nothing else wants the disk.
	IdleIO bool
	// OOMScoreAdj is added to the badness that the kernel's out-of-memory
	// killer sees, 0 to 1000.
	OOMScoreAdj int
}

// Background is the priority of instances and commands while a person is at
// work: they starve and die first.
var Background = Priority{Nice: 19, IdleCPU: true, IdleIO: true, OOMScoreAdj: 500}

// prioritise lowers the priority of the calling thread and of what it forks. A
// priority that cannot be had is no reason not to run.
func prioritise(p Priority) {
	if p.OOMScoreAdj != 0 {
		writeRaised("/proc/self/oom_score_adj", p.OOMScoreAdj, 1000)
	}
	if p.Nice != 0 {
		// A session of its own is a scheduling group of its own where the
		// kernel groups automatically, and niceness then counts within the
		// group only: the group needs it as well. The kernel counts it from
		// zero.
		os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(min(p.Nice, 19))), 0)
		unix.Setpriority(unix.PRIO_PROCESS, 0, p.nice())
	}
	if p.IdleCPU {
		unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: 19}, 0)
	}
	if p.IdleIO {
		setIdleIO(0, true)
	}
}

// nice is the niceness, of this process and p's.
func (p Priority) nice() int {
	old, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		old = 20
	}
	// The raw call answers 20-nice, so that no answer looks like an error.
	return min(20-old+p.Nice, 19)
}

// writeRaised adds to the number in a file, up to a limit.
func writeRaised(path string, add, limit int) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	old, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return
	}
	os.WriteFile(path, []byte(strconv.Itoa(min(old+add, limit))), 0)
}

// Reprioritise gives a program that runs, and everything below it, another
// priority: Background, or the zero value for that of any program. Lowering is
// always allowed; raising takes a privilege (CAP_SYS_NICE), and what may not be
// raised stays as it is.
func (p *Process) Reprioritise(to Priority) { reprioritise(p.Pid(), to) }

// ReprioritiseBelow does the same for all that this process has started.
func ReprioritiseBelow(to Priority) {
	for _, pid := range childPids() {
		reprioritise(pid, to)
	}
}

// reprioritise goes over the threads until it meets none that is left: a thread
// may have been made by one that was not yet dealt with.
func reprioritise(pid int, to Priority) {
	for again := true; again; {
		again = false
		walk(pid, func(pid int) bool {
			threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
			for _, thread := range threads {
				tid, err := strconv.Atoi(filepath.Base(thread))
				if err == nil && repolicy(tid, to) {
					again = true
					reorder(pid, tid, to)
				}
			}
			return true
		})
	}
}

// repolicy says whether the thread had to be and could be changed.
func repolicy(tid int, to Priority) bool {
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil || (attr.Policy == unix.SCHED_IDLE) == to.IdleCPU {
		return false
	}
	next := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: int32(to.nice())}
	if to.IdleCPU {
		next.Policy = unix.SCHED_IDLE
	}
	return unix.SchedSetAttr(tid, &next, 0) == nil
}

// reorder does what belongs to a change of a thread's policy; its process's share
// is done with its first thread.
func reorder(pid, tid int, to Priority) {
	setIdleIO(tid, to.IdleIO)
	unix.Setpriority(unix.PRIO_PROCESS, tid, to.nice())
	if pid != tid {
		return
	}
	os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte(strconv.Itoa(to.Nice)), 0)
	file := fmt.Sprintf("/proc/%d/oom_score_adj", pid)
	if to.OOMScoreAdj != 0 {
		writeRaised(file, to.OOMScoreAdj, 1000)
	} else {
		writeRaised(file, -Background.OOMScoreAdj, 1000)
	}
}

// setIdleIO lets a thread, 0 for the calling one, wait for a disk that nobody else
// wants, or be served as its niceness says.
func setIdleIO(tid int, idle bool) {
	const whoProcess, classIdle, classShift = 1, 3, 13
	class := 0
	if idle {
		class = classIdle
	}
	unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, uintptr(tid), uintptr(class)<<classShift)
}
