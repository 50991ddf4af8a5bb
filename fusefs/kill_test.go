package fusefs

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shadowlsp/integration/need"
)

// servedRoot in the environment makes TestServeUntilKilled a daemon.
const servedRoot = "FUSEFS_TEST_ROOT"

// TestServeUntilKilled is the daemon of TestKillNine, in a process of its own.
func TestServeUntilKilled(t *testing.T) {
	root := os.Getenv(servedRoot)
	if root == "" {
		t.Skip("runs as a part of TestKillNine")
	}
	s := stageOver(t, root)
	s.agent(s.branch, "a.txt", "agent's")
	s.eye.do("start", `while :; do cat a.txt > /dev/null; echo x >> log; ls > /dev/null; mkdir d$$; rmdir d$$; done`)
	s.eye.do("start", `exec < a.txt 9>> held; (setsid sleep 1000 & ); cd dir; sleep 1000`)
	os.Stdout.WriteString("serving\n")
	select {}
}

func TestKillNine(t *testing.T) {
	root := t.TempDir()
	plant(t, root, someFiles)
	before := fingerprint(t, root)
	for range 5 {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestServeUntilKilled$", "-test.v=false")
		cmd.Env = append(os.Environ(), servedRoot+"="+root)
		out, err := cmd.StdoutPipe()
		must(t, err)
		alive, theirs, err := os.Pipe()
		must(t, err)
		cmd.Stderr = theirs
		must(t, cmd.Start())
		theirs.Close()
		line, err := bufio.NewReader(out).ReadString('\n')
		if line != "serving\n" {
			text, _ := io.ReadAll(alive)
			t.Fatalf("%q %v\n%s", line, err, text)
		}
		must(t, cmd.Process.Kill())
		cmd.Wait()
		// Everything that ever looked into the mount holds the other end.
		must(t, alive.SetReadDeadline(time.Now().Add(20*time.Second)))
		if text, err := io.ReadAll(alive); err != nil {
			t.Fatalf("a process is left: %v\n%s", err, text)
		}
		alive.Close()
		if strings.Contains(need.Mounts(), root) {
			t.Fatal("something is left mounted")
		}
	}
	if after := fingerprint(t, root); after != before {
		t.Error("the base has changed")
	}
	data, err := os.ReadFile(filepath.Join(root, "a.txt"))
	if err != nil || string(data) != "base a" {
		t.Errorf("%q %v", data, err)
	}
}
