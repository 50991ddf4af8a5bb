package workspace

import (
	"encoding/json"
	"testing"
)

func TestWorkspaceEditsNameTheAgentsVersions(t *testing.T) {
	s := &session{documents: map[string]openDocument{"file:///w/a%40b.go": {version: 7}}}
	for _, tc := range []struct{ method, in, want string }{
		{"textDocument/rename",
			`{"documentChanges":[{"textDocument":{"version":31,"uri":"file:///w/a%40b.go"},"edits":[{"newText":"\"textDocument\":{\"uri\":1}"}]},{"textDocument":{"uri":"file:///w/c.go","version": 5},"edits":[]}]}`,
			`{"documentChanges":[{"textDocument":{"version":7,"uri":"file:///w/a%40b.go"},"edits":[{"newText":"\"textDocument\":{\"uri\":1}"}]},{"textDocument":{"uri":"file:///w/c.go","version": null},"edits":[]}]}`},
		{"textDocument/codeAction",
			`[{"title":"x","edit":{"documentChanges":[{"kind":"create","uri":"file:///n"},{"textDocument" : {"uri":"file:///w/a@b.go","version":1},"edits":[]}]}}]`,
			`[{"title":"x","edit":{"documentChanges":[{"kind":"create","uri":"file:///n"},{"textDocument" : {"uri":"file:///w/a@b.go","version":7},"edits":[]}]}}]`},
		// Any version will do, says the server.
		{"textDocument/rename",
			`{"documentChanges":[{"textDocument":{"uri":"file:///w/a@b.go","version":null},"edits":[]}]}`,
			`{"documentChanges":[{"textDocument":{"uri":"file:///w/a@b.go","version":null},"edits":[]}]}`},
		{"textDocument/rename",
			`{"documentChanges":[{"textDocument":{"uri":"file:///w/new.go","version":0},"edits":[]}]}`,
			`{"documentChanges":[{"textDocument":{"uri":"file:///w/new.go","version":0},"edits":[]}]}`},
		{"textDocument/hover", `{"textDocument":{"uri":"file:///w/a@b.go","version":1}}`, `{"textDocument":{"uri":"file:///w/a@b.go","version":1}}`},
		{"textDocument/rename", `null`, `null`},
		{"textDocument/rename", `{"changes":{"file:///w/a@b.go":[]}}`, `{"changes":{"file:///w/a@b.go":[]}}`},
	} {
		if got := string(s.ownVersions(tc.method, json.RawMessage(tc.in))); got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.method, got, tc.want)
		}
	}
}

func FuzzVersionedIdentifiers(f *testing.F) {
	f.Add([]byte(`{"textDocument":{"uri":"u","version":1}}`))
	f.Add([]byte(`"textDocument":{"version":`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, v := range versionedIdentifiers(raw) {
			if v.start < 0 || v.end > len(raw) || v.start >= v.end {
				t.Fatalf("%q: version at %d to %d", raw, v.start, v.end)
			}
		}
	})
}
