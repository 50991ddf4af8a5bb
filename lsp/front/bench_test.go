package front

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"shadowlsp/integration/need"
)

// BenchmarkRoundTrip measures what a question of an editor's size costs: there
// and back through two pipes, and through the front between the same. Each run
// takes the ways in turn, so that all see the same machine.
func BenchmarkRoundTrip(b *testing.B) {
	_, socket := listen(b)
	ways := []struct {
		name string
		s    *session
		took []time.Duration
	}{
		{name: "bare", s: bare(b, "echo")},
		{name: "front", s: fronted(b, nil, "echo")},
		{name: "front-hung-daemon", s: fronted(b, []string{socketVar + "=" + socket}, "echo")},
	}
	question := message(`{"jsonrpc":"2.0","id":1,"method":"textDocument/completion","params":{"textDocument":{"uri":"file:///home/someone/project/file.go"},"position":{"line":10,"character":10}}}`)
	buf := make([]byte, len(question))
	for _, w := range ways {
		w.s.roundTrip(message(initialize))
		for range 500 {
			turn(b, w.s, question, buf)
		}
	}
	for b.Loop() {
		for i := range ways {
			began := time.Now()
			turn(b, ways[i].s, question, buf)
			ways[i].took = append(ways[i].took, time.Since(began))
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, w := range ways {
		slices.Sort(w.took)
		for _, p := range []int{50, 99} {
			at := w.took[min(len(w.took)*p/100, len(w.took)-1)]
			b.ReportMetric(float64(at)/1000, fmt.Sprintf("%s-p%d-µs", w.name, p))
		}
	}
}

func turn(b *testing.B, s *session, question, buf []byte) {
	if _, err := s.stdin.Write(question); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(s.stdout, buf); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLarge measures an 8 MB message there and back.
func BenchmarkLarge(b *testing.B) {
	big := message(`"` + string(bytes.Repeat([]byte("x"), 8<<20)) + `"`)
	for name, s := range map[string]*session{"bare": bare(b, "echo"), "front": fronted(b, nil, "echo")} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(2 * len(big)))
			for b.Loop() {
				s.roundTrip(big)
			}
		})
	}
}

// FuzzBytes sends any bytes through one front that lives through the whole run,
// with a daemon that listens.
func FuzzBytes(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}"))
	f.Add([]byte("Content-Length: 200000\r\n\r\n{}"))
	f.Add([]byte{0, 0xff, '\n'})
	f.Add(message(initialize))
	l, socket := listen(f)
	s := frontFor(f, []string{socketVar + "=" + socket}, "cat")
	first := message(initialize)
	if !bytes.Equal(s.roundTrip(first), first) {
		f.Fatal("the bytes differ")
	}
	accept(f, l, printless{})
	f.Fuzz(func(t *testing.T, in []byte) {
		s.t = t
		if got := s.roundTrip(in); !bytes.Equal(got, in) {
			t.Fatalf("got %q", got)
		}
	})
	s.t = f
}

type printless struct{}

func (printless) Hello(Hello)            {}
func (printless) Frame(_ bool, _ []byte) {}
func (printless) Gap(bool, int)          {}

// A terminal's keys reach the server once, by the terminal itself.
func TestCtrlCReachesTheServerOnce(t *testing.T) {
	master, slave := openTerminal(t)
	s := &session{t: t, cmd: exec.Command(self(t), self(t), "signals"), stdin: master}
	out, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdout = out
	s.cmd.Env, s.cmd.Stdin, s.cmd.Stdout = environ(roleVar+"=front"), slave, outW
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.begin()
	slave.Close()
	outW.Close()
	if got := s.line(); got != "ready" {
		t.Fatal(got)
	}
	for range 3 {
		if _, err := master.Write([]byte{3}); err != nil { // Ctrl-C
			t.Fatal(err)
		}
		if got := s.line(); got != "2" {
			t.Fatalf("got %s", got)
		}
		// Whatever else came of it has come when this has.
		if err := s.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		if got := s.line(); got != "10" {
			t.Fatalf("got %s after Ctrl-C", got)
		}
	}
}

// openTerminal returns both ends of a new terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		need.Unmet(t, true, "no terminals here: %v", err)
	}
	var n uint32
	raw, _ := master.SyscallConn()
	_ = raw.Control(func(fd uintptr) {
		if err = ioctl(fd, syscall.TIOCSPTLCK, &n); err == nil {
			err = ioctl(fd, syscall.TIOCGPTN, &n)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		need.Unmet(t, true, "no terminals here: %v", err)
	}
	return master, slave
}
