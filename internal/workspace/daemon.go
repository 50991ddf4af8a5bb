package workspace

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shadowlsp/fusefs"
	"shadowlsp/internal/command"
	"shadowlsp/internal/config"
	"shadowlsp/internal/mode"
	"shadowlsp/internal/root"
	"shadowlsp/internal/sandbox"
	"shadowlsp/internal/servers"
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
	Limits   Limits
	// MemoryBudget bounds what all instances together may have resident, in bytes;
	// 0 is half of the machine's memory, and bounds how many there are only;
	// negative is no bound.
	MemoryBudget int64
	// Prewarm starts the servers that the person's editors run, or ran last,
	// before anybody asks.
	Prewarm bool
	// TraceFile receives every message and event; "" is none.
	TraceFile string
	// Server is the command where no editor has named one; may be empty.
	Server []string
	// Person is the person's configuration file; "" is none.
	Person string
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
	commands  *command.Host // nil where the mode is none for commands
	trace     trace.Tap
	serverLog *os.File
	group     *sandbox.Group // of the instances; nil where none can be had
	token     string
	addresses Addresses
	began     time.Time
	warm      chan struct{} // holds a token when prewarm has something to look at
	// generation counts the changes of the person's folder.
	generation atomic.Uint64
	table      servers.Table
	config     config.File
	mentions   mentions
	courtesy   *courtesy  // nil where instances give way to nobody
	lowering   sync.Mutex // held while the priority of what runs is changed
	looking    sync.Mutex // held while the folder's files are looked at for servers

	mu        sync.Mutex // guards the fields below
	branches  map[string]*branch
	sessions  map[*session]bool
	editors   map[*editor]bool
	instances map[*instance]bool
	pools     map[string]*pool
	servers   knowledge
	named     *learnt         // the server that was named for agents, if any
	line      []candidate     // the servers in order; nil: to be made
	found     []servers.Found // by the folder's files, when looked
	looked    time.Time
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

// start opens everything that can fail, so that whoever starts a daemon learns
// why it cannot run.
func start(ctx context.Context, cfg Config) (_ *daemon, _ *listeners, err error) {
	l := &listeners{}
	d := &daemon{
		cfg: cfg, root: cfg.Place.Root, began: time.Now(),
		warm:     make(chan struct{}, 1),
		branches: map[string]*branch{}, sessions: map[*session]bool{}, editors: map[*editor]bool{},
		instances: map[*instance]bool{}, pools: map[string]*pool{},
	}
	if cfg.Priority != PriorityNormal {
		d.courtesy = newCourtesy(d.pauseInstances)
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
	if d.config, err = config.Load(cfg.Person, cfg.Place.Root); err != nil {
		return nil, nil, err
	}
	if d.table, err = servers.New(d.config); err != nil {
		return nil, nil, err
	}
	if err = cfg.Place.Make(); err != nil {
		return nil, nil, err
	}
	if l.lock, err = lock(cfg.Place); err != nil {
		return nil, nil, err
	}
	if err = d.trace.To(cfg.TraceFile); err != nil {
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
	if err = d.openCommands(); err != nil {
		return nil, nil, err
	}
	d.serverLog, err = os.OpenFile(filepath.Join(cfg.Place.State, "servers.log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the servers' log: %w", err)
	}
	if err = d.servers.load(cfg.Place.State); err != nil {
		cfg.Log.Warn().Err(err).Msg("what was known of the servers is lost; it is learnt anew from the editor")
	}
	if err = d.openBranches(); err != nil {
		return nil, nil, err
	}
	if err = d.listen(ctx, l); err != nil {
		return nil, nil, err
	}
	d.openGroup()
	d.ctx, d.stop = context.WithCancel(ctx)
	return d, l, nil
}

// serve accepts connections until the daemon ends.
func (d *daemon) serve(l *listeners) error {
	var wg sync.WaitGroup
	d.cfg.Log.Info().Str("root", d.root).Interface("agent", d.addresses).Msg("daemon is up")
	d.mu.Lock()
	d.restLocked()
	d.mu.Unlock()
	wg.Go(d.watchInstances)
	if d.cfg.Prewarm {
		wg.Go(d.prewarm)
	}
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
	d.courtesy.close()
	// Whoever connects from now on finds no socket and starts the next daemon.
	_ = os.Remove(d.cfg.Place.Control())
	l.control.Close()
	l.agents.Close()
	for _, p := range pools {
		p.close()
	}
	if d.commands != nil {
		d.commands.Close()
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
	if err := d.group.Close(); err != nil {
		d.cfg.Log.Warn().Err(err).Msg("removing the control group of the servers")
	}
	d.closeLayers()
	if d.serverLog != nil {
		d.serverLog.Close()
	}
	_ = d.trace.To("") // "" is no file that fails to open
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

// baseChanged passes changes of the person's folder on to all instances and
// tells agents whose branches may be affected.
func (d *daemon) baseChanged(changes []fusefs.BaseChange) {
	d.generation.Add(1)
	d.mu.Lock()
	instances := slices.Collect(maps.Keys(d.instances))
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

// running are the instances that there are.
func (d *daemon) running() []*instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.instances))
}

func (d *daemon) removeInstance(i *instance) {
	d.mu.Lock()
	delete(d.instances, i)
	d.mu.Unlock()
	d.courtesy.locked(func(bool) { i.family.Close() })
}

// addSession makes s one of those who are told, and tells it what others were told.
func (d *daemon) addSession(s *session) {
	d.mu.Lock()
	d.sessions[s] = true
	var missed []note
	for i := range d.instances {
		missed = append(missed, i.kept.all()...)
	}
	pools := slices.Collect(maps.Values(d.pools))
	d.mu.Unlock()
	for _, n := range missed {
		s.hear(n)
	}
	for _, p := range pools {
		p.showStarts(s)
		s.offer(p)
	}
}

func (d *daemon) removeSession(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s)
}
