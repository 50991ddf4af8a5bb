package workspace

import (
	"context"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
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
