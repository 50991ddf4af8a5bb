package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// Address is where an agent port listens, or is dialled.
type Address struct {
	Network string // "unix" or "tcp"
	Where   string // a path, or host:port
}

// String returns the address as ParseAddress reads it.
func (a Address) String() string { return a.Network + ":" + a.Where }

// maxSocketPath is what sockaddr_un holds, without its ending NUL.
const maxSocketPath = 107

// ParseAddress reads "unix:PATH" or "tcp:HOST:PORT".
func ParseAddress(s string) (Address, error) {
	network, where, ok := strings.Cut(s, ":")
	a := Address{network, where}
	bad := func(format string, args ...any) (Address, error) {
		return Address{}, fail("address "+s, KindAddress, format, args...)
	}
	switch {
	case !ok || network != "unix" && network != "tcp":
		return bad("it must be unix:PATH or tcp:HOST:PORT")
	case network == "unix" && where == "":
		return bad("the path is missing")
	case network == "unix" && len(where) > maxSocketPath:
		return bad("the path has %d bytes, a socket's may have %d: choose a shorter one", len(where), maxSocketPath)
	case network == "unix":
		return a, nil
	}
	if _, _, err := net.SplitHostPort(where); err != nil {
		return bad("%w", err)
	}
	return a, nil
}

// loopback says whether only this machine can reach a TCP address. A name but
// "localhost" is not resolved: what it means can change.
func (a Address) loopback() bool {
	if a.Network == "unix" {
		return true
	}
	host, _, _ := net.SplitHostPort(a.Where)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// ListenConfig is what a port is opened with.
type ListenConfig struct {
	// AllowRemote accepts addresses, and peers, beyond loopback.
	AllowRemote bool
	// MaxConnections bounds the open connections of all addresses together. Over
	// it a connection's initialize is answered with an error, if its token is
	// right; past refusals at a time it is closed unanswered.
	MaxConnections int // default 1024
	// Refused is how a connection is run to be told that; nil: without a token.
	Refused func(net.Conn) Config
	Log     zerolog.Logger
}

// DefaultMaxConnections carries hundreds of agents and leaves descriptors for
// everything else (each connection takes one).
const DefaultMaxConnections = 1024

// refusals bounds the connections over the limit that are told so at a time.
const refusals = 32

// Listener is an open agent port. Run owns its goroutines: one per address, one
// per connection.
type Listener struct {
	cfg       ListenConfig
	listeners []net.Listener
	slots     chan struct{} // one element per open connection
	refusals  chan struct{} // one per connection that is being refused
}

// Listen opens all addresses, or none. A unix socket is only its owner's from
// its first moment; one that is left behind by a dead process is replaced, one
// that is in use is an error, and so is anything else in its place.
func Listen(ctx context.Context, cfg ListenConfig, addresses ...Address) (*Listener, error) {
	if cfg.MaxConnections <= 0 {
		cfg.MaxConnections = DefaultMaxConnections
	}
	if cfg.Refused == nil {
		cfg.Refused = func(net.Conn) Config { return Config{Log: cfg.Log} }
	}
	l := &Listener{cfg: cfg, slots: make(chan struct{}, cfg.MaxConnections), refusals: make(chan struct{}, refusals)}
	for _, a := range addresses {
		one, err := listen(ctx, a, cfg.AllowRemote)
		if err != nil {
			_ = l.Close()
			return nil, err
		}
		l.listeners = append(l.listeners, one)
	}
	return l, nil
}

func listen(ctx context.Context, a Address, remote bool) (net.Listener, error) {
	op := "listen on " + a.String()
	if !remote && !a.loopback() {
		return nil, fail(op, KindAddress, "other machines could reach it: use 127.0.0.1, ::1 or localhost, or allow remote agents explicitly")
	}
	var config net.ListenConfig
	if a.Network == "unix" {
		if err := removeStale(ctx, a); err != nil {
			return nil, err
		}
		// The mode that the socket has before bind becomes that of its file: no
		// moment in which others can connect, as with chmod afterwards, and the
		// process-wide umask stays what it is.
		config.Control = func(_, _ string, raw syscall.RawConn) error {
			var chmod error
			err := raw.Control(func(fd uintptr) { chmod = unix.Fchmod(int(fd), 0o600) })
			return errors.Join(err, chmod)
		}
	}
	l, err := config.Listen(ctx, a.Network, a.Where)
	if err != nil {
		return nil, fail(op, KindAddress, "%w", err)
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !remote && !tcp.IP.IsLoopback() {
		_ = l.Close()
		return nil, fail(op, KindAddress, "it came to be %v, which other machines could reach", tcp)
	}
	return l, nil
}

// removeStale removes a socket that nobody listens on.
func removeStale(ctx context.Context, a Address) error {
	op := "listen on " + a.String()
	fi, err := os.Lstat(a.Where)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fail(op, KindAddress, "%w", err)
	case fi.Mode().Type() != os.ModeSocket:
		return fail(op, KindAddress, "the path exists and is no socket: it is left alone")
	}
	conn, err := Dial(ctx, a)
	if err == nil {
		_ = conn.Close()
		return fail(op, KindAddress, "it is in use by another process")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fail(op, KindAddress, "cannot tell whether it is in use: %w", err)
	}
	if err := os.Remove(a.Where); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(op, KindAddress, "%w", err)
	}
	return nil
}

