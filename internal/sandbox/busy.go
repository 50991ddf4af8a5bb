package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Busy says whether a thread of the program, or of a process below it, has
// anything to do right now.
func (p *Process) Busy() bool { return Busy(p.Pid()) }

// Busy says whether any thread of a process, or of its descendants, runs or
// waits for a processor or the disk right now, or is stopped: it may have been
// about to. Processor time would not do: a process that is given none on a busy
// machine would look idle. What has ended is not busy; neither is what cannot be
// looked at.
func Busy(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return false
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(task + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The state stands behind the name, which is in parentheses and may hold any.
		if _, rest, ok := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " "); ok && strings.IndexByte("RDT", rest[0]) >= 0 {
			return true
		}
		children, err := os.ReadFile(task + "/children")
		if err != nil {
			continue
		}
		for child := range strings.FieldsSeq(string(children)) {
			if pid, err := strconv.Atoi(child); err == nil && Busy(pid) {
				return true
			}
		}
	}
	return false
}
