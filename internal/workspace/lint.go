package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"shadowlsp/internal/servers"
	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/overlay"
	"shadowlsp/scheduler"
)

// part is what one server is asked about, and what it says.
type part struct {
	p     *pool
	uris  []string // nil: all
	cut   string   // why not all that may have broken was looked at, or ""
	found []report
	of    state
	err   error
}

// diagnose asks the servers of each document, in turns of the branch. Without uris
// it asks those that fit the workspace, and those of what the branch changes.
func (s *session) diagnose(ctx context.Context, uris []string, class scheduler.Class) (agent.Diagnosis, error) {
	parts, out, err := s.parts(ctx, uris)
	if err != nil {
		return agent.Diagnosis{}, err
	}
	// Several servers say something about one state only if the branch has not
	// been edited between: then those that were asked before it are asked again.
	for range maxSuperseded {
		newest := uint64(0)
		for _, p := range parts {
			newest = max(newest, p.of.rev)
		}
		var wg sync.WaitGroup
		for _, p := range parts {
			if p.err != nil || p.found != nil && p.of.rev == newest {
				continue
			}
			wg.Go(func() { s.lintPart(ctx, p, class) })
		}
		wg.Wait()
		if ctx.Err() != nil {
			return agent.Diagnosis{}, ctx.Err() // cancelled: whatever came of it is no verdict
		}
		if !slices.ContainsFunc(parts, func(p *part) bool { return p.err == nil && p.of.rev != parts[0].of.rev }) {
			break
		}
	}
	return s.joined(out, parts, uris != nil)
}

// lintPart asks one server.
func (s *session) lintPart(ctx context.Context, a *part, class scheduler.Class) {
	a.found, a.of, a.err = a.p.lint(ctx, s.branch, class, a.uris)
	if a.err == nil && a.found == nil {
		a.found = []report{}
	}
}

// parts says whom to ask about what; what nobody can be asked about is in the
// Diagnosis already.
func (s *session) parts(ctx context.Context, uris []string) (parts []*part, out agent.Diagnosis, err error) {
	if uris == nil {
		parts, err = s.workspaceParts(ctx)
		return parts, out, err
	}
	out.Rev = s.branch.revision()
	refuse := func(uri, format string, args ...any) {
		out.Reports = append(out.Reports, agent.Report{URI: uri, Verdict: agent.Unsupported, Reason: fmt.Sprintf(format, args...)})
	}
	byPool := map[*pool]*part{}
	var lent []string
	for _, uri := range uris {
		rel, err := relativeURI(s.d.root, uri)
		if err == nil && !s.branch.holds(rel) {
			if n, err := s.branch.over.Lookup(rel); err != nil || n.IsDir() {
				refuse(uri, "there is no such file on the branch")
				continue
			}
		}
		pools, err2 := s.serversOf(ctx, uri)
		if err2 != nil {
			return nil, out, err2
		}
		if len(pools) == 0 {
			refuse(uri, "no language server is there for it: `shadowlsp servers` lists those that are known")
			continue
		}
		for _, p := range pools {
			a := byPool[p]
			if a == nil {
				a = &part{p: p}
				byPool[p] = a
				parts = append(parts, a)
			}
			a.uris = append(a.uris, uri)
			if err == nil && p.profile().OpenOnly {
				lent = append(lent, rel)
			}
		}
	}
	s.branch.lend(lent)
	return parts, out, nil
}

// workspaceParts are for the whole workspace: the servers that fit it and report
// all files, and those of what the branch changes.
func (s *session) workspaceParts(ctx context.Context) (parts []*part, err error) {
	changed, err := s.changed()
	if err != nil {
		return nil, err
	}
	byPool := map[*pool][]string{} // what the branch changes, by server
	for _, path := range changed {
		pools, err := s.serversOf(ctx, docuri.FromPath(s.d.uriPath(path)))
		if err != nil {
			return nil, err
		}
		for _, p := range pools {
			byPool[p] = append(byPool[p], path)
		}
	}
	for _, c := range s.d.lineup(ctx, lookOnce) {
		p, err := s.d.pool(c, s.params)
		if err != nil {
			return nil, err
		}
		changes, asked := byPool[p]
		switch {
		case !asked && (p.profile().OpenOnly || !c.fits() && p != s.pool):
			continue // nothing of its is open
		case p.profile().OpenOnly:
			dependents, cut, err := s.dependents(ctx, p, changes)
			if err != nil {
				return nil, err
			}
			s.branch.lend(dependents)
			parts = append(parts, &part{p: p, cut: cut})
		default:
			parts = append(parts, &part{p: p})
		}
	}
	return parts, nil
}

