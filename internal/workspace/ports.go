package workspace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"shadowlsp/internal/launch"
	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/front"
)

// listeners are the daemon's open ports.
type listeners struct {
	lock    *os.File
	control net.Listener
	agents  *agent.Listener
}

func (l *listeners) close() {
	if l.control != nil {
		l.control.Close()
	}
	if l.agents != nil {
		l.agents.Close()
	}
	if l.lock != nil {
		l.lock.Close()
	}
}

// listen opens the control socket and the agent port.
func (d *daemon) listen(ctx context.Context, l *listeners) (err error) {
	p := d.cfg.Place
	// The lock is ours, so a socket that is there is a dead daemon's.
	_ = os.Remove(p.Control())
	if l.control, err = net.Listen("unix", p.Control()); err != nil {
		return fmt.Errorf("opening the control socket: %w", err)
	}
	if err := os.Chmod(p.Control(), 0o600); err != nil {
		return err
	}
	if d.token, err = d.makeToken(); err != nil {
		return err
	}
	where := d.cfg.AgentListen
	if len(where) == 0 {
		where = []string{"unix:" + p.Agent(), "tcp:127.0.0.1:0"}
	}
	var addresses []agent.Address
	for _, w := range where {
		a, err := agent.ParseAddress(w)
		if err != nil {
			return err
		}
		addresses = append(addresses, a)
	}
	l.agents, err = agent.Listen(ctx, agent.ListenConfig{
		AllowRemote: d.cfg.AgentRemote, Log: d.cfg.Log, MaxConnections: d.cfg.Limits.Connections, Refused: d.agentConfig,
	}, addresses...)
	if err != nil {
		return err
	}
	for _, a := range l.agents.Addresses() {
		if a.Network == "unix" {
			d.addresses.Unix = a.Where
		} else {
			d.addresses.TCP, d.addresses.TokenFile = a.Where, p.Token()
		}
	}
	return nil
}

// makeToken writes a fresh token for the TCP port.
func (d *daemon) makeToken() (string, error) {
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	token := hex.EncodeToString(b[:])
	file := d.cfg.Place.Token()
	_ = os.Remove(file)
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("writing the agents' token: %w", err)
	}
	return token, nil
}

// accept hands each connection to handle, in a goroutine of wg.
func (d *daemon) accept(l net.Listener, wg *sync.WaitGroup, handle func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			if d.ctx.Err() == nil {
				d.cfg.Log.Error().Err(err).Msg("accepting connections")
				d.stop()
			}
			return
		}
		wg.Go(func() {
			defer c.Close()
			// The end of the daemon ends every connection.
			unhook := context.AfterFunc(d.ctx, func() { c.Close() })
			defer unhook()
			handle(c)
		})
	}
}

// agent serves one connection of the agent port. A unix socket that only its
// owner can open needs no token; any local user can reach a TCP port.
func (d *daemon) agent(ctx context.Context, c net.Conn) {
	d.serveAgent(ctx, c, d.agentConfig(c), d)
}

func (d *daemon) agentConfig(c net.Conn) agent.Config {
	cfg := agent.Config{Trace: &d.trace, Log: d.cfg.Log, Limits: agent.Limits{Documents: d.cfg.Limits.Documents}}
	if c.LocalAddr().Network() != "unix" {
		cfg.Token = d.token
	}
	return cfg
}

func (d *daemon) serveAgent(ctx context.Context, c net.Conn, cfg agent.Config, b agent.Backend) {
	d.join()
	defer d.leave()
	_ = agent.Serve(ctx, c, cfg, b) // it has logged why the connection ended
}

// control serves one connection of the control socket: its first byte says what
// it is.
func (d *daemon) control(c net.Conn) {
	var kind [1]byte
	if err := c.SetReadDeadline(time.Now().Add(controlTimeout)); err != nil {
		return
	}
	if _, err := c.Read(kind[:]); err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	switch launch.Kind(kind[0]) {
	case launch.Front:
		d.front(c)
	case launch.Status:
		if err := d.status().WriteJSON(c); err != nil {
			d.cfg.Log.Debug().Err(err).Msg("answering status")
		}
	case launch.Branch:
		d.branchPort(c)
	case launch.Exec:
		d.exec(c)
	case launch.Server:
		var l learnt
		if err := json.NewDecoder(io.LimitReader(c, maxServerNamed)).Decode(&l); err != nil || len(l.Command) == 0 {
			d.cfg.Log.Warn().Err(err).Msg("the server that was named is not understood")
			return
		}
		d.mu.Lock()
		d.named, d.line = &l, nil
		d.mu.Unlock()
	case launch.Trace:
		d.tracePort(c)
	case launch.Stop:
		d.cfg.Log.Info().Msg("told to stop")
		// Who told us waits for the end of everything, the lock included.
		if u, ok := c.(*net.UnixConn); ok {
			if f, err := u.File(); err == nil {
				d.mu.Lock()
				d.stoppers = append(d.stoppers, f)
				d.mu.Unlock()
			}
		}
		d.stop()
		<-d.ctx.Done()
	}
}

// maxServerNamed bounds the message that names a server, in bytes.
const maxServerNamed = 1 << 20

// controlTimeout bounds how long a connection may keep us waiting for its kind.
const controlTimeout = 10 * time.Second

// front takes in the copies of one front until it ends.
func (d *daemon) front(c net.Conn) {
	var e *editor
	e = newEditor(func() { d.learnFrom(e) })
	e.courtesy = d.courtesy
	d.mu.Lock()
	d.editors[e], d.line = true, nil
	d.busyLocked()
	d.mu.Unlock()
	d.reprioritise()
	err := front.Receive(c, e)
	d.mu.Lock()
	delete(d.editors, e)
	d.line = nil
	d.restLocked()
	d.mu.Unlock()
	d.courtesy.forget(e)
	d.reprioritise()
	d.cfg.Log.Info().Err(err).Msg("front has left")
}
