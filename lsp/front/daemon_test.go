package front

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shadowlsp/integration/need"
	"shadowlsp/lsp/trace"
)

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"workspaceFolders":[{"uri":"file:///some%20where","name":"x"}]}}`

func TestTheDaemonIsTold(t *testing.T) {
	l, socket := listen(t)
	s := fronted(t, []string{socketVar + "=" + socket}, "echo")
	before, after := message(`{"jsonrpc":"2.0","method":"gopls/handshake"}`), message(`{"jsonrpc":"2.0","method":"b"}`)
	s.roundTrip(before)
	s.roundTrip(message(initialize))
	s.roundTrip(after)
	d := newTold()
	accept(t, l, d)
	d.until(t, "six frames", func(d *told) bool { return len(d.frames) == 6 })
	want := []string{"hello", "->gopls/handshake", "<-gopls/handshake", "->initialize", "<-initialize", "->b", "<-b"}
	if diff := cmp.Diff(want, d.order); diff != "" {
		t.Error(diff)
	}
	dir, _ := os.Getwd()
	h := d.hello
	if h.Pid != s.cmd.Process.Pid || h.Dir != dir || h.Folder != "/some where" || h.Version != protocolVersion ||
		!cmp.Equal(h.Command, []string{self(t), "echo"}) || !strings.Contains(strings.Join(h.Env, "\n"), roleVar+"=server") {
		t.Errorf("%+v", h)
	}
	if starts, _ := os.ReadFile(socket + ".starts"); string(starts) != "/some where\n" {
		t.Errorf("started %q", starts)
	}
	s.stdin.Close()
	if status := s.ended(soon); status != 0 {
		t.Errorf("status %#x", status)
	}
}

func TestWhatSpeaksNoLSPStartsNoDaemon(t *testing.T) {
	_, socket := listen(t)
	s := fronted(t, []string{socketVar + "=" + socket}, "echo")
	s.roundTrip([]byte("hello\n"))
	s.stdin.Close()
	s.ended(soon)
	if _, err := os.Stat(socket + ".starts"); err == nil {
		t.Error("started")
	}
}

func TestReconnection(t *testing.T) {
	l, socket := listen(t)
	s := fronted(t, []string{socketVar + "=" + socket}, "echo")
	s.roundTrip(message(initialize))
	// The echo makes an answer of ours one of the server's: only the first counts.
	s.roundTrip(message(`{"jsonrpc":"2.0","id":0,"result":{"capabilities":{}}}`))
	s.roundTrip(message(`{"jsonrpc":"2.0","method":"workspace/didChangeConfiguration","params":{"settings":1}}`))
	s.roundTrip(message(`{"jsonrpc":"2.0","id":7,"method":"workspace/configuration","params":{"items":[{"section":"a"}]}}`))
	s.roundTrip(message(`{"jsonrpc":"2.0","id":7,"result":[1]}`))
	s.roundTrip(message(`{"jsonrpc":"2.0","method":"workspace/didChangeConfiguration","params":{"settings":2}}`))
	s.roundTrip(message(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{}}`))
	first := newTold()
	conn := accept(t, l, first)
	first.until(t, "14 frames", func(d *told) bool { return len(d.frames) == 14 })
	conn.Close()
	second := newTold()
	accept(t, l, second)
	second.until(t, "the gaps", func(d *told) bool { return len(d.order) >= 8 })
	s.roundTrip(message(`{"jsonrpc":"2.0","method":"new"}`))
	second.until(t, "what is new", func(d *told) bool { return len(d.order) == 10 })
	var bodies []string
	for _, f := range second.frames {
		bodies = append(bodies, arrow(f.toServer)+string(f.body))
	}
	want := []string{
		"->" + initialize,
		`<-{"jsonrpc":"2.0","id":0,"result":{"capabilities":{}}}`,
		`<-{"jsonrpc":"2.0","id":7,"method":"workspace/configuration","params":{"items":[{"section":"a"}]}}`,
		`->{"jsonrpc":"2.0","id":7,"result":[1]}`,
		`->{"jsonrpc":"2.0","method":"workspace/didChangeConfiguration","params":{"settings":2}}`,
		`->{"jsonrpc":"2.0","method":"new"}`,
		`<-{"jsonrpc":"2.0","method":"new"}`,
	}
	if diff := cmp.Diff(want, bodies); diff != "" {
		t.Error(diff)
	}
	if second.order[0] != "hello" || second.order[6] != "gap->" || second.order[7] != "gap<-" {
		t.Errorf("%q", second.order)
	}
	if starts, _ := os.ReadFile(socket + ".starts"); strings.Count(string(starts), "\n") != 1 {
		t.Errorf("started %q", starts)
	}
}

