package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/bmatcuk/doublestar/v4"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/shadow"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
	"shadowlsp/scheduler"
)

// Extension implements agent.Session: edits are made at once, in the order of the
// connection's messages; what takes time is in the Pending.
func (s *session) Extension(ctx context.Context, method string, params json.RawMessage) agent.Pending[json.RawMessage] {
	switch method {
	case agent.MethodLint:
		return answer(params, method, func(p agent.LintParams) agent.Pending[any] { return s.lint(ctx, p) })
	case agent.MethodWrite:
		return answer(params, method, func(p agent.WriteParams) agent.Pending[any] {
			_, err := s.edit(p.Edits)
			return agent.Now[any](agent.WriteResult{Rev: s.branch.revision()}, err)
		})
	case agent.MethodRead:
		return answer(params, method, func(p agent.ReadParams) agent.Pending[any] { return s.read(p) })
	case agent.MethodList:
		return answer(params, method, func(p agent.ListParams) agent.Pending[any] { return s.list(ctx, p) })
	case agent.MethodSearch:
		return answer(params, method, func(p agent.SearchParams) agent.Pending[any] { return s.search(ctx, p) })
	case agent.MethodDiff:
		return answer(params, method, func(p agent.DiffParams) agent.Pending[any] { return s.diff(ctx, p) })
	case agent.MethodRun:
		return answer(params, method, func(p agent.RunParams) agent.Pending[any] { return s.run(ctx, p) })
	case agent.MethodStatus:
		return answer(params, method, func(agent.StatusParams) agent.Pending[any] { return agent.Now[any](s.status(), nil) })
	}
	if p, ok := s.lifeExtension(ctx, method, params); ok {
		return p
	}
	return agent.Now[json.RawMessage](nil, wire.Errorf(wire.CodeMethodNotFound, "%s is not known", method))
}

// answer decodes params, asks, and encodes the result.
func answer[P any](params json.RawMessage, method string, ask func(P) agent.Pending[any]) agent.Pending[json.RawMessage] {
	p, err := agent.DecodeParams[P](method, params)
	if err != nil {
		return agent.Now[json.RawMessage](nil, err)
	}
	pending := ask(p)
	return func() (json.RawMessage, error) {
		v, err := pending()
		if err != nil {
			return nil, err
		}
		return json.Marshal(v)
	}
}

