package fusefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// Test and eye share two words: how many answers were checked, and the phase: which branch is shown (in the
// low bits), a number that no other phase has, whether it may be relied on now,
// and whether to stop.
const (
	phaseBranch = 0xff
	phaseStable = 1 << 8
	phaseStop   = 1 << 9
	phaseNext   = 1 << 10
)

func sharedWords(path string) (phase, checked *atomic.Uint64, done func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, nil, nil, err
	}
	defer f.Close()
	if err := f.Truncate(4096); err != nil {
		return nil, nil, nil, err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, nil, err
	}
	words := (*[2]atomic.Uint64)(unsafe.Pointer(&m[0]))
	return &words[0], &words[1], func() { unix.Munmap(m) }, nil
}

const hammered = 5 // branches; 0 is the base

func textOf(k int) string { return strings.Repeat(fmt.Sprintf("branch %d.", k), 1+k*97) }

// looks are what the hammer checks, each with the answer that branch k gives.
var looks = []struct {
	name string
	look func(root string, k int) (got, want string)
}{
	{"read", func(root string, k int) (string, string) { return slurp(root, "f"), textOf(k) }},
	{"size", func(root string, k int) (string, string) { return sizeOf(root, "f"), strconv.Itoa(len(textOf(k))) }},
	{"deep", func(root string, k int) (string, string) { return slurp(root, "deep/a/b/c"), textOf(k) + "c" }},
	{"names", func(root string, k int) (string, string) {
		return listOf(root, "d"), fmt.Sprintf("only_%d shared", k)
	}},
	{"there", func(root string, k int) (string, string) { return slurp(root, fmt.Sprintf("d/only_%d", k)), "x" }},
	{"not there", func(root string, k int) (string, string) {
		return slurp(root, fmt.Sprintf("d/only_%d", (k+1)%hammered)), "ENOENT"
	}},
	{"deleted", func(root string, k int) (string, string) {
		if k%2 == 1 {
			return slurp(root, "gone"), "ENOENT"
		}
		return slurp(root, "gone"), "still"
	}},
	{"kind", func(root string, k int) (string, string) {
		if k%2 == 1 {
			return listOf(root, "kind") + slurp(root, "kind/x"), "xin"
		}
		return slurp(root, "kind"), "file"
	}},
	{"link", func(root string, k int) (string, string) {
		to, err := os.Readlink(filepath.Join(root, "ln"))
		return errText(to, err), fmt.Sprintf("target_%d", k)
	}},
}

func errText(s string, err error) string {
	var no syscall.Errno
	switch {
	case err == nil:
		return s
	case errors.Is(err, syscall.ENOENT):
		return "ENOENT"
	case errors.As(err, &no):
		return no.Error()
	}
	return err.Error()
}

func slurp(root, path string) string {
	data, err := os.ReadFile(filepath.Join(root, path))
	return errText(string(data), err)
}

func sizeOf(root, path string) string {
	st, err := os.Lstat(filepath.Join(root, path))
	if err != nil {
		return errText("", err)
	}
	return strconv.FormatInt(st.Size(), 10)
}

func listOf(root, path string) string {
	entries, err := os.ReadDir(filepath.Join(root, path))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return errText(strings.Join(names, " "), err)
}

func init() {
	eyeDoes["hammer"] = func(root string, args []string) (string, error) {
		phase, checked, done, err := sharedWords(args[0])
		if err != nil {
			return "", err
		}
		defer done()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var wrong []string
		for range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					before := phase.Load()
					if before&phaseStop != 0 {
						return
					}
					l := looks[i%len(looks)]
					k := int(before & phaseBranch)
					got, want := l.look(root, k)
					if phase.Load() != before || before&phaseStable == 0 {
						continue
					}
					checked.Add(1)
					if got != want {
						mu.Lock()
						wrong = append(wrong, fmt.Sprintf("%s in branch %d: %.80q (%d bytes), want %.80q", l.name, k, got, len(got), want))
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if len(wrong) > 0 {
			return "", fmt.Errorf("%d of %d wrong:\n%s", len(wrong), checked.Load(), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
		}
		return fmt.Sprint(checked.Load()), nil
	}
}

func hammerStage(t *testing.T) (*stage, []*overlay.Branch) {
	s := newStage(t, map[string]string{
		"f": textOf(0), "deep/a/b/c": textOf(0) + "c", "d/only_0": "x", "d/shared": "s",
		"gone": "still", "kind": "file", "ln -> target_0": "",
	})
	branches := []*overlay.Branch{s.branch}
	for k := 1; k < hammered; k++ {
		b := s.create(fmt.Sprint("b", k))
		s.agent(b, "f", textOf(k))
		s.agent(b, "deep/a/b/c", textOf(k)+"c")
		s.agent(b, fmt.Sprintf("d/only_%d", k), "x")
		must(t, b.Unlink("d/only_0", noOrigin))
		must(t, b.Unlink("ln", noOrigin))
		_, err := b.Symlink(fmt.Sprintf("target_%d", k), "ln", noOrigin)
		must(t, err)
		if k%2 == 1 {
			must(t, b.Unlink("gone", noOrigin))
			must(t, b.Unlink("kind", noOrigin))
			s.agent(b, "kind/x", "in")
		}
		branches = append(branches, b)
	}
	return s, branches
}

func TestSwitchUnderHammer(t *testing.T) {
	s, branches := hammerStage(t)
	word := filepath.Join(t.TempDir(), "phase")
	phase, count, done, err := sharedWords(word)
	must(t, err)
	defer done()
	must(t, os.Chmod(word, 0o666))
	phase.Store(phaseStable)
	var wg sync.WaitGroup
	var checked string
	var hammerErr error
	wg.Go(func() { checked, hammerErr = s.eye.try("hammer", word) })
	const switches = 200
	k := 0
	for i := range switches {
		phase.Store((phase.Load() + phaseNext) &^ phaseStable)
		k = (k + 1 + i%(hammered-1)) % hammered
		s.switchTo(branches[k])
		phase.Store((phase.Load()+phaseNext)&^phaseBranch | uint64(k) | phaseStable)
		// Let the readers look: until they have asked for something, or have
		// everything in their caches.
		seen := count.Load() + 40
		waitFor(t, "the readers", func() bool { return count.Load() >= seen })
	}
	phase.Store(phaseStop)
	wg.Wait()
	must(t, hammerErr)
	t.Logf("%s answers checked over %d switches", checked, switches)
	if n, _ := strconv.Atoi(checked); n < switches {
		t.Errorf("only %s answers checked", checked)
	}
}
