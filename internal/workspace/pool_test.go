package workspace

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shadowlsp/fusefs"
	"shadowlsp/internal/sandbox"
	"shadowlsp/internal/servers"
	"shadowlsp/lsp/shadow"
	"shadowlsp/overlay"
	"shadowlsp/scheduler"
)

// noWay starts nothing.
type noWay struct{}

func (noWay) start(context.Context, sandbox.Spec, *pool, *branch, zerolog.Logger) (*sandbox.Process, sight, error) {
	return nil, nil, errors.New("nothing can be started here")
}
func (noWay) Sync(context.Context) error                     { return nil }
func (noWay) Blind() bool                                    { return false }
func (noWay) Subscribe(func([]fusefs.BaseChange)) (c func()) { return func() {} }
func (noWay) Close() error                                   { return nil }

// An answer that comes from an instance which the scheduler has given up already is
// taken, and the request, which waits for its second try by then, leaves the queue:
// nobody would ever end it there.
func TestAnAnswerFromTheDead(t *testing.T) {
	store, _, err := overlay.Open(overlay.Options{Base: t.TempDir(), State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := &daemon{cfg: Config{Log: zerolog.Nop()}, ctx: ctx, store: store, way: noWay{}}
	p := newPool(d, newCandidate(learnt{Command: []string{"server"}}, detected, servers.Table{}, &d.servers), nil, scheduler.Config{})
	defer p.close()
	over, err := store.Create("b", overlay.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBranch(over, false)

	// An instance that shows the branch already, without a process behind it.
	inst := &instance{p: p, id: 1, name: "server#1", server: &shadow.Instance{}, branch: b}
	const before = 1 << 40 // a request that is over
	for _, e := range []scheduler.Event{
		scheduler.Prewarm{}, scheduler.InstanceUp{Instance: 1}, scheduler.Submit{Request: before, Branch: "b"},
	} {
		for _, a := range p.sched.Step(e) {
			if s, ok := a.(scheduler.Switch); ok {
				p.sched.Step(scheduler.Switched{Instance: 1, Turn: s.Turn})
			}
		}
	}
	p.sched.Step(scheduler.Finished{Instance: 1, Request: before})
	p.instances[1] = inst

	tries := 0
	err = p.do(ctx, b, scheduler.Interactive, func(context.Context, *instance) error {
		tries++
		p.down(1, errors.New("killed")) // while it answers
		p.mu.Lock()
		defer p.mu.Unlock()
		if s := p.sched.Snapshot(); s.Requests != 1 || len(s.Waiting) != 1 {
			t.Errorf("after the death there are %d requests, and %v wait", s.Requests, s.Waiting)
		}
		return nil
	})
	if err != nil || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
	// Its end is told after its answer.
	deadline := time.Now().Add(10 * time.Second)
	for {
		p.mu.Lock()
		s := p.sched.Snapshot()
		p.mu.Unlock()
		if s.Requests == 0 && len(s.Waiting) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests are left, %v wait", s.Requests, s.Waiting)
		}
	}
	if s := p.status(); s.Waiting != 0 {
		t.Errorf("status counts %d that wait", s.Waiting)
	}
}
