package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"shadowlsp/integration/client"
	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/wire"
)

// A struct for code actions, a method for completion.
const shapes = `// Package shapes has things to ask about.
package shapes

// Point is a place.
type Point struct{ X, Y int }

// Sum adds.
func (p Point) Sum() int { return p.X + p.Y }

// Origin is where all begins.
var Origin = Point{}

// Total is asked about.
var Total = Origin.Sum()
`

// location is one of a server's.
type location struct {
	URI   string
	Range struct{ Start struct{ Line, Character int } }
}

// textEdit and workspaceEdit are LSP's.
type textEdit struct {
	Range struct {
		Start, End struct{ Line, Character int }
	}
	NewText string
}

type workspaceEdit struct {
	DocumentChanges []struct {
		TextDocument struct {
			URI     string
			Version *int
		}
		Edits []textEdit
	}
}

// applied is a text with edits that do not overlap.
func applied(text string, edits []textEdit) string {
	sorted := slices.Clone(edits)
	slices.SortFunc(sorted, func(a, b textEdit) int {
		if a.Range.Start.Line != b.Range.Start.Line {
			return b.Range.Start.Line - a.Range.Start.Line
		}
		return b.Range.Start.Character - a.Range.Start.Character
	})
	for _, e := range sorted {
		text = replace(text, e.Range.Start.Line, e.Range.Start.Character, e.Range.End.Line, e.Range.End.Character, e.NewText)
	}
	return text
}

// with is module with more files.
func with(more map[string]string) map[string]string {
	files := map[string]string{}
	for _, all := range []map[string]string{module, more} {
		for name, text := range all {
			files[name] = text
		}
	}
	return files
}

