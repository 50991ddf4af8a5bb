package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
func Busy(pid int) (busy bool) {
	walk(pid, func(pid int) (below bool) {
		busy = busy || threadIs(pid, "RDT")
		return !busy
	})
	return busy
}

// threadIs says whether a thread of a process is in one of the states, by
// proc(5)'s letters.
func threadIs(pid int, states string) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is well formed
	return slices.ContainsFunc(stats, func(file string) bool {
		f := statFields(file)
		return len(f) > 0 && strings.Contains(states, f[0])
	})
}

// statFields are the fields of a stat file of proc(5) behind the program's name,
// which may hold anything: the first is the state. Nil for what has ended.
func statFields(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// Usage is what a program and all below it take.
type Usage struct {
	Resident int64  // bytes
	CPU      uint64 // ticks
	Wants    bool   // some thread runs or waits for a processor or a disk
}

// Usage reads what the program, its init and all below it take now; what has ended
// counts for nothing.
func (p *Process) Usage() (u Usage) {
	walk(p.Pid(), func(pid int) (below bool) {
		f := statFields(fmt.Sprintf("/proc/%d/stat", pid))
		if len(f) < 22 {
			return false
		}
		number := func(n int) uint64 { v, _ := strconv.ParseUint(f[n], 10, 64); return v }
		// Of proc(5)'s fields these begin with the third: utime is 14, stime 15, rss 24.
		u.CPU += number(11) + number(12)
		u.Resident += int64(number(21)) * int64(os.Getpagesize())
		u.Wants = u.Wants || threadIs(pid, "RD")
		return true
	})
	return u
}
