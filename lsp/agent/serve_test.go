package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shadowlsp/lsp/trace"
	"shadowlsp/lsp/wire"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}`

func TestInitializeKeepsTheServersOwnBytes(t *testing.T) {
	f := &fake{attach: func(_ context.Context, a Attach) (Attached, error) {
		if a.Options.Branch != "x" || a.Options.Token != "" || !a.Options.Autosave {
			t.Errorf("options %+v", a.Options)
		}
		if got := string(a.Params); got != `{"rootUri":"file:///r","initializationOptions":{"z":1.50},"capabilities":{}}` {
			t.Errorf("params %s", got)
		}
		return Attached{Session: &fake{}, About: About{Branch: "x", Root: "/r", Rev: 3}, Result: json.RawMessage(
			`{"capabilities":{"hoverProvider":1e0,"textDocumentSync":1,"experimental":{"a":[ ]},"diagnosticProvider":{}},"serverInfo":{"name":"gopls"},"q":"é<"}`)}, nil
	}}
	c := start(t, f, Config{Token: "s3cret", Version: "1.2"})
	c.send(`{"jsonrpc":"2.0","id":1e0,"method":"initialize","params":{"rootUri":"file:///r","initializationOptions":{"shadowlsp":{"token":"s3cret","branch":"x"}, "z":1.50},"capabilities":{}}}`)
	c.want(`{"jsonrpc":"2.0","id":1e0,"result":{"capabilities":{"hoverProvider":1e0,` +
		`"textDocumentSync":{"openClose":true,"change":2,"save":{"includeText":false}},` +
		`"experimental":{"a":[ ],"shadowlsp":{"branch":"x","root":"/r","rev":3,"methods":["` + strings.Join(extensionMethods(), `","`) + `"]}},` +
		`"diagnosticProvider":{"identifier":"shadowlsp","interFileDependencies":true,"workspaceDiagnostics":true},"positionEncoding":"utf-16"},` +
		`"serverInfo":{"name":"shadowlsp","version":"1.2"},"q":"é<"}}`)
	c.close()
}

func TestHandshakeRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := start(t, f, Config{})
		c.send(`{"jsonrpc":"2.0","id":7,"method":"textDocument/hover","params":{}}`)
		c.wantError("7", wire.CodeServerNotInitialized, "initialize")
		c.send(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{}}`)
		c.send(`{"jsonrpc":"2.0","id":8,`)
		c.wantError("null", wire.CodeParseError, "not JSON")
		c.send("{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"\xff\"}")
		c.wantError("null", wire.CodeParseError, "UTF-8")
		c.send(`[` + initialize + `]`)
		c.wantError("null", wire.CodeInvalidRequest, "")
		c.send(`{"jsonrpc":"2.0","id":{},"method":"initialize"}`)
		c.recv()
		c.send(initialize)
		c.recv()
		c.send(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}`)
		c.wantError("2", wire.CodeInvalidRequest, "initialized")
		c.send(`{"jsonrpc":"2.0","id":3,"method":`)
		c.wantError("null", wire.CodeParseError, "")
		c.send(`{"jsonrpc":"2.0","id":3,"method":"textDocument/hover","params":[1]}`)
		c.want(`{"jsonrpc":"2.0","id":3,"result":[1]}`)
		c.close()
		if len(f.attached) != 1 || f.detached != 1 {
			t.Errorf("attached %d, detached %d", len(f.attached), f.detached)
		}
	})
}

func TestNoInitializeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := start(t, &fake{}, Config{}), time.Now()
		if err := c.ended(); kind(err) != KindRefused || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		// The time limit is on initialize only.
		c = initialized(t, &fake{}, Config{}, "")
		<-time.After(time.Hour)
		c.nothing()
		c.close()
	})
}

// A page in a browser can send these to a port it guesses. It must not even
// learn that someone listens for more than HTTP.
func TestWhatIsNotLSPIsClosedUnanswered(t *testing.T) {
	for _, in := range []string{
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"POST /a:b HTTP/1.1\r\nHost: x\r\nContent-Length: 74\r\n\r\n" + initialize,
		"POST http://127.0.0.1:1/ HTTP/1.1\r\nContent-Length: 74\r\n\r\n" + initialize,
		"OPTIONS * HTTP/1.1\r\nOrigin: http://evil\r\nContent-Length: 74\r\n\r\n" + initialize,
		"\x16\x03\x01\x02\x00\x01", "\r\nContent-Length: 2\r\n\r\n{}", "{}", "Contentious: 2\r\n\r\n{}", "x",
		"Content-Length 2\r\n\r\n{}", "Content-Length: -2\r\n\r\n{}", "Content-Type: x\r\n\r\n{}",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			c := start(t, f, Config{})
			began := time.Now()
			_, _ = c.conn.Write([]byte(in)) // which fails where it was closed within
			if err := c.ended(); kind(err) != KindRefused || time.Since(began) != 0 {
				t.Errorf("%q: %v after %v", in, err, time.Since(began))
			}
			if len(f.attached) > 0 {
				t.Errorf("%q reached the backend", in)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	for _, given := range []string{`{}`, `{"initializationOptions":{"shadowlsp":{}}}`, `{"initializationOptions":{"shadowlsp":{"token":"s3cre"}}}`,
		`{"initializationOptions":{"shadowlsp":{"token":"s3cret "}}}`, `{"initializationOptions":null}`, `{"initializationOptions":[]}`} {
		f := &fake{}
		c := start(t, f, Config{Token: "s3cret"})
		c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + given + `}`)
		c.wantError("1", wire.CodeInvalidRequest, "token")
		if err := c.ended(); kind(err) != KindRefused || len(f.attached) > 0 {
			t.Errorf("%s: %v", given, err)
		}
	}
}

func TestLimitsBeforeAndAfterTheToken(t *testing.T) {
	c := start(t, &fake{}, Config{Limits: Limits{HandshakeBytes: 1000}})
	go func() { _ = c.w.WriteFrame([]byte(`{"a":"` + strings.Repeat("x", 2000) + `"}`)) }()
	c.wantError("null", wire.CodeInvalidRequest, "1000 allowed")
	if err := c.ended(); kind(err) != KindLimit {
		t.Errorf("%v", err)
	}
	f := &fake{}
	c = initialized(t, f, Config{Limits: Limits{Frame: 5000, HandshakeBytes: 1000}}, "")
	c.sendf(`{"jsonrpc":"2.0","method":"x","params":[%q]}`, strings.Repeat("x", 4000))
	_, _ = c.conn.Write([]byte("Content-Length: 5001\r\n\r\n"))
	c.wantError("null", wire.CodeInvalidRequest, "5001")
	if err := c.ended(); kind(err) != KindLimit {
		t.Errorf("%v", err)
	}
	if got := f.taken(); len(got) != 1 { // what came before the frame is taken
		t.Errorf("%q", got)
	}
}

func TestOptionErrorsAreClear(t *testing.T) {
	for given, want := range map[string]string{
		`{"base":"ram"}`:    `"disk" or "editor"`,
		`{"branch":"../x"}`: `contains ".."`,
		`{"branch":"a..b"}`: `contains ".."`,
		`{"from":"a b"}`:    `must begin with a letter`,
		`{"brnach":"x"}`:    `unknown field "brnach"`,
		`{"autosave":1}`:    `autosave must be a bool, not a number`,
		`[]`:                `must be a`,
		`{"branch":"` + strings.Repeat("x", 65) + `"}`: `longer than 64`,
	} {
		c := start(t, &fake{}, Config{})
		c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"initializationOptions":{"shadowlsp":` + given + `}}}`)
		c.wantError("1", wire.CodeInvalidParams, want)
		if err := c.ended(); kind(err) != KindRefused {
			t.Errorf("%v", err)
		}
	}
	o, err := ParseOptions(json.RawMessage(`{"initializationOptions":{"shadowlsp":{"autosave":false,"keep":true,"from":"m.1-x","base":"editor"}}}`))
	if want := (Options{From: "m.1-x", Base: BaseEditor, Keep: true}); err != nil || o != want {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestShutdownAndExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := initialized(t, f, Config{}, "")
		c.send(`{"jsonrpc":"2.0","id":"s","method":"shutdown"}`)
		c.want(`{"jsonrpc":"2.0","id":"s","result":null}`)
		c.send(`{"jsonrpc":"2.0","id":2,"method":"textDocument/hover"}`)
		c.wantError("2", wire.CodeInvalidRequest, "after shutdown")
		c.send(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a","version":1,"text":""}}}`)
		c.send(`{"jsonrpc":"2.0","method":"exit"}`)
		if err := c.ended(); err != nil || f.detached != 1 || len(f.taken()) != 0 {
			t.Errorf("%v", err)
		}
		c = start(t, f, Config{})
		c.send(`{"jsonrpc":"2.0","method":"exit"}`)
		if err := c.ended(); err != nil {
			t.Errorf("exit before initialize: %v", err)
		}
	})
}

