package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"shadowlsp/lsp/wire"
)

// Dial connects to an agent port.
func Dial(ctx context.Context, a Address) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, a.Network, a.Where)
	if err != nil {
		return nil, fail("dial "+a.String(), KindIO, "%w", err)
	}
	return conn, nil
}

// JoinOptions are set in the initialize request that passes through Join; they
// replace what the agent gave. Empty ones are left alone.
type JoinOptions struct {
	Token  string
	Branch string
}

// Join copies in to conn and conn to out until conn ends, or ctx, or out cannot
// be written. Of everything that passes only the initialize request is changed,
// and in it only initializationOptions.shadowlsp. The end of in closes conn's
// writing side: what is still to come from conn is copied. Join closes conn.
//
// A blocked read of in is interrupted where in has SetReadDeadline and it works
// (pipes and sockets, not every terminal or file); else that read stays behind,
// and the process is expected to exit.
func Join(ctx context.Context, conn net.Conn, in io.Reader, out io.Writer, o JoinOptions) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	sent := make(chan error, 1)
	var sending sync.WaitGroup
	sending.Go(func() {
		sent <- pass(conn, in, o)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		} else {
			_ = conn.Close()
		}
	})
	_, err := io.Copy(out, conn)
	_ = conn.Close()
	if d, ok := in.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(past) == nil {
		sending.Wait()
	}
	select {
	case failed := <-sent:
		// Writing to a daemon that has closed the connection is no error of its
		// own, and neither is the interruption; reading the agent's input is.
		var op *net.OpError
		if err == nil && !errors.As(failed, &op) && !errors.Is(failed, os.ErrDeadlineExceeded) {
			err = failed
		}
	default:
	}
	switch {
	case ctx.Err() != nil:
		return fail("join", KindClosed, "%w", context.Cause(ctx))
	case err != nil && !isEOF(err):
		return fail("join", KindIO, "%w", err)
	}
	return nil
}

// pass copies in to conn, with the options set in initialize.
func pass(conn io.Writer, in io.Reader, o JoinOptions) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for done := o == (JoinOptions{}); !done; {
		message, last, err := nextForJoin(r, o)
		if len(message) > 0 {
			if _, err := conn.Write(message); err != nil {
				return err
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		done = last
	}
	_, err := io.Copy(conn, r)
	return err
}

// nextForJoin reads one message, header included. It returns last once there
// is nothing more to change: the initialize request has come, or what came is
// not framed as LSP and is left to the daemon to refuse.
func nextForJoin(r *bufio.Reader, o JoinOptions) (message []byte, last bool, err error) {
	var header []byte
	length, at, to := -1, 0, 0 // where the digits of the length are in header
	for {
		line, err := r.ReadSlice('\n')
		start := len(header)
		header = append(header, line...)
		if err != nil || len(header) > wire.MaxHeader {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return header, true, err
		}
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if !bytes.EqualFold(bytes.TrimSpace(name), []byte("Content-Length")) {
			continue
		}
		digits := bytes.TrimSpace(value)
		n, err := strconv.ParseUint(string(digits), 10, 31)
		if err != nil {
			return header, true, nil
		}
		at = start + len(name) + 1 + bytes.Index(value, digits)
		length, to = int(n), at+len(digits)
	}
	if length < 0 || length > wire.MaxAgentFrame {
		return header, true, nil
	}
	var body bytes.Buffer
	if n, err := io.CopyN(&body, r, int64(length)); err != nil || n < int64(length) {
		return append(header, body.Bytes()...), true, err
	}
	changed, last := withOptions(body.Bytes(), o)
	if last {
		length := strconv.AppendInt(nil, int64(len(changed)), 10)
		header = splice(header, at, to, length)
	}
	return append(header, changed...), last, nil
}

// withOptions sets o in an initialize request; last is false, and body
// unchanged, for any other message.
func withOptions(body []byte, o JoinOptions) (_ []byte, last bool) {
	m, refused := parse(body)
	if refused != nil || m.Kind != wire.Request || m.Method != "initialize" {
		return body, false
	}
	set := func(body []byte, key, value string) []byte {
		if value == "" {
			return body
		}
		// Something on the way that is no object stays: the daemon says so.
		body, _ = setMember(body, json.RawMessage(encode(value)), "params", "initializationOptions", "shadowlsp", key)
		return body
	}
	body = set(body, "token", o.Token)
	return set(body, "branch", o.Branch), true
}
