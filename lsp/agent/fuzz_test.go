package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"shadowlsp/lsp/wire"
)

// FuzzServe feeds arbitrary bytes, or arbitrary lines as frames, to a
// connection: it must not panic or hang,
// what it answers must be LSP, and it must end and detach. The documents'
// invariants are checked after every message.
func FuzzServe(f *testing.F) {
	frame := func(bodies ...string) []byte {
		var b bytes.Buffer
		for _, body := range bodies {
			fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
		}
		return b.Bytes()
	}
	lines := func(bodies ...string) []byte { return []byte(strings.Join(bodies, "\n")) }
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), false)
	f.Add([]byte("Content-Length: 10\r\n\r\n{"), false)
	f.Add(frame(initialize, `{`, `[]`, hover, `{"jsonrpc":"2.0","id":1,"method":"shutdown"}`, `{"jsonrpc":"2.0","method":"exit"}`), false)
	f.Add(lines(initialize, didOpen("file:///a", 1, "x😀\r\ny"), didChange("file:///%61", 2, at(0, 1, 1, 9, "z")), hover, didClose("file:///a"), didClose("file:///a")), true)
	f.Add(lines(initialize, didOpen("file:///a", 1, "x"), didChange("file:///a", 0, at(0, 1, 1, 9, "z")), didChange("file:///a", 3, at(5, 1, 1, 9, "z")),
		didOpen("file:///b", 1, "0123456789012345678901234567890"), didOpen("file:///c", 1, "x"), didOpen("file:///d", 1, "x"), didChange("file:///a", 4, `{"text":""}`)), true)
	f.Add(lines(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":`+pull+`,"initializationOptions":{"shadowlsp":{"token":"t","branch":"b"}}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"textDocument/diagnostic","params":{"textDocument":{"uri":"file:///a"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"workspace/diagnostic","params":{"previousResultIds":[{"uri":"file:///a","value":"x"}],"partialResultToken":1}}`,
		`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}`, `{"jsonrpc":"2.0","id":1,"result":null}`, `{"jsonrpc":"2.0","id":"x","method":"shadowlsp/lint"}`), true)
	f.Fuzz(func(t *testing.T, in []byte, framed bool) {
		if framed {
			in = frame(strings.Split(string(in), "\n")...)
		}
		b := &fake{diagnose: func(_ context.Context, uris []string) Pending[Diagnosis] {
			d := Diagnosis{Reports: []Report{fresh("file:///w", finding)}}
			for _, uri := range uris {
				d.Reports = append(d.Reports, fresh(uri, "[]"))
			}
			return Now(d, nil)
		}}
		conn := &replay{in: in, gone: make(chan struct{})}
		limits := Limits{Documents: 2, TextBytes: 30, Requests: 8, Inbox: 1 << 10, Frame: 1 << 16, HandshakeBytes: 1 << 12}
		ended := make(chan error, 1)
		go func() { ended <- Serve(context.Background(), conn, Config{Limits: limits}, b) }()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("it hangs")
		}
		if len(b.attached) != b.detached {
			t.Errorf("%d attached, %d detached", len(b.attached), b.detached)
		}
		r := wire.NewReader(&conn.out, wire.MaxServerFrame)
		for {
			body, err := r.ReadFrame()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatalf("not LSP: %v", err)
			}
			if _, err := wire.Parse(body); err != nil || !json.Valid(body) {
				t.Fatalf("no message: %q: %v", body, err)
			}
			if bytes.Contains(body, []byte("failed inside")) {
				t.Fatalf("a panic: %s", body)
			}
		}
	})
}

// replay is a connection whose peer has sent in, closed, and reads everything.
type replay struct {
	net.Conn
	in   []byte
	out  bytes.Buffer // the writer's alone until Close
	gone chan struct{}
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.in)
	r.in = r.in[n:]
	return n, nil
}
func (r *replay) Write(p []byte) (int, error)      { return r.out.Write(p) }
func (r *replay) Close() error                     { return nil }
func (r *replay) SetReadDeadline(time.Time) error  { return nil }
func (r *replay) SetWriteDeadline(time.Time) error { return nil }

// FuzzSetMember compares editing in place with decoding, setting and encoding.
func FuzzSetMember(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1.0}, "c" : [ ]}`), "x")
	f.Add([]byte(` {"\u0061":null,"a":{}} `), "")
	f.Add([]byte(`{"a":{"b":{},"b":2,"z":1}}`), "\xff<")
	f.Add([]byte(`null`), "a")
	f.Fuzz(func(t *testing.T, raw []byte, value string) {
		if !json.Valid(raw) {
			return
		}
		encoded := encode(value)
		got, ok := setMember(raw, encoded, "a", "b")
		if !json.Valid(got) {
			t.Fatalf("%q became %q", raw, got)
		}
		back, has := lookup(got, "a", "b")
		if ok && (!has || !bytes.Equal(back, encoded)) || !ok && !bytes.Equal(got, raw) {
			t.Fatalf("%q became %q", raw, got)
		}
		cut := cutMember(got, "a", "b")
		if _, has := lookup(cut, "a", "b"); has || !json.Valid(cut) {
			t.Fatalf("%q cut to %q", got, cut)
		}
		if _, had := lookup(raw, "a", "b"); ok && !had && len(bytes.TrimSpace(raw)) > 4 {
			// What was only added leaves nothing else changed when it is cut.
			if inner, isObject := lookup(raw, "a"); isObject && inner[0] == '{' && !bytes.Equal(cut, raw) {
				t.Fatalf("%q became %q, cut to %q", raw, got, cut)
			}
		}
	})
}
