package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
)

const (
	// MaxHeader bounds one header block in bytes: real ones are below 100.
	MaxHeader = 4096
	// MaxServerFrame bounds a frame that a language server sends. Servers are
	// trusted, but a broken one must not take all memory; the largest answers
	// seen (workspace symbols, completion lists) are a few tens of megabytes.
	MaxServerFrame = 512 << 20
	// MaxAgentFrame bounds a frame that an agent sends. It carries at most one
	// document's text, or a lint call with several.
	MaxAgentFrame = 64 << 20
)

var (
	// ErrNotLSP says that the bytes are not LSP framing. The stream cannot be
	// used any further: close it, answer nothing (a web page's request must
	// not find anyone to talk to).
	ErrNotLSP = errors.New("not LSP framing: expected a Content-Length header")
	// ErrTooLarge says that the peer announced a frame over the limit. The
	// stream cannot be used any further.
	ErrTooLarge = errors.New("frame over the size limit")
)

// Reader reads frames. It is for one goroutine.
type Reader struct {
	in    *bufio.Reader
	limit int
}

// NewReader reads frames of at most limit bytes (of body) from r.
func NewReader(r io.Reader, limit int) *Reader {
	// Larger bodies are read past the buffer; hundreds of idle connections hold one each.
	return &Reader{in: bufio.NewReaderSize(r, 8<<10), limit: limit}
}

// ReadFrame returns the body of the next frame, which the caller owns.
// It returns io.EOF at a clean end, io.ErrUnexpectedEOF inside a frame, and
// ErrNotLSP or ErrTooLarge (wrapped) for what must be refused.
func (r *Reader) ReadFrame() ([]byte, error) {
	length, err := r.readHeader()
	if err != nil {
		return nil, err
	}
	if length > r.limit {
		return nil, fmt.Errorf("%w: %d bytes announced, %d allowed", ErrTooLarge, length, r.limit)
	}
	// A peer that announces much and sends little must not make us allocate
	// much: beyond a megabyte the buffer grows with what has really come.
	if length <= 1<<20 {
		body := make([]byte, length)
		if _, err := io.ReadFull(r.in, body); err != nil {
			return nil, unexpected(err)
		}
		return body, nil
	}
	var body bytes.Buffer
	if n, err := io.CopyN(&body, r.in, int64(length)); err != nil || n != int64(length) {
		return nil, unexpected(err)
	}
	return body.Bytes(), nil
}

func unexpected(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readHeader reads one header block. Fields other than Content-Length are
// ignored; lines may end in LF alone, as lenient servers accept it.
func (r *Reader) readHeader() (int, error) {
	length, total := -1, 0
	for {
		line, err := r.in.ReadSlice('\n')
		total += len(line)
		if err != nil {
			if errors.Is(err, io.EOF) && total == 0 {
				return 0, io.EOF
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				return 0, ErrNotLSP
			}
			return 0, unexpected(err)
		}
		if total > MaxHeader {
			return 0, ErrNotLSP
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if length < 0 {
				return 0, ErrNotLSP
			}
			return length, nil
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || bytes.ContainsAny(name, " \t/") {
			return 0, ErrNotLSP // "POST /a:b HTTP/1.1" is no header field
		}
		if !bytes.EqualFold(bytes.TrimSpace(name), []byte("Content-Length")) {
			continue
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 31)
		if err != nil {
			return 0, fmt.Errorf("%w: Content-Length %q", ErrNotLSP, value)
		}
		length = int(n)
	}
}

// Writer writes frames. It is safe for concurrent use: each frame leaves in
// one write.
type Writer struct {
	mu  sync.Mutex // guards the fields below
	out io.Writer
	buf []byte
}

// NewWriter writes frames to w.
func NewWriter(w io.Writer) *Writer { return &Writer{out: w} }

// WriteFrame writes body as one frame. It blocks as long as the peer does not
// read: who may not wait puts a queue before it.
func (w *Writer) WriteFrame(body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	buf := append(w.buf[:0], "Content-Length: "...)
	buf = strconv.AppendInt(buf, int64(len(body)), 10)
	buf = append(buf, "\r\n\r\n"...)
	buf = append(buf, body...)
	if cap(buf) <= 1<<20 {
		w.buf = buf
	} else {
		w.buf = nil // one huge frame must not pin its memory for ever
	}
	_, err := w.out.Write(buf)
	return err
}
