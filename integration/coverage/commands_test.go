package coverage

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"shadowlsp/integration/client"
	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/docuri"
)

// commanding is an agent that has commands executed which come back as edits.
type commanding struct {
	name string // of its files, which nobody else has
	dir  string
	c    *client.Client

	mu     sync.Mutex // guards the field below
	edited []string   // the base names of files that it was to edit
}

func (a *commanding) uri(ext string) string {
	return docuri.FromPath(filepath.Join(a.dir, a.name+ext))
}

// answer takes workspace/applyEdit.
func (a *commanding) answer(method string, params json.RawMessage) any {
	if method != "workspace/applyEdit" {
		return nil
	}
	var p struct {
		Edit struct {
			Changes         map[string]json.RawMessage
			DocumentChanges []struct{ TextDocument struct{ URI string } }
		}
	}
	if json.Unmarshal(params, &p) != nil {
		return map[string]bool{"applied": false}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for uri := range p.Edit.Changes {
		a.edited = append(a.edited, filepath.Base(uri))
	}
	for _, d := range p.Edit.DocumentChanges {
		a.edited = append(a.edited, filepath.Base(d.TextDocument.URI))
	}
	return map[string]bool{"applied": true}
}

// texts are an agent's files, and commands what changes each, by extension.
var texts = map[string]struct{ language, text string }{
	".go":  {"go", "package m\n\nvar x = 1\n"},
	".ts":  {"typescript", "import { b } from './b';\nimport { a } from './a';\n\nexport const sum = a + b;\n"},
	".cpp": {"cpp", "const char *text = \"a\\\\b\\n\";\n"},
}

func (a *commanding) commands() map[string]map[string]any {
	at := map[string]int{"line": 0, "character": 22}
	return map[string]map[string]any{
		".go":  {"command": "gopls.add_import", "arguments": []any{map[string]string{"ImportPath": "os", "URI": a.uri(".go")}}},
		".ts":  {"command": "_typescript.organizeImports", "arguments": []any{filepath.Join(a.dir, a.name+".ts")}},
		".cpp": {"command": "clangd.applyTweak", "arguments": []any{map[string]any{"file": a.uri(".cpp"), "selection": map[string]any{"start": at, "end": at}, "tweakID": "RawStringLiteral"}}},
	}
}

// Edits that servers ask for come back to the agent whose command they belong to, in
// three servers at once, with two agents on each of two branches.
func TestCommandsEditForTheirAgent(t *testing.T) {
	need.View(t)
	path := ""
	for _, name := range []string{"gopls", "typescript-language-server", "clangd"} {
		path += filepath.Dir(need.Tool(t, name)) + ":"
	}
	shadowlsp := need.Shadowlsp(t)
	s := stage.Set(t, map[string]string{
		"go.mod": "module example.test/m\n\ngo 1.24\n", "m.go": "package m\n", "tsconfig.json": "{}\n", "a.ts": "export const a = 1;\n", "b.ts": "export const b = 2;\n", "compile_flags.txt": "-std=c++17\n", "m.cpp": "int m;\n",
	})
	t.Cleanup(func() { must(t, s.Close()) })
	var agents []*commanding
	for n, branch := range []string{"one", "one", "two", "two"} {
		a := &commanding{name: fmt.Sprintf("agent%d", n), dir: s.Dir}
		var err error
		a.c, err = client.Start(client.Config{
			Command: []string{shadowlsp, "connect", "--branch", branch}, Dir: s.Dir, Env: append(slices.Clip(s.Env), "PATH="+path+os.Getenv("PATH")),
			Stderr: t.Output(), Answer: a.answer,
		})
		must(t, err)
		t.Cleanup(func() { a.c.Close() })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		capable := capabilities()
		maps.Copy(capable["workspace"].(map[string]any), map[string]any{"applyEdit": true})
		_, err = a.c.Initialize(ctx, docuri.FromPath(s.Dir), capable, nil)
		must(t, err)
		for ext, f := range texts {
			must(t, a.c.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
				"uri": a.uri(ext), "languageId": f.language, "version": 1, "text": f.text,
			}}))
			// An answer about it shows that its server is there.
			_, err := a.c.Call(ctx, "textDocument/documentSymbol", map[string]any{"textDocument": map[string]string{"uri": a.uri(ext)}})
			must(t, err)
		}
		agents = append(agents, a)
	}
	const rounds = 3
	var all sync.WaitGroup
	for _, a := range agents {
		for ext, params := range a.commands() {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				for range rounds {
					if _, err := a.c.Call(ctx, "workspace/executeCommand", params); err != nil {
						t.Errorf("%s%s: %v", a.name, ext, err)
					}
				}
			})
		}
	}
	all.Wait()
	for _, a := range agents {
		counts := map[string]int{}
		for _, name := range a.edited {
			counts[name]++
		}
		for ext := range texts {
			if name := a.name + ext; counts[name] != rounds {
				t.Errorf("%s was to be edited %d times, not %d", name, counts[name], rounds)
			}
		}
		for name := range counts {
			if !strings.HasPrefix(name, a.name+".") {
				t.Errorf("%s is told to edit %s", a.name, name)
			}
		}
	}
}
