package coverage

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// legend names the types and modifiers of a side's semantic tokens, as its answer to
// initialize has them.
type legend struct{ TokenTypes, TokenModifiers []string }

func legendOf(initialized json.RawMessage) legend {
	var result struct {
		Capabilities struct {
			SemanticTokensProvider struct{ Legend legend }
		}
	}
	_ = json.Unmarshal(initialized, &result) // who offers none is asked all the same, and has none
	return result.Capabilities.SemanticTokensProvider.Legend
}

// tokenSize is how many numbers a token has: line, start, length, type, modifiers.
const tokenSize = 5

// read names what the numbers mean. Sides may number types in different ways, and so
// does an agent to whom several servers are one; within are the modifiers that it was
// told of: there are numbers for so many only. nil: all.
func (l legend) read(data []int, within []string) []string {
	if len(data)%tokenSize != 0 {
		return []string{fmt.Sprint("not of whole tokens: ", data)}
	}
	tokens := []string{}
	for token := range slices.Chunk(data, tokenSize) {
		kind := fmt.Sprintf("type %d", token[3])
		if token[3] < len(l.TokenTypes) {
			kind = l.TokenTypes[token[3]]
		}
		var modifiers []string
		for bit := 0; token[4]>>bit != 0; bit++ {
			if token[4]>>bit&1 == 0 {
				continue
			}
			name := fmt.Sprintf("modifier %d", bit)
			if bit < len(l.TokenModifiers) {
				name = l.TokenModifiers[bit]
			}
			if within == nil || slices.Contains(within, name) {
				modifiers = append(modifiers, name)
			}
		}
		slices.Sort(modifiers)
		tokens = append(tokens, fmt.Sprint(token[:3], " ", kind, modifiers))
	}
	return tokens
}

// tokens is what a result of semantic tokens says. Pieces of a delta are put into
// before, the numbers that it is relative to: a whole is an answer to that as well.
func (x *side) tokens(raw json.RawMessage, before []int) (any, []int, error) {
	var r *struct {
		Data  []int
		Edits []struct {
			Start, DeleteCount int
			Data               []int
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil || r == nil {
		return nil, nil, err
	}
	data := r.Data
	if data == nil {
		data = slices.Clone(before)
		for _, e := range slices.Backward(r.Edits) { // they are all of the numbers before
			if e.Start+e.DeleteCount > len(data) {
				return nil, nil, fmt.Errorf("an edit beyond the end: %s", raw)
			}
			data = slices.Concat(data[:e.Start], e.Data, data[e.Start+e.DeleteCount:])
		}
	}
	return x.legend.read(data, x.within), data, nil
}

// numbered are the numbers and the id of an answer with all of a document's tokens.
func numbered(raw json.RawMessage) (data []int, id string) {
	var r struct {
		Data     []int
		ResultID string
	}
	_ = json.Unmarshal(raw, &r) // an error, or null
	return r.Data, r.ResultID
}

// edited asks about the tokens of a project's documents when they are edited.
func (c *comparison) edited(p project) {
	c.t.Helper()
	for _, path := range slices.Sorted(maps.Keys(p.open)) {
		c.deltas(path, p.files[path], c.tokens[path])
	}
}

// deltas asks for the tokens of a document as it is and, each side relative to what
// it said of it before, after an edit.
func (c *comparison) deltas(path, text string, was answers) {
	c.t.Helper()
	var params [3]map[string]any
	var before [3][]int
	ask := func(what string) {
		c.t.Helper()
		for n, raw := range was {
			data, id := numbered(raw)
			if id == "" {
				return
			}
			before[n], params[n] = data, map[string]any{"textDocument": map[string]any{"uri": "$D/" + path}, "previousResultId": id}
		}
		raw := c.compare(what, "textDocument/semanticTokens/full/delta", params, func(x *side, n int, raw json.RawMessage) (any, error) {
			said, _, err := x.tokens(raw, before[n])
			return said, err
		})
		if strings.Contains(string(raw[1]), `"edits":[{`) {
			c.counts["pieces of tokens"]++
		}
	}
	ask("as it was")
	lines := strings.Split(text, "\n")
	at := len(lines) / 2
	c.change(path, strings.Join(slices.Concat(lines[:at], []string{""}, lines[at:]), "\n"))
	was = c.ask("textDocument/semanticTokens/full", map[string]any{"textDocument": map[string]any{"uri": "$D/" + path}})
	c.change(path, strings.Join(lines[1:], "\n"))
	ask("edited")
	c.change(path, text)
}

// change makes a document's text another one on all sides.
func (c *comparison) change(path, text string) {
	c.t.Helper()
	c.versions[path]++
	for _, x := range c.sides {
		must(c.t, x.c.Notify("textDocument/didChange", map[string]any{
			"textDocument": map[string]any{"uri": x.uri(path), "version": 1 + c.versions[path]}, "contentChanges": []map[string]string{{"text": text}},
		}))
	}
}
