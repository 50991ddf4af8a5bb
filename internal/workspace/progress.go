package workspace

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/shadow"
	"shadowlsp/scheduler"
)

// placeEvery is how often an agent that wants to know is told how things stand. It
// is told only what is new, and each look costs a walk along the line.
const placeEvery = 250 * time.Millisecond

// follow tells an agent what becomes of its job until stop is called, which waits
// for the end of it.
func (p *pool) follow(to *agent.Progress, id scheduler.RequestID) (stop func()) {
	to.Report(p.place(id))
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		look := time.NewTicker(placeEvery)
		defer look.Stop()
		for {
			select {
			case <-look.C:
				if place := p.place(id); place != "" {
					to.Report(place)
				}
			case <-ending:
				return
			}
		}
	}()
	return func() {
		close(ending)
		<-ended
	}
}

// place says where a job stands, in words; "" once it runs and the server can
// speak for itself.
func (p *pool) place(id scheduler.RequestID) string {
	p.mu.Lock()
	at, ok := p.sched.Position(id)
	j := p.jobs[id]
	begun := j != nil && j.shown
	if ok && at.Running && j != nil {
		j.shown = true
	}
	loading, ready := p.loading, false
	for _, i := range p.instances {
		ready = ready || i.ready.Load()
	}
	p.mu.Unlock()
	switch {
	case !ok || at.Running && begun:
		return ""
	case at.Running:
		return fmt.Sprintf("runs on %s#%d", p.profile().Name, at.Instance)
	case at.Instance != 0:
		return fmt.Sprintf("%s#%d is switched to the branch", p.profile().Name, at.Instance)
	case !ready && loading != "":
		return p.profile().Name + " is loading: " + loading
	case !ready:
		return p.profile().Name + " is being started"
	}
	return fmt.Sprintf("queued: %d branches are before it%s", at.Ahead, p.busy())
}

// busy says what runs.
func (p *pool) busy() string {
	p.mu.Lock()
	instances := make([]*instance, 0, len(p.instances))
	for _, i := range p.instances {
		instances = append(instances, i)
	}
	p.mu.Unlock()
	var works []string
	for _, i := range instances {
		if b := i.showing(); b != i.scratch {
			works = append(works, fmt.Sprintf("%s works for %s", i.name, b.name))
		}
	}
	if len(works) == 0 {
		return ""
	}
	slices.Sort(works)
	return "; " + strings.Join(works, ", ")
}

// progress passes progress of a request on to the agent that asked.
type progress struct {
	peer agent.Peer
	work *agent.Progress // nil: the agent gave no token for work
}

// Progress implements shadow.Sink.
func (p progress) Progress(params json.RawMessage) {
	if !p.work.Pass(params) {
		p.peer.Notify("$/progress", params)
	}
}

var _ shadow.Sink = progress{}
