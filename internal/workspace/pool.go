package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/wire"
	"shadowlsp/scheduler"
)

// pool is the shell around one server's scheduler: it performs the actions and
// tells what came of them. Everything it starts has ended when close returns.
//
// Goroutines: one per action that takes time (start, switch, run, drain, stop),
// each owned by wg, plus one timer for the scheduler's next tick.
type pool struct {
	d   *daemon
	key string
	// maxQueued is Limits.Queued.
	maxQueued int
	// known is what the server is taken for; it is another when the server turns
	// out to be another.
	known  atomic.Pointer[barrier.Profile]
	log    zerolog.Logger
	ctx    context.Context // ends with the pool
	cancel context.CancelFunc
	wg     sync.WaitGroup
	began  time.Time

	cache cache
	// generation counts what may change answers beside branches and the person's
	// folder: settings, and instances that come and go (they may see anew what is
	// outside the folder).
	generation atomic.Uint64

	mu sync.Mutex // guards the fields below; held while actions are handed out, never while one is performed
	// sched is stepped under mu only, so that events and actions keep one order.
	sched     *scheduler.Scheduler
	timer     *time.Timer
	closed    bool
	jobs      map[scheduler.RequestID]*job
	lastJob   scheduler.RequestID
	turns     map[scheduler.InstanceID]scheduler.TurnID // the one that ran last, for the trace
	instances map[scheduler.InstanceID]*instance
	learnt    learnt
	// asked and params are what learnt was made of: what was known of the server,
	// and the first agent's initialize.
	asked    candidate
	params   json.RawMessage
	releases map[string]chan struct{} // branches being dropped, until released
	switches uint64
	loading  string // what the server said last of its loading
	starts   map[scheduler.InstanceID]*starting
	most     int // instances that it may have

	// result is the InitializeResult of the newest instance; closed once there is
	// one, or the pool has ended.
	haveResult chan struct{}
	resultOnce sync.Once
	result     json.RawMessage
}

// job is one question to the server: it runs in a turn of its branch.
type job struct {
	branch *branch
	run    func(context.Context, *instance) error
	ctx    context.Context

	done   chan struct{} // closed when err is set
	err    error
	cancel context.CancelFunc // of the attempt that runs, nil while none does
	shown  bool               // the agent was told that it runs
}

func newPool(d *daemon, c candidate, params json.RawMessage, cfg scheduler.Config) *pool {
	l := d.complete(c, params)
	ctx, cancel := context.WithCancel(d.ctx)
	p := &pool{
		d: d, key: serverKey(l.Command), asked: c, params: params,
		log: d.cfg.Log.With().Str("server", c.profile.Name).Logger(),
		ctx: ctx, cancel: cancel, began: time.Now(),
		maxQueued:  cfg.MaxQueued,
		most:       cfg.Max,
		sched:      scheduler.New(cfg),
		jobs:       map[scheduler.RequestID]*job{},
		instances:  map[scheduler.InstanceID]*instance{},
		starts:     map[scheduler.InstanceID]*starting{},
		releases:   map[string]chan struct{}{},
		turns:      map[scheduler.InstanceID]scheduler.TurnID{},
		learnt:     l,
		haveResult: make(chan struct{}),
	}
	p.known.Store(&c.profile)
	return p
}

// profile is what is known of the server.
func (p *pool) profile() *barrier.Profile { return p.known.Load() }

// do runs f in a turn of b and returns its error, or why it could not run. f may
// be called a second time, on another instance, when the first one died; and it
// may still be running when do has returned because ctx has ended.
func (p *pool) do(ctx context.Context, b *branch, class scheduler.Class, f func(context.Context, *instance) error) error {
	j := &job{branch: b, run: f, ctx: ctx, done: make(chan struct{})}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errEnded
	}
	p.lastJob++
	id := p.lastJob
	p.jobs[id] = j
	p.stepLocked(scheduler.Submit{At: p.now(), Request: id, Branch: b.name, Class: class})
	p.mu.Unlock()
	if progress := agent.ProgressOf(ctx); progress != nil {
		defer p.follow(progress, id)()
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		p.step(func(at time.Duration) scheduler.Event { return scheduler.Cancel{At: at, Request: id} })
		// The server's own answer is better than ours. But the scheduler gives it
		// longer than anyone likes to wait: until it counts as hung.
		late := time.NewTimer(cancelPatience)
		defer late.Stop()
		select {
		case <-j.done:
		case <-late.C:
			return ctx.Err()
		}
	}
	return j.err
}

// cancelPatience is how long who has cancelled waits for the server's own answer.
const cancelPatience = 2 * time.Second

// errEnded is the answer to what is asked of a daemon that ends.
var errEnded = wire.Errorf(wire.CodeServerCancelled, "shadowlsp is ending; connect again")

func (p *pool) now() time.Duration { return time.Since(p.began) }

// step tells the scheduler an event; at is taken under the lock, so time never
// runs backwards.
func (p *pool) step(event func(at time.Duration) scheduler.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stepLocked(event(p.now()))
}

func (p *pool) stepLocked(e scheduler.Event) {
	for _, a := range p.sched.Step(e) {
		p.performLocked(a)
	}
}

// goLocked runs f in a goroutine of the pool.
func (p *pool) goLocked(f func()) {
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		f()
	}()
}