// lint makes edits, then returns final diagnostics.
func (s *session) lint(ctx context.Context, p agent.LintParams) agent.Pending[any] {
	edited, err := s.edit(p.Edits)
	if err != nil {
		return agent.Now[any](nil, err)
	}
	return func() (any, error) {
		found, err := s.diagnose(ctx, p.URIs, scheduler.Interactive)
		var refused *wire.Error
		if errors.As(err, &refused) && refused.Code == wire.CodeServerCancelled && p.URIs != nil {
			verdict, reason, _ := verdictOf(err)
			r := agent.LintResult{Items: []agent.LintItem{}, Rev: s.branch.revision()}
			for _, uri := range p.URIs {
				r.Items = append(r.Items, agent.LintItem{URI: uri, Verdict: verdict, Reason: reason})
			}
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		r := agent.LintResult{Items: []agent.LintItem{}, Rev: found.Rev}
		reported := map[string]bool{}
		for _, f := range found.Reports {
			reported[docuri.Canonical(f.URI)] = true
			r.Items = append(r.Items, agent.LintItem{URI: f.URI, Diagnostics: f.Diagnostics, Verdict: f.Verdict, Barrier: f.Barrier, Reason: f.Reason})
		}
		if p.URIs == nil {
			rest, err := s.unreported(ctx, edited, reported, found)
			if err != nil {
				return nil, err
			}
			r.Items = append(r.Items, rest...)
			r.Incomplete = found.Incomplete
		}
		sort.Slice(r.Items, func(i, j int) bool { return r.Items[i].URI < r.Items[j].URI })
		return r, nil
	}
}

// verdictOf says what an error of a lint means for its diagnostics; ok is false
// where it is no matter of finality.
func verdictOf(err error) (verdict agent.Verdict, reason string, ok bool) {
	var (
		b *barrier.Error
		i *shadow.Error
		w *wire.Error
	)
	switch {
	case errors.As(err, &b):
		return agent.Verdict(b.Verdict()), b.Error(), true
	case errors.As(err, &i):
		return agent.Partial, i.Error(), true
	case errors.As(err, &w) && w.Code == wire.CodeServerCancelled:
		var data struct {
			Shadowlsp struct{ Verdict agent.Verdict }
		}
		if json.Unmarshal(w.Data, &data) == nil && data.Shadowlsp.Verdict != "" {
			return data.Shadowlsp.Verdict, w.Message, true // made by agent.Unproven
		}
		return agent.Partial, w.Message, true
	}
	return "", "", false
}

func (s *session) read(p agent.ReadParams) agent.Pending[any] {
	path, err := s.locate(p.URI)
	if err != nil {
		return agent.Now[any](nil, err)
	}
	return func() (any, error) {
		rev := s.branch.revision()
		t, err := s.branch.text(path)
		if err != nil {
			return nil, invalid(err)
		}
		r := agent.ReadResult{Rev: rev}
		if n, err := s.branch.over.Lookup(path); err == nil {
			_, base := n.FromBase()
			r.Overridden = !base
		}
		if utf8.ValidString(t) {
			r.Text = &t
		} else {
			r.Base64 = []byte(t)
		}
		return r, nil
	}
}

const (
	// defaultListed bounds the entries of a list where the agent names no limit.
	defaultListed = 10_000
	// defaultMatches bounds the matches of a search likewise.
	defaultMatches = 1_000
	// maxSearched is the size of the largest file that is searched, in bytes.
	maxSearched = 8 << 20
)

func (s *session) list(ctx context.Context, p agent.ListParams) agent.Pending[any] {
	dir := ""
	if p.URI != "" {
		var err error
		if dir, err = s.locate(p.URI); err != nil {
			return agent.Now[any](nil, err)
		}
	}
	if p.Glob != "" && !doublestar.ValidatePattern(p.Glob) {
		return agent.Now[any](nil, wire.Errorf(wire.CodeInvalidParams, "glob %q is malformed", p.Glob))
	}
	limit := p.Limit
	if limit <= 0 {
		limit = defaultListed
	}
	return func() (any, error) {
		r := agent.ListResult{Entries: []agent.ListEntry{}, Rev: s.branch.revision()}
		overridden := map[string]overlay.Override{}
		overrides, err := s.branch.over.Overrides()
		if err != nil {
			return nil, invalid(err)
		}
		for _, o := range overrides {
			overridden[o.Path] = o
		}
		add := func(e agent.ListEntry) bool {
			if len(r.Entries) == limit {
				r.Truncated = true
				return false
			}
			e.URI = docuri.FromPath(s.d.uriPath(e.Path))
			r.Entries = append(r.Entries, e)
			return true
		}
		below := func(path string) (string, bool) {
			rel, ok := strings.CutPrefix(path, dir+"/")
			if dir == "" {
				rel, ok = path, true
			}
			if !ok {
				return "", false
			}
			if p.Glob != "" {
				ok, _ = doublestar.Match(p.Glob, rel)
			}
			return rel, ok
		}
		if p.Overridden {
			for _, o := range overrides {
				if _, ok := below(o.Path); !ok {
					continue
				}
				if !add(agent.ListEntry{Path: o.Path, Kind: overrideKind(o.Kind), Overridden: true}) {
					break
				}
			}
			return r, nil
		}
		err = s.walk(ctx, dir, p.Glob != "", func(path string, mode uint32) error {
			if _, ok := below(path); !ok {
				return nil
			}
			_, over := overridden[path]
			e := agent.ListEntry{Path: path, Kind: modeKind(mode), Overridden: over}
			if n, err := s.branch.over.Lookup(path); err == nil {
				e.Size = n.Attr.Size
			}
			if !add(e) {
				return errStop
			}
			return nil
		})
		return r, err
	}
}

func overrideKind(k overlay.OverrideKind) string {
	switch k {
	case overlay.Regular:
		return "file"
	case overlay.Dir:
		return "dir"
	case overlay.Symlink:
		return "symlink"
	case overlay.Deleted:
		return "deleted"
	}
	return "other"
}

func modeKind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "dir"
	case unix.S_IFLNK:
		return "symlink"
	}
	return "other"
}

// errStop ends a walk without an error.
var errStop = errors.New("stop")

// walk calls f for what dir holds in the branch, sorted; with deep, for all below
// it, .git left out.
func (s *session) walk(ctx context.Context, dir string, deep bool, f func(path string, mode uint32) error) error {
	err := s.walkDir(ctx, dir, deep, f)
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func (s *session) walkDir(ctx context.Context, dir string, deep bool, f func(path string, mode uint32) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := s.branch.over.ReadDir(dir)
	if err != nil {
		return invalid(err)
	}
	for _, e := range entries {
		path := e.Name
		if dir != "" {
			path = dir + "/" + e.Name
		}
		if err := f(path, e.Mode); err != nil {
			return err
		}
		if deep && e.Mode&unix.S_IFMT == unix.S_IFDIR && e.Name != ".git" {
			if err := s.walkDir(ctx, path, deep, f); err != nil && overlay.KindOf(err) != overlay.NotExist {
				return err
			}
		}
	}
	return nil
}

func (s *session) status() agent.StatusResult {
	b := s.branch.status()
	r := agent.StatusResult{
		Branch: b.Name, From: s.from, Base: s.base, Rev: b.Rev, Root: s.d.root,
		Overrides: b.Overrides, Keep: b.Keep, Agents: b.Agents,
	}
	for _, p := range s.team() {
		st, state := p.status(), "starting"
		select {
		case <-p.haveResult:
			state = "ready"
		default:
		}
		if len(st.Instances) == 0 {
			state = "none"
		}
		r.Servers = append(r.Servers, agent.ServerStatus{Name: st.Name, State: state, Queued: st.Waiting})
	}
	return r
}
