package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shadowlsp/lsp/union"
)

// joinLimit bounds how long an agent waits at its start for servers beside the
// first; what they offer is registered later.
const joinLimit = 20 * time.Second

// join starts what the session needs to answer initialize: the first server of
// the lineup, and those beside it that fit the workspace and of which it is not
// known what they offer.
func (s *session) join(ctx context.Context, line []candidate) error {
	var others []candidate
	for _, c := range line[1:] {
		if c.fits() {
			others = append(others, c)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for _, c := range others {
		if s.d.servers.offers(c.key()) != nil {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, joinLimit)
			defer cancel()
			if _, _, err := s.d.ready(ctx, s.branch, c, s.params); err != nil && ctx.Err() == nil {
				s.d.cfg.Log.Warn().Err(err).Str("server", c.profile.Name).Msg("server did not start")
				s.warn("%s did not start, so its files are neither linted nor answered for: %v", c.profile.Name, err)
			}
		})
	}
	p, result, err := s.d.ready(ctx, s.branch, line[0], s.params)
	if err != nil {
		cancel()
	}
	wg.Wait()
	if err != nil {
		return err
	}
	s.pool = p
	results := []json.RawMessage{result}
	told := map[string]map[string]bool{p.key: nil}
	for _, c := range line[1:] {
		if offers := s.d.servers.offers(c.key()); offers != nil {
			results = append(results, offers)
			told[c.key()] = nil
		}
	}
	s.result = union.Initialize(results)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = told
	return nil
}

// offer tells the agent, where it can be told, what the server of p offers that
// was not known when it attached.
func (s *session) offer(p *pool) {
	offers := s.d.servers.offers(p.key)
	if offers == nil {
		return
	}
	var languages []string
	for _, l := range p.profile().Languages {
		if !slices.Contains(languages, l.ID) {
			languages = append(languages, l.ID)
		}
	}
	if p.profile().Unknown() {
		languages = nil
	}
	s.mu.Lock()
	if s.told == nil { // it has not joined yet
		s.mu.Unlock()
		return
	}
	methods, known := s.told[p.key]
	var news []union.Registration
	for _, r := range union.Registrations(offers, s.params, languages) {
		if known && methods == nil && union.Offers(s.result, r.Method) || methods[r.Method] {
			continue
		}
		r.ID = fmt.Sprintf("shadowlsp-%d", registrations.Add(1))
		news = append(news, r)
	}
	if len(news) > 0 {
		if methods == nil {
			methods = map[string]bool{}
		}
		for _, r := range news {
			methods[r.Method] = true
		}
		s.told[p.key] = methods
	}
	s.mu.Unlock()
	if len(news) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.goLocked(func() {
		_, err := s.peer.Call(p.ctx, "client/registerCapability", map[string]any{"registrations": news})
		if err != nil {
			p.log.Debug().Err(err).Str("branch", s.branch.name).Msg("registering with an agent")
		}
	})
}

// registrations counts those that agents were sent: their ids are unique.
var registrations atomic.Int64

// legend returns how the semantic tokens of p's server become those of the legend
// that the agent was told; nil where they are.
func (s *session) legend(p *pool) *union.Mapping {
	s.mu.Lock()
	registered := s.told[p.key]["textDocument/semanticTokens"]
	s.mu.Unlock()
	if registered {
		return nil // with its own
	}
	return union.NewMapping(s.d.servers.offers(p.key), s.result)
}

// names are the servers behind the session.
func (s *session) names() []string {
	names := []string{s.pool.profile().Name}
	for _, p := range s.team() {
		if p != s.pool {
			names = append(names, p.profile().Name)
		}
	}
	return names
}

// team are the servers that have been needed: the session's own first.
func (s *session) team() []*pool {
	line := s.d.lineup(s.d.ctx, lookOnce)
	team := []*pool{s.pool}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	for _, c := range line {
		if p := s.d.pools[c.key()]; p != nil && p != s.pool {
			team = append(team, p)
		}
	}
	return team
}
