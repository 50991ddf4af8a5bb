package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"shadowlsp/lsp/wire"
)

func address(t *testing.T, s string) Address {
	t.Helper()
	a, err := ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// port opens a port that serves f and closes it with the test.
func port(t *testing.T, cfg ListenConfig, serve func(context.Context, net.Conn), addresses ...Address) *Listener {
	t.Helper()
	l, err := Listen(t.Context(), cfg, addresses...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx, serve) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestAddresses(t *testing.T) {
	for _, s := range []string{"", "unix:", "tcp:", "udp:x", "tcp:127.0.0.1", "/path", "unix:/" + strings.Repeat("x", 107)} {
		if a, err := ParseAddress(s); kind(err) != KindAddress {
			t.Errorf("%q: %v, %v", s, a, err)
		}
	}
	for s, want := range map[string]bool{
		"tcp:127.0.0.1:0": true, "tcp:[::1]:0": true, "tcp:localhost:0": true, "tcp:127.9.9.9:1": true, "unix:/x": true, "tcp:[::ffff:127.0.0.1]:1": true,
		"tcp::0": false, "tcp:0.0.0.0:0": false, "tcp:[::]:0": false, "tcp:192.0.2.1:1": false, "tcp:localhost.evil.example:1": false, "tcp:127.1:1": false,
	} {
		if got := address(t, s).loopback(); got != want {
			t.Errorf("%s: %v", s, got)
		}
	}
	for _, s := range []string{"tcp::0", "tcp:0.0.0.0:0", "tcp:192.0.2.1:0"} {
		if _, err := Listen(t.Context(), ListenConfig{}, address(t, s)); kind(err) != KindAddress || !strings.Contains(err.Error(), "loopback") && !strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", s, err)
		}
	}
	l, err := Listen(t.Context(), ListenConfig{AllowRemote: true}, address(t, "tcp:0.0.0.0:0"))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestUnixSocket(t *testing.T) {
	dir := t.TempDir()
	a := address(t, "unix:"+filepath.Join(dir, "s"))
	old := syscall.Umask(0)
	l := port(t, ListenConfig{}, func(_ context.Context, conn net.Conn) { _ = conn.Close() }, a, address(t, "tcp:127.0.0.1:0"))
	syscall.Umask(old)
	fi, err := os.Lstat(a.Where)
	if err != nil || fi.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if got := l.Addresses(); got[0] != a || got[1].Network != "tcp" || strings.HasSuffix(got[1].Where, ":0") {
		t.Errorf("%v", got)
	}
	// In use: refused, and unharmed.
	if _, err := Listen(t.Context(), ListenConfig{}, address(t, "tcp:127.0.0.1:0"), a); kind(err) != KindAddress || !strings.Contains(err.Error(), "in use") {
		t.Errorf("%v", err)
	}
	conn, err := Dial(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	// Left behind: replaced. Something else: left alone.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "dead"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	again, err := Listen(t.Context(), ListenConfig{}, address(t, "unix:"+filepath.Join(dir, "dead")))
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	if _, err := os.Lstat(filepath.Join(dir, "dead")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), ListenConfig{}, address(t, "unix:"+file)); kind(err) != KindAddress {
		t.Errorf("%v", err)
	}
	if _, err := Dial(t.Context(), address(t, "unix:"+filepath.Join(dir, "none"))); kind(err) != KindIO {
		t.Errorf("%v", err)
	}
}

func TestConnectionLimit(t *testing.T) {
	release, accepted := make(chan struct{}), make(chan struct{}, 10)
	l := port(t, ListenConfig{MaxConnections: 2}, func(ctx context.Context, conn net.Conn) {
		defer conn.Close()
		accepted <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
	}, address(t, "tcp:127.0.0.1:0"), address(t, "unix:"+filepath.Join(t.TempDir(), "s")))
	dial := func(i int) net.Conn {
		conn, err := Dial(t.Context(), l.Addresses()[i])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	// Each connection is dialled when the one before has been accepted: the
	// third is the one over the limit.
	a := dial(0)
	<-accepted
	dial(1)
	<-accepted
	third := dial(0)
	if err := wire.NewWriter(third).WriteFrame([]byte(initialize)); err != nil {
		t.Fatal(err)
	}
	r := wire.NewReader(third, 1<<20)
	if got, err := r.ReadFrame(); err != nil || !strings.Contains(string(got), `"data":{"shadowlsp":{"limit":"max-connections","max":2}}`) {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := r.ReadFrame(); !isEOF(err) {
		t.Errorf("%v", err)
	}
	close(release)
	if _, err := a.Read(make([]byte, 1)); !isEOF(err) {
		t.Errorf("%v", err)
	}
}

// An agent behind Join, over a socket with a token, from initialize to exit.
func TestJoinOverSockets(t *testing.T) {
	f := &fake{}
	serve := func(ctx context.Context, conn net.Conn) {
		if err := Serve(ctx, conn, Config{Token: "s3cret"}, f); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	l := port(t, ListenConfig{}, serve, address(t, "tcp:127.0.0.1:0"), address(t, "unix:"+filepath.Join(t.TempDir(), "s")))
	for i, a := range l.Addresses() {
		conn, err := Dial(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		in, agentOut, _ := os.Pipe()
		agentIn, out, _ := os.Pipe()
		joined := make(chan error, 1)
		go func() {
			joined <- Join(t.Context(), conn, in, out, JoinOptions{Token: "s3cret", Branch: "mine"})
			_ = out.Close()
		}()
		w, r := wire.NewWriter(agentOut), wire.NewReader(agentIn, 1<<20)
		for _, body := range []string{initialize, `{"jsonrpc":"2.0","id":2,"method":"m","params":{"a":1.0}}`} {
			if err := w.WriteFrame([]byte(body)); err != nil {
				t.Fatal(err)
			}
			got, err := r.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if m, err := wire.Parse(got); err != nil || m.Result == nil {
				t.Fatalf("%s: %v", got, err)
			}
		}
		if got := f.attached[i].Options; got.Branch != "mine" {
			t.Errorf("%+v", got)
		}
		switch i {
		case 0: // the agent ends its output
			_ = agentOut.Close()
		case 1: // the agent says exit; Join ends although its input stays open
			_ = w.WriteFrame([]byte(`{"jsonrpc":"2.0","method":"exit"}`))
		}
		if err := <-joined; err != nil {
			t.Errorf("Join: %v", err)
		}
		if _, err := r.ReadFrame(); !errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
		for _, f := range []*os.File{in, agentOut, agentIn} {
			_ = f.Close()
		}
	}
}

func TestJoinEndsWithItsContext(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	in, keep, _ := os.Pipe()
	defer keep.Close()
	defer in.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Join(ctx, ours, in, io.Discard, JoinOptions{}); kind(err) != KindClosed {
		t.Errorf("%v", err)
	}
}

func TestJoinChangesNothingElse(t *testing.T) {
	const ours = `"initializationOptions":{"shadowlsp":{"token":"t\"","branch":"b"}}`
	frame := func(header, body string) string { return fmt.Sprintf(header, len(body)) + body }
	const plain = "Content-Length: %d\r\n\r\n"
	const odd = "content-length:  %d \nContent-Type: x\r\n\r\n"
	type pair struct{ in, want string }
	same := func(s string) pair { return pair{s, s} }
	for _, tc := range []pair{
		{frame(plain, `{"id":1,"method":"initialize","params":{} }`), frame(plain, `{"id":1,"method":"initialize","params":{`+ours+`} }`)},
		{frame(odd, `{ "method":"initialize","id": 1 }`) + " rest\x00", frame(odd, `{ "method":"initialize","id": 1,"params":{`+ours+`} }`) + " rest\x00"},
		{frame(plain, `{"id":1,"method":"initialize","params":{"a":1e0,"initializationOptions":{"x":[ ],"shadowlsp":{"keep":true,"token":"old"}}}} `) + plain,
			frame(plain, `{"id":1,"method":"initialize","params":{"a":1e0,"initializationOptions":{"x":[ ],"shadowlsp":{"keep":true,"token":"t\"","branch":"b"}}}} `) + plain},
		{frame(plain, `{"id":1,"method":"initialize","params":{"initializationOptions":null}} `), frame(plain, `{"id":1,"method":"initialize","params":{`+ours+`}} `)},
		{frame(odd, `{"id":0,"method":"gopls/handshake"}`) + frame(plain, `{"id":1,"method":"initialize"}`),
			frame(odd, `{"id":0,"method":"gopls/handshake"}`) + frame(plain, `{"id":1,"method":"initialize","params":{`+ours+`}}`)},
		// What has no place for it, or is no initialize, passes as it is.
		same(frame(plain, `{"id":1,"method":"initialize","params":{"initializationOptions":7}}`)),
		same(frame(plain, `{"id":1,"method":"initialize","params":[]}`)),
		same(frame(plain, `{}`) + frame(plain, `][{}`) + "Content-Length: 9\r\n\r\nshort"),
		same("GET / HTTP/1.1\r\n\r\n"), same("Content-Length: x\r\n\r\nabc"), same("Content-Length: 9999999999\r\n\r\n{}"),
		same("\r\n\r\n"), same(""), same("Content-Length: 5"), same(strings.Repeat("x", 200<<10)), same(strings.Repeat("x: y\n", 2000)),
	} {
		var got strings.Builder
		if err := pass(&got, strings.NewReader(tc.in), JoinOptions{Token: `t"`, Branch: "b"}); err != nil {
			t.Errorf("%q: %v", clip([]byte(tc.in)), err)
		}
		if got.String() != tc.want {
			t.Errorf("in   %q\ngot  %q\nwant %q", clip([]byte(tc.in)), got.String(), tc.want)
		}
	}
}
