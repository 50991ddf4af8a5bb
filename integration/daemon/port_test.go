package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shadowlsp/lsp/wire"
)

// bytesFrom sends raw bytes and returns all that comes until the other side
// closes.
func bytesFrom(t testing.TB, network, address, send string) string {
	t.Helper()
	c, err := net.Dial(network, address)
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(c, send)
	must(t, err)
	got, err := io.ReadAll(c)
	// Bytes of ours that were not read turn the close into a reset.
	if err != nil && !strings.Contains(err.Error(), "reset by peer") {
		t.Errorf("after %q: %v", send, err)
	}
	return string(got)
}

func TestThePort(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "my.sock")
	w := shared(t, "--agent-listen", "unix:"+socket, "--agent-listen", "tcp:127.0.0.1:0")
	s, _ := w.status(t)
	if s.Agent.Unix != socket || !strings.HasPrefix(s.Agent.TCP, "127.0.0.1:") || s.Agent.TokenFile == "" {
		t.Fatalf("the addresses are %+v", s.Agent)
	}
	raw, err := os.ReadFile(s.Agent.TokenFile)
	must(t, err)
	token := strings.TrimSpace(string(raw))
	tcp := func(t *testing.T, token string) (*agent, error) {
		c, err := net.Dial("tcp", s.Agent.TCP)
		must(t, err)
		a := w.speak(t, c)
		return a, a.initialize(t.Context(), attach{token: token})
	}

	t.Run("private", func(t *testing.T) {
		for name, mode := range map[string]os.FileMode{
			socket: 0o600, s.Agent.TokenFile: 0o600, w.place.Control(): 0o600, w.place.Runtime: 0o700, w.place.State: 0o700,
			filepath.Join(w.place.State, "layers"): 0o700, w.place.Log(): 0o600,
		} {
			if st, err := os.Stat(name); err != nil || st.Mode().Perm() != mode {
				t.Errorf("%s: %v, %v; want mode %o", name, st.Mode(), err, mode)
			}
		}
	})
	t.Run("unix needs no token", func(t *testing.T) {
		a := w.agent(t, attach{})
		a.clean(t, "use/use.go")
	})
	t.Run("tcp with the token", func(t *testing.T) {
		a, err := tcp(t, token)
		must(t, err)
		a.clean(t, "use/use.go")
		a.leave(t)
	})
	for name, wrong := range map[string]string{"missing": "", "wrong": strings.Repeat("0", len(token)), "a part": token[:len(token)-1], "more": token + "0"} {
		t.Run("tcp with a token that is "+name, func(t *testing.T) {
			a, err := tcp(t, wrong)
			var refused *wire.Error
			if !errors.As(err, &refused) || refused.Code != wire.CodeInvalidRequest || !strings.Contains(refused.Message, "token") {
				t.Errorf("initialize: %v", err)
			}
			if strings.Contains(fmt.Sprint(err), token) {
				t.Error("the error gives the token away")
			}
			<-a.read // the connection is closed
		})
	}
	t.Run("bytes that are not LSP get nothing", func(t *testing.T) {
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`
		for _, send := range []string{
			"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
			// What a web page can send: its body is a whole LSP message.
			fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nContent-Type: text/plain\r\n\r\n%s", len(body), body),
			"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 600),
			"\r\n\r\n",
			strings.Repeat("x", 9000),
			"Content-Length: minus one\r\n\r\n{}",
		} {
			for _, to := range []struct{ network, address string }{{"tcp", s.Agent.TCP}, {"unix", socket}} {
				if got := bytesFrom(t, to.network, to.address, send); got != "" {
					t.Errorf("%.40q over %s got %q", send, to.network, got)
				}
			}
		}
	})
	t.Run("a frame that is too large", func(t *testing.T) {
		if got := bytesFrom(t, "tcp", s.Agent.TCP, "Content-Length: 2000000000\r\n\r\n{"); !strings.Contains(got, "error") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("another first request", func(t *testing.T) {
		a := w.speak(t, w.dial(t))
		if e := a.refused(t, "shadowlsp/read", map[string]any{"uri": w.uri("go.mod")}); e.Code != wire.CodeServerNotInitialized {
			t.Errorf("got %+v", e)
		}
		must(t, a.initialize(t.Context(), attach{}))
		if e := a.refused(t, "initialize", attach{}.params(w)); e.Code != wire.CodeInvalidRequest {
			t.Errorf("initialize again: %+v", e)
		}
	})
	t.Run("options that are not known", func(t *testing.T) {
		for _, ours := range []any{map[string]any{"brunch": "x"}, map[string]any{"branch": "../x"}, map[string]any{"branch": 7}, map[string]any{"base": "net"}, "x"} {
			a := w.speak(t, w.dial(t))
			p := attach{}.params(w)
			p["initializationOptions"] = map[string]any{"shadowlsp": ours}
			if e := a.refused(t, "initialize", p); e.Code != wire.CodeInvalidParams {
				t.Errorf("%v: %+v", ours, e)
			}
			<-a.read
		}
	})
	t.Run("nonsense from an agent harms only itself", func(t *testing.T) {
		good, bad := w.agent(t, attach{}), w.agent(t, attach{})
		must(t, bad.out.WriteFrame([]byte(`{"jsonrpc":"2.0","id":[],"method":"x"}`)))
		must(t, bad.out.WriteFrame([]byte(`[1,2,3]`)))
		must(t, bad.out.WriteFrame([]byte(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":7}}`)))
		must(t, bad.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": w.uri("no.go"), "version": 1}, "contentChanges": []any{whole("x")}}))
		for _, e := range []*wire.Error{
			bad.refused(t, "shadowlsp/none", nil), bad.refused(t, "shadowlsp/read", map[string]any{"url": "x"}),
			bad.refused(t, "shadowlsp/write", map[string]any{"edits": []any{map[string]any{"uri": "file:///etc/passwd", "text": ""}}}),
			bad.refused(t, "textDocument/didOpen", nil),
		} {
			t.Logf("%d: %s", e.Code, e.Message)
		}
		good.clean(t, "use/use.go")
		bad.clean(t, "use/use.go")
		must(t, bad.conn.(net.Conn).(*net.UnixConn).CloseWrite())
		<-bad.read
		good.clean(t, "own/own.go")
	})
	t.Run("not for other machines", func(t *testing.T) {
		out, err := w.command(w.binary, "serve", "--agent-listen", "tcp:0.0.0.0:0", "--workspace", t.TempDir()).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "other machines") {
			t.Errorf("0.0.0.0: %v, %s", err, out)
		}
	})
	t.Run("status", func(t *testing.T) {
		var told struct {
			Root  string
			PID   int
			Agent map[string]string
		}
		must(t, json.Unmarshal([]byte(w.output(t, w.binary, "status", "--json")), &told))
		if told.Root != w.Dir || told.PID != w.Daemon() || told.Agent["unix"] != socket || told.Agent["tcp"] != s.Agent.TCP || told.Agent["tokenFile"] != s.Agent.TokenFile {
			t.Errorf("status --json: %+v", told)
		}
		text := w.output(t, w.binary, "status")
		for _, want := range []string{w.Dir, socket, s.Agent.TCP, "instance"} {
			if !strings.Contains(text, want) {
				t.Errorf("status lacks %s:\n%s", want, text)
			}
		}
		if strings.Contains(text, token) {
			t.Error("status shows the token")
		}
	})
}

