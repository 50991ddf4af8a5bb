package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"shadowlsp/lsp/docuri"
)

// lints are one document's diagnostics, each in one spelling, sorted.
type lints []string

// spell writes diagnostics so that equal ones are equal strings: members sorted,
// without the server's note to itself, and with DIR for the workspace.
func spell(items []json.RawMessage, dir string) lints {
	all := lints{}
	for _, raw := range items {
		var item map[string]any
		if err := json.Unmarshal(raw, &item); err != nil {
			all = append(all, fmt.Sprintf("%v in %s", err, raw))
			continue
		}
		delete(item, "data")
		one, _ := json.Marshal(item) // what was decoded can be encoded
		all = append(all, strings.ReplaceAll(string(one), dir, "DIR"))
	}
	slices.Sort(all)
	return all
}

// relative is the path of a URI below dir, or the URI.
func relative(dir, uri string) string {
	if path, ok := docuri.Path(uri); ok {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return strings.ReplaceAll(uri, dir, "DIR")
}

// compare lists what one side says and the other does not.
func (l lints) compare(other lints) (missing, extra []string) {
	rest := slices.Clone(l)
	for _, one := range other {
		if at := slices.Index(rest, one); at >= 0 {
			rest = slices.Delete(rest, at, at+1)
		} else {
			missing = append(missing, one)
		}
	}
	return missing, rest
}

// count is how often a diagnostic is said.
func (l lints) count(one string) (n int) {
	for _, other := range l {
		if other == one {
			n++
		}
	}
	return n
}
