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
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shadowlsp/fusefs"
	"shadowlsp/internal/launch"
	"shadowlsp/internal/mode"
	"shadowlsp/internal/root"
	"shadowlsp/internal/sandbox"
	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/front"
	"shadowlsp/lsp/trace"
	"shadowlsp/overlay"
)

// Config is what a daemon is made of.
type Config struct {
	Place root.Place
	// AgentListen are the addresses of the agent port; empty: Place.Agent() and a
	// free loopback TCP port.
	AgentListen []string
	// AgentRemote allows addresses that other machines can reach.
	AgentRemote bool
	// Instances bounds the instances of one server; 0 is 1.
	Instances int
	// IdleStop is how long instances stay when nothing is asked; 0 is the
	// scheduler's default.
	IdleStop time.Duration
	// Priority of instances; "" is PriorityAuto.
	Priority Priority
	// TraceFile receives every message and event; "" is none.
	TraceFile string
	// Server is the command where no editor has named one; may be empty.
	Server []string
	Env    []string
	Layers Layers
	Mode   mode.Mode // as asked for
	// Linger is how long the daemon stays when nothing needs it any more.
	Linger time.Duration
	// Ready is told once: nil when the daemon listens, or why it does not.
	Ready func(error)
	Log   zerolog.Logger
}

// daemon is the running whole. See the package doc for its goroutines.
type daemon struct {
	cfg       Config
	root      string
	ctx       context.Context
	stop      context.CancelFunc
	store     *overlay.Store
	mode      mode.Decision
	layers    LayersStatus // but for what is used
	memory    *memory      // nil where layers are on disk
	way       way
	trace     *trace.Sink
	serverLog *os.File
	token     string
	addresses Addresses
	began     time.Time

	mu        sync.Mutex // guards the fields below
	branches  map[string]*branch
	sessions  map[*session]bool
	editors   map[*editor]bool
	instances map[*instance]bool
	pools     map[string]*pool
	servers   knowledge
	named     *learnt // the server that was named for agents, if any
	// connections counts those of the agent port, from before they have a session:
	// who is being attached needs the daemon too.
	connections int
	joined      bool // somebody has
	nextAgent   int
	idle        *time.Timer
	ending      bool
	stoppers    []*os.File // of those who told us to stop; closed last
}

// Addresses say where agents connect.
type Addresses struct {
	Unix      string `json:"unix,omitempty"`
	TCP       string `json:"tcp,omitempty"`
	TokenFile string `json:"tokenFile,omitempty"`
}

// Run is the daemon of one root. It returns when ctx ends, when it was told to
// stop, or when nothing has needed it for Config.Linger; everything it started
// has ended then. [root.ErrLocked] says that another one runs.
func Run(ctx context.Context, cfg Config) error {
	d, listeners, err := start(ctx, cfg)
	cfg.Ready(err)
	if err != nil {
		return err
	}
	return d.serve(listeners)
}

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

