package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shadowlsp/internal/command"
	"shadowlsp/internal/sandbox"
	"shadowlsp/lsp/shadow"
	"shadowlsp/overlay"
	"shadowlsp/scheduler"
)

const (
	// startLimit bounds the making of namespaces and mount, and the server's
	// answer to initialize; loading the workspace comes after it. At idle priority
	// on a busy machine a Node.js server has taken longer than a minute.
	startLimit = 3 * time.Minute
	// stopGrace is how long a server may take to leave when it is told to.
	stopGrace = 2 * time.Second
	// cancelLimit is how long a cancelled request stays with a server that does not
	// answer: longer than the scheduler's CancelGrace, which must see that it does
	// not end and give the server up.
	cancelLimit = 15 * time.Second
	// lintLimit bounds one lint: it is far above what a reload of a large
	// repository takes, and below the scheduler's own limit for a request.
	lintLimit = 3 * time.Minute
	// maxSuperseded bounds how often one lint starts over because its branch was
	// edited meanwhile: then whoever edits without pause is told so.
	maxSuperseded = 100
)

// instance is one shadow server with its view: a process in its own namespaces,
// the mount that it sees, and the connection to it.
//
// Goroutine: reap, which ends when the server has.
type instance struct {
	p      *pool
	id     scheduler.InstanceID
	name   string
	log    zerolog.Logger
	proc   *sandbox.Process
	sight  sight
	server *shadow.Instance
	// scratch is the branch that the instance shows while it shows none: what it
	// writes as it loads must go somewhere, and nobody's branch is the place.
	scratch *branch
	ended   chan struct{} // closed when nothing of it is left

	up       atomic.Bool // server is set
	ready    atomic.Bool // it has loaded
	asksAnew atomic.Bool // it was told of new settings, and has not asked for them
	stopOnce sync.Once
	started  time.Time
	lastTurn scheduler.TurnID // guarded by pool.mu

	kept    kept          // guarded by daemon.mu
	command chan struct{} // holds a token while a command of an agent runs

	registering sync.Mutex      // one look at registrations at a time; guards the field below
	registers   map[string]bool // the methods that it has registered

	family sandbox.Family // guarded by courtesy.mu

	turn      sync.Mutex // one show or sync at a time; guards the field below
	lingering lingering

	mu       sync.Mutex // guards the fields below
	why      error      // why it ended
	branch   *branch    // what the view shows
	told     state      // of branch: what the server has last been told
	tells    uint64     // counts tellings
	final    uint64     // tells, when the server was last known to be done with them
	base     news       // of the person's folder, not yet told
	overflow bool
	commands *session   // whose command runs
	askers   []*session // whose requests run, for what the server asks meanwhile
}

// startInstance makes namespaces, mount and process, and speaks initialize.
func startInstance(p *pool, id scheduler.InstanceID, l learnt) (_ *instance, err error) {
	inst := &instance{
		p: p, id: id, name: fmt.Sprintf("%s#%d", p.profile().Name, id),
		ended: make(chan struct{}), started: time.Now(), base: news{}, lingering: lingering{},
		command: make(chan struct{}, 1),
	}
	inst.log = p.log.With().Str("instance", inst.name).Logger()
	ctx, cancel := context.WithTimeout(p.ctx, startLimit)
	defer cancel()

	over, err := p.d.store.Create(scratchPrefix+p.key+"#"+strconv.Itoa(int(id)), overlay.CreateOptions{})
	if err != nil {
		return nil, err
	}
	inst.scratch = newBranch(over, false)
	inst.branch = inst.scratch
	undo := []func(){func() { _ = p.d.store.Drop(over.Name()) }}
	defer func() {
		if err == nil {
			return
		}
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
		err = fmt.Errorf("starting a shadow of %s: %w", p.key, err)
	}()

	stdin, toServer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	fromServer, stdout, err := os.Pipe()
	if err != nil {
		toServer.Close()
		return nil, err
	}
	defer stdout.Close()
	conn := stdio{fromServer, toServer}
	undo = append(undo, func() { conn.Close() })

	priority := p.d.priority()
	inst.proc, inst.sight, err = p.d.way.start(ctx, sandbox.Spec{
		Argv: p.profile().Arguments(l.Command), Env: append(slices.Clip(l.Env), command.QuietGit), Dir: l.Dir, Mount: p.d.root,
		Stdin: stdin, Stdout: stdout, Stderr: p.d.serverLog,
		Priority: priority, Group: p.d.group,
	}, p, inst.scratch, inst.log)
	// Ours must not keep the pipes open: the server's end is seen by them.
	stdin.Close()
	stdout.Close()
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { inst.proc.Kill(); inst.proc.Wait(); inst.sight.close() })
	inst.scratch.watch(inst)
	unsubscribe := over.Subscribe(inst.scratch.wrote)
	p.d.addInstance(inst)
	if priority != p.d.priority() { // an editor has come or gone meanwhile
		p.d.reprioritise()
	}
	inst.server, err = shadow.Start(ctx, shadow.Config{
		Conn: conn, Initialize: l.Initialize, Root: p.d.root, Paths: inst.sight.paths(), Profile: *p.profile(),
		Busy: inst.proc.Busy, Client: client{inst}, Trace: &p.d.trace, Name: inst.name, Log: inst.log,
		Limits: shadow.Limits{CancelGrace: cancelLimit},
	})
	if err != nil {
		p.d.removeInstance(inst)
		return nil, err
	}
	if settings := l.settings(); settings != nil {
		inst.configure(settings)
	}
	inst.up.Store(true)
	inst.registered()
	p.wg.Add(1)
	go inst.reap(unsubscribe)
	return inst, nil
}

// scratchPrefix marks branches that belong to instances, which no agent can name.
const scratchPrefix = "instance:"

// stdio is a server's stdin and stdout as one connection.
type stdio struct{ in, out *os.File }

func (s stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s stdio) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s stdio) Close() error                { return errors.Join(s.out.Close(), s.in.Close()) }

// reap waits for the end of the server, however it comes, and clears up.
func (i *instance) reap(unsubscribe func()) {
	defer i.p.wg.Done()
	<-i.server.Done()
	i.stop(i.server.Err())
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	_ = i.server.Close(ctx) // it has ended already: this waits for its goroutines
	i.proc.Kill()
	if status, err := i.proc.Wait(); err == nil {
		i.log.Info().Stringer("status", status).Msg("server process has ended")
	}
	if err := i.sight.close(); err != nil {
		i.log.Warn().Err(err).Msg("closing the view")
	}
	i.p.d.removeInstance(i)
	i.mu.Lock()
	b := i.branch
	i.mu.Unlock()
	i.sight.disk(b).unwatch(i)
	unsubscribe()
	if err := i.p.d.store.Drop(i.scratch.name); err != nil {
		i.log.Warn().Err(err).Msg("dropping the instance's scratch branch")
	}
	close(i.ended)
}

// stop ends the instance for the first reason given; it returns when the
// server has been told, not when all is cleared up (see ended).
func (i *instance) stop(why error) {
	i.stopOnce.Do(func() {
		i.mu.Lock()
		i.why = why
		i.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		// It need not go willingly: reap kills what is left. One that hangs keeps
		// Close waiting for longer than we like.
		unhook := context.AfterFunc(ctx, i.proc.Kill)
		_ = i.server.Close(ctx)
		unhook()
	})
}

// gone says whether the server has ended.
func (i *instance) gone() bool {
	select {
	case <-i.server.Done():
		return true
	default:
		return false
	}
}

// cause is why it ended.
func (i *instance) cause() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.why == nil {
		return errors.New("it ended")
	}
	return i.why
}
