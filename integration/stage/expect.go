package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Patience bounds everything that tests wait for: a machine that others keep busy
// is slow, and servers run at idle priority while an editor is there.
const Patience = 60 * time.Second

// Await looks at a condition again and again, for at most [Patience]: other
// processes tell of their changes in no common way.
func Await(holds func() bool) error {
	late, again := time.NewTimer(Patience), time.NewTicker(5*time.Millisecond)
	defer late.Stop()
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-late.C:
			return fmt.Errorf("not so within %v", Patience)
		}
	}
	return nil
}

// Eventually waits for a condition on something outside this process.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if err := Await(holds); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Set is [New] for a test, with a workspace of these files. The test closes it.
func Set(t testing.TB, files map[string]string) *Stage {
	t.Helper()
	from := t.TempDir()
	if err := Plant(from, files); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Tree is the workspace as it is now.
func (s *Stage) Tree(t testing.TB) Tree {
	t.Helper()
	tree, err := Read(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// Unchanged says what in the person's folder is not as it was.
func (s *Stage) Unchanged(t testing.TB, before Tree) {
	t.Helper()
	after := s.Tree(t)
	for _, path := range before.Differences(after) {
		t.Errorf("the person's %s was %q and is %q", path, before[path], after[path])
	}
}

// never are the words that no daemon's log may hold.
var never = []string{"DATA RACE", "panic", "fatal error", `"level":"error"`}

// ReadLogs looks for what must never be in a daemon's log, and shows the ends of
// the logs, those of servers too, when the test has failed.
func (s *Stage) ReadLogs(t testing.TB) {
	t.Helper()
	logs, _ := filepath.Glob(filepath.Join(s.top, "state*", "shadowlsp", "*", "*.log"))
	for _, name := range logs {
		log, _ := os.ReadFile(name)
		for _, words := range never {
			if _, after, found := strings.Cut(string(log), words); found && filepath.Base(name) == "daemon.log" {
				t.Errorf("the daemon's log holds %s%.3000s", words, after)
			}
		}
		if t.Failed() {
			const most = 6000
			t.Logf("%s ends:\n%s", name, log[max(len(log)-most, 0):])
		}
	}
}

// LeavesNothing waits until no process has anything to do with the stage.
func (s *Stage) LeavesNothing(t testing.TB) {
	t.Helper()
	var left []string
	if err := Await(func() bool { left = Traces(s.top); return len(left) == 0 }); err != nil {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}
