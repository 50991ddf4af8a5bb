package workspace

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/union"
	"shadowlsp/lsp/wire"
)

// ask puts a request of the agent to the server, or the servers, that it is for.
func (s *session) ask(ctx context.Context, m wire.Message) (json.RawMessage, error) {
	item := m.Params
	pools, m, err := s.route(ctx, m)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(m.Method, "/resolve") && !union.Offers(s.d.servers.offers(pools[0].key), m.Method) && union.Offers(s.result, m.Method) {
		return item, nil // the agent cannot know which server does: there is no more to it
	}
	if len(pools) == 1 {
		return s.put(ctx, pools[0], m)
	}
	answers, errs := make([]json.RawMessage, len(pools)), make([]error, len(pools))
	var wg sync.WaitGroup
	for n, p := range pools {
		wg.Go(func() {
			m := m
			if n > 0 {
				m = omit(m, "workDoneToken") // one token stands for one progress
			}
			answers[n], errs[n] = s.put(ctx, p, omit(m, "partialResultToken"))
		})
	}
	wg.Wait()
	var failed error
	var got []json.RawMessage
	for n, err := range errs {
		if err == nil {
			got = append(got, answers[n])
		} else if failed == nil {
			failed = err
		}
	}
	if len(got) == 0 {
		return nil, failed
	}
	return union.Answers(m.Method, got), nil
}

// put puts a request to one server and returns its answer as the agent is to see it.
func (s *session) put(ctx context.Context, p *pool, m wire.Message) (json.RawMessage, error) {
	several := len(s.team()) > 1
	var legend *union.Mapping
	if several && union.SemanticTokens(m.Method) {
		legend = s.legend(p)
	}
	if several && union.Tagged(m.Method) || legend != nil {
		m = omit(m, "partialResultToken") // it is changed as a whole
	}
	result, err := p.answer(ctx, s, m)
	if err != nil {
		return nil, err
	}
	if several {
		result = union.Tag(m.Method, result, p.key)
	}
	if legend != nil {
		mapped, ok := legend.Result(result)
		if !ok && m.Method == "textDocument/semanticTokens/full/delta" {
			// Its pieces are no whole tokens. The whole is an answer as well.
			full := barrier.Apply(m.Body, []barrier.Edit{
				{Path: []string{"method"}, Value: barrier.Raw("textDocument/semanticTokens/full")},
				{Path: []string{"params", "previousResultId"}},
			})
			if m, err = wire.Parse(full); err == nil {
				return s.put(ctx, p, m)
			}
		}
		result = mapped
	}
	return s.ownVersions(m.Method, result), nil
}

// omit returns m without a member of its params.
func omit(m wire.Message, member string) wire.Message {
	if _, there := barrier.Lookup(m.Params, member); !there {
		return m
	}
	changed, err := wire.Parse(barrier.Apply(m.Body, []barrier.Edit{{Path: []string{"params", member}}}))
	if err != nil {
		return m
	}
	return changed
}

