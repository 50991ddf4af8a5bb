package daemon

import (
	"encoding/json"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/wire"
)

// What a server registers while agents are there is theirs, and what it takes back is
// taken back from them, also from those who came in between.
func TestOffersThatComeAndGo(t *testing.T) {
	need.Tool(t, "vscode-json-language-server")
	w := newWorld(t, map[string]string{"a.json": "{ \"a\":1 }\n"})
	const method = "textDocument/rangeFormatting"
	dynamic := map[string]any{"textDocument": map[string]any{"rangeFormatting": map[string]any{"dynamicRegistration": true}}}
	person := w.front(t, nil, nil, "vscode-json-language-server", "--stdio")
	_, err := person.Initialize(t.Context(), w.uri(""), dynamic, nil)
	must(t, err)
	format := func(enable bool) {
		must(t, person.Notify("workspace/didChangeConfiguration", map[string]any{"settings": map[string]any{
			"json": map[string]any{"format": map[string]any{"enable": enable}, "validate": map[string]any{"enable": true}},
		}}))
	}
	format(false)
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	a := w.agent(t, attach{branch: "a", capabilities: dynamic})
	a.clean(t, "a.json")
	// changed waits for the server's offer of formatting, or its end, and returns the
	// registration's id.
	changed := func(a *agent, how, list string) string {
		t.Helper()
		var id string
		a.hears(t, how, func(m wire.Message) bool {
			var p map[string][]struct{ ID, Method string }
			if m.Method != how || json.Unmarshal(m.Params, &p) != nil {
				return false
			}
			for _, r := range p[list] {
				if r.Method == method {
					id = r.ID
				}
			}
			return id != ""
		})
		return id
	}
	for range 2 {
		a.forget()
		format(true)
		id := changed(a, "client/registerCapability", "registrations")
		b := w.agent(t, attach{branch: "b", capabilities: dynamic})
		if strings.Contains(string(b.init), `"documentRangeFormattingProvider":{`) {
			t.Errorf("an agent that takes registrations is told %s", b.init)
		}
		own := changed(b, "client/registerCapability", "registrations")
		without := w.agent(t, attach{branch: "c"})
		if !strings.Contains(string(without.init), `"documentRangeFormattingProvider":{`) {
			t.Errorf("an agent that takes no registrations is told %s", without.init)
		}
		var edits []json.RawMessage
		params := document(w.uri("a.json"))
		params["range"] = map[string]any{"start": map[string]int{"line": 0, "character": 0}, "end": map[string]int{"line": 1, "character": 0}}
		params["options"] = map[string]any{"tabSize": 2, "insertSpaces": true}
		a.get(t, method, params, &edits)
		if len(edits) == 0 {
			t.Error("nothing is formatted")
		}
		format(false)
		if gone := changed(a, "client/unregisterCapability", "unregisterations"); gone != id {
			t.Errorf("%s was registered, and %s is taken back", id, gone)
		}
		if gone := changed(b, "client/unregisterCapability", "unregisterations"); gone != own {
			t.Errorf("%s was registered, and %s is taken back", own, gone)
		}
		without.leave(t)
		b.leave(t)
	}
	leaves(t, person)
}
