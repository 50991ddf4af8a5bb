package daemon

import (
	"path/filepath"
	"strings"
	"testing"

	"shadowlsp/integration/stage"
)

// servers are the gopls that are instances of a daemon. (A gopls may start
// another one for its own purposes.)
func servers(t testing.TB, daemon int) (found []stage.Process) {
	t.Helper()
	isGopls := func(pid int) bool {
		program, _, _ := strings.Cut(stage.CommandLine(pid), " ")
		return filepath.Base(program) == "gopls"
	}
	for _, p := range stage.Family(t, daemon) {
		if isGopls(p.PID) && !isGopls(stage.Parent(p.PID)) {
			found = append(found, p)
		}
	}
	return found
}
