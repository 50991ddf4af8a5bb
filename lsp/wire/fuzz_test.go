package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

// The reference: one frame at a time, cut off a whole input, with no care for
// cost or memory.

type outcome struct {
	frames []string
	err    error // io.EOF at a clean end
}

func referenceFrames(in string, limit int) outcome {
	var o outcome
	for {
		length, total := -1, 0
		if in == "" {
			o.err = io.EOF
			return o
		}
		for {
			line, rest, found := strings.Cut(in, "\n")
			if !found {
				o.err = io.ErrUnexpectedEOF
				if total+len(in) > MaxHeader {
					o.err = nil // too long and cut off: either may be said
				}
				return o
			}
			if total += len(line) + 1; total > MaxHeader {
				o.err = ErrNotLSP
				return o
			}
			in = rest
			line = strings.TrimRight(line, "\r")
			if line == "" {
				break
			}
			name, value, colon := strings.Cut(line, ":")
			if !colon || strings.ContainsAny(name, " \t/") {
				o.err = ErrNotLSP
				return o
			}
			if strings.EqualFold(strings.TrimSpace(name), "content-length") {
				n, ok := referenceNumber(strings.TrimSpace(value))
				if !ok {
					o.err = ErrNotLSP
					return o
				}
				length = n
			}
		}
		switch {
		case length < 0:
			o.err = ErrNotLSP
		case length > limit:
			o.err = ErrTooLarge
		case length > len(in):
			o.err = io.ErrUnexpectedEOF
		default:
			o.frames = append(o.frames, in[:length])
			in = in[length:]
			continue
		}
		return o
	}
}

// referenceNumber reads digits, and nothing else, as a number of 31 bits.
func referenceNumber(s string) (int, bool) {
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int(c-'0'); n > math.MaxInt32 {
			return 0, false
		}
	}
	return n, s != ""
}

func readFrames(in io.Reader, limit int) outcome {
	var o outcome
	r := NewReader(in, limit)
	for {
		body, err := r.ReadFrame()
		if err != nil {
			o.err = err
			return o
		}
		o.frames = append(o.frames, string(body))
	}
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"Content-Length: 2\r\n\r\n{}", "Content-Length: 2\r\n\r\n{}content-length:3\n\n[1]", "Content-Length: 9\r\n\r\n{}",
		"Content-Type: a\r\nContent-Length: 0\r\n\r\n", "Content-Length : 0\r\n\r\n", "\r\n\r\n", "Content-Length: -1\r\n\r\n", "Content-Length: +1\r\n\r\n{",
		"Content-Length: 1_0\r\n\r\n{", "Content-Length: 4294967296\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"Content-Length: 2\r\nContent-Length: 1\r\n\r\n{}", "Content-Length: 1000\r\n\r\n{}", "X: " + strings.Repeat("y", MaxHeader),
		"Content-Length: 1\r\n\r\r\n\n{", strings.Repeat("X:\n", MaxHeader/3) + "Content-Length: 1\n\n1",
		"Content-Length: 2\r\n\r\n{}\nContent-Length: 2\r\n\r\n{}", "X: " + strings.Repeat("y", 70<<10),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		const limit = 500
		want := referenceFrames(in, limit)
		for how, r := range map[string]io.Reader{
			"at once": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)),
			"end with the last": iotest.DataErrReader(strings.NewReader(in)),
		} {
			got := readFrames(r, limit)
			failure := want.err
			if failure == nil && (errors.Is(got.err, ErrNotLSP) || errors.Is(got.err, io.ErrUnexpectedEOF)) {
				failure = got.err
			}
			if len(got.frames) != len(want.frames) || failure == nil || !errors.Is(got.err, failure) {
				t.Fatalf("%s: %q\n got %q, %v\nwant %q, %v", how, in, got.frames, got.err, want.frames, want.err)
			}
			for i := range got.frames {
				if got.frames[i] != want.frames[i] {
					t.Fatalf("%s: frame %d: got %q, want %q", how, i, got.frames[i], want.frames[i])
				}
			}
		}
		// What was read and is written again reads the same.
		var again bytes.Buffer
		w := NewWriter(&again)
		for _, frame := range want.frames {
			if err := w.WriteFrame([]byte(frame)); err != nil {
				t.Fatal(err)
			}
		}
		if got := readFrames(&again, limit); got.err != io.EOF || len(got.frames) != len(want.frames) {
			t.Fatalf("written again: %q, %v", got.frames, got.err)
		}
	})
}

// Parse and WithID against a decoded map: every member but the id is the same.
func FuzzWithID(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"id":2}}`, `{"id":1e0,"result":null}`, ` { "id" : "a\u0041" , "method":"b" } `,
		`{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}`, `{"id":null,"error":{}}`, `{"method":"x","method":"y","id":1,"id":2}`,
		`{"jsonrpc":"2.0","id":1,"id":null,"method":"x"}`, `{"\u0069d":1,"method":"x"}`, `{"ID":1,"id":2,"method":"x"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		body := []byte(in)
		m, err := Parse(body)
		if err != nil {
			return
		}
		if string(body) != in {
			t.Fatal("the body was changed")
		}
		if m.Kind == Request && (m.ID == nil || m.Method == "") || m.Kind == Notification && (m.ID != nil || m.Method == "") {
			t.Fatalf("%q: %v with id %q, method %q", in, m.Kind, m.ID, m.Method)
		}
		if m.ID == nil {
			return
		}
		if !json.Valid(body) {
			return // Parse looks at the envelope only
		}
		var before, after map[string]json.RawMessage
		out := m.WithID(json.RawMessage(`"new"`))
		if json.Unmarshal(body, &before) != nil || json.Unmarshal(out, &after) != nil {
			t.Fatalf("%q became %q", in, out)
		}
		before["id"] = json.RawMessage(`"new"`)
		for name, value := range before {
			if !bytes.Equal(after[name], value) {
				t.Fatalf("%q became %q: member %q", in, out, name)
			}
		}
		if again, err := Parse(out); err != nil || string(again.ID) != `"new"` || again.Kind != m.Kind || again.Method != m.Method {
			t.Fatalf("%q became %q: %v, %v", in, out, again.Kind, err)
		}
	})
}
