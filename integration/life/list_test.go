package life

import (
	"strings"
	"testing"
)

// A branch of which everything was applied has no changes, whatever git has looked
// at in it; what git has changed in .git is told apart.
func TestAppliedBranchesHaveNoChanges(t *testing.T) {
	w := newWorld(t)
	row := func() string {
		for line := range strings.Lines(w.branch(t, "list")) {
			if strings.HasPrefix(line, "b ") {
				return strings.Join(strings.Fields(line), " ")
			}
		}
		t.Fatal("no branch b")
		return ""
	}
	// Files whose times are not the index's have git refresh it.
	w.shell(t, "b", "echo x >>text; echo z >>dir/a; git status --short; go vet ./...")
	if got := row(); !strings.HasPrefix(got, "b 2 changes ") || strings.Contains(got, ".git") {
		t.Errorf("changed: %s", got)
	}
	w.branch(t, "apply", "b")
	w.shell(t, "b", "touch text; git status --short")
	w.branch(t, "apply", "b")
	if got := row(); !strings.HasPrefix(got, "b 0 changes ") || strings.Contains(got, ".git") {
		t.Errorf("applied: %s", got)
	}
	w.shell(t, "b", "echo y >>text; git add text")
	w.branch(t, "apply", "b")
	if got := row(); !strings.HasPrefix(got, "b 0 changes ") || !strings.Contains(got, "in .git: ") {
		t.Errorf("with what git has changed: %s", got)
	}
	// The caller's own wish counts.
	w.shell(t, "c", `test "$GIT_OPTIONAL_LOCKS" = 0`)
	w.Env = append(w.Env, "GIT_OPTIONAL_LOCKS=1")
	w.shell(t, "c", `test "$GIT_OPTIONAL_LOCKS" = 1`)
}
