package workspace

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"hash/maphash"
	"slices"
	"sync"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/shadow"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
	"shadowlsp/scheduler"
)

// cacheBytes bounds what one server's answers may take: some thousands of lints.
const cacheBytes = 32 << 20

// content identifies what a server sees of a branch, whichever branch it is: the
// layers, and the documents that are open.
type content struct {
	layers    overlay.StateID
	documents [2]uint64
}

// documentSeeds are those of this process: nobody can prepare texts that collide.
var documentSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func contentOf(over *overlay.Branch, documents []shadow.Document) content {
	c := content{layers: over.State()}
	for n, seed := range documentSeeds {
		var h maphash.Hash
		h.SetSeed(seed)
		for _, d := range documents {
			for _, part := range []string{d.URI, d.LanguageID, d.Text} {
				maphash.WriteComparable(&h, len(part))
				h.WriteString(part)
			}
		}
		c.documents[n] = h.Sum64()
	}
	return c
}

// question is what an answer was given to.
type question struct {
	of content
	// what is the method and the params, or a lint and its document.
	what string
}

// cache holds answers of one server, the least used of them dropped first. All are
// of one epoch: whatever happens to the person's folder, to the settings or to an
// instance begins another, and empties it.
type cache struct {
	mu           sync.Mutex // guards the fields below
	epoch        uint64
	entries      map[question]*list.Element // of cached
	order        list.List                  // newest first
	bytes        int
	hits, misses uint64
}

type cached struct {
	question
	answer any
	bytes  int
}

// get returns the answers to all of these questions, or nothing.
func (c *cache) get(epoch uint64, asked ...question) (answers []any, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.epoch {
		c.misses++
		return nil, false
	}
	for _, q := range asked {
		e := c.entries[q]
		if e == nil {
			c.misses++
			return nil, false
		}
		c.order.MoveToFront(e)
		answers = append(answers, e.Value.(cached).answer)
	}
	c.hits++
	return answers, true
}

// empty says whether there is nothing of this epoch.
func (c *cache) empty(epoch uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return epoch != c.epoch || len(c.entries) == 0
}

// put keeps an answer of bytes.
func (c *cache) put(epoch uint64, q question, answer any, bytes int) {
	const entry = 200 // what an entry takes beside its answer, about
	bytes += len(q.what) + entry
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch < c.epoch || bytes > cacheBytes/16 { // one giant would drop all others
		return
	}
	if epoch > c.epoch || c.entries == nil {
		c.epoch, c.entries, c.bytes = epoch, map[question]*list.Element{}, 0
		c.order.Init()
	}
	if old := c.entries[q]; old != nil {
		c.drop(old)
	}
	c.entries[q] = c.order.PushFront(cached{q, answer, bytes})
	for c.bytes += bytes; c.bytes > cacheBytes; {
		c.drop(c.order.Back())
	}
}

func (c *cache) drop(e *list.Element) {
	v := c.order.Remove(e).(cached)
	delete(c.entries, v.question)
	c.bytes -= v.bytes
}

// epoch counts all that may change answers and is no part of a branch. Both
// counters only grow, so an equal sum means that nothing has happened.
func (p *pool) epoch() uint64 { return p.d.generation.Load() + p.generation.Load() }

// lookable returns what the server would be asked about now, and of which epoch;
// ok is false where nothing can be known of it.
func (p *pool) lookable(ctx context.Context, b *branch) (st state, epoch uint64, ok bool) {
	if p.cache.empty(p.epoch()) || p.d.way.Blind() {
		return state{}, 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, baseLimit)
	defer cancel()
	if p.d.way.Sync(ctx) != nil { // what the person did before must count
		return state{}, 0, false
	}
	epoch = p.epoch()
	st, err := b.state(p)
	return st, epoch, err == nil && st.exact
}

// keepable says whether an answer of st, which was asked for in that epoch, is
// known to be of st alone: nothing has changed since.
func (p *pool) keepable(b *branch, st state, epoch uint64) bool {
	return st.exact && p.epoch() == epoch && b.current(st) && b.over.State() == st.content.layers && !p.d.way.Blind()
}

// lint returns final diagnostics of a branch, and the state that they are of: what
// is known of an equal state, else what the server says in a turn of the branch.
func (p *pool) lint(ctx context.Context, b *branch, class scheduler.Class, uris []string) ([]report, state, error) {
	if found, of, ok := p.knownLint(ctx, b, uris); ok {
		return found, of, nil
	}
	var (
		found []report
		of    state
	)
	err := p.do(ctx, b, class, func(ctx context.Context, inst *instance) (err error) {
		epoch := p.epoch()
		found, of, err = inst.diagnose(ctx, uris)
		if err == nil && p.keepable(b, of, epoch) {
			p.keepLint(epoch, of.content, uris, found)
		}
		return err
	})
	if err != nil {
		return nil, state{}, err // what is under way may still write to found
	}
	return found, of, nil
}

