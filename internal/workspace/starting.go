package workspace

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"shadowlsp/scheduler"
)

// starting is an instance on its way, from its process to the loaded workspace: the
// agents that want to know are shown it as a progress.
type starting struct {
	over context.Context // ends with it

	// Guarded by pool.mu.
	ended  string            // how
	titles map[string]string // of the server's own progress, by token
	agents map[*session]bool
}

// starting notes that an instance starts, and shows it to the agents that are there.
// The function that it returns says that it has started, or why not.
func (p *pool) starting(id scheduler.InstanceID) (over func(error)) {
	ctx, cancel := context.WithCancel(p.ctx)
	st := &starting{over: ctx, titles: map[string]string{}, agents: map[*session]bool{}}
	p.d.mu.Lock()
	var all []*session
	for s := range p.d.sessions {
		all = append(all, s)
	}
	p.d.mu.Unlock()
	p.mu.Lock()
	p.starts[id], p.loading = st, ""
	p.mu.Unlock()
	for _, s := range all {
		p.showStarts(s)
	}
	return func(err error) {
		defer cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.starts, id)
		st.ended = "ready"
		if err != nil {
			st.ended = "did not start: " + err.Error()
		}
	}
}

// loads keeps what the server says of its own work until it is ready, for those who
// wait.
func (p *pool) loads(id scheduler.InstanceID, params json.RawMessage) {
	var of struct {
		Token json.RawMessage
		Value struct{ Kind, Title, Message string }
	}
	if json.Unmarshal(params, &of) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.starts[id]
	if st == nil {
		return
	}
	title := st.titles[string(of.Token)]
	switch of.Value.Kind {
	case "begin":
		title = of.Value.Title
		st.titles[string(of.Token)] = title
	case "end":
		delete(st.titles, string(of.Token))
	}
	text := strings.TrimPrefix(title+": "+of.Value.Message, ": ")
	if text = strings.TrimSuffix(text, ": "); text != "" {
		p.loading = text
	}
}

// showStarts shows an agent what starts, where it does not see that already.
func (p *pool) showStarts(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range p.starts {
		if p.closed || st.agents[s] {
			continue
		}
		st.agents[s] = true
		p.goLocked(func() { p.showStart(s, st) })
	}
}

// showStart shows one agent one start until it is over. What the server says comes
// at the pace of placeEvery: some say hundreds of things in a second.
func (p *pool) showStart(s *session, st *starting) {
	to := s.peer.Progress(st.over, "shadowlsp: "+p.profile().Name+" starts")
	if to == nil {
		return
	}
	says := func() (now, ended string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.loading, st.ended
	}
	look := time.NewTicker(placeEvery)
	defer look.Stop()
	for {
		now, _ := says()
		to.Report(now)
		select {
		case <-look.C:
		case <-st.over.Done():
			now, ended := says()
			to.Report(now)
			to.End(ended)
			return
		}
	}
}
