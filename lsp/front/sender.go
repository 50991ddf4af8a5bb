package front

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
)

const (
	// minBackoff and maxBackoff bound the time between two attempts to join a
	// daemon: an attempt is one connect to a unix socket.
	minBackoff = 200 * time.Millisecond
	maxBackoff = 5 * time.Second
	// together is the size below which messages are sent with others.
	together = 16 << 10
)

// sender brings what is in the outbox to a daemon. It is one goroutine, and a
// second one per connection, which ends before the next connection is made.
type sender struct {
	cfg         Config
	hello       Hello
	outbox      *outbox
	initialized <-chan []byte
	log         zerolog.Logger
}

func newSender(cfg Config, c *courier) *sender {
	dir, _ := os.Getwd()
	h := Hello{Version: protocolVersion, Pid: os.Getpid(), Command: cfg.Command, Env: cfg.Env, Dir: dir}
	if cfg.TraceFile != "" {
		h.TraceFile, _ = filepath.Abs(cfg.TraceFile)
	}
	return &sender{cfg: cfg, hello: h, outbox: c.outbox, initialized: c.initialized, log: cfg.Log}
}

// run is the sender's goroutine. It ends with ctx.
func (s *sender) run(ctx context.Context) {
	defer s.outbox.mute()
	defer contain(s.log, "sender")
	if s.cfg.Connect == nil {
		return
	}
	root, err := s.findRoot(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("no root: agents cannot work here")
		}
		return
	}
	start, backoff := true, minBackoff
	for ctx.Err() == nil {
		began := time.Now()
		conn, err := s.cfg.Connect(ctx, root, start)
		start = false
		if err == nil {
			s.log.Debug().Str("root", root).Msg("joined the daemon")
			s.outbox.unmute()
			err = s.serve(ctx, conn)
		}
		s.outbox.mute()
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > maxBackoff {
			backoff = minBackoff // it lasted
		}
		s.log.Debug().Err(err).Dur("backoff", backoff).Msg("no daemon")
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// findRoot waits until the folder is known, which is until the editor has spoken
// LSP: what does not is not worth a daemon.
func (s *sender) findRoot(ctx context.Context) (string, error) {
	var initialize []byte
	select {
	case initialize = <-s.initialized:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	dir := s.cfg.Workspace
	if dir == "" {
		dir = folder(initialize)
	}
	if dir == "" {
		dir = s.hello.Dir
	}
	s.hello.Folder = dir
	if s.cfg.FindRoot == nil {
		return dir, nil
	}
	return s.cfg.FindRoot(dir)
}

// serve sends until the connection breaks or ctx ends.
func (s *sender) serve(ctx context.Context, conn net.Conn) error {
	broken := make(chan struct{})
	go func() { // the reader: the daemon says nothing, so this sees it end
		defer close(broken)
		defer conn.Close() // ends a write that waits, too
		defer contain(s.log, "sender's reader")
		_, _ = io.Copy(io.Discard, conn)
	}()
	defer func() { <-broken }()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	buf := appendHello(nil, s.hello)
	for {
		for _, i := range s.outbox.take() {
			buf = appendItem(buf, i)
			if len(i.body) < together {
				if buf = append(buf, i.body...); len(buf) < 2*together {
					continue
				}
				i.body = nil
			}
			if err := write(conn, &buf); err != nil {
				return err
			}
			if len(i.body) > 0 {
				if _, err := conn.Write(i.body); err != nil {
					return err
				}
			}
		}
		if err := write(conn, &buf); err != nil {
			return err
		}
		select {
		case <-s.outbox.wake:
		case <-broken:
			return io.EOF
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write sends buf and empties it.
func write(conn net.Conn, buf *[]byte) error {
	_, err := conn.Write(*buf)
	*buf = (*buf)[:0]
	return err
}
