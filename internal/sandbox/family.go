package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
