package commands

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// What a kernel refuses is said, with what is lost by it, and refused where that
// is asked for.
func TestLacking(t *testing.T) {
	w := newWorld(t)
	for kind, lost := range map[string]string{"net": "no network of its own", "ipc": "System V IPC", "": ""} {
		script := `"$0" exec --branch x -- echo ran; "$0" exec --branch x --strict -- echo strictly; echo $?; "$0" stop`
		if kind != "" {
			script = "echo 0 >/proc/sys/user/max_" + kind + "_namespaces; " + script
		}
		cmd := w.command("sh", "-c", script, w.binary)
		// The limits of a user namespace of its own hold for the daemon in it.
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
		out, _ := finish(t, cmd)
		if kind == "" {
			if out != "ran\nstrictly\n0\n" {
				t.Errorf("nothing is lacking: %q", out)
			}
			continue
		}
		if n := strings.Count(out, lost); n != 2 || !strings.Contains(out, "ran\n") || strings.Contains(out, "strictly") || !strings.Contains(out, "\n125\n") {
			t.Errorf("without %s namespaces: %q", kind, out)
		}
	}
}
