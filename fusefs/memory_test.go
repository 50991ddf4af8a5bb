package fusefs

import (
	"fmt"
	"runtime"
	"testing"
)

// buffers is what go-fuse may hold more or less of at any moment: a megabyte for
// each of its readers.
const buffers = 2 << 20

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first has finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// What is remembered of files is bounded by what the kernel knows, and what is
// remembered of branches goes with them.
func TestMemoryComesBack(t *testing.T) {
	const dirs, perDir = 100, 100
	files := map[string]string{}
	for d := range dirs {
		for f := range perDir {
			files[fmt.Sprintf("d%d/file_%d.go", d, f)] = ""
		}
	}
	s := newStage(t, files)
	s.eye.sh("ls")
	before, nodes := heap(), s.view.table.size()
	s.eye.sh("ls -lR >/dev/null")
	if got := s.view.table.size() - nodes; got < dirs*perDir {
		t.Fatalf("only %d files known", got)
	}
	full := heap()
	perThousand := (full - before) * 1000 / (dirs * perDir)
	s.view.baseLost() // all names are dropped, and the kernel forgets the files
	s.settle()
	waitFor(t, "the kernel to forget", func() bool { return s.view.table.size() <= nodes+dirs })
	left := heap() - before
	t.Logf("%d KiB per 1,000 files looked up; %d KiB are left of %d when they are forgotten", perThousand>>10, left>>10, (full-before)>>10)
	if perThousand > 3<<20 {
		t.Errorf("%d bytes per 1,000 files", perThousand)
	}
	if left > (full-before)/4+buffers {
		t.Errorf("%d bytes are left", left)
	}

	const branches, edits = 300, 10
	before = heap()
	for i := range branches {
		b := s.create(fmt.Sprint("agent", i))
		for f := range edits {
			s.agent(b, fmt.Sprintf("d%d/file_%d.go", i%dirs, f), "edited")
		}
	}
	full = heap()
	for i := range branches {
		must(t, s.store.Drop(fmt.Sprint("agent", i)))
	}
	left = heap() - before
	t.Logf("%d KiB per branch of %d edits; %d KiB are left of %d when they are dropped", (full-before)/branches>>10, edits, left>>10, (full-before)>>10)
	if perBranch := (full - before) / branches; perBranch > 256<<10 {
		t.Errorf("%d bytes per branch", perBranch)
	}
	if left > (full-before)/4+256<<10 {
		t.Errorf("%d bytes are left", left)
	}
}