// calm is what must hold with every daemon: large messages pass, memory stays
// bounded, the end is prompt.
func calm(t *testing.T, s *session) {
	t.Helper()
	if got := s.roundTrip(message(initialize)); !bytes.Equal(got, message(initialize)) {
		t.Fatal("the bytes differ")
	}
	big := message(`{"jsonrpc":"2.0","method":"x","params":"` + strings.Repeat("x", 8<<20) + `"}`)
	for range 12 {
		if got := s.roundTrip(big); !bytes.Equal(got, big) {
			t.Fatal("the bytes differ")
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var peak int
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	// Two tapes, an outbox, frames in the making, and as much garbage.
	if peak > 300<<10 && !raceDetector {
		t.Errorf("%d MB", peak>>10)
	}
	t.Logf("peak memory %d MB", peak>>10)
	s.stdin.Close()
	began := time.Now()
	if status := s.ended(soon); status != 0 || time.Since(began) > 2*time.Second {
		t.Errorf("status %#x after %v, stderr %q", status, time.Since(began), s.stderr.String())
	}
}

func TestDaemonThatNeverAccepts(t *testing.T) {
	_, socket := listen(t)
	calm(t, fronted(t, []string{socketVar + "=" + socket}, "echo"))
}

func TestNoDaemon(t *testing.T) {
	calm(t, fronted(t, []string{socketVar + "=" + filepath.Join(t.TempDir(), "none")}, "echo"))
}

func TestDaemonThatNeverStarts(t *testing.T) {
	calm(t, fronted(t, []string{socketVar + "=x", modeVar + "=hang"}, "echo"))
}

func TestCourierThatPanics(t *testing.T) {
	calm(t, fronted(t, []string{modeVar + "=panic"}, "echo"))
}

func TestCourierThatHangs(t *testing.T) {
	calm(t, fronted(t, []string{modeVar + "=slow"}, "echo"))
}

func TestDaemonStoppedBySIGSTOP(t *testing.T) {
	dir, err := os.MkdirTemp("", "front")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	daemon := exec.Command(self(t), socket)
	daemon.Env = environ(roleVar + "=daemon")
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = daemon.Process.Kill(); _ = daemon.Wait() }()
	heard := bufio.NewReader(out)
	expect := func(want string) {
		t.Helper()
		if line, err := heard.ReadString('\n'); err != nil || line != want+"\n" {
			t.Fatalf("%q, %v, want %q", line, err, want)
		}
	}
	expect("ready")
	s := fronted(t, []string{socketVar + "=" + socket}, "echo")
	s.roundTrip(message(initialize))
	expect("hello")
	expect("frame")
	expect("frame")
	if err := daemon.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	calm(t, s)
}

// A daemon that comes back to life is told what it missed.
func TestDaemonThatSleepsALittle(t *testing.T) {
	l, socket := listen(t)
	s := fronted(t, []string{socketVar + "=" + socket}, "echo")
	s.roundTrip(message(initialize))
	big := message(`{"jsonrpc":"2.0","method":"big","params":"` + strings.Repeat("x", 8<<20) + `"}`)
	for range 8 { // far more than the outbox holds
		s.roundTrip(big)
	}
	d := newTold()
	accept(t, l, d)
	// What comes while the tape is full is dropped, too: until it is not.
	d.until(t, "the last one", func(d *told) bool {
		if n := len(d.order); n > 0 && d.order[n-1] == "<-last" {
			return true
		}
		s.roundTrip(message(`{"jsonrpc":"2.0","method":"last"}`))
		return false
	})
	d.mu.Lock() // more of the last ones may be under way
	defer d.mu.Unlock()
	if d.order[1] != "->initialize" || d.gaps[0] == 0 || d.gaps[1] == 0 {
		t.Errorf("%q, gaps %v", d.order, d.gaps)
	}
}

func TestTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	s := fronted(t, []string{traceVar + "=" + path}, "echo")
	body := "{\"jsonrpc\": \"2.0\",\n\"method\": \"x\"}"
	s.roundTrip(message(body))
	s.roundTrip([]byte("no frame"))
	s.stdin.Close()
	if status := s.ended(soon); status != 0 {
		t.Fatalf("status %#x", status)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(data)) {
		var e trace.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(e.Lane, e.Dir, e.Instance == filepath.Base(self(t)), string(e.Msg), e.Event))
	}
	want := []string{
		`user->true{"jsonrpc":"2.0","method":"x"}`, `user<-true{"jsonrpc":"2.0","method":"x"}`,
		"usertruegap", "usertruegap", "usertruegap", "usertruegap",
	}
	for i, w := range want {
		if i < len(got) && strings.ReplaceAll(got[i], " ", "") != w {
			t.Errorf("line %d: %q, want %q", i, got[i], w)
		}
	}
	if len(got) < 4 {
		t.Errorf("%q", got)
	}
}

