package front

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
)

// The test binary is also the front, the server and the daemon of its tests.
const (
	roleVar   = "FRONT_TEST_ROLE"
	socketVar = "FRONT_TEST_SOCKET"
	traceVar  = "FRONT_TEST_TRACE"
	modeVar   = "FRONT_TEST_MODE"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "front":
		os.Exit(frontMain())
	case "server":
		serverMain(os.Args[1:])
		os.Exit(0)
	case "daemon":
		daemonMain(os.Args[1])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func environ(set ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FRONT_TEST_") })
	// The race detector waits for a second at each exit.
	return append(append(env, "GORACE=atexit_sleep_ms=0"), set...)
}

func frontMain() int {
	cfg := Config{
		Command:   os.Args[1:],
		TraceFile: os.Getenv(traceVar),
		Env:       environ(roleVar + "=server"),
	}
	mode := os.Getenv(modeVar)
	if socket := os.Getenv(socketVar); socket != "" {
		cfg.Connect = func(ctx context.Context, root string, start bool) (net.Conn, error) {
			if start {
				note, err := os.OpenFile(socket+".starts", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err == nil {
					fmt.Fprintln(note, root)
					note.Close()
				}
			}
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}
	}
	switch mode {
	case "panic":
		cfg.onFrame = func(bool, []byte) { panic("on purpose") }
	case "hang":
		cfg.Connect = func(context.Context, string, bool) (net.Conn, error) { select {} }
	case "slow":
		cfg.onFrame = func(bool, []byte) { select {} } // the courier never comes back
	}
	return Run(cfg, os.Stdin, os.Stdout, os.Stderr)
}

// serverMain is a scripted server.
func serverMain(args []string) {
	switch args[0] {
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "exit":
		n, _ := strconv.Atoi(args[1])
		os.Exit(n)
	case "die":
		n, _ := strconv.Atoi(args[1])
		dieBy(syscall.Signal(n))
		select {}
	case "write": // N bytes, then exit 7 at once
		n, _ := strconv.Atoi(args[1])
		_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), n))
		os.Exit(7)
	case "close-stdout":
		os.Stdout.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	case "close-stdin":
		os.Stdin.Close()
		fmt.Println("closed")
		select {}
	case "ignore-stdin":
		fmt.Println(os.Getpid())
		select {}
	case "write-until-failure":
		for {
			if _, err := os.Stdout.Write([]byte("0123456789")); err != nil {
				os.Exit(9) // not reached where SIGPIPE has its default action
			}
		}
	case "signals":
		in := make(chan os.Signal, 16)
		signal.Notify(in)
		fmt.Println("ready")
		for s := range in {
			if s != syscall.SIGURG { // Go's own
				fmt.Println(int(s.(syscall.Signal)))
			}
		}
	case "leave-child": // a child that holds our stdout and outlives us
		child := exec.Command("sleep", "60")
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := child.Start(); err != nil {
			os.Exit(1)
		}
		fmt.Println(child.Process.Pid)
		os.Exit(5)
	case "describe":
		describe()
	}
}

// describe prints what a server can see of how it was started.
func describe() {
	dir, _ := os.Getwd()
	fmt.Println(os.Args, dir)
	env := os.Environ()
	slices.Sort(env)
	for _, v := range env {
		fmt.Println(v)
	}
	limits, _ := os.ReadFile("/proc/self/limits")
	fmt.Print(string(limits))
	fmt.Println(syscall.Getpgrp() == syscall.Getpid())
	// The Go runtime has changed its own signals by now: ask a shell.
	status, _ := exec.Command("grep", "-E", "^(SigBlk|SigIgn|NoNewPrivs|Seccomp|Uid|Gid|Umask)", "/proc/self/status").Output()
	fmt.Print(string(status))
	for fd := range 12 {
		target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		kind, _, _ := strings.Cut(target, ":")
		if err == nil && fd != 0 && fd != 1 && kind != "anon_inode" {
			fmt.Println(fd, kind)
		}
	}
}

// daemonMain receives on one socket and prints what it hears.
func daemonMain(socket string) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		os.Exit(1)
	}
	fmt.Println("ready")
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() { _ = Receive(conn, printer{}) }()
	}
}

type printer struct{}

func (printer) Hello(Hello)            { fmt.Println("hello") }
func (printer) Frame(_ bool, _ []byte) { fmt.Println("frame") }
func (printer) Gap(bool, int)          { fmt.Println("gap") }

// session is one command between pipes.
type session struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr bytes.Buffer
	once   sync.Once
	state  *os.ProcessState
}

func self(t testing.TB) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// bare runs a mode of the scripted server directly.
func bare(t testing.TB, mode ...string) *session {
	return start(t, environ(roleVar+"=server"), append([]string{self(t)}, mode...))
}

