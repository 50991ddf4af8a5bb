package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *Sink {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, path string) (lines []string, events []Event) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines, events = append(lines, strings.TrimSuffix(line, "\n")), append(events, e)
	}
	return lines, events
}

func TestLinesAreWhatWasPromised(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	s := open(t, path)
	s.now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC) }
	s.Message(User, "", "", ToServer, []byte("{\n  \"id\": 1e0,\n  \"zz\": \"<a>\",\t\"a\": 1.00\n}"))
	s.Message(Shadow, "b", "gopls-1", FromServer, []byte("not\n\"json\""))
	s.Message(Agent, "b", "", ToServer, []byte("\xff\x00"))
	s.Message(Agent, "b", "", ToServer, nil)
	s.Event("turn", map[string]any{"turn": 7, "branch": "b", "err": errors.New("why"), "ts": "mine"})
	s.Event("bad", map[string]any{"c": make(chan int)})
	s.Event("bare", nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	lines, events := read(t, path)
	const ts = `{"ts":"2026-01-02T03:04:05.000000006Z","lane":`
	want := []string{
		ts + `"user","dir":"->","msg":{"id":1e0,"zz":"<a>","a":1.00}}`,
		ts + `"shadow","branch":"b","instance":"gopls-1","dir":"<-","raw":"not\n\"json\""}`,
		ts + `"agent","branch":"b","dir":"->","encoding":"base64","raw":"/wA="}`,
		ts + `"agent","branch":"b","dir":"->","raw":""}`,
		ts + `"scheduler","branch":"b","event":"turn","err":"why","turn":7}`,
		ts + `"scheduler","event":"bad","error":"encoding the fields of an event: json: unsupported type: chan int"}`,
		ts + `"scheduler","event":"bare"}`,
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Error(d)
	}
	for i, e := range events { // what is read back writes the same line
		var again strings.Builder
		enc := json.NewEncoder(&again)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(e); err != nil || again.String() != lines[i]+"\n" {
			t.Errorf("%v\n got %s\nwant %s", err, again.String(), lines[i])
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestSeveralSinksShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	var all sync.WaitGroup
	for lane := range 3 {
		s := open(t, path)
		all.Go(func() {
			for i := range 300 {
				s.Message(fmt.Sprint(lane), "", "", ToServer, []byte(fmt.Sprintf(`{"n":%d,"pad":%q}`, i, strings.Repeat("x", i*10))))
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	_, events := read(t, path)
	next := map[string]int{}
	for _, e := range events {
		var m struct{ N int }
		if err := json.Unmarshal(e.Msg, &m); err != nil || m.N != next[e.Lane] {
			t.Fatalf("lane %s: got %d, %v; want %d", e.Lane, m.N, err, next[e.Lane])
		}
		next[e.Lane]++
	}
	if len(events) != 900 {
		t.Errorf("%d lines", len(events))
	}
}

// A pipe that nobody reads stands for any file that hangs.
func TestAHungFileDropsAndCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	s := open(t, path)
	s.closeWait = time.Minute // the race detector reads slowly
	big := []byte(`{"pad":"` + strings.Repeat("x", 1<<20) + `"}`)
	const sent = 200
	for range sent {
		s.Message(User, "", "", ToServer, big)
	}
	if s.Dropped() == 0 {
		t.Fatal("200 MB were queued")
	}
	written := make(chan int, 1)
	go func() { // reads to the end, which Close makes
		kept, dropped := 0, 0
		in := bufio.NewReader(reader)
		for kept+dropped < sent {
			line, err := in.ReadBytes('\n')
			if err != nil {
				t.Error(err)
				break
			}
			var e Event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Error(err)
				break
			}
			if e.Event == Dropped {
				dropped += int(e.Fields["count"].(float64))
			} else {
				kept++
			}
		}
		written <- dropped
	}()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if dropped := <-written; dropped < sent-30 {
		t.Errorf("%d dropped, more kept than the queue's limit", dropped)
	}
}

func TestCloseGivesUpAHungFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("a pipe without a reader: %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	s := open(t, path)
	s.closeWait = 20 * time.Millisecond
	for range 10 {
		s.Message(User, "", "", ToServer, bytes.Repeat([]byte("1"), 1<<20))
	}
	if err := s.Close(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	s.Message(User, "", "", ToServer, []byte("1")) // after Close: nothing
	<-s.done                                       // the writer ends by itself: no write waits any more
}

// A write that stops midway must not swallow the next line.
func TestALineAfterATornOneStandsAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	s := open(t, path)
	var buf bytes.Buffer
	torn := true
	if _, err := s.file.WriteString(`{"ts":`); err != nil {
		t.Fatal(err)
	}
	s.writeLine(&buf, &torn, record{event: "x"})
	s.writeLine(&buf, &torn, record{event: "y"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(path)
	lines := strings.Split(string(data), "\n")
	if len(lines) != 4 || !json.Valid([]byte(lines[1])) || !json.Valid([]byte(lines[2])) || torn {
		t.Errorf("%q", lines)
	}
}

func TestFailuresToOpen(t *testing.T) {
	var e *Error
	if _, err := Open(t.TempDir()); !errors.As(err, &e) || !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: %v", err)
	}
	if s, err := Open(""); s != nil || err != nil {
		t.Errorf("no path: %v, %v", s, err)
	}
}

func TestANilSinkCostsNothing(t *testing.T) {
	var s *Sink
	body := []byte("{}")
	if n := testing.AllocsPerRun(100, func() {
		s.Message(User, "", "", ToServer, body)
		s.Event("x", nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := s.Close(); err != nil || s.Dropped() != 0 {
		t.Error(err)
	}
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{"{}", "[1,\n2]", "nope", "\xff", `{"a":"` + "\u2028" + `"}`, "\"\xff\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var buf bytes.Buffer
		appendLine(&buf, record{ts: time.Unix(1, 2), lane: User, dir: ToServer, body: body})
		if bytes.ContainsAny(buf.Bytes(), "\n") {
			t.Fatalf("a newline within the line: %q", buf.Bytes())
		}
		var e Event
		if err := json.Unmarshal(buf.Bytes(), &e); err != nil {
			t.Fatalf("%v: %q", err, buf.Bytes())
		}
		if e.Msg == nil {
			if !bytes.Equal(e.Raw, body) {
				t.Fatalf("got %q, want %q", e.Raw, body)
			}
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, body); err != nil || !bytes.Equal(want.Bytes(), e.Msg) {
			t.Fatalf("got %q, want %q (%v)", e.Msg, want.Bytes(), err)
		}
	})
}

func BenchmarkMessage(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "trace"))
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"textDocument/hover","params":{}}`)
	for b.Loop() {
		s.Message(User, "", "", ToServer, body)
	}
	b.ReportMetric(float64(s.Dropped())/float64(b.N), "dropped/op")
	_ = s.Close()
}