// A trace that cannot be written is no reason for anything.
func TestTraceThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	calm(t, fronted(t, []string{traceVar + "=" + path}, "echo"))
}

func TestGopls(t *testing.T) {
	gopls := need.Tool(t, "gopls")
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n", "x.go": "package x\n\nfunc F() int { return 1 }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, socket := listen(t)
	s := frontFor(t, []string{socketVar + "=" + socket}, gopls)
	send := func(body string) {
		t.Helper()
		if _, err := s.stdin.Write(message(body)); err != nil {
			t.Fatal(err)
		}
	}
	in := bufio.NewReader(s.stdout)
	answer := func(id string) string {
		t.Helper()
		for {
			var n int
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					t.Fatal(err, s.stderr.String())
				}
				if line = strings.TrimSpace(line); line == "" {
					break
				}
				_, _ = fmt.Sscanf(line, "Content-Length: %d", &n)
			}
			body := make([]byte, n)
			if _, err := readFull(in, body); err != nil {
				t.Fatal(err)
			}
			var m struct{ ID, Result json.RawMessage }
			if json.Unmarshal(body, &m) == nil && string(m.ID) == id && m.Result != nil {
				return string(m.Result)
			}
		}
	}
	send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"rootUri":"file://%s","capabilities":{}}}`, dir))
	answer("1")
	d := newTold()
	accept(t, l, d)
	send(`{"jsonrpc":"2.0","method":"initialized","params":{}}`)
	send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"textDocument/documentSymbol","params":{"textDocument":{"uri":"file://%s/x.go"}}}`, dir))
	if got := answer("2"); !strings.Contains(got, `"F"`) {
		t.Error(got)
	}
	send(`{"jsonrpc":"2.0","id":3,"method":"shutdown"}`)
	answer("3")
	send(`{"jsonrpc":"2.0","method":"exit"}`)
	if status := s.ended(soon); status != 0 {
		t.Errorf("status %#x, stderr %q", status, s.stderr.String())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hello.Folder != dir || len(d.frames) < 6 || d.gaps != [2]int{} {
		t.Errorf("%+v, %q", d.hello.Folder, d.order)
	}
}

func readFull(r *bufio.Reader, b []byte) (int, error) {
	for n := 0; n < len(b); {
		m, err := r.Read(b[n:])
		if n += m; err != nil {
			return n, err
		}
	}
	return len(b), nil
}
