package commands

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"shadowlsp/integration/stage"
)

// many is how many commands run at once; the environment can ask for more
// (make commands).
const manyVariable = "SHADOWLSP_TEST_COMMANDS"

// Many commands in as many branches at once, a half of them killed at random in
// all possible ways: nothing is left, and the others give what they give.
func TestManyAndKilled(t *testing.T) {
	many := 20
	if n, err := strconv.Atoi(os.Getenv(manyVariable)); err == nil {
		many = n
	}
	w := newWorld(t)
	w.in(t, "warm", "true")
	mounts := countMounts(t)
	// Each writes into its branch and its /tmp, listens on one port, starts what
	// outlives its parents, and waits.
	script := `echo "$1" >mine; echo "$1" >/tmp/mine; (setsid sleep 987658 >/dev/null 2>&1 &); sleep 987658 &
python3 -c "
import socket, sys
s = socket.socket(); s.bind(('127.0.0.1', 3000)); s.listen()
print('ready', flush=True); sys.stdin.read()"
cat mine /tmp/mine; exit 3`
	type one struct {
		cmd  *exec.Cmd
		out  *output
		stop *os.File
	}
	all := make([]one, many)
	var starting sync.WaitGroup
	for i := range all {
		cmd := w.command(w.binary, "exec", "--branch", fmt.Sprint("b", i), "--", "sh", "-c", script, "sh", fmt.Sprint(i))
		r, stop, err := os.Pipe()
		must(t, err)
		cmd.Stdin = r
		all[i] = one{cmd, start(t, cmd), stop}
		r.Close()
	}
	for i := range all {
		starting.Go(func() { all[i].out.until(t, "ready\n") })
	}
	starting.Wait()
	if n := len(w.status(t).Branches); n != many+1 {
		t.Errorf("%d branches", n)
	}
	order := rand.Perm(many)
	for n, i := range order[:many/2] {
		switch n % 3 {
		case 0: // the caller
			must(t, all[i].cmd.Process.Kill())
		case 1: // its branch's keeper, or what is in it
			must(t, killOneBelow(w, fmt.Sprint("b", i)))
		case 2: // in order
			must(t, all[i].cmd.Process.Signal(syscall.SIGTERM))
		}
	}
	for _, i := range order[many/2:] {
		all[i].stop.Close()
		all[i].out.until(t, fmt.Sprintf("%d\n%d\n", i, i))
	}
	for i := range all {
		all[i].stop.Close()
		all[i].cmd.Wait()
	}
	for _, i := range order[many/2:] {
		if code := all[i].cmd.ProcessState.ExitCode(); code != 3 {
			t.Errorf("command %d: exit status %d: %s", i, code, all[i].out.text)
		}
	}
	if err := stage.Await(func() bool { return !running("sleep\x00987658") }); err != nil {
		t.Error("something goes on")
	}
	if out, code := w.in(t, fmt.Sprint("b", order[0]), "cat mine"); out != fmt.Sprintln(order[0]) || code != 0 {
		t.Errorf("a branch whose command was killed: %q, %d", out, code)
	}
	if l, err := net.Listen("tcp", "127.0.0.1:3000"); err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
	must(t, w.Kill())
	w.LeavesNothing(t)
	if n := countMounts(t); n != mounts {
		t.Errorf("%d mounts, before %d", n, mounts)
	}
	if left, err := os.ReadDir(w.temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

// killOneBelow kills a random process of a branch by its environment.
func killOneBelow(w *world, branch string) error {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	rand.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if bytes.Contains(text, []byte("SHADOWLSP_BRANCH="+branch+"\x00")) && bytes.Contains(text, []byte(w.top)) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				return err
			}
			return syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return fmt.Errorf("nothing runs in %s", branch)
}

func countMounts(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	return bytes.Count(text, []byte("\n"))
}
