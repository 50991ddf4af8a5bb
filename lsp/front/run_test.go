package front

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// soon is long enough for any machine, and short beside a hang.
const soon = 20 * time.Second

func TestBytesAreIdentical(t *testing.T) {
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	big := `{"jsonrpc":"2.0","method":"x","params":"` + strings.Repeat("x", 8<<20) + `"}`
	inputs := map[string][]byte{
		"plain":             message(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`),
		"id 1e0":            message(`{"jsonrpc":"2.0","id":1e0,"method":"x"}`),
		"batch":             message(`[{"jsonrpc":"2.0","id":1,"method":"x"},{}]`),
		"odd headers":       []byte("X-A: b\ncontent-LENGTH :2\r\nContent-Type: c\r\n\r\n{}Content-Length: 0\r\n\r\n"),
		"no header":         []byte("hello\n\n{\"a\":1}\r\n\r\n"),
		"negative length":   []byte("Content-Length: -1\r\n\r\n{}"),
		"huge length":       []byte("Content-Length: 99999999999999999999\r\n\r\n{}"),
		"2 GiB announced":   []byte("Content-Length: 2000000000\r\n\r\n{}"),
		"8 MB":              message(big),
		"noise":             noise,
		"truncated":         []byte("Content-Length: 100\r\n\r\n{\"jsonrpc\""),
		"nothing":           nil,
		"invalid UTF-8":     message("\"\xff\xfe\""),
		"a megabyte header": append(bytes.Repeat([]byte("h"), 1<<20), '\n'),
	}
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			s := frontFor(t, nil, "cat")
			if got := s.roundTrip(in); !bytes.Equal(got, in) {
				t.Fatal("the bytes differ")
			}
			s.stdin.Close()
			if rest, err := io.ReadAll(s.stdout); err != nil || len(rest) > 0 {
				t.Errorf("%d bytes more, %v", len(rest), err)
			}
			if status := s.ended(soon); status != 0 || s.stderr.Len() > 0 {
				t.Errorf("status %#x, stderr %q", status, s.stderr.String())
			}
		})
	}
}

func TestExitStatusIsTheServers(t *testing.T) {
	for _, mode := range [][]string{
		{"exit", "0"}, {"exit", "1"}, {"exit", "126"}, {"exit", "255"},
		{"die", "1"}, {"die", "2"}, {"die", "3"}, {"die", "6"}, {"die", "9"}, {"die", "11"}, {"die", "13"}, {"die", "15"}, {"die", "36"},
	} {
		t.Run(strings.Join(mode, " "), func(t *testing.T) {
			want := bare(t, mode...).ended(soon)
			s := fronted(t, nil, mode...)
			if got := s.ended(soon); got != want || s.stderr.Len() > 0 {
				t.Errorf("got %#x, want %#x; stderr %q", got, want, s.stderr.String())
			}
		})
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	script := filepath.Join(dir, "script")
	for path, mode := range map[string]os.FileMode{plain: 0o644, script: 0o755} {
		if err := os.WriteFile(path, []byte("exit 42\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, tc := range []struct {
		command string
		code    int
		says    string
	}{
		{"no-such-server", 127, "cannot start no-such-server: it is not in PATH"},
		{filepath.Join(dir, "none"), 127, "no such file"},
		{dir, 126, "not executable"},
		{plain, 126, "not executable"},
		{"plain", 126, "not executable"},
		{script, 42, ""}, // without "#!": as execvp does
		{"script", 42, ""},
	} {
		s := frontFor(t, nil, tc.command)
		status := s.ended(soon)
		lines := strings.Count(s.stderr.String(), "\n")
		if status.ExitStatus() != tc.code || !strings.Contains(s.stderr.String(), tc.says) || (tc.says != "") != (lines == 1) {
			t.Errorf("%s: status %d, stderr %q", tc.command, status.ExitStatus(), s.stderr.String())
		}
	}
}

func TestTheServerSeesTheSame(t *testing.T) {
	extra, err := os.Open(os.DevNull) // a descriptor that the editor gives on
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	describe := func(role string, argv ...string) string {
		s := exec.Command(argv[0], argv[1:]...)
		s.Env = append(environ(roleVar+"="+role), "ODD=\xff")
		s.ExtraFiles = []*os.File{extra}
		s.Stderr = os.Stderr
		out, err := s.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	want := describe("server", self(t), "describe")
	if got := describe("front", self(t), self(t), "describe"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// A shell in front makes sure that limits are not those that Go has raised,
	// and that an ignored SIGHUP is inherited.
	script := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nulimit -Sn\ngrep SigIgn /proc/self/status\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const limits = `ulimit -Sn 77; trap "" HUP; exec "$@"`
	run := func(env string, argv ...string) string {
		c := exec.Command("sh", append([]string{"-c", limits, "sh"}, argv...)...)
		c.Env = append(environ(), env)
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if got, want := run(roleVar+"=front", self(t), script), run("A=b", script); got != want || !strings.HasPrefix(want, "77\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSignalsArePassedOnce(t *testing.T) {
	s := fronted(t, nil, "signals")
	if got := s.line(); got != "ready" {
		t.Fatal(got)
	}
	for _, sig := range passed {
		if err := s.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if got, want := s.line(), strconv.Itoa(int(sig.(syscall.Signal))); got != want {
			t.Errorf("%v: the server got %s, want %s", sig, got, want)
		}
	}
}

func TestFatalSignalsEndBoth(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGQUIT} {
		s := frontFor(t, nil, "sleep", "100")
		waitForChild(t, s.cmd.Process.Pid)
		if err := s.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if status := s.ended(soon); !status.Signaled() || status.Signal() != sig {
			t.Errorf("%v: status %#x", sig, status)
		}
	}
}

// waitForChild waits until a process has a child that has done its exec.
func waitForChild(t *testing.T, pid int) (child int) {
	t.Helper()
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, task := range tasks {
			data, _ := os.ReadFile(task)
			for _, field := range strings.Fields(string(data)) {
				child, _ = strconv.Atoi(field)
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
				own, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if !bytes.Equal(line, own) {
					return child
				}
			}
		}
	}
	t.Fatal("no child")
	return 0
}

// Killing the front must not leave a server behind that looks at nothing.
func TestKilledFrontTakesTheServerAlong(t *testing.T) {
	s := fronted(t, nil, "ignore-stdin")
	pid, err := strconv.Atoi(s.line())
	if err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Process.Kill()
	s.wait()
	waitGone(t, pid)
}

func waitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
	}
	t.Fatalf("process %d lives", pid)
}

func TestEndOfStdinEndsOnlyTheServersStdin(t *testing.T) {
	s := fronted(t, nil, "close-stdout")
	if rest, err := io.ReadAll(s.stdout); err != nil || len(rest) > 0 { // the server's closing reaches us
		t.Fatalf("%q, %v", rest, err)
	}
	s.stdin.Close()
	if status := s.ended(soon); status.ExitStatus() != 3 {
		t.Errorf("status %#x", status)
	}
}

func TestTheServerEndsWhileTheEditorKeepsStdinOpen(t *testing.T) {
	s := fronted(t, nil, "exit", "4")
	if status := s.ended(soon); status.ExitStatus() != 4 {
		t.Errorf("status %#x", status)
	}
	if _, err := s.stdin.Write([]byte("x")); err == nil {
		t.Error("somebody still reads")
	}
}

func TestAllOutputComesBeforeTheEnd(t *testing.T) {
	s := fronted(t, nil, "write", "3000000")
	out, err := io.ReadAll(s.stdout)
	if status := s.ended(soon); err != nil || len(out) != 3000000 || status.ExitStatus() != 7 {
		t.Errorf("%d bytes, %v, status %#x", len(out), err, status)
	}
}

func TestASlowReaderMakesTheServerWait(t *testing.T) {
	s := fronted(t, nil, "write", "3000000")
	// Nothing is read: the server cannot end, and nobody takes its bytes.
	waitForChild(t, s.cmd.Process.Pid)
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if status := s.ended(soon); !status.Signaled() {
		t.Errorf("status %#x", status)
	}
	s = fronted(t, nil, "write", "50000") // fits the pipes: the server ends
	if status := s.ended(soon); status.ExitStatus() != 7 {
		t.Errorf("status %#x", status)
	}
	if out, _ := io.ReadAll(s.stdout); len(out) != 50000 {
		t.Errorf("%d bytes", len(out))
	}
}

func TestTheEditorStopsReading(t *testing.T) {
	var statuses []syscall.WaitStatus
	for _, s := range []*session{bare(t, "write-until-failure"), fronted(t, nil, "write-until-failure")} {
		if _, err := io.CopyN(io.Discard, s.stdout, 1<<20); err != nil {
			t.Fatal(err)
		}
		s.stdout.Close()
		statuses = append(statuses, s.ended(soon))
	}
	if statuses[0] != statuses[1] || !statuses[1].Signaled() {
		t.Errorf("bare %#x, fronted %#x", statuses[0], statuses[1])
	}
}

func TestTheServerStopsReading(t *testing.T) {
	s := fronted(t, nil, "close-stdin")
	if got := s.line(); got != "closed" {
		t.Fatal(got)
	}
	_ = s.stdin.SetWriteDeadline(time.Now().Add(soon))
	for {
		if _, err := s.stdin.Write([]byte("x")); err != nil {
			if !strings.Contains(err.Error(), "broken pipe") {
				t.Error(err)
			}
			break
		}
	}
}

func TestAChildOfTheServerDoesNotKeepUs(t *testing.T) {
	s := fronted(t, nil, "leave-child")
	child, err := strconv.Atoi(s.line())
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(child, syscall.SIGKILL)
	if status := s.ended(soon); status.ExitStatus() != 5 {
		t.Errorf("status %#x", status)
	}
}

// What stdin and stdout are does not matter.
func TestOtherKindsOfStdin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := strings.Repeat("line\n", 100000)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	run := func(stdin *os.File, stdout io.Writer) {
		t.Helper()
		c := exec.Command(self(t), "cat")
		c.Env, c.Stdin, c.Stdout = environ(roleVar+"=front"), stdin, stdout
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if run(file, &out); out.String() != content {
		t.Errorf("from a file: %d bytes", out.Len())
	}
	_, _ = file.Seek(0, io.SeekStart)
	target, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	run(file, target)
	if got, _ := os.ReadFile(target.Name()); string(got) != content {
		t.Errorf("to a file: %d bytes", len(got))
	}
	for _, flags := range []int{0, syscall.SOCK_NONBLOCK} { // node gives sockets
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
		s := &session{t: t, cmd: exec.Command(self(t), "cat"), stdin: ours, stdout: ours}
		s.cmd.Env, s.cmd.Stdin, s.cmd.Stdout = environ(roleVar+"=front"), theirs, theirs
		s.begin()
		theirs.Close()
		sent := []byte(content)
		go func() { _, _ = ours.Write(sent) }()
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(ours, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("sockets, flags %#x: %v", flags, err)
		}
		_ = syscall.Shutdown(fds[0], syscall.SHUT_WR)
		if status := s.ended(soon); status != 0 {
			t.Errorf("status %#x", status)
		}
	}
}
