package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/integration/need"
	"shadowlsp/overlay"
)

// The second hammer is about listings alone: small and large directories, read
// in one go and by many calls, while branches are switched, agents and the
// person add and remove names, and the readers themselves do.

const crowd = 700 // names of the large directory, which is several answers of the view

// listed is what directory dir holds in phase i, with branch k, but for names
// that the readers make.
func listed(dir string, i, k int) []string {
	names := []string{fmt.Sprint("ag_", i), fmt.Sprint("bs_", i), fmt.Sprint("only_", k)}
	if dir == "big" {
		for j := range crowd {
			if j%hammered != k || k == 0 {
				names = append(names, fmt.Sprintf("some_name_%03d", j))
			}
		}
	}
	slices.Sort(names)
	return names
}

// names reads a directory with a buffer of this size for each call.
func names(path string, size int) ([]string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var found []string
	buf := make([]byte, size)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err != nil || n == 0 {
			return found, err
		}
		_, _, found = unix.ParseDirent(buf[:n], -1, found)
	}
}

// look compares one reading of a directory; mine: the name that the reader
// itself has made, or "".
func look(root, dir string, size, i, k int, mine string, made bool) string {
	found, err := names(filepath.Join(root, dir), size)
	if err != nil {
		return err.Error()
	}
	if mine != "" && slices.Contains(found, mine) != made {
		return fmt.Sprintf("%s is there: %v", mine, !made)
	}
	found = slices.DeleteFunc(found, func(name string) bool { return strings.HasPrefix(name, "mine_") })
	slices.Sort(found)
	want := listed(dir, i, k)
	if slices.Equal(found, want) {
		return ""
	}
	var wrong bytes.Buffer
	for _, name := range found {
		if !slices.Contains(want, name) {
			fmt.Fprint(&wrong, " +", name)
		}
	}
	for _, name := range want {
		if !slices.Contains(found, name) {
			fmt.Fprint(&wrong, " -", name)
		}
	}
	return fmt.Sprintf("%d names instead of %d:%.200s", len(found), len(want), wrong.String())
}

