package lsptest_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/lsptest"
	"shadowlsp/lsp/wire"
)

func TestMain(m *testing.M) {
	lsptest.Main()
	goleak.VerifyTestMain(m)
}

const a, b = "file:///w/a.toy", "file:///w/b.toy"

func TestClientWithServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conn := lsptest.Start(t, lsptest.Rules{Signal: lsptest.Versioned, Delay: time.Second})
		c := lsptest.NewClient(t, "editor", conn)
		c.Initialize("/w", nil)
		c.Open(a, "toy", "def x\n")
		c.Open(b, "toy", "use x\nerror 😀\n")
		c.Await(lsptest.Says(a), lsptest.Says(b, "😀"), lsptest.Never("undefined"))
		v := c.Change(a, "def 😀y\n")
		c.Await(lsptest.SaysAt(a, v), lsptest.Says(b, "undefined: x", "😀"))
		if err := c.Call("textDocument/hover", nil, nil); wire.AsError(err).Code != wire.CodeMethodNotFound {
			t.Error(err)
		}
		c.Shutdown()
	})
}

func TestServerReadsDiskAndObeysRules(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.toy")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("error one\n")
	command := lsptest.Command(lsptest.Rules{
		Signal: lsptest.Pull,
		On:     []lsptest.Rule{{Method: "x/crash", Do: []lsptest.Action{{Notify: "x/last"}, {Crash: 7}}}},
	})
	cmd := exec.Command(command[0], command[1:]...)
	in, _ := cmd.StdinPipe()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	c := lsptest.NewClient(t, "agent", struct {
		io.Reader
		io.WriteCloser
	}{r, in})
	c.Initialize(dir, nil)
	uri := docuri.FromPath(file)
	pull := func() string {
		var report json.RawMessage
		if err := c.Call("textDocument/diagnostic", map[string]any{"textDocument": map[string]any{"uri": uri}}, &report); err != nil {
			t.Fatal(err)
		}
		return string(report)
	}
	if got := pull(); !strings.Contains(got, "one") {
		t.Error(got)
	}
	write("error two\n")
	if got := pull(); !strings.Contains(got, "one") {
		t.Error("it has looked by itself: ", got)
	}
	c.Notify("workspace/didChangeWatchedFiles", map[string]any{"changes": []any{map[string]any{"uri": uri, "type": 2}}})
	if got := pull(); !strings.Contains(got, "two") {
		t.Error(got)
	}
	c.Notify("x/crash", nil)
	c.Await(lsptest.Notified("x/last", "", 1))
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Error(err)
	}
}

func TestClientCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, conn := lsptest.Start(t, lsptest.Rules{On: []lsptest.Rule{{Method: "x/slow", Only: true}}})
		c := lsptest.NewClient(t, "agent", conn)
		c.Initialize("/w", nil)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		go func() {
			m, err := server.Await(context.Background(), "$/cancelRequest", 1)
			if err != nil {
				return
			}
			var p struct {
				ID json.RawMessage `json:"id"`
			}
			json.Unmarshal(m.Params, &p)
			server.Send(wire.NewError(p.ID, wire.Errorf(wire.CodeRequestCancelled, "stopped")))
		}()
		if err := c.CallContext(ctx, "x/slow", nil, nil); wire.AsError(err).Code != wire.CodeRequestCancelled {
			t.Error(err)
		}
	})
}

// failing is a test that fails without ending this one.
type failing struct {
	testing.TB
	said []string
}

func (f *failing) Fatalf(format string, args ...any) { f.said = append(f.said, format); panic(f) }
func (f *failing) Helper()                           {}

// What cannot come any more fails at once: the clock does not move.
func TestUnmeetableFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conn := lsptest.Start(t, lsptest.Rules{Signal: lsptest.Versioned})
		f := &failing{TB: t}
		c := lsptest.NewClient(f, "editor", conn)
		c.Initialize("/w", nil)
		c.Open(a, "toy", "error x\n")
		began := time.Now()
		func() {
			defer func() { recover() }()
			c.Await(lsptest.SaysAt(a, 1))
		}()
		if len(f.said) != 1 || !strings.Contains(f.said[0], "cannot come any more") || time.Since(began) != 0 {
			t.Error(f.said, time.Since(began))
		}
	})
}
