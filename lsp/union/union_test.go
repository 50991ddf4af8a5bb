package union_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shadowlsp/lsp/union"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func same(t *testing.T, got json.RawMessage, want string) {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(got, &x); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if err := json.Unmarshal(raw(want), &y); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(y, x); diff != "" {
		t.Error(diff)
	}
}

func TestInitialize(t *testing.T) {
	one := raw(`{"capabilities": {"hoverProvider":true,  "x":1.0}}`)
	if got := union.Initialize([]json.RawMessage{nil, one}); string(got) != string(one) {
		t.Errorf("of one server alone something is changed: %s", got)
	}
	same(t, union.Initialize([]json.RawMessage{
		raw(`{"capabilities":{"hoverProvider":true,"completionProvider":{"triggerCharacters":[".","\""]},"renameProvider":true,"codeLensProvider":false,
			"executeCommandProvider":{"commands":["a"]},"semanticTokensProvider":{"legend":{"tokenTypes":["x","y"]},"full":{"delta":true}}}}`),
		raw(`{"capabilities":{"hoverProvider":{"workDoneProgress":true},"completionProvider":{"triggerCharacters":["<","."],"resolveProvider":true},
			"renameProvider":{"prepareProvider":true},"codeLensProvider":{},"definitionProvider":true,"inlayHintProvider":null,
			"executeCommandProvider":{"commands":["b"]},"semanticTokensProvider":{"legend":{"tokenTypes":["y","z"]},"full":true}}}`),
	}), `{"capabilities":{"hoverProvider":{"workDoneProgress":true},"completionProvider":{"triggerCharacters":[".","\"","<"],"resolveProvider":true},
		"renameProvider":{"prepareProvider":true},"codeLensProvider":{},"definitionProvider":true,"inlayHintProvider":null,
		"executeCommandProvider":{"commands":["a","b"]},"semanticTokensProvider":{"legend":{"tokenTypes":["x","y","z"]},"full":{"delta":true}}}}`)
}

// What is tagged comes back as it was, byte by byte.
func TestTag(t *testing.T) {
	for name, tc := range map[string]struct{ method, result, item, resolve string }{
		"data":         {"textDocument/completion", `[{"label":"a","data":{"b" : 1e3,"<":"é"}}]`, `{"label":"a","data":{"b" : 1e3,"<":"é"}}`, "completionItem/resolve"},
		"no data":      {"textDocument/completion", `{"isIncomplete":false,"items":[{"label":"a"}]}`, `{"label":"a"}`, "completionItem/resolve"},
		"code action":  {"textDocument/codeAction", `[{"title":"t","command":{"command":"x"},"data":null}]`, `{"title":"t","command":{"command":"x"},"data":null}`, "codeAction/resolve"},
		"hierarchy":    {"textDocument/prepareCallHierarchy", `[{"name":"f","data":"d"}]`, `{"name":"f","data":"d"}`, "callHierarchy/incomingCalls"},
		"resolved one": {"codeLens/resolve", `{"range":1,"data":[ 2 ]}`, `{"range":1,"data":[ 2 ]}`, "codeLens/resolve"},
	} {
		t.Run(name, func(t *testing.T) {
			tagged := union.Tag(tc.method, raw(tc.result), "server --stdio")
			var list []json.RawMessage
			var object struct{ Items []json.RawMessage }
			item := tagged
			switch {
			case json.Unmarshal(tagged, &list) == nil:
				item = list[0]
			case json.Unmarshal(tagged, &object) == nil && object.Items != nil:
				item = object.Items[0]
			}
			own, tag, ok := union.Untag(item)
			if !ok || tag != "server --stdio" || string(own) != tc.item {
				t.Errorf("%t %q %s\nof %s", ok, tag, own, tagged)
			}
			inItem := raw(`{"item":` + string(item) + `}`)
			if own, tag, ok := union.Untag(inItem); !ok || tag == "" || string(own) != `{"item":`+tc.item+`}` {
				t.Errorf("as item: %t %q %s", ok, tag, own)
			}
		})
	}
}

func TestTagLeavesAlone(t *testing.T) {
	for method, result := range map[string]string{
		"textDocument/codeAction": `[{"title":"t","command":"x"}]`,
		"textDocument/hover":      `{"data":1}`,
		"textDocument/inlayHint":  `null`,
		"workspace/symbol":        `[]`,
	} {
		if got := union.Tag(method, raw(result), "s"); string(got) != result {
			t.Errorf("%s: %s", method, got)
		}
	}
	if own, _, ok := union.Untag(raw(`{"data":{"shadowlsp":1}}`)); ok || string(own) != `{"data":{"shadowlsp":1}}` {
		t.Errorf("data of another's: %s", own)
	}
}

