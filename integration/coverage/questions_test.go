package coverage

import (
	"encoding/json"
	"maps"
	"strings"
)

// maxFollowed bounds how many items of one answer are followed.
const maxFollowed = 2

// document asks all that concerns a document as a whole.
func (c *comparison) document(path, text string) {
	id := map[string]any{"uri": "$D/" + path}
	end := map[string]int{"line": strings.Count(text, "\n"), "character": 0}
	whole := map[string]any{"start": map[string]int{"line": 0, "character": 0}, "end": end}
	first := map[string]any{"start": map[string]int{"line": 0, "character": 0}, "end": map[string]int{"line": 8, "character": 0}}
	options := map[string]any{"tabSize": 4, "insertSpaces": true}
	with := func(more map[string]any) map[string]any {
		params := map[string]any{"textDocument": id}
		maps.Copy(params, more)
		return params
	}
	c.ask("textDocument/documentSymbol", with(nil))
	c.ask("textDocument/foldingRange", with(nil))
	c.ask("textDocument/formatting", with(map[string]any{"options": options}))
	c.ask("textDocument/rangeFormatting", with(map[string]any{"range": first, "options": options}))
	c.ask("textDocument/semanticTokens/range", with(map[string]any{"range": first}))
	tokens := c.ask("textDocument/semanticTokens/full", with(nil))
	var deltas [3]map[string]any
	for n, raw := range tokens {
		var r struct{ ResultID string }
		if json.Unmarshal(raw, &r) == nil && r.ResultID != "" {
			deltas[n] = with(map[string]any{"previousResultId": r.ResultID})
		}
	}
	if deltas[0] != nil && deltas[1] != nil && deltas[2] != nil {
		c.askEach("textDocument/semanticTokens/full/delta", deltas)
	}
	c.follow(c.ask("textDocument/documentLink", with(nil)), "documentLink/resolve", asParams)
	c.follow(c.ask("textDocument/codeLens", with(nil)), "codeLens/resolve", asParams)
	c.follow(c.ask("textDocument/inlayHint", with(map[string]any{"range": whole})), "inlayHint/resolve", asParams)
}

// position asks all that concerns a position.
func (c *comparison) position(path string, at point) {
	here := func(more map[string]any) map[string]any {
		params := place(path, at)
		maps.Copy(params, more)
		return params
	}
	empty := map[string]any{"start": here(nil)["position"], "end": here(nil)["position"]}
	for _, method := range []string{
		"hover", "definition", "declaration", "typeDefinition", "implementation", "documentHighlight", "signatureHelp", "prepareRename",
	} {
		c.ask("textDocument/"+method, here(nil))
	}
	c.ask("textDocument/references", here(map[string]any{"context": map[string]any{"includeDeclaration": true}}))
	c.ask("textDocument/rename", here(map[string]any{"newName": "renamed"}))
	c.ask("textDocument/selectionRange", map[string]any{"textDocument": here(nil)["textDocument"], "positions": []any{here(nil)["position"]}})
	c.follow(c.ask("textDocument/completion", here(map[string]any{"context": map[string]any{"triggerKind": 1}})), "completionItem/resolve", asParams)
	actions := c.ask("textDocument/codeAction", map[string]any{
		"textDocument": here(nil)["textDocument"], "range": empty, "context": map[string]any{"diagnostics": []any{}},
	})
	c.follow(actions, "codeAction/resolve", asParams)
	calls := c.ask("textDocument/prepareCallHierarchy", here(nil))
	c.follow(calls, "callHierarchy/incomingCalls", asItem)
	c.follow(calls, "callHierarchy/outgoingCalls", asItem)
	types := c.ask("textDocument/prepareTypeHierarchy", here(nil))
	c.follow(types, "typeHierarchy/supertypes", asItem)
	c.follow(types, "typeHierarchy/subtypes", asItem)
}

func asParams(item map[string]any) map[string]any { return item }
func asItem(item map[string]any) map[string]any   { return map[string]any{"item": item} }

// follow asks about the first items of an answer, each side about its own.
func (c *comparison) follow(of answers, method string, params func(map[string]any) map[string]any) {
	var byName [3]map[string]map[string]any
	var order []string // as the bare server has it
	for n, raw := range of {
		var list []map[string]any
		var object struct{ Items []map[string]any }
		if json.Unmarshal(raw, &list) != nil && json.Unmarshal(raw, &object) == nil {
			list = object.Items
		}
		byName[n] = map[string]map[string]any{}
		for _, item := range list {
			name := c.sides[n].common(name(item))
			byName[n][name] = item
			if n == 0 {
				order = append(order, name)
			}
		}
	}
	followed := 0
	for _, name := range order {
		a, b, again := byName[0][name], byName[1][name], byName[2][name]
		if followed == maxFollowed || b == nil || again == nil {
			continue
		}
		if method == "codeAction/resolve" && (a["edit"] != nil || a["data"] == nil) {
			continue // there is no more to it
		}
		followed++
		c.askEach(method, [3]map[string]any{params(a), params(b), params(again)})
	}
}

// name tells an item of one answer from the others.
func name(item map[string]any) string {
	public := maps.Clone(item)
	for member := range private {
		delete(public, member)
	}
	data, err := json.Marshal(public)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return string(data)
}