func init() {
	eyeDoes["listings"] = func(root string, args []string) (string, error) {
		phase, checked, done, err := sharedWords(args[0])
		if err != nil {
			return "", err
		}
		defer done()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var wrong []string
		for reader, size := range []int{32 << 10, 8 << 10, 1 << 10, 300} {
			wg.Go(func() {
				for n := 0; ; n++ {
					before := phase.Load()
					if before&phaseStop != 0 {
						return
					}
					dir := []string{"d", "big"}[n%2]
					mine, made, failed := "", false, error(nil)
					if reader%2 == 1 {
						mine, made = fmt.Sprint("mine_", reader), n%4 < 2
						path := filepath.Join(root, dir, mine)
						if made {
							failed = os.WriteFile(path, nil, 0o644)
						} else if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
							failed = err
						}
					}
					got := look(root, dir, size, int(before/phaseNext), int(before&phaseBranch), mine, made)
					if failed != nil {
						got = failed.Error() + "; " + got
					}
					if phase.Load() != before || before&phaseStable == 0 {
						continue
					}
					checked.Add(1)
					if got != "" {
						mu.Lock()
						wrong = append(wrong, fmt.Sprintf("phase %d, branch %d, %s by %d bytes: %s",
							before/phaseNext, before&phaseBranch, dir, size, got))
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

// An answer of before a switch may be under way while the kernel is told of it:
// what it keeps of that answer must go all the same. (The directory's mtime is the
// same in both branches: else the kernel would find it out by itself.)
func TestListingUnderWayAtASwitch(t *testing.T) {
	same := overlay.AttrChange{Mask: overlay.SetMtime, Mtime: overlay.Time{Sec: 1_000_000_000}}
	for round := range 10 {
		s := newStage(t, map[string]string{"d/x": ""})
		s.eye.sh("true") // tries the kernel
		if !s.view.keepsListings() {
			need.Unmet(t, false, "this kernel is not let keep listings")
		}
		b := s.create("b")
		s.agent(b, "d/new", "")
		for _, branch := range []*overlay.Branch{s.branch, b} {
			_, err := branch.SetAttr("d", same, noOrigin)
			must(t, err)
		}
		s.settle()
		computed, send := make(chan struct{}), make(chan struct{})
		var once sync.Once
		s.view.listed = func() { once.Do(func() { close(computed); <-send }) }
		var wg sync.WaitGroup
		wg.Go(func() { s.eye.try("list", "d") })
		<-computed
		wg.Go(func() { s.switchTo(b) })
		waitFor(t, "the switch to begin", func() bool {
			s.view.tell.mu.Lock()
			defer s.view.tell.mu.Unlock()
			return s.view.Branch() == b && len(s.view.tell.queue) == 0
		})
		close(send)
		wg.Wait()
		if got := s.eye.do("list", "d"); got != "new x" {
			t.Fatalf("round %d: %q", round, got)
		}
	}
}

// hammerings is how often the hammer is set on, for phases changes of state each.
func hammerings() int {
	if os.Getenv("SHADOWLSP_CONFORMANCE") == "full" {
		return 12
	}
	return 1
}

const phases = 100

func TestListingsUnderHammer(t *testing.T) {
	files := map[string]string{"d/only_0": "x", "big/only_0": "x"}
	for j := range crowd {
		files[fmt.Sprintf("big/some_name_%03d", j)] = ""
	}
	s := newStage(t, files)
	dirs := []string{"d", "big"}
	branches := []*overlay.Branch{s.branch}
	for k := 1; k < hammered; k++ {
		b := s.create(fmt.Sprint("b", k))
		for _, dir := range dirs {
			s.agent(b, fmt.Sprint(dir, "/only_", k), "x")
			must(t, b.Unlink(dir+"/only_0", noOrigin))
		}
		for j := k; j < crowd; j += hammered {
			must(t, b.Unlink(fmt.Sprintf("big/some_name_%03d", j), noOrigin))
		}
		branches = append(branches, b)
	}
	word := filepath.Join(t.TempDir(), "phase")
	phase, count, done, err := sharedWords(word)
	must(t, err)
	defer done()
	must(t, os.Chmod(word, 0o666))
	i, k := 0, 0
	for range hammerings() {
		var wg sync.WaitGroup
		var checked string
		var hammerErr error
		phase.Store(0)
		wg.Go(func() { checked, hammerErr = s.eye.try("listings", word) })
		for range phases {
			i++
			phase.Store(uint64(i) * phaseNext)
			was := k
			if i%3 != 0 {
				k = (k + 1 + i%(hammered-1)) % hammered
			}
			// Now before the switch, now after it: a branch that is not shown is
			// edited, too.
			change := func() {
				for _, dir := range dirs {
					if i > 1 {
						must(t, branches[was].Unlink(fmt.Sprint(dir, "/ag_", i-1), noOrigin))
						must(t, os.Remove(s.outside(fmt.Sprint(dir, "/bs_", i-1))))
					}
					s.agent(branches[k], fmt.Sprint(dir, "/ag_", i), "a")
					must(t, os.WriteFile(s.outside(fmt.Sprint(dir, "/bs_", i)), nil, 0o644))
				}
			}
			if i%2 == 0 {
				change()
			}
			if k != was {
				s.switchTo(branches[k])
			}
			if i%2 == 1 {
				change()
			}
			s.sync()
			s.settle()
			phase.Store(uint64(i)*phaseNext | uint64(k) | phaseStable)
			seen := count.Load() + 24
			waitFor(t, "the readers", func() bool { return count.Load() >= seen })
		}
		phase.Store(phaseStop)
		wg.Wait()
		must(t, hammerErr)
		t.Logf("%s listings checked over %d changes", checked, i)
		if n, _ := strconv.Atoi(checked); n < phases {
			t.Errorf("only %s listings checked", checked)
		}
	}
}
