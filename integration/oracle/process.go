package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// busy says whether any thread of a process, or of its descendants, runs or
// waits for a processor or the disk right now. A processor's time would not do:
// a process that is not given any looks idle by it.
func busy(pid int) bool {
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
		if _, rest, ok := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " "); ok && strings.ContainsRune("RD", rune(rest[0])) {
			return true
		}
		children, err := os.ReadFile(task + "/children")
		if err != nil {
			continue
		}
		for _, child := range strings.Fields(string(children)) {
			var pid int
			if _, err := fmt.Sscan(child, &pid); err == nil && busy(pid) {
				return true
			}
		}
	}
	return false
}
