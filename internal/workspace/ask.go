package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/shadow"
	"shadowlsp/lsp/wire"
)

// forward puts an agent's request to the server, in the newest state.
// It returns the state that the answer is of as well; one that is not exact where
// the server was told of another meanwhile.
func (i *instance) forward(ctx context.Context, s *session, m wire.Message) (wire.Message, state, error) {
	if m.Method == executeCommand {
		// What the server asks for meanwhile says nothing of whose command it is: so
		// there is one at a time.
		select {
		case i.command <- struct{}{}:
			defer func() { <-i.command }()
		case <-ctx.Done():
			return wire.Message{}, state{}, ctx.Err()
		}
	}
	if slices.Contains(i.p.profile().LoadFirst, m.Method) {
		// Where nothing can be proven the server's answer is as good as any.
		_, _, _ = i.diagnose(ctx, nil)
	}
	if err := i.sync(ctx); err != nil {
		return wire.Message{}, state{}, err
	}
	st, before := i.state()
	if err := i.sight.lacks(st, documentOf(m.Params)); err != nil {
		return wire.Message{}, state{}, unproven(err)
	}
	i.ask(s, m, true)
	defer i.ask(s, m, false)
	answer, err := i.server.Forward(ctx, m, progress{s.peer, agent.ProgressOf(ctx)})
	if _, after := i.state(); after != before {
		st.exact = false
	}
	return answer, st, err
}

// documentOf is the document that a request's params name, if they do.
func documentOf(params json.RawMessage) []string {
	raw, ok := barrier.Lookup(params, "textDocument", "uri")
	var uri string
	if !ok || json.Unmarshal(raw, &uri) != nil {
		return nil
	}
	return []string{uri}
}

// executeCommand is the request in which servers ask for edits to be made.
const executeCommand = "workspace/executeCommand"

// ask notes that a request of s begins or ends.
func (i *instance) ask(s *session, m wire.Message, begin bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if m.Method == executeCommand {
		i.commands = nil
		if begin {
			i.commands = s
		}
	}
	if begin {
		i.askers = append(i.askers, s)
		return
	}
	for n, other := range i.askers {
		if other == s {
			i.askers = append(i.askers[:n:n], i.askers[n+1:]...)
			return
		}
	}
}

// asker is the session whose request runs: where there are several the one whose
// command does, else the newest.
func (i *instance) asker() *session {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.commands != nil {
		return i.commands
	}
	if len(i.askers) == 0 {
		return nil
	}
	return i.askers[len(i.askers)-1]
}

// report is one document's final diagnostics.
type report struct {
	uri, barrier string
	diagnostics  json.RawMessage
	hazy         string // why it is not the truth, or ""
}

// diagnose returns final diagnostics of the branch that the instance shows, and
// the state that they are of.
func (i *instance) diagnose(ctx context.Context, uris []string) (reports []report, of state, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lintLimit, fmt.Errorf("not proven within %v", lintLimit))
	defer cancel()
	rebuilt := 0
	for range maxSuperseded {
		if err := i.sync(ctx); err != nil {
			return nil, state{}, err
		}
		began := time.Now()
		before, tells := i.state()
		if err := i.sight.lacks(before, uris); err != nil {
			return nil, state{}, err
		}
		var got map[string]shadow.Report
		got, err = i.server.Diagnose(ctx, uris)
		i.p.d.trace.Event("barrier", map[string]any{
			"instance": i.name, "branch": i.showing().name, "rev": before.rev, "ok": err == nil, "us": time.Since(began).Microseconds(),
		})
		var (
			e *shadow.Error
			b *barrier.Error
		)
		switch {
		case errors.As(err, &e) && e.Kind == shadow.Superseded:
			continue
		}
		if _, after := i.state(); after == tells {
			i.finished(tells)
		}
		switch {
		case errors.As(err, &b) && b.Kind == barrier.Desync:
			i.stop(err) // its documents are not ours any more; the question is put to the next one
			return nil, state{}, err
		case err != nil:
			return nil, state{}, err
		}
		i.p.settled(i)
		if _, after := i.state(); after != tells {
			continue // edited between our sync and the barrier: which state it is of is not known
		}
		if rebuilt < maxRebuilt && i.unheard() {
			rebuilt++
			continue // its own build has written sources, which it reads when it is told
		}
		for _, r := range got {
			if uris == nil && i.lingers(r.URI, before) {
				continue // nobody has it open
			}
			reports = append(reports, report{uri: r.URI, barrier: r.Barrier, diagnostics: r.Diagnostics, hazy: i.sight.hazy(before, r.URI)})
		}
		return reports, before, nil
	}
	if err == nil {
		err = agent.Unproven(agent.Partial, "the branch was edited all the time")
	}
	return nil, state{}, err
}

// maxRebuilt bounds how often a lint starts over because sources were written
// meanwhile: a build script's output changes once.
const maxRebuilt = 3

// unheard says whether files were written, by the server's own programs mostly,
// that it asked to hear of.
func (i *instance) unheard() bool {
	b := i.sight.disk(i.showing())
	for path, created := range b.peekDirty(i) {
		change := shadow.Changed
		if created {
			change = shadow.Created
		}
		if i.server.Watches(filepath.Join(i.p.d.root, path), change) {
			return true
		}
	}
	return false
}

// state is what the server has been told last, and how often it has been told.
func (i *instance) state() (state, uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.told, i.tells
}

func (i *instance) showing() *branch {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.branch
}