// Defaults of a list stand for the items without data of their own.
func TestTagOfDefaults(t *testing.T) {
	same(t, union.Tag("textDocument/completion", raw(`{"itemDefaults":{"data":7},"items":[{"label":"a"},{"label":"b","data":8}]}`), "s"),
		`{"itemDefaults":{"data":{"data":7,"shadowlsp":"s"}},"items":[{"label":"a"},{"label":"b","data":{"data":8,"shadowlsp":"s"}}]}`)
}

func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		method, a, b, want string
	}{
		"symbols":         {"workspace/symbol", `[1]`, `[2]`, `[1,2]`},
		"one has none":    {"workspace/symbol", `null`, `[2]`, `[2]`},
		"none has any":    {"workspace/symbol", `null`, `null`, `null`},
		"edits":           {"workspace/willRenameFiles", `{"changes":{"u":[1]}}`, `{"changes":{"u":[2],"v":[3]}}`, `{"changes":{"u":[1,2],"v":[3]}}`},
		"rich edits":      {"workspace/willRenameFiles", `{"documentChanges":[1]}`, `{"documentChanges":[2]}`, `{"documentChanges":[1,2]}`},
		"plain with rich": {"workspace/willRenameFiles", `{"changes":{"u":[1]}}`, `{"documentChanges":[2]}`, `{"documentChanges":[{"textDocument":{"uri":"u","version":null},"edits":[1]},2]}`},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, union.Answers(tc.method, []json.RawMessage{raw(tc.a), raw(tc.b)}), tc.want)
		})
	}
}

func legend(types, modifiers string) json.RawMessage {
	return raw(`{"capabilities":{"semanticTokensProvider":{"legend":{"tokenTypes":` + types + `,"tokenModifiers":` + modifiers + `}}}}`)
}

func TestMapping(t *testing.T) {
	common := legend(`["a","b","c"]`, `["m","n","o"]`)
	if m := union.NewMapping(legend(`["a","b"]`, `["m"]`), common); m != nil {
		t.Error("the beginning of a legend needs no mapping")
	}
	m := union.NewMapping(legend(`["c","a"]`, `["o","m"]`), common)
	got, ok := m.Result(raw(`{"resultId":"1","data":[0,1,2,0,1, 1,1,2,1,3]}`))
	if !ok {
		t.Error("data")
	}
	same(t, got, `{"resultId":"1","data":[0,1,2,2,4, 1,1,2,0,5]}`)
	got, ok = m.Result(raw(`{"resultId":"2","edits":[{"start":5,"deleteCount":5,"data":[1,1,2,0,2]},{"start":0,"deleteCount":5}]}`))
	if !ok {
		t.Error("edits")
	}
	same(t, got, `{"resultId":"2","edits":[{"start":5,"deleteCount":5,"data":[1,1,2,2,1]},{"start":0,"deleteCount":5}]}`)
	if _, ok := m.Result(raw(`{"edits":[{"start":3,"deleteCount":1,"data":[1]}]}`)); ok {
		t.Error("pieces of tokens cannot be mapped")
	}
	if got, ok := m.Result(raw(`null`)); !ok || string(got) != "null" {
		t.Error("null")
	}
}

func TestRegistrations(t *testing.T) {
	result := union.With(raw(`{"capabilities":{"hoverProvider":true}}`), []union.Registration{
		{Method: "textDocument/formatting", Options: raw(`{"documentSelector":[{"language":"x"}]}`)},
		{Method: "textDocument/completion", Options: raw(`{"resolveProvider":true}`)},
		{Method: "workspace/didChangeWatchedFiles", Options: raw(`{"watchers":[]}`)},
	})
	same(t, result, `{"capabilities":{"hoverProvider":true,"documentFormattingProvider":{},"completionProvider":{"resolveProvider":true}}}`)
	client := raw(`{"capabilities":{"textDocument":{"hover":{"dynamicRegistration":true},"formatting":{"dynamicRegistration":false},"rename":{"dynamicRegistration":true}}}}`)
	got := union.Registrations(result, client, []string{"x", "y"})
	if len(got) != 1 || got[0].Method != "textDocument/hover" {
		t.Fatalf("%+v", got)
	}
	same(t, got[0].Options, `{"documentSelector":[{"language":"x"},{"language":"y"}]}`)
	if !union.Offers(result, "completionItem/resolve") || union.Offers(result, "textDocument/rename") || !union.Offers(result, "x/y") {
		t.Error("offers")
	}
}