// changed are the files that the branch shows in another way than the person's
// folder, and those that are open.
func (s *session) changed() ([]string, error) {
	overrides, err := s.branch.over.Overrides()
	if err != nil {
		return nil, invalid(err)
	}
	paths := s.branch.held()
	for _, o := range overrides {
		if (o.Kind == overlay.Regular || o.Kind == overlay.Deleted) && !servers.Skipped(o.Path) {
			paths = append(paths, o.Path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// joined makes one Diagnosis of the servers' answers: of a document that several
// take, all diagnostics.
func (s *session) joined(out agent.Diagnosis, parts []*part, named bool) (agent.Diagnosis, error) {
	at := map[string]int{} // by canonical URI
	for _, a := range parts {
		if a.err != nil {
			verdict, reason, ok := verdictOf(a.err)
			if !ok {
				return agent.Diagnosis{}, a.err
			}
			if !named && verdict == agent.Unsupported && a.p != s.pool {
				continue // it says nothing about any of its documents, ever
			}
			if !named || len(parts) == 1 && len(out.Reports) == 0 {
				return agent.Diagnosis{}, agent.Unproven(verdict, reason)
			}
			for _, uri := range a.uris {
				join(&out, at, agent.Report{URI: uri, Verdict: verdict, Reason: reason})
			}
			continue
		}
		out.Rev = a.of.rev
		if a.cut != "" {
			out.Incomplete = a.cut
		}
		for _, r := range a.found {
			out.Barrier = r.barrier
			f := agent.Report{URI: r.uri, Diagnostics: r.diagnostics, Verdict: agent.Fresh, Barrier: r.barrier}
			if r.hazy != "" {
				f.Diagnostics, f.Verdict, f.Reason = nil, agent.Unsupported, r.hazy
			}
			if version, open := a.of.versions[s][docuri.Canonical(r.uri)]; open {
				f.Version = &version
			}
			join(&out, at, f)
		}
	}
	return out, nil
}

// join adds a report to those of other servers about the same document. What one
// of them could not prove is not proven.
func join(out *agent.Diagnosis, at map[string]int, r agent.Report) {
	uri := docuri.Canonical(r.URI)
	n, there := at[uri]
	if !there {
		at[uri] = len(out.Reports)
		out.Reports = append(out.Reports, r)
		return
	}
	old := &out.Reports[n]
	switch {
	case old.Verdict != agent.Fresh:
	case r.Verdict != agent.Fresh:
		*old = r
	default:
		var a, b []json.RawMessage
		if json.Unmarshal(old.Diagnostics, &a) == nil && json.Unmarshal(r.Diagnostics, &b) == nil {
			old.Diagnostics = barrier.Raw(append(a, b...))
		}
		if !strings.Contains(old.Barrier, r.Barrier) {
			old.Barrier += "+" + r.Barrier
		}
	}
}

// unproven makes an error for diagnostics whose finality was not proven.
func unproven(err error) error {
	verdict, reason, ok := verdictOf(err)
	if !ok {
		return err
	}
	return agent.Unproven(verdict, reason)
}

// unreported are the edited files that a lint of the whole workspace has said
// nothing about: those of servers that report all files have no diagnostics, others
// are asked about by name.
func (s *session) unreported(ctx context.Context, edited []string, reported map[string]bool, found agent.Diagnosis) (items []agent.LintItem, err error) {
	var ask []string
	for _, path := range edited {
		uri := docuri.FromPath(s.d.uriPath(path))
		if n, err := s.branch.over.Lookup(path); err != nil || n.IsDir() || reported[docuri.Canonical(uri)] {
			continue
		}
		pools, err := s.serversOf(ctx, uri)
		if err != nil {
			return nil, err
		}
		if len(pools) == 0 || slices.ContainsFunc(pools, func(p *pool) bool { return p.profile().OpenOnly }) {
			ask = append(ask, uri)
			continue
		}
		items = append(items, agent.LintItem{URI: uri, Diagnostics: json.RawMessage("[]"), Verdict: agent.Fresh, Barrier: found.Barrier})
	}
	if len(ask) == 0 {
		return items, nil
	}
	more, err := s.diagnose(ctx, ask, scheduler.Interactive)
	if err != nil {
		verdict, reason, ok := verdictOf(err)
		if !ok {
			return nil, err
		}
		for _, uri := range ask {
			items = append(items, agent.LintItem{URI: uri, Verdict: verdict, Reason: reason})
		}
		return items, nil
	}
	for _, f := range more.Reports {
		items = append(items, agent.LintItem{URI: f.URI, Diagnostics: f.Diagnostics, Verdict: f.Verdict, Barrier: f.Barrier, Reason: f.Reason})
	}
	return items, nil
}
