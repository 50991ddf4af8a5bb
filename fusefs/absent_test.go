package fusefs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/integration/need"
)

func init() {
	// missing PATTERN N: looks for N names that do not exist.
	eyeDoes["missing"] = func(root string, args []string) (string, error) {
		var st unix.Stat_t
		for i := range atoi(args[1]) {
			if err := unix.Lstat(root+"/"+fmt.Sprintf(args[0], i), &st); err != unix.ENOENT {
				return "", fmt.Errorf("name %d: %v", i, err)
			}
		}
		return "", nil
	}
}

// written is how often this process has called write, which is how it answers
// the kernel (and the eye: once for each of its tasks).
func written(t testing.TB) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "syscw: %d", &n)
	}
	return n
}

// What the kernel has looked at once, it does not ask for again.
func TestWarmAsksNothing(t *testing.T) {
	const size = 500
	files := map[string]string{}
	for i := range size {
		files[fmt.Sprintf("d%d/f%d", i%100, i)] = "text"
	}
	s := newStage(t, files)
	for what, look := range map[string]func(){
		"stat":    func() { s.eye.do("stats", "d%d/f%d", fmt.Sprint(size)) },
		"missing": func() { s.eye.do("missing", "d7/no%d", fmt.Sprint(size)) },
		"read":    func() { s.eye.sh("cat d*/* >/dev/null") },
		"list":    func() { s.eye.sh("ls d*") },
	} {
		if what == "missing" && !s.view.forgetsAbsence() || what == "list" && !s.view.keepsListings() {
			t.Logf("%s: not with this kernel", what)
			continue
		}
		look()
		look() // reading makes the time of access uncertain, once
		asked := size
		for range 3 { // a kernel that is short of memory drops some
			before := written(t)
			look()
			asked = min(asked, written(t)-before)
		}
		if asked > 20 { // a shell is found and started, too
			t.Errorf("%s of %d files again took %d requests", what, size, asked)
		}
	}
}

// A name that was absent is there as soon as it has come, by whatever way.
func TestAbsentNamesCome(t *testing.T) {
	s := newStage(t, map[string]string{"d/a": "a", "d/sub/x": "x"})
	other := s.create("other")
	s.agent(other, "d/of-other", "other")
	s.agent(other, "new/deep", "other")
	absent := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if out, err := s.eye.try("read", name); err == nil {
				t.Errorf("%s is there: %s", name, out)
			}
		}
	}
	there := func(name string) {
		t.Helper()
		if _, err := s.eye.try("read", name); err != nil {
			t.Error(err)
		}
	}
	absent("d/mine", "d/agents", "d/persons", "d/of-other", "new", "gone/deep", "top")
	s.eye.do("write", "d/mine", "mine")
	there("d/mine")
	s.eye.sh("rm d/mine")
	absent("d/mine")
	s.agent(s.branch, "d/agents", "agent")
	s.settle()
	there("d/agents")
	must(t, os.WriteFile(s.outside("d/persons"), nil, 0o644))
	must(t, os.Mkdir(s.outside("gone"), 0o755))
	must(t, os.WriteFile(s.outside("gone/deep"), nil, 0o644))
	s.sync()
	there("d/persons")
	there("gone/deep")
	s.switchTo(other)
	there("d/of-other")
	there("new/deep")
	absent("d/agents")
	s.switchTo(s.branch)
	absent("new/deep", "d/of-other", "d/sub/y", "d/sub/z/z")
	there("d/agents")
	// A directory that takes another's place.
	must(t, os.Mkdir(s.outside("next"), 0o755))
	must(t, os.WriteFile(s.outside("next/y"), nil, 0o644))
	must(t, os.Rename(s.outside("d/sub"), s.outside("before")))
	must(t, os.Rename(s.outside("next"), s.outside("d/sub")))
	s.sync()
	there("d/sub/y")
}

// When events are lost nothing is certain, absent names included; and when there
// are too many of them to be remembered they are asked for again.
func TestAbsentNamesAreBounded(t *testing.T) {
	s := newStage(t, map[string]string{"d/a": "a"})
	s.eye.sh("true") // tries the kernel
	if !s.view.forgetsAbsence() {
		need.Unmet(t, false, "this kernel is not to remember absent names at all")
	}
	count := func() int {
		s.view.table.mu.Lock()
		defer s.view.table.mu.Unlock()
		return s.view.table.absences
	}
	s.eye.do("missing", "top%d", "5")
	s.eye.do("missing", "d/no%d", fmt.Sprint(100))
	if n := count(); n < 105 || n > 150 {
		t.Errorf("%d names are remembered", n)
	}
	s.view.baseLost()
	s.settle()
	if n := count(); n != 0 {
		t.Errorf("%d names are remembered when nothing is certain", n)
	}
	before := written(t)
	s.eye.do("missing", "d/no%d", fmt.Sprint(100))
	if asked := written(t) - before; asked < 100 {
		t.Errorf("only %d requests: the kernel believes what may be wrong", asked)
	}
	s.eye.do("missing", "d/%d.no", fmt.Sprint(maxAbsences+100))
	s.settle()
	if n := count(); n > maxAbsences/2 {
		t.Errorf("%d names are remembered", n)
	}
}