// Addresses returns where the port listens, with the TCP ports that were chosen
// for port 0, in the order given to Listen.
func (l *Listener) Addresses() []Address {
	list := make([]Address, len(l.listeners))
	for i, one := range l.listeners {
		list[i] = Address{one.Addr().Network(), one.Addr().String()}
	}
	return list
}

// Close stops listening and removes the sockets; connections go on.
func (l *Listener) Close() error {
	var all error
	for _, one := range l.listeners {
		if err := one.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			all = errors.Join(all, fail("close", KindIO, "%w", err))
		}
	}
	return all
}

// Run accepts connections and calls serve for each in a goroutine of its own,
// until ctx ends or the listener is closed; then it waits for every serve to
// return. serve owns the connection; its ctx is Run's.
func (l *Listener) Run(ctx context.Context, serve func(context.Context, net.Conn)) error {
	var all sync.WaitGroup
	defer all.Wait()
	stop := make(chan struct{})
	all.Go(func() {
		select {
		case <-ctx.Done():
			_ = l.Close()
		case <-stop:
		}
	})
	defer close(stop)
	var accepting sync.WaitGroup
	errs := make([]error, len(l.listeners))
	for i, one := range l.listeners {
		accepting.Go(func() {
			errs[i] = l.accept(ctx, one, func(conn net.Conn) {
				select {
				case l.slots <- struct{}{}:
					all.Go(func() {
						defer func() { <-l.slots }()
						serve(ctx, conn)
					})
					return
				default:
				}
				select {
				case l.refusals <- struct{}{}:
					l.cfg.Log.Warn().Int("limit", l.cfg.MaxConnections).Msg("too many agent connections: one is refused")
					all.Go(func() {
						defer func() { <-l.refusals }()
						refuse(ctx, conn, l.cfg.Refused(conn), OverLimit("max-connections", int64(l.cfg.MaxConnections),
							"%d agents are connected, which is the limit (--max-connections): end some, or restart the daemon with a larger one", l.cfg.MaxConnections))
					})
				default:
					_ = conn.Close()
				}
			})
			if errs[i] != nil {
				_ = l.Close() // one address that fails for good ends the port
			}
		})
	}
	accepting.Wait()
	return errors.Join(errs...)
}

// acceptPause is how long accept waits when the process is out of descriptors
// or memory: the connection stays in the kernel's queue meanwhile.
const acceptPause = 50 * time.Millisecond

func (l *Listener) accept(ctx context.Context, from net.Listener, start func(net.Conn)) error {
	for {
		conn, err := from.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOBUFS),
			errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ECONNABORTED):
			l.cfg.Log.Warn().Err(err).Msg("cannot accept an agent now")
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		case err != nil:
			return fail("accept", KindIO, "%w", err)
		}
		if peer, ok := conn.RemoteAddr().(*net.TCPAddr); ok && !l.cfg.AllowRemote && !peer.IP.IsLoopback() {
			l.cfg.Log.Warn().Stringer("peer", peer).Msg("a connection from another machine was refused")
			_ = conn.Close()
			continue
		}
		start(conn)
	}
}
