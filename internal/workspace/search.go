package workspace

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
)

// search looks for a text in the files that the branch shows.
func (s *session) search(ctx context.Context, p agent.SearchParams) agent.Pending[any] {
	expr := p.Pattern
	if !p.Regexp {
		expr = regexp.QuoteMeta(expr)
	}
	if p.IgnoreCase {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	switch {
	case p.Pattern == "":
		err = wire.Errorf(wire.CodeInvalidParams, "pattern is empty")
	case err != nil:
		err = wire.Errorf(wire.CodeInvalidParams, "pattern %q: %v", p.Pattern, err)
	case p.Glob != "" && !doublestar.ValidatePattern(p.Glob):
		err = wire.Errorf(wire.CodeInvalidParams, "glob %q is malformed", p.Glob)
	}
	if err != nil {
		return agent.Now[any](nil, err)
	}
	limit := p.Limit
	if limit <= 0 {
		limit = defaultMatches
	}
	return func() (any, error) {
		r := agent.SearchResult{Matches: []agent.SearchMatch{}, Rev: s.branch.revision()}
		err := s.walk(ctx, "", true, func(path string, mode uint32) error {
			if mode&unix.S_IFMT != unix.S_IFREG {
				return nil
			}
			if p.Glob != "" {
				if ok, _ := doublestar.Match(p.Glob, path); !ok {
					return nil
				}
			}
			n, err := s.branch.over.Lookup(path)
			if err != nil || n.Attr.Size > maxSearched {
				return nil // gone meanwhile, or no text that people wrote
			}
			t, err := s.branch.text(path)
			if err != nil || !utf8.ValidString(t) || strings.ContainsRune(t, 0) {
				return nil
			}
			r.Matches = appendMatches(r.Matches, docuri.FromPath(s.d.uriPath(path)), t, re, limit+1)
			if len(r.Matches) > limit {
				r.Matches, r.Truncated = r.Matches[:limit], true
				return errStop
			}
			return nil
		})
		return r, err
	}
}

// appendMatches appends the matches in one text, up to limit in all.
func appendMatches(found []agent.SearchMatch, uri, t string, re *regexp.Regexp, limit int) []agent.SearchMatch {
	line, lineStart := uint32(0), 0
	for _, m := range re.FindAllStringIndex(t, limit-len(found)) {
		position := func(at int) text.Position {
			for {
				next := strings.IndexByte(t[lineStart:at], '\n')
				if next < 0 {
					return text.Position{Line: line, Character: uint32(len(utf16.Encode([]rune(t[lineStart:at]))))}
				}
				line++
				lineStart += next + 1
			}
		}
		start := position(m[0])
		first := t[lineStart:]
		if end := strings.IndexByte(first, '\n'); end >= 0 {
			first = first[:end]
		}
		found = append(found, agent.SearchMatch{
			URI: uri, Line: strings.TrimSuffix(first, "\r"),
			Range: text.Range{Start: start, End: position(m[1])},
		})
	}
	return found
}

// diff returns the branch as a patch for git apply.
func (s *session) diff(ctx context.Context, p agent.DiffParams) agent.Pending[any] {
	return func() (any, error) {
		rev := s.branch.revision()
		overrides, err := s.branch.over.Overrides()
		if err != nil {
			return nil, invalid(err)
		}
		ignored := map[string]bool{}
		if !p.Ignored {
			if ignored, err = s.d.ignored(ctx, overrides); err != nil {
				return nil, err
			}
		}
		r := agent.DiffResult{Paths: []string{}, Rev: rev}
		include := func(path string) bool {
			if ignored[path] {
				return false
			}
			for _, want := range p.Paths {
				if path == want || strings.HasPrefix(path, strings.TrimSuffix(want, "/")+"/") {
					return true
				}
			}
			return len(p.Paths) == 0
		}
		for _, o := range overrides {
			if o.Kind != overlay.Dir && include(o.Path) {
				r.Paths = append(r.Paths, o.Path)
			}
		}
		var patch bytes.Buffer
		if _, err := s.branch.over.Diff(&patch, overlay.DiffOptions{Include: include}); err != nil {
			return nil, invalid(err)
		}
		r.Patch = patch.String()
		return r, nil
	}
}

// ignored returns which of the overrides git ignores: build output, mostly. In a
// folder that is no git repository, or without git, nothing is.
func (d *daemon) ignored(ctx context.Context, overrides []overlay.Override) (map[string]bool, error) {
	var paths bytes.Buffer
	for _, o := range overrides {
		if o.Kind != overlay.Deleted {
			paths.WriteString(o.Path)
			paths.WriteByte(0)
		}
	}
	found := map[string]bool{}
	if paths.Len() == 0 {
		return found, nil
	}
	cmd := exec.CommandContext(ctx, "git", "-C", d.root, "check-ignore", "-z", "--stdin")
	cmd.Stdin, cmd.Env = &paths, append(slices.Clip(d.cfg.Env), quietGit)
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &exit) || errors.Is(err, exec.ErrNotFound):
		// 1: nothing is ignored; 128: no repository.
		return found, nil
	case err != nil:
		return nil, err
	}
	for path := range strings.SplitSeq(string(out), "\x00") {
		if path != "" {
			found[path] = true
		}
	}
	return found, nil
}