// route says whom a request is for: the server that an item is from, that executes
// a command, that takes the document, whose name the method begins with; all, for
// what is asked of the whole workspace; else the session's own. Where several take
// the document it is the first that offers the method: none that does not is asked
// in its place, so that it says so itself.
func (s *session) route(ctx context.Context, m wire.Message) ([]*pool, wire.Message, error) {
	if union.Tagged(m.Method) && !strings.HasPrefix(m.Method, "textDocument/") {
		if own, tag, ok := union.Untag(m.Params); ok {
			changed, err := wire.Parse(barrier.Apply(m.Body, []barrier.Edit{{Path: []string{"params"}, Value: own}}))
			if err != nil {
				return nil, m, err
			}
			s.d.mu.Lock()
			p := s.d.pools[tag]
			s.d.mu.Unlock()
			if p == nil {
				return nil, m, wire.Errorf(wire.CodeContentModified, "%s: the item is of a server that is there no more: ask anew", m.Method)
			}
			return []*pool{p}, changed, nil
		}
	}
	if m.Method == "workspace/executeCommand" {
		return []*pool{s.executor(m.Params)}, m, nil
	}
	for _, at := range [][]string{{"textDocument", "uri"}, {"item", "uri"}} {
		var uri string
		raw, ok := barrier.Lookup(m.Params, at...)
		if !ok || json.Unmarshal(raw, &uri) != nil {
			continue
		}
		of, err := s.serversOf(ctx, uri)
		if err != nil {
			return nil, m, err
		}
		if path, err := relativeURI(s.d.root, uri); err == nil && !s.branch.holds(path) && slices.ContainsFunc(of, func(p *pool) bool { return p.profile().OpenOnly }) {
			// Such a server refuses to answer about what is not open; it may be asked
			// all the same, and only an agent that has the text need open it.
			s.branch.lend([]string{path})
		}
		if len(of) == 0 {
			return nil, m, wire.Errorf(wire.CodeRequestFailed, "no language server is there for %s: `shadowlsp servers` lists those that are known", uri)
		}
		return s.offering(of, m.Method), m, nil
	}
	team := s.team()
	for _, p := range team {
		if strings.HasPrefix(m.Method, p.profile().Name+"/") {
			return []*pool{p}, m, nil
		}
	}
	if union.Asked(m.Method) {
		return s.offering(team, m.Method), m, nil
	}
	return []*pool{s.pool}, m, nil
}

// offering are those of the servers that offer a method: all, for what all are
// asked, else the first; where none does, the first.
func (s *session) offering(of []*pool, method string) []*pool {
	var found []*pool
	for _, p := range of {
		if offers := s.d.servers.offers(p.key); len(of) == 1 || union.Offers(offers, method) {
			found = append(found, p)
			if !union.Asked(method) {
				break
			}
		}
	}
	if len(found) == 0 {
		return of[:1]
	}
	return found
}

// executor is the server that executes a command.
func (s *session) executor(params json.RawMessage) *pool {
	var command string
	raw, _ := barrier.Lookup(params, "command")
	_ = json.Unmarshal(raw, &command) // the server says what is wrong with it
	for _, p := range s.team() {
		if slices.Contains(union.Commands(s.d.servers.offers(p.key)), command) {
			return p
		}
	}
	return s.pool
}

// serversOf returns the servers of a document, the one that answers requests
// first; none where nobody takes it.
func (s *session) serversOf(ctx context.Context, uri string) ([]*pool, error) {
	line := s.d.lineup(ctx, lookOnce)
	of := firstTaken(line, s.languagesOf(line, uri))
	if len(of) == 0 {
		// One may have been installed meanwhile, or the first such file made.
		line = s.d.lineup(ctx, lookSoon)
		of = firstTaken(line, s.languagesOf(line, uri))
	}
	var pools []*pool
	for _, c := range of {
		p, err := s.d.pool(c, s.params)
		if err != nil {
			return nil, err
		}
		pools = append(pools, p)
	}
	return pools, nil
}

func firstTaken(line []candidate, languages []string) []candidate {
	for _, id := range languages {
		if of := forLanguage(line, id); len(of) > 0 {
			return of
		}
	}
	return nil
}

// languagesOf are what a document's language may be, the likeliest first: what the
// agent says that holds it open, what its name or its first line says to all, what
// its name says to one server; at last "", for a server that might take anything.
func (s *session) languagesOf(line []candidate, uri string) []string {
	path, isFile := docuri.Path(uri)
	if !isFile {
		return []string{""}
	}
	var ids []string
	add := func(id string) {
		if id != "" {
			ids = append(ids, id)
		}
	}
	rel, err := relative(s.d.root, path)
	if err != nil {
		id, _ := s.d.languageOf(path, nil) // a library's source
		add(id)
		return append(ids, "")
	}
	add(s.branch.languageOf(rel))
	id, _ := s.d.languageOf(rel, func() string {
		t, _ := s.branch.text(rel) // no text, no first line
		return t
	})
	add(id)
	for _, c := range line {
		id, _ := c.profile.Language(rel)
		add(id)
	}
	return append(ids, "")
}
