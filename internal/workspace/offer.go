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
	p, _, err := s.d.ready(ctx, s.branch, line[0], s.params)
	if err != nil {
		cancel()
	}
	wg.Wait()
	if err != nil {
		return err
	}
	s.pool = p
	results := []json.RawMessage{s.d.servers.offersTo(p.key, s.params)}
	told := map[string]*advertised{p.key: {static: true}}
	for _, c := range line[1:] {
		offers := s.d.servers.offersTo(c.key(), s.params)
		if !s.d.runs(c.key()) {
			offers = s.d.servers.offers(c.key()) // nobody will tell the rest before it is needed
		}
		if offers != nil {
			results = append(results, offers)
			told[c.key()] = &advertised{static: true}
		}
	}
	s.result = union.Initialize(results)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = told
	return nil
}

// advertised is what an agent knows of one server's offers.
type advertised struct {
	// static says that it has them in the answer to its initialize.
	static bool
	// ids are the registrations beside, by method.
	ids map[string]string
}

// offer tells the agent, where it can be told, what the server of p offers now that
// it did not when the agent was told last, and what it does no more.
func (s *session) offer(p *pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.goLocked(func() {
		s.telling.Lock()
		defer s.telling.Unlock()
		news, gone := s.newsOf(p)
		calls := []struct {
			method, member string
			list           any
			n              int
		}{
			// LSP spells the member so.
			{"client/unregisterCapability", "unregisterations", gone, len(gone)},
			{"client/registerCapability", "registrations", news, len(news)},
		}
		for _, c := range calls {
			if c.n == 0 {
				continue
			}
			if _, err := s.peer.Call(p.ctx, c.method, map[string]any{c.member: c.list}); err != nil {
				p.log.Debug().Err(err).Str("branch", s.branch.name).Msg(c.method)
			}
		}
	})
}

// newsOf are the changes of the offers of p's server since the agent was told last, which
// it is now.
func (s *session) newsOf(p *pool) (news []union.Registration, gone []union.Unregistration) {
	offers := s.d.servers.offers(p.key)
	if offers == nil {
		return nil, nil
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
	defer s.mu.Unlock()
	if s.told == nil { // it has not joined yet
		return nil, nil
	}
	of := s.told[p.key]
	if of == nil {
		of = &advertised{}
		s.told[p.key] = of
	}
	if of.ids == nil {
		of.ids = map[string]string{}
	}
	now := map[string]bool{}
	for _, r := range union.Registrations(offers, s.params, languages) {
		now[r.Method] = true
		if of.static && union.Offers(s.result, r.Method) || of.ids[r.Method] != "" {
			continue
		}
		r.ID = fmt.Sprintf("shadowlsp-%d", registrations.Add(1))
		of.ids[r.Method] = r.ID
		news = append(news, r)
	}
	for method, id := range of.ids {
		if !now[method] {
			gone = append(gone, union.Unregistration{ID: id, Method: method})
			delete(of.ids, method)
		}
	}
	return news, gone
}

// registrations counts those that agents were sent: their ids are unique.
var registrations atomic.Int64

// legend returns how the semantic tokens of p's server become those of the legend
// that the agent was told; nil where they are.
func (s *session) legend(p *pool) *union.Mapping {
	s.mu.Lock()
	of := s.told[p.key]
	s.mu.Unlock()
	if of != nil && of.ids["textDocument/semanticTokens"] != "" {
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

// runs says whether a server has been needed.
func (d *daemon) runs(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pools[key] != nil
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
