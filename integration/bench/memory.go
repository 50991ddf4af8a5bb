package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"shadowlsp/integration/stage"
)

// memory is what a process and those that it started have resident, in bytes,
// and the processor time that those alive have used.
type memory struct {
	now, peak int64
	cpu       time.Duration
}

func (m memory) String() string { return fmt.Sprintf("%d MB (peak %d MB)", m.now>>20, m.peak>>20) }

// memoryOf adds up a family of processes; the peak of each is its own, so that
// of the sum is at most what is said. The daemon's family is the daemon alone:
// instances are counted for themselves.
func memoryOf(pid int) (m memory) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if _, after, ok := strings.Cut(string(stat), ") "); ok { // the program's name may hold spaces
		if fields := strings.Fields(after); len(fields) > 12 {
			const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
			user, _ := strconv.Atoi(fields[11])
			system, _ := strconv.Atoi(fields[12])
			m.cpu = time.Duration(user+system) * tick
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m // it has ended
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if name == "VmRSS" {
			m.now = kb << 10
		} else {
			m.peak = kb << 10
		}
	}
	return m
}

// familyMemory is that of a process and its descendants.
func familyMemory(pid int) (m memory) {
	for _, id := range stage.Descendants(pid) {
		of := memoryOf(id)
		m.now, m.peak, m.cpu = m.now+of.now, m.peak+of.peak, m.cpu+of.cpu
	}
	return m
}
