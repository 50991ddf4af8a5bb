package trace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// maxQueuedBytes bounds what waits for the disk: enough for a burst of a few
	// of the largest messages, small beside the front that may hold it.
	maxQueuedBytes = 24 << 20
	// maxQueued bounds how many wait: some seconds of the busiest lane.
	maxQueued = 16 << 10
	// maxKept bounds the line buffer that is kept from one line to the next.
	maxKept = 1 << 20
	// defaultCloseWait bounds how long Close waits for a file that takes no bytes.
	defaultCloseWait = 2 * time.Second
)

// Error says what failed on which file. There is one reaction to all of them:
// tell whoever asked for the dump, and go on without it.
type Error struct {
	Op, Path string
	Err      error
}

func (e *Error) Error() string { return fmt.Sprintf("trace dump: %s %s: %v", e.Op, e.Path, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Sink appends events to a file. All methods may be called from any goroutine,
// and on a nil Sink. It has one goroutine, the writer.
type Sink struct {
	path      string
	now       func() time.Time
	closeWait time.Duration

	file *os.File      // owned by the writer; Close sets its deadline
	wake chan struct{} // holds one token while there may be something to write
	done chan struct{} // closed when the writer has ended

	mu      sync.Mutex // guards the fields below
	queue   []record
	bytes   int // of the records in the queue, being written, and being copied into it
	count   int // how many these are
	dropped uint64
	closed  bool
	err     error // the first failure to write
}

// Open opens path for appending, making it (mode 0600) if needed, and starts the
// writer. An empty path gives a nil Sink.
func Open(path string) (*Sink, error) {
	if path == "" {
		return nil, nil
	}
	// O_NONBLOCK: a named pipe without a reader is an error now instead of a
	// hang here, and one with a slow reader can be given up by Close.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, &Error{Op: "opening", Path: path, Err: err}
	}
	s := &Sink{
		path: path, now: time.Now, closeWait: defaultCloseWait,
		file: file, wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go s.write()
	return s, nil
}

// Message records one message. The body is copied. It never waits.
func (s *Sink) Message(lane, branch, instance, dir string, body []byte) {
	if s == nil {
		return
	}
	r := record{ts: s.now(), lane: lane, branch: branch, instance: instance, dir: dir, body: body}
	if !s.reserve(r.size()) {
		return
	}
	r.body = bytes.Clone(body)
	if r.body == nil {
		r.body = []byte{}
	}
	s.push(r)
}

// Event records that something happened. The lane is Scheduler, unless fields
// has another one under "lane"; "branch" and "instance" are taken from there
// too, other names of a line's own members are ignored. The fields are encoded
// before Event returns. It never waits.
func (s *Sink) Event(name string, fields map[string]any) {
	if s == nil {
		return
	}
	text := func(key, otherwise string) string {
		if v, ok := fields[key].(string); ok {
			return v
		}
		return otherwise
	}
	encoded, err := encodeFields(fields)
	if err != nil {
		encoded, _ = encodeFields(map[string]any{"error": err})
	}
	r := record{
		ts: s.now(), lane: text("lane", Scheduler), branch: text("branch", ""), instance: text("instance", ""),
		event: name, fields: encoded,
	}
	if s.reserve(r.size()) {
		s.push(r)
	}
}

// Dropped returns how many events were dropped and not yet reported in the file.
func (s *Sink) Dropped() uint64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Close writes what is queued and closes the file. It waits for a file that
// takes no bytes for two seconds at most. It returns the first failure to write.
// What is recorded while Close runs may be lost. Close is called once.
func (s *Sink) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.signal()
	// Regular files have no deadlines, pipes and terminals do; a write to a
	// regular file that hangs (a dead network mount) cannot be given up, so
	// Close gives up waiting for the writer instead.
	_ = s.file.SetWriteDeadline(time.Now().Add(s.closeWait))
	late := time.NewTimer(s.closeWait + s.closeWait/4)
	defer late.Stop()
	select {
	case <-s.done:
	case <-late.C:
		return &Error{Op: "closing", Path: s.path, Err: os.ErrDeadlineExceeded}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// reserve takes room for n bytes, or counts a drop.
func (s *Sink) reserve(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.count >= maxQueued || s.bytes+n > maxQueuedBytes {
		s.dropped++
		return false
	}
	s.count++
	s.bytes += n
	return true
}

// push queues a record that has its room.
func (s *Sink) push(r record) {
	s.mu.Lock()
	s.queue = append(s.queue, r)
	s.mu.Unlock()
	s.signal()
}

func (s *Sink) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// write is the writer: it ends when the Sink is closed and the queue empty.
func (s *Sink) write() {
	defer close(s.done)
	var buf bytes.Buffer
	torn := false // the file ends within a line of ours
	for range s.wake {
		s.mu.Lock()
		batch, dropped, closed := s.queue, s.dropped, s.closed
		s.queue, s.dropped = nil, 0
		s.mu.Unlock()
		for _, r := range batch {
			s.writeLine(&buf, &torn, r)
			s.mu.Lock()
			s.bytes -= r.size()
			s.count--
			s.mu.Unlock()
		}
		if dropped > 0 {
			// What was dropped came after what was queued then.
			fields, _ := encodeFields(map[string]any{"count": dropped})
			s.writeLine(&buf, &torn, record{ts: s.now(), lane: Scheduler, event: Dropped, fields: fields})
		}
		if closed {
			break
		}
	}
	err := s.file.Close()
	s.fail("closing", err)
}

// writeLine writes one line with one write. After a write that stopped midway
// (a full disk) the next line begins with a newline, so that it stands alone.
func (s *Sink) writeLine(buf *bytes.Buffer, torn *bool, r record) {
	if buf.Cap() > maxKept {
		*buf = bytes.Buffer{}
	}
	buf.Reset()
	if *torn {
		buf.WriteByte('\n')
	}
	appendLine(buf, r)
	buf.WriteByte('\n')
	n, err := s.file.Write(buf.Bytes())
	switch {
	case err == nil:
		*torn = false
	case n > 0:
		*torn = true
	}
	s.fail("writing", err)
}

// fail remembers the first failure.
func (s *Sink) fail(op string, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = &Error{Op: op, Path: s.path, Err: err}
	}
}
