package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Commands are the command lines of the program and of the processes below it,
// outermost first, as they are right now.
func (p *Process) Commands() (commands [][]string) {
	walk(p.Pid(), func(pid int) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if line = bytes.TrimRight(line, "\x00"); err == nil && len(line) > 0 {
			commands = append(commands, strings.Split(string(line), "\x00"))
		}
	})
	return commands
}

// walk visits a process and its descendants.
func walk(pid int, visit func(pid int)) {
	visit(pid)
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return
	}
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue // it has ended
		}
		for child := range strings.FieldsSeq(string(children)) {
			if pid, err := strconv.Atoi(child); err == nil {
				walk(pid, visit)
			}
		}
	}
}