// fronted runs a mode of the scripted server behind a front.
func fronted(t testing.TB, env []string, mode ...string) *session {
	return frontFor(t, env, append([]string{self(t)}, mode...)...)
}

// frontFor runs any command behind a front.
func frontFor(t testing.TB, env []string, command ...string) *session {
	return start(t, append(environ(roleVar+"=front"), env...), append([]string{self(t)}, command...))
}

func start(t testing.TB, env, argv []string) *session {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, cmd: exec.Command(argv[0], argv[1:]...), stdin: inW, stdout: outR}
	s.cmd.Env, s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = env, inR, outW, &s.stderr
	s.begin()
	inR.Close()
	outW.Close()
	return s
}

func (s *session) begin() {
	s.cmd.WaitDelay = time.Second // a grandchild may hold stderr
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		s.wait()
		s.stdin.Close()
		s.stdout.Close()
	})
}

func (s *session) wait() syscall.WaitStatus {
	s.once.Do(func() {
		_ = s.cmd.Wait()
		s.state = s.cmd.ProcessState
	})
	return s.state.Sys().(syscall.WaitStatus)
}

// ended waits for the end of the session, and fails the test if it takes long.
func (s *session) ended(within time.Duration) syscall.WaitStatus {
	s.t.Helper()
	late := time.AfterFunc(within, func() { _ = s.cmd.Process.Kill() })
	status := s.wait()
	if !late.Stop() {
		s.t.Fatalf("not ended after %v; stderr %q", within, s.stderr.String())
	}
	return status
}

// line reads one line of the server's output.
func (s *session) line() string {
	s.t.Helper()
	var line []byte
	var b [1]byte
	_ = s.stdout.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		if _, err := io.ReadFull(s.stdout, b[:]); err != nil {
			s.t.Fatalf("reading a line: %v after %q", err, line)
		}
		if b[0] == '\n' {
			_ = s.stdout.SetReadDeadline(time.Time{})
			return string(line)
		}
		line = append(line, b[0])
	}
}

// roundTrip sends bytes to an echoing server and returns what comes back.
func (s *session) roundTrip(b []byte) []byte {
	s.t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := s.stdin.Write(b)
		sent <- err
	}()
	got := make([]byte, len(b))
	_ = s.stdout.SetReadDeadline(time.Now().Add(60 * time.Second))
	n, err := io.ReadFull(s.stdout, got)
	if err != nil {
		s.t.Errorf("%v after %d of %d bytes", err, n, len(b))
		s.stdin.Close() // ends the writer
	}
	if err := <-sent; err != nil {
		s.t.Errorf("writing: %v", err)
	}
	return got[:n]
}

// told is a daemon's handler that keeps what it hears.
type told struct {
	mu     sync.Mutex // guards the fields below
	hello  Hello
	frames []frame
	gaps   [2]int
	order  []string
	news   chan struct{}
}

func newTold() *told { return &told{news: make(chan struct{}, 1)} }

func (d *told) note(what string, f func()) {
	d.mu.Lock()
	f()
	d.order = append(d.order, what)
	d.mu.Unlock()
	select {
	case d.news <- struct{}{}:
	default:
	}
}

func (d *told) Hello(h Hello) { d.note("hello", func() { d.hello = h }) }

func (d *told) Frame(toServer bool, body []byte) {
	var m struct{ Method string }
	_ = json.Unmarshal(body, &m)
	d.note(arrow(toServer)+m.Method, func() { d.frames = append(d.frames, frame{toServer, body}) })
}

func (d *told) Gap(toServer bool, n int) {
	d.note("gap"+arrow(toServer), func() { d.gaps[direction(toServer)] += n })
}

// until waits for a condition on what was heard.
func (d *told) until(t testing.TB, what string, ok func(*told) bool) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		d.mu.Lock()
		done, order := ok(d), slices.Clone(d.order)
		d.mu.Unlock()
		if done {
			return
		}
		select {
		case <-d.news:
		case <-late:
			t.Fatalf("not heard: %s; heard %q", what, order)
		}
	}
}

// listen is a daemon in this process; each connection is received by the next
// handler that accept returns.
func listen(t testing.TB) (net.Listener, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "front") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, socket
}

// accept receives one connection; the test waits for its end.
func accept(t testing.TB, l net.Listener, h Handler) net.Conn {
	t.Helper()
	_ = l.(*net.UnixListener).SetDeadline(time.Now().Add(20 * time.Second))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Receive(conn, h)
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return conn
}

func message(body string) []byte {
	return fmt.Appendf(nil, "Content-Length: %d\r\n\r\n%s", len(body), body)
}

func ioctl(fd uintptr, request uint, n *uint32) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, uintptr(request), uintptr(unsafe.Pointer(n))); errno != 0 {
		return errno
	}
	return nil
}
