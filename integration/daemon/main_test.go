package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shadowlsp/integration/need"

	"go.uber.org/goleak"
)

// Names by which a run as an ordinary user is told what only root's can make.
const (
	binaryVariable = "SHADOWLSP_TEST_BINARY"
	toolsVariable  = "SHADOWLSP_TEST_TOOLS"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds everything that is waited for: a machine that others keep busy
// is slow, and servers run at idle priority while an editor is there.
const patience = 60 * time.Second

// binary is the program under test.
func binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(binaryVariable); path != "" {
		return path
	}
	return need.Shadowlsp(t)
}

// tool is a program that the test or the daemon runs.
func tool(t testing.TB, name string) string {
	t.Helper()
	if dir := os.Getenv(toolsVariable); dir != "" {
		return filepath.Join(dir, name)
	}
	return need.Tool(t, name)
}

// eventually waits for a condition on something outside this process.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if err := await(patience, holds); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// await looks at a condition again and again: other processes tell of their
// changes in no common way.
func await(limit time.Duration, holds func() bool) error {
	if holds() {
		return nil
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if holds() {
				return nil
			}
		case <-late.C:
			return fmt.Errorf("not so within %v", limit)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
