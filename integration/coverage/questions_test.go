package coverage

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// maxFollowed bounds how many items of one answer are followed.
const maxFollowed = 2

// document asks all that concerns a document as a whole, and returns its tokens.
func (c *comparison) document(path, text string) (tokens answers) {
	id := map[string]any{"uri": "$D/" + path}
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
	c.follow(c.ask("textDocument/documentLink", with(nil)), "documentLink/resolve", asParams)
	c.follow(c.ask("textDocument/codeLens", with(nil)), "codeLens/resolve", asParams)
	c.follow(c.ask("textDocument/inlayHint", with(map[string]any{"range": whole(text)})), "inlayHint/resolve", asParams)
	c.follow(c.ask("textDocument/documentColor", with(nil)), "textDocument/colorPresentation", func(item map[string]any) map[string]any {
		return with(item)
	})
	return c.ask("textDocument/semanticTokens/full", with(nil))
}

// whole is the range of a text that ends with a line.
func whole(text string) map[string]any {
	return map[string]any{"start": map[string]int{"line": 0, "character": 0}, "end": map[string]int{"line": strings.Count(text, "\n"), "character": 0}}
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
		"hover", "definition", "declaration", "typeDefinition", "implementation", "documentHighlight", "signatureHelp", "prepareRename", "linkedEditingRange",
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
	c.take(actions)
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
func (c *comparison) follow(of answers, method string, params func(map[string]any) map[string]any) (all []answers) {
	c.t.Helper()
	order, byName := c.matched(of)
	for _, name := range order {
		a, b, again := byName[0][name], byName[1][name], byName[2][name]
		if method == "codeAction/resolve" && (a["edit"] != nil || a["data"] == nil) {
			continue // there is no more to it
		}
		if len(all) == maxFollowed {
			break
		}
		all = append(all, c.askEach(method, [3]map[string]any{params(a), params(b), params(again)}))
	}
	return all
}

// matched are the items of an answer, or the one that it is, that all sides have: their
// names, in the order of the first side, and each side's own by name.
func (c *comparison) matched(of answers) (order []string, byName [3]map[string]map[string]any) {
	for n, raw := range of {
		var list []map[string]any
		var object struct{ Items []map[string]any }
		if json.Unmarshal(raw, &list) != nil && json.Unmarshal(raw, &object) == nil {
			if list = object.Items; list == nil {
				var one map[string]any
				if json.Unmarshal(raw, &one) == nil && one != nil {
					list = append(list, one)
				}
			}
		}
		byName[n] = map[string]map[string]any{}
		for _, item := range list {
			name := c.sides[n].common(name(item))
			byName[n][name] = item
			if n == 0 && !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
	}
	return slices.DeleteFunc(order, func(name string) bool { return byName[1][name] == nil || byName[2][name] == nil }), byName
}

// name tells an item of one answer from the others.
func name(item map[string]any) string {
	data, err := json.Marshal(comparable("", item))
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return string(data)
}
