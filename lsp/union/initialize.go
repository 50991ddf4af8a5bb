package union

import (
	"encoding/json"
	"slices"

	"shadowlsp/lsp/barrier"
)

// Initialize makes one InitializeResult of several: objects are merged member by
// member, lists are united in order (of trigger characters, commands, legends),
// true and options make options; of anything else the first counts. Modifiers of
// semantic tokens beyond what LSP has numbers for are left out, the last servers' first.
func Initialize(results []json.RawMessage) json.RawMessage {
	var all json.RawMessage
	for _, r := range results {
		if r == nil {
			continue
		}
		if all == nil {
			all = r
			continue
		}
		all = limited(merged(all, r))
	}
	return all
}

// merged is b put beside a.
func merged(a, b json.RawMessage) json.RawMessage {
	var (
		objectA, objectB map[string]json.RawMessage
		listA, listB     []json.RawMessage
	)
	switch {
	case !on(a) && len(b) > 0:
		return b
	case !on(b):
		return a
	case json.Unmarshal(a, &objectA) == nil && json.Unmarshal(b, &objectB) == nil:
		var edits []barrier.Edit
		for name, value := range objectB {
			if old, both := objectA[name]; both {
				value = merged(old, value)
			}
			edits = append(edits, barrier.Edit{Path: []string{name}, Value: value})
		}
		slices.SortFunc(edits, func(x, y barrier.Edit) int { return slices.Compare(x.Path, y.Path) })
		return barrier.Apply(a, edits)
	case json.Unmarshal(a, &listA) == nil && json.Unmarshal(b, &listB) == nil:
		for _, value := range listB {
			if !slices.ContainsFunc(listA, func(old json.RawMessage) bool { return string(old) == string(value) }) {
				listA = append(listA, value)
			}
		}
		return array(listA)
	case string(a) == "true":
		return b // true, or options, which say more
	}
	return a
}