// Every request is answered as gopls answers it for the branch's state.
func TestRequests(t *testing.T) {
	w := newWorld(t, with(map[string]string{"shapes/shapes.go": shapes}))
	w.serve(t)
	// The first agent's capabilities and options are those of the server.
	options := map[string]any{"semanticTokens": true}
	first := w.agent(t, attach{branch: "first", options: options})

	t.Run("hover", func(t *testing.T) {
		other := w.agent(t, attach{branch: "other"})
		first.open(t, "lib/lib.go", stage.LibText("Mine"), 1)
		for _, c := range []struct {
			a    *agent
			want string
		}{{first, "func lib.F(a lib.Mine) lib.Mine"}, {other, "func lib.F(a int) int"}, {first, "lib.Mine"}} {
			var r struct{ Contents struct{ Value string } }
			c.a.get(t, "textDocument/hover", at(w.uri("use/use.go"), 6, 12), &r)
			if !strings.Contains(r.Contents.Value, c.want) {
				t.Errorf("hover says %q, want %s", r.Contents.Value, c.want)
			}
		}
	})
	t.Run("definition and references", func(t *testing.T) {
		a := w.agent(t, attach{})
		a.edit(t, w.text("more/more.go", "package more\n\nimport \"example.test/m/lib\"\n\nvar _ = lib.F(2)\n"), w.text("lib/lib.go", "// One line more.\n"+module["lib/lib.go"]))
		var found []location
		a.get(t, "textDocument/definition", at(w.uri("use/use.go"), 6, 12), &found)
		if len(found) != 1 || found[0].URI != w.uri("lib/lib.go") || found[0].Range.Start.Line != 5 {
			t.Errorf("the definition is at %+v", found)
		}
		p := at(w.uri("lib/lib.go"), 5, 5)
		p["context"] = map[string]bool{"includeDeclaration": true}
		a.get(t, "textDocument/references", p, &found)
		uris := []string{}
		for _, l := range found {
			uris = append(uris, l.URI)
		}
		slices.Sort(uris)
		// Nobody has opened more/more.go, and nobody has asked for a lint of it.
		if want := []string{w.uri("lib/lib.go"), w.uri("more/more.go"), w.uri("use/use.go")}; !slices.Equal(uris, want) {
			t.Errorf("the references are in %q, want %q", uris, want)
		}
	})
	t.Run("completion and its resolution", func(t *testing.T) {
		a := w.agent(t, attach{})
		a.open(t, "shapes/shapes.go", strings.Replace(shapes, "// Sum adds", "// Area is of the branch.\nfunc (p Point) Area() int { return p.X * p.Y }\n\n// Sum adds", 1), 1)
		a.change(t, "shapes/shapes.go", 2, ranged(16, 19, 16, 22, ""))
		var list struct{ Items []json.RawMessage }
		a.get(t, "textDocument/completion", at(w.uri("shapes/shapes.go"), 16, 19), &list)
		var labels []string
		var area json.RawMessage
		for _, raw := range list.Items {
			var item struct {
				Label         string
				Documentation any
			}
			must(t, json.Unmarshal(raw, &item))
			labels = append(labels, item.Label)
			if item.Label == "Area" {
				if area = raw; !strings.Contains(fmt.Sprint(item.Documentation), "of the branch") {
					t.Errorf("its documentation is missing: %s", raw)
				}
			}
		}
		if area == nil {
			t.Fatalf("the method of the branch is not among %q", labels)
		}
		// gopls resolves none, and says so: that is the answer.
		if e := a.refused(t, "completionItem/resolve", area); e.Code != wire.CodeMethodNotFound {
			t.Errorf("resolving: %+v", e)
		}
	})
	t.Run("rename", func(t *testing.T) {
		a := w.agent(t, attach{})
		a.open(t, "lib/lib.go", module["lib/lib.go"], 7)
		a.change(t, "lib/lib.go", 12, ranged(0, 0, 0, 0, "// Another line.\n"))
		p := at(w.uri("lib/lib.go"), 5, 5)
		p["newName"] = "Renamed"
		var e workspaceEdit
		a.get(t, "textDocument/rename", p, &e)
		versions := map[string]string{}
		for _, c := range e.DocumentChanges {
			versions[c.TextDocument.URI] = "null"
			if c.TextDocument.Version != nil {
				versions[c.TextDocument.URI] = fmt.Sprint(*c.TextDocument.Version)
			}
		}
		// gopls writes 0 for a file that it has not open, where others write null.
		if len(versions) != 2 || versions[w.uri("lib/lib.go")] != "12" || versions[w.uri("use/use.go")] != "0" {
			t.Errorf("the edits are of versions %v", versions)
		}
		// Applied by the agent they leave no error.
		for _, c := range e.DocumentChanges {
			path := strings.TrimPrefix(c.TextDocument.URI, w.uri("")+"/")
			text := applied(a.file(t, path), c.Edits)
			if path == "lib/lib.go" {
				a.change(t, path, 13, whole(text))
			} else {
				a.edit(t, w.text(path, text))
			}
			if !strings.Contains(text, "Renamed") {
				t.Errorf("%s is not renamed:\n%s", path, text)
			}
		}
		a.clean(t, "use/use.go")
		a.clean(t, "lib/lib.go")
	})
	t.Run("semantic tokens", func(t *testing.T) {
		var tokens struct{ Data []int }
		first.get(t, "textDocument/semanticTokens/full", document(w.uri("shapes/shapes.go")), &tokens)
		if len(tokens.Data) < 50 {
			t.Errorf("%d numbers", len(tokens.Data))
		}
	})
	t.Run("formatting", func(t *testing.T) {
		a := w.agent(t, attach{})
		ugly := "package own\nvar   x   =  1\n"
		a.open(t, "own/own.go", ugly, 1)
		p := document(w.uri("own/own.go"))
		p["options"] = map[string]any{"tabSize": 8, "insertSpaces": false}
		var edits []textEdit
		a.get(t, "textDocument/formatting", p, &edits)
		if got, want := applied(ugly, edits), "package own\n\nvar x = 1\n"; got != want {
			t.Errorf("formatted: %q", got)
		}
	})
	t.Run("symbols and links", func(t *testing.T) {
		a := w.agent(t, attach{})
		a.edit(t, w.text("own/own.go", "package own\n\ntype OnlyHereOnTheBranch int\n"))
		var symbols []struct{ Name string }
		a.get(t, "workspace/symbol", map[string]string{"query": "OnlyHereOnTheBranch"}, &symbols)
		if len(symbols) != 1 {
			t.Errorf("the branch's symbols: %+v", symbols)
		}
		first.get(t, "workspace/symbol", map[string]string{"query": "OnlyHereOnTheBranch"}, &symbols)
		if len(symbols) != 0 {
			t.Errorf("another branch's symbols: %+v", symbols)
		}
		a.get(t, "textDocument/documentLink", document(w.uri("use/use.go")), nil)
	})
	t.Run("executeCommand", func(t *testing.T) {
		a := w.agent(t, attach{})
		a.edit(t, w.text("use/use.go", "package use\n\nimport \"strings\"\n\nvar V = strings.ToUpper(\"x\")\n"))
		var r struct{ Imports []struct{ Path string } }
		a.get(t, "workspace/executeCommand", map[string]any{
			"command": "gopls.list_imports", "arguments": []any{map[string]string{"URI": w.uri("use/use.go")}},
		}, &r)
		if len(r.Imports) != 1 || r.Imports[0].Path != "strings" {
			t.Errorf("the imports are %+v", r)
		}
	})
	t.Run("a method that gopls does not know", func(t *testing.T) {
		bare, err := client.Start(client.Config{Command: []string{need.Tool(t, "gopls")}, Dir: w.Dir, Env: w.Env, Stderr: t.Output()})
		must(t, err)
		defer bare.Close()
		_, err = bare.Initialize(t.Context(), w.uri(""), struct{}{}, nil)
		must(t, err)
		for _, method := range []string{"no/such", "textDocument/noSuch"} {
			_, err = bare.Call(t.Context(), method, document(w.uri("own/own.go")))
			var want *wire.Error
			if !errors.As(err, &want) {
				t.Fatalf("gopls answers %v", err)
			}
			got := first.refused(t, method, document(w.uri("own/own.go")))
			if got.Code != want.Code || got.Message != want.Message {
				t.Errorf("%s: %+v, gopls says %+v", method, got, want)
			}
		}
	})
	t.Run("cancel", func(t *testing.T) {
		a := w.agent(t, attach{})
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		cancelled := 0
		for i := range 20 {
			a.edit(t, w.text("lib/lib.go", stage.LibText(fmt.Sprintf("Cancel%d", i))))
			method, params := "textDocument/diagnostic", document(w.uri("use/use.go"))
			if i%2 == 1 {
				method, params = "textDocument/hover", at(w.uri("use/use.go"), 6, 12)
			}
			q, err := a.ask(method, params)
			must(t, err)
			must(t, q.cancel())
			_, err = q.answer(ctx)
			var e *wire.Error
			switch {
			case err == nil:
			case errors.As(err, &e) && e.Code == wire.CodeRequestCancelled:
				cancelled++
			default:
				t.Errorf("%s: %v", method, err)
			}
		}
		if cancelled == 0 {
			t.Error("none of 20 requests was cancelled")
		}
		a.names(t, "use/use.go", "Cancel19")
	})
	t.Run("other spellings of a file's name", func(t *testing.T) {
		a := w.agent(t, attach{push: true})
		odd := strings.Replace(w.uri("own/own.go"), "own/own.go", "%6Fwn/own%2Ego", 1)
		must(t, a.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
			"uri": odd, "languageId": "go", "version": 3, "text": ownText("undefinedOdd"),
		}}))
		a.hears(t, "a publish under the agent's own spelling", published(odd, 3, "undefinedOdd"))
		a.names(t, "own/own.go", "undefinedOdd")
		must(t, a.notify("textDocument/didChange", map[string]any{
			"textDocument": map[string]any{"uri": w.uri("own/own.go"), "version": 4}, "contentChanges": []any{whole(ownText("undefinedEven"))},
		}))
		a.names(t, "own/own.go", "undefinedEven")
		if got := a.file(t, "own/own.go"); got != ownText("undefinedEven") {
			t.Errorf("the branch has %q", got)
		}
	})
	t.Run("a request about a document that is not the branch's", func(t *testing.T) {
		var found []location
		first.get(t, "textDocument/definition", at(w.uri("shapes/shapes.go"), 7, 21), &found) // int
		if len(found) != 1 || !strings.Contains(found[0].URI, "builtin") {
			t.Fatalf("the definition of int is at %+v", found)
		}
		var hover json.RawMessage
		first.get(t, "textDocument/hover", at(found[0].URI, found[0].Range.Start.Line, found[0].Range.Start.Character), &hover)
		if len(hover) < 20 {
			t.Errorf("hover in a library: %s", hover)
		}
	})
}

