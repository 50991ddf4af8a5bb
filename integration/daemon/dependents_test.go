package daemon

import (
	"fmt"
	"strings"
	"testing"

	"shadowlsp/integration/need"
)

// How many files are opened because of an edit has a limit, and the answer says when
// it was reached.
func TestDependentsBeyondTheLimit(t *testing.T) {
	need.Tool(t, "pyright-langserver")
	files := map[string]string{"core.py": "def f(a: int) -> int:\n    return a\n"}
	const many = 60
	for n := range many {
		files[fmt.Sprintf("use%02d.py", n)] = "from core import f\n\nvalue: int = f(1)\n"
	}
	w := newWorld(t, files)
	w.serve(t)
	a := w.agent(t, attach{})
	var r struct {
		Items      []struct{ URI string }
		Incomplete string
	}
	broken := []fileEdit{w.text("core.py", "def f(a: str) -> int:\n    return 1\n")}
	a.get(t, "shadowlsp/lint", map[string]any{"edits": broken}, &r)
	if len(r.Items) < 51 || !strings.Contains(r.Incomplete, "50") {
		t.Errorf("%d items, and incomplete is %q", len(r.Items), r.Incomplete)
	}
	// All of them can be asked about by name.
	var rest []string
	for n := range many {
		rest = append(rest, fmt.Sprintf("use%02d.py", n))
	}
	for path, all := range a.editAndLint(t, nil, rest...) {
		if len(errorsIn(all)) != 1 {
			t.Errorf("%s: %v", path, all)
		}
	}
}

// onlyTypeScript7 is a shadowlsp.toml in which no other server serves TypeScript.
const onlyTypeScript7 = "[servers.typescript-language-server]\ndisabled = true\n[servers.vtsls]\ndisabled = true\n[servers.typescript7]\ncommand = [\"tsc7\", \"--lsp\", \"--stdio\"]\n"

// A file that passes on what it imports is no end: who imports that may break, too.
func TestDependentsOfDependents(t *testing.T) {
	need.Tool(t, "tsc7")
	w := newWorld(t, map[string]string{
		"tsconfig.json":     "{\"compilerOptions\": {\"strict\": true, \"types\": []}}\n",
		"shadowlsp.toml":    onlyTypeScript7,
		"src/part/inner.ts": "export function f(a: number) { return a; }\n",
		"src/part/index.ts": "export { f } from './inner';\n",
		"src/use.ts":        "import { f } from './part';\n\nf(1);\n",
		"src/other.ts":      "export const x = 1;\n",
	})
	w.serve(t)
	a := w.agent(t, attach{})
	found := a.editAndLint(t, []fileEdit{w.text("src/part/inner.ts", "export function f(a: string) { return a; }\n")})
	if why := judge(errorsIn(found["src/use.ts"]), "string"); why != "" {
		t.Error(why)
	}
	if _, there := found["src/other.ts"]; there {
		t.Error("a file that has nothing to do with it was asked about")
	}
	if all, there := found["src/part/inner.ts"]; !there || len(all) > 0 {
		t.Errorf("the edited file: %v", all)
	}
}

// A file is judged by the nearest project's options, whichever project has been
// loaded before and has it, too.
func TestLintsAreTheNearestProjects(t *testing.T) {
	need.Tool(t, "tsc7")
	w := newWorld(t, map[string]string{
		"tsconfig.json":      "{\"compilerOptions\": {\"strict\": false, \"types\": []}}\n",
		"shadowlsp.toml":     onlyTypeScript7,
		"src/inner.ts":       "export function f(a: number) { return a; }\n",
		"near/tsconfig.json": "{\"compilerOptions\": {\"strict\": true, \"types\": []}}\n",
		"near/use.ts":        "import { f } from '../src/inner';\n\nf(null);\n",
	})
	w.serve(t)
	a := w.agent(t, attach{})
	found := a.editAndLint(t, []fileEdit{w.text("src/inner.ts", "export function f(a: string) { return a; }\n")})
	if why := judge(errorsIn(found["near/use.ts"]), "null"); why != "" {
		t.Error(why)
	}
}
