package stage

import (
	"os/exec"
	"testing"
	"time"

	"shadowlsp/integration/need"
)

func TestTracesAreOfTheFolderAlone(t *testing.T) {
	dir := t.TempDir()
	run := func(env string) *exec.Cmd {
		t.Helper()
		cmd := exec.Command(need.Tool(t, "sleep"), "1000")
		cmd.Env = []string{env}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	run("HOME=" + dir + "-beside")
	// A process that has not begun its program yet has its parent's environment.
	if err := Await(func() bool { return len(Traces(dir+"-beside")) == 1 }); err != nil {
		t.Fatal(err)
	}
	if found := Traces(dir); len(found) != 0 {
		t.Errorf("found %q", found)
	}
	cmd := run("HOME=" + dir)
	Eventually(t, "it is found", func() bool { return len(Traces(dir)) == 1 })
	family := Family(t, cmd.Process.Pid)
	if len(family) != 1 || family[0].PID != cmd.Process.Pid || family[0].Gone(10*time.Millisecond) {
		t.Errorf("family %+v", family)
	}
	cmd.Process.Kill()
	cmd.Wait()
	AllGone(t, family)
	if found := Traces(dir); len(found) != 0 {
		t.Errorf("found %q of a process that has ended", found)
	}
}
