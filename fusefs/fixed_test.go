package fusefs

import (
	"flag"
	"os"
	"os/exec"
	"testing"
)

// fixedViews: the views of this run are fixed ones.
var fixedViews = flag.Bool("fixed", false, "make fixed views; tests that switch are skipped")

// TestFixed runs the whole suite again with fixed views.
func TestFixed(t *testing.T) {
	if *fixedViews {
		t.Skip("these are fixed views")
	}
	if testing.Short() {
		t.Skip("short: with views that switch only")
	}
	args := []string{"-test.run=.", "-fixed"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	t.Logf("with fixed views:\n%s", out)
	must(t, err)
}

// onlySwitched skips where a test needs a view that switches.
func onlySwitched(t testing.TB) {
	t.Helper()
	if *fixedViews {
		t.Skip("a fixed view does not switch")
	}
}