// Where only TCP is open, connect brings the token.
func TestConnectBringsTheToken(t *testing.T) {
	w := newWorld(t, module)
	c := w.connect(t, "", "--agent-listen", "tcp:127.0.0.1:0", "--branch", "b")
	if err := c.initialize(t.Context(), attach{}); err != nil {
		t.Fatalf("%v: %s", err, c.stderr)
	}
	if branch, _ := c.about(t); branch != "b" {
		t.Errorf("the branch is %q", branch)
	}
	c.clean(t, "use/use.go")
	if s, _ := w.status(t); s.Agent.Unix != "" || s.Agent.TCP == "" {
		t.Errorf("the addresses are %+v", s.Agent)
	}
}

// A server that cannot be started is an error that says so, within a bounded
// time, and harms nobody.
func TestAServerThatCannotBeStarted(t *testing.T) {
	t.Parallel() // most of its time nothing happens
	for _, server := range []string{"no-such-server", "false"} {
		t.Run(server, func(t *testing.T) {
			w := newWorld(t, module)
			c := w.connect(t, "", "--", server)
			err := c.initialize(t.Context(), attach{})
			var refused *wire.Error
			if !errors.As(err, &refused) || !strings.Contains(refused.Message, server) {
				t.Errorf("initialize: %v", err)
			}
			t.Log(err)
		})
	}
}