func TestEveryEndAnswersEveryRequest(t *testing.T) {
	hang := func(ctx context.Context, _ wire.Message) Pending[json.RawMessage] {
		return func() (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() }
	}
	ends := map[string]struct {
		end  func(*client, *fake, context.CancelCauseFunc)
		code int
		text string
		kind Kind
	}{
		"exit": {func(c *client, _ *fake, _ context.CancelCauseFunc) { c.send(`{"jsonrpc":"2.0","method":"exit"}`) },
			wire.CodeServerCancelled, "agent left", 0},
		"daemon": {func(_ *client, _ *fake, cancel context.CancelCauseFunc) { cancel(errors.New("the daemon stops")) },
			wire.CodeServerCancelled, "the daemon stops", KindClosed},
		"peer": {func(_ *client, f *fake, _ context.CancelCauseFunc) {
			f.peer().Close(wire.Errorf(wire.CodeRequestFailed, "the branch was dropped"))
		}, wire.CodeRequestFailed, "the branch was dropped", KindClosed},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{request: hang}
				ours, theirs := net.Pipe()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				c := startOn(t, ctx, ours, theirs, f, Config{})
				c.send(initialize)
				c.recv()
				for id := range 5 {
					c.sendf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, id)
				}
				synctest.Wait()
				end.end(c, f, cancel)
				seen := map[string]bool{}
				for range 5 {
					m := c.recv()
					if e := wire.ParseError(m.Error); e.Code != end.code || !strings.Contains(e.Message, end.text) {
						t.Errorf("%s", m.Body)
					}
					seen[string(m.ID)] = true
				}
				if err := c.ended(); kind(err) != end.kind || len(seen) != 5 || f.detached != 1 {
					t.Errorf("%v, %d answered, %d detached", err, len(seen), f.detached)
				}
			})
		})
	}
}

func TestDisconnectAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start(t, &fake{}, Config{}).close()
		// Inside a frame.
		c := start(t, &fake{}, Config{})
		_, _ = c.conn.Write([]byte("Content-Length: 10\r\n\r\n{"))
		_ = c.conn.Close()
		if err := c.ended(); kind(err) != KindIO {
			t.Errorf("%v", err)
		}
		// While attaching: the backend hears of it.
		f := &fake{attach: func(ctx context.Context, _ Attach) (Attached, error) {
			<-ctx.Done()
			return Attached{}, context.Cause(ctx)
		}}
		c = start(t, f, Config{})
		c.send(initialize)
		synctest.Wait()
		c.close()
		// While a request runs; edits sent before are taken.
		f = &fake{request: func(ctx context.Context, _ wire.Message) Pending[json.RawMessage] {
			return func() (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() }
		}}
		c = initialized(t, f, Config{}, pull)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
		c.send(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a","version":1,"text":"t"}}}`)
		c.close()
		same(t, f.taken(), []string{`request {"jsonrpc":"2.0","id":1,"method":"x"}`, `open file:///a v1 "t"`})
		if f.detached != 1 {
			t.Errorf("detached %d times", f.detached)
		}
	})
}

func TestAttachFails(t *testing.T) {
	for _, tc := range []struct {
		attach func(context.Context, Attach) (Attached, error)
		code   int
		text   string
	}{
		{func(context.Context, Attach) (Attached, error) {
			return Attached{}, wire.Errorf(wire.CodeInvalidParams, "branch q does not exist")
		}, wire.CodeInvalidParams, "branch q"},
		{func(context.Context, Attach) (Attached, error) { return Attached{}, errors.New("disk full") }, wire.CodeInternalError, "disk full"},
		{func(context.Context, Attach) (Attached, error) { panic("oops") }, wire.CodeInternalError, "oops"},
		{func(context.Context, Attach) (Attached, error) { return Attached{}, nil }, wire.CodeInternalError, "no session"},
	} {
		c := start(t, &fake{attach: tc.attach}, Config{})
		c.send(initialize)
		c.wantError("1", tc.code, tc.text)
		if err := c.ended(); kind(err) != KindRefused {
			t.Errorf("%v", err)
		}
	}
}

func TestPanicsCostOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{
			edit:         func(verb string, _ Document) error { panic("in " + verb) },
			notification: func(wire.Message) { panic("in notification") },
			request: func(_ context.Context, m wire.Message) Pending[json.RawMessage] {
				switch m.Method {
				case "first":
					panic("first half")
				case "second":
					return func() (json.RawMessage, error) { panic("second half") }
				case "none":
					return nil
				}
				return Now(json.RawMessage(`1`), nil)
			},
		}
		c := initialized(t, f, Config{}, pull)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"first"}`)
		c.wantError("1", wire.CodeInternalError, "first half")
		c.send(`{"jsonrpc":"2.0","id":1,"method":"second"}`)
		c.wantError("1", wire.CodeInternalError, "second half")
		c.send(`{"jsonrpc":"2.0","id":1,"method":"none"}`)
		c.wantError("1", wire.CodeInternalError, "no answer")
		c.send(`{"jsonrpc":"2.0","method":"n"}`)
		c.wantMessage("window/showMessage", "in notification")
		c.send(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a","version":1,"text":"t"}}}`)
		c.wantMessage("window/showMessage", "in open")
		c.send(`{"jsonrpc":"2.0","id":4,"method":"ok"}`)
		c.wantError("4", wire.CodeRequestFailed, "does not hold file:///a")
		c.send(`{"jsonrpc":"2.0","method":"textDocument/didClose","params":{"textDocument":{"uri":"file:///a"}}}`)
		c.send(`{"jsonrpc":"2.0","id":4,"method":"ok"}`)
		c.want(`{"jsonrpc":"2.0","id":4,"result":1}`)
		c.close()
	})
}

// The dump's sink is what a connection traces to, a nil one included.
var _ Tracer = (*trace.Sink)(nil)

// tracer keeps what it is given.
type tracer struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (t *tracer) Message(lane, branch, _, dir string, body []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, lane+" "+branch+" "+dir+" "+string(body))
}

func TestTraceWithoutTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &tracer{}
		c := start(t, &fake{}, Config{Token: "s3cret", Trace: sink})
		c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"initializationOptions":{"shadowlsp":{"token":"s3cret","keep":true}}}}`)
		c.recv()
		c.send(`{"jsonrpc":"2.0","method":"n"}`)
		c.close()
		same(t, sink.lines[:1], []string{`agent  -> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"initializationOptions":{"shadowlsp":{"keep":true}}}}`})
		same(t, sink.lines[2:], []string{`agent b -> {"jsonrpc":"2.0","method":"n"}`})
		for _, line := range sink.lines {
			if strings.Contains(line, "s3cret") {
				t.Errorf("the token is in the dump: %s", line)
			}
		}
	})
}