// fillStruct is the code action at Point{} in shapes.
func (a *agent) fillStruct(t testing.TB, uri string, line, character int) json.RawMessage {
	t.Helper()
	here := map[string]int{"line": line, "character": character}
	var actions []struct {
		Title   string
		Command *struct {
			Command   string
			Arguments json.RawMessage
		}
		Edit json.RawMessage
	}
	a.get(t, "textDocument/codeAction", map[string]any{
		"textDocument": map[string]string{"uri": uri}, "range": map[string]any{"start": here, "end": here},
		"context": map[string]any{"diagnostics": []any{}, "only": []string{"refactor.rewrite.fillStruct"}},
	}, &actions)
	if len(actions) != 1 || actions[0].Command == nil {
		t.Fatalf("the actions are %+v", actions)
	}
	raw, err := json.Marshal(map[string]any{"command": actions[0].Command.Command, "arguments": actions[0].Command.Arguments})
	must(t, err)
	return raw
}

// A code action's edit goes to the agent if it can take one, with the agent's
// own versions, and else into the branch.
func TestApplyEdit(t *testing.T) {
	w := newWorld(t, with(map[string]string{"shapes/shapes.go": shapes}))
	w.serve(t)
	uri := w.uri("shapes/shapes.go")

	t.Run("an agent that can", func(t *testing.T) {
		a := w.agent(t, attach{capabilities: map[string]any{"workspace": map[string]any{"applyEdit": true}}})
		a.open(t, "shapes/shapes.go", shapes, 41)
		a.change(t, "shapes/shapes.go", 42, ranged(0, 0, 0, 0, "// One line more.\n"))
		given := make(chan json.RawMessage, 1)
		a.answering("workspace/applyEdit", func(params json.RawMessage) any {
			given <- slices.Clone(params)
			return map[string]bool{"applied": true}
		})
		a.get(t, "workspace/executeCommand", a.fillStruct(t, uri, 11, 20), nil)
		var p struct{ Edit workspaceEdit }
		select {
		case raw := <-given:
			must(t, json.Unmarshal(raw, &p))
		default:
			t.Fatal("the agent was given no edit")
		}
		if len(p.Edit.DocumentChanges) != 1 || p.Edit.DocumentChanges[0].TextDocument.Version == nil || *p.Edit.DocumentChanges[0].TextDocument.Version != 42 {
			t.Fatalf("the edit is %+v", p.Edit)
		}
		before := a.file(t, "shapes/shapes.go")
		if strings.Contains(before, "X: 0") {
			t.Error("the edit was made in the branch as well")
		}
		a.change(t, "shapes/shapes.go", 43, whole(applied(before, p.Edit.DocumentChanges[0].Edits)))
		if got := a.file(t, "shapes/shapes.go"); !strings.Contains(got, "X: 0") {
			t.Errorf("the agent's text:\n%s", got)
		}
		a.clean(t, "shapes/shapes.go")
	})
	t.Run("an agent that cannot", func(t *testing.T) {
		a := w.agent(t, attach{branch: "b"})
		watcher := w.agent(t, attach{branch: "b", push: true})
		watcher.open(t, "own/own.go", module["own/own.go"], 1)
		watcher.hears(t, "a publish", published(w.uri("own/own.go"), 1, ""))
		a.edit(t, w.text("shapes/shapes.go", "// Of the branch.\n"+shapes))
		a.get(t, "workspace/executeCommand", a.fillStruct(t, uri, 11, 20), nil)
		if got := a.file(t, "shapes/shapes.go"); !strings.Contains(got, "X: 0") || !strings.HasPrefix(got, "// Of the branch.") {
			t.Errorf("the branch has\n%s", got)
		}
		a.clean(t, "shapes/shapes.go")
		if patch := a.patch(t); !strings.Contains(patch, "X: 0") {
			t.Errorf("the patch is\n%s", patch)
		}
	})
	t.Run("an agent that refuses", func(t *testing.T) {
		a := w.agent(t, attach{capabilities: map[string]any{"workspace": map[string]any{"applyEdit": true}}})
		a.answering("workspace/applyEdit", func(json.RawMessage) any {
			return map[string]any{"applied": false, "failureReason": "not today"}
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		raw, err := a.call(ctx, "workspace/executeCommand", a.fillStruct(t, uri, 10, 20))
		t.Logf("the command's answer: %s, %v", raw, err)
		if strings.Contains(a.file(t, "shapes/shapes.go"), "X: 0") {
			t.Error("the edit was made in the branch")
		}
		a.clean(t, "shapes/shapes.go")
	})
}

// Progress of a request comes under the agent's own token, and to nobody else.
func TestProgress(t *testing.T) {
	w := newWorld(t, with(map[string]string{"go.mod": module["go.mod"] + "\nrequire example.test/unused v1.0.0\n\nreplace example.test/unused => ./unused\n", "unused/go.mod": "module example.test/unused\n"}))
	w.serve(t)
	a, other := w.agent(t, attach{branch: "a"}), w.agent(t, attach{branch: "a"})
	for _, token := range []any{"my own", 77, "shadowlsp-1"} {
		a.forget()
		a.edit(t, w.text("go.mod", module["go.mod"]+"\nrequire example.test/unused v1.0.0\n\nreplace example.test/unused => ./unused\n"))
		a.get(t, "workspace/executeCommand", map[string]any{
			"command": "gopls.tidy", "arguments": []any{map[string]any{"URIs": []string{w.uri("go.mod")}}}, "workDoneToken": token,
		}, nil)
		want, err := json.Marshal(token)
		must(t, err)
		kinds := []string{}
		a.hears(t, "the end of the progress", func(m wire.Message) bool {
			var p struct {
				Token json.RawMessage
				Value struct{ Kind string }
			}
			if m.Method != "$/progress" || json.Unmarshal(m.Params, &p) != nil {
				return false
			}
			if string(p.Token) != string(want) {
				t.Errorf("progress under the token %s, want %s", p.Token, want)
			}
			kinds = append(kinds, p.Value.Kind)
			return p.Value.Kind == "end"
		})
		if kinds[0] != "begin" {
			t.Errorf("the progress is %q", kinds)
		}
		// What the command did, it did in the branch.
		if got := a.file(t, "go.mod"); strings.Contains(got, "require") {
			t.Errorf("the branch's go.mod is not tidy:\n%s", got)
		}
	}
	if told := other.heard(); strings.Contains(told, "progress") {
		t.Errorf("another agent was told %s", told)
	}
}