// allFiles stands for the whole workspace among lints; it is no URI.
const allFiles = "*"

func aboutLint(of content, uri string) question { return question{of, "lint " + uri} }

func (p *pool) knownLint(ctx context.Context, b *branch, uris []string) ([]report, state, bool) {
	st, epoch, ok := p.lookable(ctx, b)
	if !ok {
		return nil, state{}, false
	}
	if uris == nil {
		answers, ok := p.cache.get(epoch, aboutLint(st.content, allFiles))
		if !ok {
			return nil, state{}, false
		}
		return slices.Clone(answers[0].([]report)), st, true
	}
	asked := make([]question, len(uris))
	for n, uri := range uris {
		asked[n] = aboutLint(st.content, docuri.Canonical(uri))
	}
	answers, ok := p.cache.get(epoch, asked...)
	found := make([]report, len(answers))
	for n, a := range answers {
		found[n] = a.(report)
		found[n].uri = uris[n]
	}
	return found, st, ok
}

func (p *pool) keepLint(epoch uint64, of content, uris []string, found []report) {
	size := func(r report) int { return len(r.uri) + len(r.diagnostics) }
	if uris == nil {
		all := 0
		for _, r := range found {
			all += size(r)
		}
		p.cache.put(epoch, aboutLint(of, allFiles), slices.Clone(found), all)
		return
	}
	for _, r := range found {
		p.cache.put(epoch, aboutLint(of, docuri.Canonical(r.uri)), r, size(r))
	}
}

// pure are the methods whose answer follows from the files and documents alone,
// whose answer a later request does not refer to, and which change nothing. (A
// completion's items are resolved later; tokens have deltas.)
var pure = map[string]bool{
	"textDocument/hover": true, "textDocument/signatureHelp": true,
	"textDocument/declaration": true, "textDocument/definition": true, "textDocument/typeDefinition": true,
	"textDocument/implementation": true, "textDocument/references": true, "textDocument/documentHighlight": true,
	"textDocument/documentSymbol": true, "textDocument/documentLink": true, "textDocument/foldingRange": true,
	"textDocument/selectionRange": true, "textDocument/inlayHint": true,
	"textDocument/prepareRename": true, "textDocument/rename": true,
	"textDocument/formatting": true, "textDocument/rangeFormatting": true,
	"workspace/symbol": true,
}

// far are those of them whose answer comes from all files.
var far = map[string]bool{
	"textDocument/implementation": true, "textDocument/references": true, "textDocument/rename": true,
	"workspace/symbol": true,
}

// complete are the servers whose answers to far methods are known to be whole:
// others may still be indexing, and would say more later.
var complete = map[string]bool{"gopls": true}

// aboutRequest is the question of a request; ok is false where its answer is not
// to be kept.
func (p *pool) aboutRequest(m wire.Message) (what string, ok bool) {
	if !pure[m.Method] || far[m.Method] && !complete[p.profile().Name] {
		return "", false
	}
	for _, token := range []string{"workDoneToken", "partialResultToken"} {
		if _, there := barrier.Lookup(m.Params, token); there {
			return "", false
		}
	}
	var params bytes.Buffer
	if json.Compact(&params, m.Params) != nil {
		return "", false
	}
	return m.Method + " " + params.String(), true
}

// answer returns the result of a session's request: what is known of an equal
// state, else what the server says in a turn of the branch.
func (p *pool) answer(ctx context.Context, s *session, m wire.Message) (json.RawMessage, error) {
	what, keep := p.aboutRequest(m)
	if keep {
		if st, epoch, ok := p.lookable(ctx, s.branch); ok {
			if answers, ok := p.cache.get(epoch, question{st.content, what}); ok {
				return answers[0].(json.RawMessage), nil
			}
		}
	}
	var answer wire.Message
	err := p.do(ctx, s.branch, scheduler.Interactive, func(ctx context.Context, inst *instance) error {
		epoch := p.epoch()
		a, of, err := inst.forward(ctx, s, m)
		if answer = a; keep && err == nil && a.Error == nil && p.keepable(s.branch, of, epoch) {
			p.cache.put(epoch, question{of.content, what}, a.Result, len(a.Result))
		}
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err() // cancelled: wherever that was noticed
	case err != nil:
		return nil, err
	case answer.Error != nil:
		return nil, wire.ParseError(answer.Error)
	}
	return answer.Result, nil
}

func (c *cache) status() CacheStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CacheStatus{Answers: len(c.entries), Bytes: c.bytes, Hits: c.hits, Misses: c.misses}
}