// start opens everything that can fail, so that whoever starts a daemon learns
// why it cannot run.
func start(ctx context.Context, cfg Config) (_ *daemon, _ *listeners, err error) {
	l := &listeners{}
	d := &daemon{
		cfg: cfg, root: cfg.Place.Root, began: time.Now(),
		branches: map[string]*branch{}, sessions: map[*session]bool{}, editors: map[*editor]bool{},
		instances: map[*instance]bool{}, pools: map[string]*pool{},
	}
	if len(cfg.Server) > 0 {
		d.named = &learnt{Command: cfg.Server}
	}
	defer func() {
		if err != nil {
			l.close()
			d.closeStores()
		}
	}()
	if err = cfg.Priority.validate(); err != nil {
		return nil, nil, err
	}
	if err = cfg.Place.Make(); err != nil {
		return nil, nil, err
	}
	if l.lock, err = lock(cfg.Place); err != nil {
		return nil, nil, err
	}
	if d.trace, err = trace.Open(cfg.TraceFile); err != nil {
		return nil, nil, err
	}
	if d.mode, err = mode.Decide(cfg.Mode, sandbox.Probe()); err != nil {
		return nil, nil, err
	}
	if err = d.openLayers(); err != nil {
		return nil, nil, err
	}
	if d.way, err = newWay(d); err != nil {
		return nil, nil, err
	}
	d.way.Subscribe(d.baseChanged)
	d.serverLog, err = os.OpenFile(filepath.Join(cfg.Place.State, "servers.log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the servers' log: %w", err)
	}
	if err = d.servers.load(filepath.Join(cfg.Place.State, serversFile)); err != nil {
		cfg.Log.Warn().Err(err).Msg("what was known of the servers is lost; it is learnt anew from the editor")
	}
	if err = d.openBranches(); err != nil {
		return nil, nil, err
	}
	if err = d.listen(ctx, l); err != nil {
		return nil, nil, err
	}
	d.ctx, d.stop = context.WithCancel(ctx)
	return d, l, nil
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
	l.agents, err = agent.Listen(ctx, agent.ListenConfig{AllowRemote: d.cfg.AgentRemote, Log: d.cfg.Log}, addresses...)
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

// serve accepts connections until the daemon ends.
func (d *daemon) serve(l *listeners) error {
	var wg sync.WaitGroup
	d.cfg.Log.Info().Str("root", d.root).Interface("agent", d.addresses).Msg("daemon is up")
	d.mu.Lock()
	d.restLocked()
	d.mu.Unlock()
	wg.Go(func() { d.accept(l.control, &wg, d.control) })
	wg.Go(func() {
		if err := l.agents.Run(d.ctx, d.agent); err != nil && d.ctx.Err() == nil {
			d.cfg.Log.Error().Err(err).Msg("serving the agent port")
			d.stop()
		}
	})
	<-d.ctx.Done()
	d.mu.Lock()
	d.ending = true
	if d.idle != nil {
		d.idle.Stop()
	}
	pools := make([]*pool, 0, len(d.pools))
	for _, p := range d.pools {
		pools = append(pools, p)
	}
	d.mu.Unlock()
	// Whoever connects from now on finds no socket and starts the next daemon.
	_ = os.Remove(d.cfg.Place.Control())
	l.control.Close()
	l.agents.Close()
	for _, p := range pools {
		p.close()
	}
	wg.Wait()
	d.closeStores()
	l.lock.Close()
	d.cfg.Log.Info().Msg("daemon has ended")
	for _, f := range d.stoppers {
		f.Close()
	}
	return nil
}

// closeStores closes what start opened, as far as it came.
func (d *daemon) closeStores() {
	if d.way != nil {
		if err := d.way.Close(); err != nil {
			d.cfg.Log.Warn().Err(err).Msg("closing the base")
		}
	}
	d.closeLayers()
	if d.serverLog != nil {
		d.serverLog.Close()
	}
	_ = d.trace.Close() // a trace that cannot be written has been counted as dropped
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
	cfg := agent.Config{Trace: d.trace, Log: d.cfg.Log}
	if c.LocalAddr().Network() != "unix" {
		cfg.Token = d.token
	}
	d.mu.Lock()
	d.connections++
	d.busyLocked()
	d.mu.Unlock()
	_ = agent.Serve(ctx, c, cfg, d) // it has logged why the connection ended
	d.mu.Lock()
	d.connections--
	d.restLocked()
	d.mu.Unlock()
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
	case launch.Server:
		var l learnt
		if err := json.NewDecoder(io.LimitReader(c, maxServerNamed)).Decode(&l); err != nil || len(l.Command) == 0 {
			d.cfg.Log.Warn().Err(err).Msg("the server that was named is not understood")
			return
		}
		d.mu.Lock()
		d.named = &l
		d.mu.Unlock()
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
	d.mu.Lock()
	d.editors[e] = true
	d.busyLocked()
	d.mu.Unlock()
	err := front.Receive(c, e)
	d.mu.Lock()
	delete(d.editors, e)
	d.restLocked()
	d.mu.Unlock()
	d.cfg.Log.Info().Err(err).Msg("front has left")
}

// busyLocked says that somebody needs the daemon.
func (d *daemon) busyLocked() {
	d.joined = true
	if d.idle != nil {
		d.idle.Stop()
		d.idle = nil
	}
}

// firstPatience is how long a daemon waits for the first who needs it, however
// short it lingers: on a machine that is busy it takes seconds to join.
const firstPatience = 10 * time.Second

// restLocked ends the daemon after a while if nobody needs it.
func (d *daemon) restLocked() {
	if d.ending || d.idle != nil || len(d.editors) > 0 || d.connections > 0 {
		return
	}
	linger := d.cfg.Linger
	if !d.joined {
		linger = max(linger, firstPatience) // who has had it started is on the way
	}
	d.idle = time.AfterFunc(linger, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.editors) == 0 && d.connections == 0 {
			d.cfg.Log.Info().Msg("nothing needs the daemon any more")
			d.ending = true
			d.stop()
		}
	})
}

// Priority says how much room instances leave to everything else.
type Priority string

const (
	PriorityAuto   Priority = "auto"   // idle while an editor is attached
	PriorityIdle   Priority = "idle"   // they starve and die first
	PriorityNormal Priority = "normal" // as any program
)

// validate returns an error that names what is allowed.
func (p Priority) validate() error {
	switch p {
	case "", PriorityAuto, PriorityIdle, PriorityNormal:
		return nil
	}
	return fmt.Errorf("priority %q is not known: it is auto, idle or normal", string(p))
}

// priority is that of an instance that is started now.
func (d *daemon) priority() sandbox.Priority {
	d.mu.Lock()
	attached := len(d.editors) > 0
	d.mu.Unlock()
	if d.cfg.Priority == PriorityIdle || d.cfg.Priority != PriorityNormal && attached {
		return sandbox.Background
	}
	return sandbox.Priority{}
}

// baseChanged passes changes of the person's folder on to all instances and
// tells agents whose branches may be affected.
func (d *daemon) baseChanged(changes []fusefs.BaseChange) {
	d.mu.Lock()
	instances := make([]*instance, 0, len(d.instances))
	for i := range d.instances {
		instances = append(instances, i)
	}
	sessions := make([]*session, 0, len(d.sessions))
	for s := range d.sessions {
		sessions = append(sessions, s)
	}
	branches := make([]*branch, 0, len(d.branches))
	for _, b := range d.branches {
		branches = append(branches, b)
	}
	d.mu.Unlock()
	for _, b := range branches {
		b.newBase()
	}
	for _, i := range instances {
		i.baseChanged(changes)
	}
	for _, s := range sessions {
		s.peer.Refresh()
	}
}

// branchChanged tells the agents on b that it has changed, but for by, whose own
// document notification did it and who knows.
func (d *daemon) branchChanged(b *branch, by *session) {
	d.mu.Lock()
	var others []*session
	for s := range d.sessions {
		if s.branch == b && s != by {
			others = append(others, s)
		}
	}
	d.mu.Unlock()
	for _, s := range others {
		s.peer.Refresh()
	}
}

func (d *daemon) addInstance(i *instance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.instances[i] = true
}

func (d *daemon) removeInstance(i *instance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.instances, i)
}

func (d *daemon) addSession(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions[s] = true
}

func (d *daemon) removeSession(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s)
}
