package coverage

import (
	"encoding/json"
	"slices"
)

// answer takes the server's own requests: edits are taken down.
func (x *side) answer(method string, params json.RawMessage) any {
	if method != "workspace/applyEdit" {
		return nil
	}
	var edit any
	if json.Unmarshal(params, &edit) == nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.edits = append(x.edits, edit)
	}
	return map[string]bool{"applied": true}
}

func (x *side) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.edits = nil
}

func (x *side) edited() []any {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.edits)
}

// sources asks for the actions that are offered for a document as a whole only.
func (c *comparison) sources(path, text string) {
	c.t.Helper()
	for _, kind := range []string{"source.organizeImports", "source.fixAll", "source"} {
		c.take(c.ask("textDocument/codeAction", map[string]any{
			"textDocument": map[string]any{"uri": "$D/" + path}, "range": whole(text),
			"context": map[string]any{"diagnostics": []any{}, "only": []string{kind}},
		}))
	}
}

// problems asks what can be done about each of a document's diagnostics. They are the
// agent's, who has them from any server; what has to be asked for its own before it
// knows what it could mend (eslint) is.
func (c *comparison) problems(path string) {
	c.t.Helper()
	id := map[string]any{"uri": "$D/" + path}
	var found [3]struct{ Items []json.RawMessage }
	for n, x := range c.sides {
		ctx, cancel := c.patient()
		raw, err := x.c.Call(ctx, "textDocument/diagnostic", map[string]any{"textDocument": map[string]string{"uri": x.uri(path)}})
		cancel()
		if n == agentSide {
			must(c.t, err)
			must(c.t, json.Unmarshal(raw, &found[n]))
		}
	}
	items := found[agentSide].Items
	if len(items) > maxProblems {
		items = items[:maxProblems]
	}
	for _, raw := range items {
		var d map[string]any
		must(c.t, json.Unmarshal([]byte(c.sides[agentSide].placed(string(raw))), &d))
		c.take(c.ask("textDocument/codeAction", map[string]any{
			"textDocument": id, "range": d["range"], "context": map[string]any{"diagnostics": []any{d}},
		}))
	}
}

// maxProblems bounds of how many diagnostics of a document it is asked what can be
// done about them.
const maxProblems = 10

// take follows code actions: they are resolved, and their commands executed, each kind
// of them once.
func (c *comparison) take(actions answers) {
	c.t.Helper()
	resolved := c.follow(actions, "codeAction/resolve", asParams)
	for _, raw := range append(resolved, actions) {
		c.execute(raw)
	}
}

// execute has the commands of code actions executed and compares what they have each
// side edit.
func (c *comparison) execute(actions answers) {
	c.t.Helper()
	first, all := c.matched(actions)
	for _, name := range first {
		var params [3]map[string]any
		for n := range c.sides {
			command, title := commandOf(all[n][name])
			if command == nil {
				break
			}
			id, _ := command["command"].(string)
			if slices.Contains(c.never, id) || !slices.Contains(c.sides[0].commands, id) || n == 0 && c.executed[id+" "+title] {
				break
			}
			c.executed[id+" "+title] = true
			params[n] = map[string]any{"command": id, "arguments": command["arguments"]}
		}
		if params[0] == nil || params[1] == nil || params[2] == nil {
			continue
		}
		for _, x := range c.sides {
			x.forget()
		}
		edits := 0
		c.compare("", "workspace/executeCommand", params, func(x *side, n int, raw json.RawMessage) (any, error) {
			var v any
			err := json.Unmarshal(raw, &v)
			list := x.edited()
			x.forget()
			if n == agentSide {
				edits = len(list)
			}
			return comparable("workspace/executeCommand", []any{v, list}), err
		})
		if edits > 0 {
			c.counts["workspace/applyEdit"]++
		}
	}
}

// commandOf is the command of a CodeAction, or the Command that stands for one.
func commandOf(action map[string]any) (command map[string]any, title string) {
	title, _ = action["title"].(string)
	switch of := action["command"].(type) {
	case string:
		return action, title
	case map[string]any:
		return of, title
	}
	return nil, title
}
