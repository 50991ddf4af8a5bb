package front

import (
	"bytes"
	"encoding/json"
	"strconv"

	"shadowlsp/lsp/wire"
)

// maxFrame bounds a frame that is handed on, in bytes of its body. A larger one
// passes the pump like any other, and counts as a gap here.
const maxFrame = 32 << 20

// contentLength is the one header field that matters.
var contentLength = []byte("content-length")

// framer takes a stream of bytes apart into frames: a value that is fed, without
// goroutines or clocks. It understands more than it must and trusts less: a
// stream is in step from its beginning; after missing bytes, or bytes that are
// no header, it is out of step until a header is found with a body behind it
// that is one whole JSON value. (A header cannot be found inside a body by
// mistake: a line end within a JSON string is escaped.)
//
// Every byte that is fed, and every missing one, ends up in exactly one frame or
// one gap.
type framer struct {
	frame func(body []byte) // the body is the framer's again when it returns
	gap   func(bytes uint64)

	inStep bool
	buf    []byte // what has come and is not decided
	need   int    // no decision is possible before buf is that long
	skip   uint64 // bytes of a frame over the limit that are still to come
	took   uint64 // bytes that became frames, headers included
}

func newFramer(frame func(body []byte), gap func(bytes uint64)) *framer {
	return &framer{frame: frame, gap: gap, inStep: true}
}

// feed takes the next bytes of the stream.
func (f *framer) feed(p []byte) {
	if n := min(f.skip, uint64(len(p))); n > 0 {
		f.skip -= n
		f.gap(n)
		p = p[n:]
	}
	f.buf = append(f.buf, p...)
	rest := f.buf
	for len(rest) > 0 && len(rest) >= f.need {
		n := f.step(rest)
		if n == 0 {
			break
		}
		rest = rest[n:]
	}
	f.keep(rest)
}

// missing says that bytes of the stream were not fed: whatever was begun is lost.
func (f *framer) missing(n uint64) {
	f.lose(uint64(len(f.buf)) + n)
	f.buf, f.skip, f.need = nil, 0, 0
}

// end says that the stream has ended: what is incomplete is lost.
func (f *framer) end() {
	if len(f.buf) > 0 {
		f.lose(uint64(len(f.buf)))
	}
	f.buf = nil
}

func (f *framer) lose(n uint64) {
	f.inStep = false
	f.gap(n)
}

// keep holds rest for the next feed, without holding on to the memory of a large
// frame that has passed.
func (f *framer) keep(rest []byte) {
	switch {
	case len(rest) == len(f.buf): // the beginning of a frame: nothing to move
		return
	case len(rest) == 0 && cap(f.buf) > 1<<20:
		f.buf = nil
		return
	}
	f.buf = f.buf[:copy(f.buf, rest)]
}

// step decides on the beginning of b and returns how many bytes that took, 0 if
// more must come first (f.need says how many at least).
func (f *framer) step(b []byte) int {
	f.need = 0
	if !f.inStep {
		at, found := findHeader(b)
		if at > 0 {
			f.gap(uint64(at))
			return at
		}
		if !found {
			return 0
		}
	}
	head, length, state := parseHeader(b)
	switch {
	case state == headerOpen:
		return 0
	case state == headerBad:
		return f.refuse(b)
	case length > maxFrame:
		return f.oversize(b, uint64(head)+uint64(length))
	case len(b) < head+length:
		f.need = head + length
		return 0
	}
	body := b[head : head+length]
	if !f.inStep && !json.Valid(body) {
		return f.refuse(b)
	}
	f.inStep = true
	f.took += uint64(head + length)
	f.frame(body)
	return head + length
}

// refuse drops the first byte of what turned out to be no frame: the search goes
// on behind it, so that a header within a refused body is still found.
func (f *framer) refuse(b []byte) int {
	f.inStep = false
	at, _ := findHeader(b[1:])
	f.gap(uint64(1 + at))
	return 1 + at
}

// oversize passes over a frame that is larger than can be held; out of step such
// a length proves nothing.
func (f *framer) oversize(b []byte, total uint64) int {
	if !f.inStep {
		return f.refuse(b)
	}
	here := min(total, uint64(len(b)))
	f.skip = total - here
	f.gap(here)
	return int(here)
}

type headerState uint8

const (
	headerOpen headerState = iota // more bytes must come
	headerWhole
	headerBad
)

// parseHeader reads a header block at the beginning of b, as [wire.Reader] does.
func parseHeader(b []byte) (size, length int, s headerState) {
	length = -1
	for {
		line, rest, whole := bytes.Cut(b[size:], []byte("\n"))
		if size+len(line) >= wire.MaxHeader {
			return 0, 0, headerBad
		}
		if !whole {
			return 0, 0, headerOpen
		}
		size = len(b) - len(rest)
		line = bytes.TrimRight(line, "\r")
		if len(line) == 0 {
			if length < 0 {
				return 0, 0, headerBad
			}
			return size, length, headerWhole
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return 0, 0, headerBad
		}
		if !bytes.EqualFold(bytes.TrimSpace(name), contentLength) {
			continue
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 31)
		if err != nil {
			return 0, 0, headerBad
		}
		length = int(n)
	}
}

// findHeader returns where a header may begin in b, at the soonest: nothing in
// front of it can be one. found says that its name has come as a whole.
func findHeader(b []byte) (at int, found bool) {
	for at < len(b) {
		i := bytes.IndexAny(b[at:], "cC")
		if i < 0 {
			return len(b), false
		}
		at += i
		n := min(len(contentLength), len(b)-at)
		if bytes.EqualFold(b[at:at+n], contentLength[:n]) {
			return at, n == len(contentLength)
		}
		at++
	}
	return at, false
}
