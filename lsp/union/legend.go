package union

import (
	"encoding/json"
	"slices"

	"shadowlsp/lsp/barrier"
)

// Mapping puts the types and modifiers of one server's semantic tokens into the
// numbers of another legend.
type Mapping struct{ types, modifiers []int }

type legend struct {
	TokenTypes     []string `json:"tokenTypes"`
	TokenModifiers []string `json:"tokenModifiers"`
}

func legendOf(result json.RawMessage) (l legend, ok bool) {
	raw, ok := barrier.Lookup(result, "capabilities", "semanticTokensProvider", "legend")
	return l, ok && json.Unmarshal(raw, &l) == nil
}

// NewMapping returns how a server's tokens are put into the legend of the common
// InitializeResult; nil where they are the same or there are none.
func NewMapping(server, common json.RawMessage) *Mapping {
	from, ok := legendOf(server)
	to, ok2 := legendOf(common)
	if !ok || !ok2 {
		return nil
	}
	m, same := &Mapping{}, true
	for n, name := range from.TokenTypes {
		at := slices.Index(to.TokenTypes, name)
		same = same && at == n
		m.types = append(m.types, at)
	}
	for n, name := range from.TokenModifiers {
		at := slices.Index(to.TokenModifiers, name)
		same = same && at == n
		m.modifiers = append(m.modifiers, at)
	}
	if same {
		return nil
	}
	return m
}

// SemanticTokens are the methods whose results hold tokens.
func SemanticTokens(method string) bool {
	return method == "textDocument/semanticTokens/full" || method == "textDocument/semanticTokens/full/delta" ||
		method == "textDocument/semanticTokens/range"
}

// Result maps a result of semantic tokens. ok is false for a delta whose pieces
// are not whole tokens: the whole must be asked for.
func (m *Mapping) Result(result json.RawMessage) (mapped json.RawMessage, ok bool) {
	if raw, has := barrier.Lookup(result, "data"); has {
		data, ok := m.data(raw)
		return barrier.Apply(result, []barrier.Edit{{Path: []string{"data"}, Value: data}}), ok
	}
	raw, has := barrier.Lookup(result, "edits")
	if !has {
		return result, true // null
	}
	var list []struct {
		Start       int             `json:"start"`
		DeleteCount int             `json:"deleteCount"`
		Data        json.RawMessage `json:"data,omitempty"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return result, false
	}
	for n, e := range list {
		if e.Start%tokenSize != 0 || e.DeleteCount%tokenSize != 0 {
			return result, false
		}
		if e.Data == nil {
			continue
		}
		var ok bool
		if list[n].Data, ok = m.data(e.Data); !ok {
			return result, false
		}
	}
	return barrier.Apply(result, []barrier.Edit{{Path: []string{"edits"}, Value: barrier.Raw(list)}}), true
}

// maxModifiers is how many modifiers a legend can have: they are bits of a number that
// LSP ends at 2³¹-1.
const maxModifiers = 31

// limited is an InitializeResult without the modifiers that have no bit.
func limited(result json.RawMessage) json.RawMessage {
	l, ok := legendOf(result)
	if !ok || len(l.TokenModifiers) <= maxModifiers {
		return result
	}
	return barrier.Apply(result, []barrier.Edit{{
		Path: []string{"capabilities", "semanticTokensProvider", "legend", "tokenModifiers"}, Value: barrier.Raw(l.TokenModifiers[:maxModifiers]),
	}})
}

// tokenSize is how many numbers a token has: line, start, length, type, modifiers.
const tokenSize = 5

func (m *Mapping) data(raw json.RawMessage) (json.RawMessage, bool) {
	var data []uint32
	if json.Unmarshal(raw, &data) != nil || len(data)%tokenSize != 0 {
		return raw, false
	}
	for at := 0; at < len(data); at += tokenSize {
		if kind := int(data[at+3]); kind < len(m.types) && m.types[kind] >= 0 {
			data[at+3] = uint32(m.types[kind])
		}
		var modifiers uint32
		for bit, to := range m.modifiers {
			if data[at+4]&(1<<bit) != 0 && to >= 0 && to < maxModifiers {
				modifiers |= 1 << to
			}
		}
		data[at+4] = modifiers
	}
	return barrier.Raw(data), true
}