// performLocked hands an action out.
func (p *pool) performLocked(a scheduler.Action) {
	switch a := a.(type) {
	case scheduler.StartInstance:
		l := p.learnt
		p.goLocked(func() { p.start(a.Instance, l) })
	case scheduler.StopInstance:
		if inst := p.instances[a.Instance]; inst != nil {
			p.goLocked(func() { inst.stop(errors.New("stopped by the scheduler")) })
		}
	case scheduler.Switch:
		inst := p.instances[a.Instance]
		if inst == nil {
			return
		}
		p.switches++
		p.goLocked(func() { p.show(inst, a) })
	case scheduler.Run:
		p.runLocked(a)
	case scheduler.CancelRunning:
		if j := p.jobs[a.Request]; j != nil && j.cancel != nil {
			j.cancel()
		}
	case scheduler.Fail:
		p.endLocked(a.Request, schedulerError(a.Err, p.maxQueued))
	case scheduler.EndTurn:
		inst := p.instances[a.Instance]
		if inst == nil {
			return
		}
		p.goLocked(func() {
			err := inst.idle(p.ctx)
			p.d.trace.Event("turn end", map[string]any{"instance": inst.name, "branch": a.Branch, "turn": a.Turn})
			if err == nil {
				p.step(func(at time.Duration) scheduler.Event {
					return scheduler.Drained{At: at, Instance: a.Instance, Turn: a.Turn}
				})
			}
			// With an error the instance is ending, or the scheduler's limit ends it.
		})
	case scheduler.Release:
		if done := p.releases[a.Branch]; done != nil {
			delete(p.releases, a.Branch)
			close(done)
		}
	case scheduler.WakeAt:
		p.wakeLocked(a.At)
	}
}

func (p *pool) wakeLocked(at time.Duration) {
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.closed {
		return
	}
	p.timer = time.AfterFunc(max(at-p.now(), 0), func() {
		p.step(func(at time.Duration) scheduler.Event { return scheduler.Tick{At: at} })
	})
}

// runLocked starts one attempt at a job.
func (p *pool) runLocked(a scheduler.Run) {
	j, inst := p.jobs[a.Request], p.instances[a.Instance]
	finished := func() {
		p.stepLocked(scheduler.Finished{At: p.now(), Instance: a.Instance, Request: a.Request})
	}
	if inst == nil {
		return // its InstanceDown has been told
	}
	if j == nil {
		// Answered meanwhile, by an earlier attempt whose instance died under it.
		// The scheduler waits for this one to end all the same.
		p.goLocked(func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			finished()
		})
		return
	}
	ctx, cancel := context.WithCancel(j.ctx)
	j.cancel = cancel
	opens := inst.lastTurn != a.Turn
	inst.lastTurn = a.Turn
	p.goLocked(func() {
		defer cancel()
		if opens {
			p.d.trace.Event("turn", map[string]any{"instance": inst.name, "branch": j.branch.name, "turn": a.Turn})
		}
		err := j.run(ctx, inst)
		if inst.gone() && err != nil {
			return // InstanceDown makes the scheduler run it again, or fail it
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.jobs[a.Request] == j {
			p.endLocked(a.Request, err)
		}
		finished()
		// An answer can come from an instance that the scheduler has given up
		// already: then it has the request in its queue again, for nobody.
		p.stepLocked(scheduler.Cancel{At: p.now(), Request: a.Request})
	})
}

// endLocked ends a job exactly once.
func (p *pool) endLocked(id scheduler.RequestID, err error) {
	j := p.jobs[id]
	if j == nil {
		return
	}
	delete(p.jobs, id)
	j.err = err
	close(j.done)
}

// drop makes every instance let go of a branch, then returns.
func (p *pool) drop(name string) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	done := p.releases[name]
	if done == nil {
		done = make(chan struct{})
		p.releases[name] = done
	}
	p.stepLocked(scheduler.DropBranch{At: p.now(), Branch: name})
	p.mu.Unlock()
	select {
	case <-done:
	case <-p.ctx.Done():
	}
}

// initializeResult returns what the server answers to initialize, starting an
// instance for it where none has answered yet.
func (p *pool) initializeResult(ctx context.Context, b *branch) (json.RawMessage, error) {
	select {
	case <-p.haveResult:
		return p.result, nil
	default:
	}
	asked, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errEnded
	}
	p.goLocked(func() {
		failed <- p.do(asked, b, scheduler.Interactive, func(context.Context, *instance) error { return nil })
	})
	p.mu.Unlock()
	select {
	case <-p.haveResult:
		return p.result, nil
	case err := <-failed:
		select {
		case <-p.haveResult:
			return p.result, nil
		default:
		}
		if err == nil {
			err = errEnded
		}
		return nil, err
	}
}

// close ends all instances and jobs.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	for id := range p.jobs {
		p.endLocked(id, errEnded)
	}
	for _, inst := range p.instances {
		p.goLocked(func() { inst.stop(errEnded) })
	}
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}

// schedulerError is the one table from the scheduler's kinds to LSP's codes.
func schedulerError(err *scheduler.Error, maxQueued int) error {
	code := wire.CodeRequestFailed
	switch err.Kind {
	case scheduler.QueueFull:
		return agent.OverLimit("max-queued", int64(maxQueued), "%v (--max-queued)", err)
	case scheduler.Cancelled:
		code = wire.CodeRequestCancelled
	case scheduler.InstanceLost, scheduler.TimedOut, scheduler.Unavailable, scheduler.SwitchRefused:
		code = wire.CodeServerCancelled
	}
	return wire.Errorf(code, "%v", err)
}
