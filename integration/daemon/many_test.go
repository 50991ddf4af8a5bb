package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shadowlsp/integration/client"
	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/internal/workspace"
	"shadowlsp/lsp/wire"
)

// mixed is a workspace of several languages: in each a file, and one that depends
// on it and that nobody opens.
var mixed = map[string]string{
	"py/pyproject.toml":   "[project]\nname = \"p\"\nversion = \"1\"\n",
	"py/core.py":          pyLib("int"),
	"py/use.py":           "from core import f\n\nvalue: int = f(1)\n",
	"c/compile_flags.txt": "-std=c11\n",
	"c/lib.h":             "int f(int a);\n",
	"c/use.c":             "#include \"lib.h\"\nint g(void) { return f(1); }\n",
	"notes.txt":           "Nobody takes this.\n",
	"tool.sh":             "#!/bin/sh\necho \"$1\"\n",
}

// pyLib is py/core.py with a parameter type; with str the call in use.py is an error.
func pyLib(parameter string) string {
	return "def f(a: " + parameter + ") -> int:\n    \"\"\"F returns something.\"\"\"\n    return 1\n"
}

// newMixed is a world of them, with a daemon that no editor knows.
func newMixed(t *testing.T) *world {
	for _, name := range []string{"pyright-langserver", "clangd", "bash-language-server", "shellcheck"} {
		need.Tool(t, name)
	}
	w := newWorld(t, with(mixed))
	w.serve(t)
	return w
}

// openAs is didOpen with a language.
func (a *agent) openAs(t testing.TB, path, language, text string) {
	t.Helper()
	must(t, a.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": a.w.uri(path), "languageId": language, "version": 1, "text": text,
	}}))
}

// One connection spans all languages of a workspace that no editor has opened:
// which servers there are is found by its files, and each document is for the one
// that takes it.
func TestManyServers(t *testing.T) {
	w := newMixed(t)
	a := w.agent(t, attach{branch: "b"})
	t.Run("offers of all", func(t *testing.T) { offersOfAll(t, a) })
	t.Run("by document", func(t *testing.T) {
		a.clean(t, "use/use.go")
		a.clean(t, "py/use.py")
		a.clean(t, "c/use.c")
		a.clean(t, "tool.sh")
		for path, line := range map[string]int{"use/use.go": 6, "py/core.py": 0, "c/use.c": 1} {
			var hover struct{ Contents json.RawMessage }
			a.get(t, "textDocument/hover", at(w.uri(path), line, 4), &hover)
			if len(hover.Contents) < 10 {
				t.Errorf("hover in %s: %s", path, hover.Contents)
			}
		}
	})
	t.Run("dependents that nobody opened", func(t *testing.T) {
		found := a.editAndLint(t, []fileEdit{
			w.text("lib/lib.go", stage.LibText("T")), w.text("py/core.py", pyLib("str")), w.text("c/lib.h", "int f(int a, int b);\n"),
			w.text("tool.sh", "#!/bin/sh\necho $1\nfor\n"),
		})
		for path, word := range map[string]string{"use/use.go": "T", "py/use.py": "str", "c/use.c": "Too few arguments", "tool.sh": ""} {
			if errs := errorsIn(found[path]); len(errs) == 0 || !strings.Contains(strings.Join(errs, " "), word) {
				t.Errorf("%s: %q names no %q", path, errs, word)
			}
		}
		for _, path := range []string{"lib/lib.go", "py/core.py", "c/lib.h"} {
			if all, there := found[path]; !there || len(errorsIn(all)) > 0 {
				t.Errorf("%s: %v, %t", path, all, there)
			}
		}
	})
	t.Run("symbols of all", func(t *testing.T) {
		var symbols []struct{ Name string }
		a.get(t, "workspace/symbol", map[string]any{"query": "f"}, &symbols)
		names := map[string]bool{}
		for _, s := range symbols {
			names[s.Name] = true
		}
		if !names["lib.F"] && !names["F"] || !names["f"] {
			t.Errorf("symbols: %v", symbols)
		}
	})
	t.Run("what nobody takes", func(t *testing.T) {
		for path, says := range map[string]string{"notes.txt": "no language server", "none.go": "no such file", "py/none.py": "no such file"} {
			e := a.refused(t, "textDocument/diagnostic", document(w.uri(path)))
			if !strings.Contains(e.Message, says) || !strings.Contains(string(e.Data), `"unsupported"`) {
				t.Errorf("%s: %s %s", path, e.Message, e.Data)
			}
		}
	})
	t.Run("items back to their server", func(t *testing.T) { itemsBack(t, a) })
	t.Run("tokens in one legend", func(t *testing.T) { tokensInOneLegend(t, a) })
}

// offersOfAll looks for what each server alone offers.
func offersOfAll(t *testing.T, a *agent) {
	var r struct {
		Capabilities struct {
			ExecuteCommandProvider struct{ Commands []string }
			CompletionProvider     struct{ TriggerCharacters []string }
			SemanticTokensProvider struct{ Legend struct{ TokenTypes []string } }
			Experimental           struct{ Shadowlsp struct{ Servers []string } }
		}
	}
	must(t, json.Unmarshal(a.init, &r))
	c := r.Capabilities
	for _, name := range []string{"gopls", "pyright", "clangd"} {
		if !slices.Contains(c.Experimental.Shadowlsp.Servers, name) {
			t.Errorf("%s is none of %q", name, c.Experimental.Shadowlsp.Servers)
		}
	}
	for _, command := range []string{"gopls.tidy", "clangd.applyFix"} {
		if !slices.Contains(c.ExecuteCommandProvider.Commands, command) {
			t.Errorf("%s is none of %q", command, c.ExecuteCommandProvider.Commands)
		}
	}
	for _, character := range []string{".", ">", "["} {
		if !slices.Contains(c.CompletionProvider.TriggerCharacters, character) {
			t.Errorf("%s triggers no completion: %q", character, c.CompletionProvider.TriggerCharacters)
		}
	}
}

// itemsBack resolves completions of two servers: each gets its own bytes.
func itemsBack(t *testing.T, a *agent) {
	w := a.w
	py := "import os\n\nos.pa\n"
	a.openAs(t, "py/new.py", "python", py)
	goText := module["own/own.go"] + "\nvar _ = N + le\n"
	a.openAs(t, "own/own.go", "go", goText)
	for _, c := range []struct {
		path            string
		line, character int
		label           string
	}{{"py/new.py", 2, 5, "path"}, {"own/own.go", 6, 14, "len"}} {
		var list struct{ Items []json.RawMessage }
		a.get(t, "textDocument/completion", at(w.uri(c.path), c.line, c.character), &list)
		n := slices.IndexFunc(list.Items, func(raw json.RawMessage) bool {
			var item struct{ Label string }
			return json.Unmarshal(raw, &item) == nil && item.Label == c.label
		})
		if n < 0 {
			t.Errorf("%s: no %s among %d items", c.path, c.label, len(list.Items))
			continue
		}
		var resolved struct{ Label string }
		a.get(t, "completionItem/resolve", list.Items[n], &resolved)
		if resolved.Label != c.label {
			t.Errorf("%s: %s resolves to %q", c.path, c.label, resolved.Label)
		}
	}
	var items []json.RawMessage
	a.get(t, "textDocument/prepareCallHierarchy", at(w.uri("py/core.py"), 0, 4), &items)
	if len(items) != 1 {
		t.Fatalf("call hierarchy: %s", items)
	}
	var calls []struct{ From struct{ URI string } }
	a.get(t, "callHierarchy/incomingCalls", map[string]any{"item": items[0]}, &calls)
	if len(calls) == 0 || calls[0].From.URI != w.uri("py/use.py") {
		t.Errorf("incoming calls: %v", calls)
	}
	var result json.RawMessage
	a.get(t, "workspace/executeCommand", map[string]any{"command": "gopls.list_known_packages", "arguments": []any{map[string]string{"URI": w.uri("own/own.go")}}}, &result)
	if !strings.Contains(string(result), "example.test/m/lib") {
		t.Errorf("gopls.list_known_packages: %.300s", result)
	}
	a.close(t, "py/new.py")
	a.close(t, "own/own.go")
}

// tokensInOneLegend compares the types of tokens by name.
func tokensInOneLegend(t *testing.T, a *agent) {
	var r struct {
		Capabilities struct {
			SemanticTokensProvider struct{ Legend struct{ TokenTypes []string } }
		}
	}
	must(t, json.Unmarshal(a.init, &r))
	types := r.Capabilities.SemanticTokensProvider.Legend.TokenTypes
	var tokens struct{ Data []int }
	a.get(t, "textDocument/semanticTokens/full", document(a.w.uri("c/use.c")), &tokens)
	var found []string
	for n := 3; n < len(tokens.Data); n += 5 {
		found = append(found, types[tokens.Data[n]])
	}
	if !slices.Equal(found, []string{"function", "function"}) {
		t.Errorf("tokens of c/use.c: %q by %q", found, types)
	}
}

// A server that an editor starts while agents are there is theirs at once: they
// are told what it offers, and its documents go to it.
func TestALateServer(t *testing.T) {
	need.Tool(t, "clangd")
	w := newWorld(t, with(map[string]string{"a.c": "int f(void) { return x; }\n", "shadowlsp.toml": "[servers.clangd]\ndisabled = true\n"}))
	w.serve(t)
	dynamic := map[string]any{"dynamicRegistration": true}
	a := w.agent(t, attach{branch: "b", capabilities: map[string]any{"textDocument": map[string]any{"documentSymbol": dynamic, "typeHierarchy": dynamic}}})
	if e := a.refused(t, "textDocument/diagnostic", document(w.uri("a.c"))); !strings.Contains(e.Message, "no language server") {
		t.Error(e.Message)
	}
	person, err := client.Start(client.Config{Command: []string{w.binary, "--", "clangd"}, Dir: w.Dir, Env: w.Env, Stderr: t.Output()})
	must(t, err)
	defer person.Close()
	_, err = person.Initialize(t.Context(), w.uri(""), map[string]any{}, nil)
	must(t, err)
	m := a.hears(t, "what it offers", func(m wire.Message) bool { return m.Method == "client/registerCapability" })
	if !strings.Contains(string(m.Params), `{"language":"cpp"}`) || !strings.Contains(string(m.Params), "textDocument/documentSymbol") {
		t.Errorf("registered is %s", m.Params)
	}
	a.names(t, "a.c", "undeclared identifier")
	a.clean(t, "use/use.go")
	leaves(t, person)
}

// A server is known by what it says of itself, else by its command, else by what
// its processes are called.
func TestAServerBehindAScript(t *testing.T) {
	pyright, err := filepath.EvalSymlinks(need.Tool(t, "pyright-langserver"))
	must(t, err)
	cli, err := filepath.EvalSymlinks(need.Tool(t, "typescript-language-server"))
	must(t, err)
	need.Tool(t, "clangd")
	for name, c := range map[string]struct {
		command []string // $X is the script
		script  string
		is      string
		path    string
		barrier string
	}{
		"it says its name":         {[]string{"$X/my-server"}, "exec gopls \"$@\"\n", "gopls", "own/own.go", "progress"},
		"another than its name":    {[]string{"$X/gopls"}, "exec clangd \"$@\"\n", "clangd", "c/use.c", "sync"},
		"its process is called so": {[]string{"$X/my-server"}, "pyright-langserver --stdio; exit 0\n", "pyright", "py/use.py", "pull"},
		"a file of its package":    {[]string{"node", "--max-old-space-size=2048", cli, "--stdio"}, "", "typescript-language-server", "a.ts", "tsserver"},
		"node and its script":      {[]string{"node", pyright, "--stdio"}, "", "pyright", "py/use.py", "pull"},
		"a module of Python":       {[]string{"env", "PYTHONPATH=$X", "python3", "-m", "my_server"}, "", "pyright", "py/use.py", "pull"},
		"a shell's own words":      {[]string{"sh", "-c", "exec bash-language-server start"}, "", "bash-language-server", "tool.sh", "versioned"},
	} {
		t.Run(name, func(t *testing.T) {
			files := with(mixed)
			files["tsconfig.json"], files["a.ts"] = "{}\n", "export const a = 1;\n"
			w := newWorld(t, files)
			for n, arg := range c.command {
				c.command[n] = strings.ReplaceAll(arg, "$X", w.top)
			}
			if c.script != "" {
				must(t, os.WriteFile(c.command[0], []byte("#!/bin/sh\n"+c.script), 0o755))
			}
			must(t, os.WriteFile(filepath.Join(w.top, "my_server.py"), []byte("import os\nos.execvp('pyright-langserver', ['pyright-langserver', '--stdio'])\n"), 0o644))
			w.serve(t, append([]string{"--"}, c.command...)...)
			a := w.agent(t, attach{})
			r, err := a.tryLint(t.Context(), c.path)
			must(t, err)
			if r.Shadowlsp.Barrier != c.barrier {
				t.Errorf("the barrier is %q", r.Shadowlsp.Barrier)
			}
			s, _ := w.status(t)
			if !slices.ContainsFunc(s.Servers, func(s workspace.ServerStatus) bool {
				return s.Name == c.is && slices.Equal(s.Command, c.command)
			}) {
				t.Errorf("servers: %+v", s.Servers)
			}
		})
	}
}

// What the workspace's file says about a server counts, where no editor has said
// anything; and `servers` lists what there is.
func TestConfiguredServers(t *testing.T) {
	need.Tool(t, "pyright-langserver")
	strict := "[servers.pyright.settings.python.analysis]\ntypeCheckingMode = \"strict\"\n"
	w := newWorld(t, map[string]string{
		"shadowlsp.toml": strict, "a.py": "def f(a):\n    return a\n", "x.lua": "print(1)\n",
	})
	list := []workspace.ServerListing{}
	must(t, json.Unmarshal([]byte(w.output(t, w.binary, "servers", "--json")), &list))
	state := map[string]string{}
	for _, s := range list {
		state[s.Name] = s.State
	}
	if state["pyright"] != "used" || state["lua-language-server"] == "" {
		t.Errorf("listed are %v", state)
	}
	w.serve(t)
	a := w.agent(t, attach{})
	if found := a.lint(t, "a.py"); !strings.Contains(strings.Join(found, " "), "Type annotation") {
		t.Errorf("strict: %q", found)
	}
}

// Two servers of one document: both lists are one.
func TestALinterBeside(t *testing.T) {
	need.Tool(t, "pyright-langserver")
	need.Tool(t, "basedpyright-langserver")
	w := newWorld(t, map[string]string{
		"shadowlsp.toml": "[servers.basedpyright]\nrole = \"linter\"\n", "a.py": "import os\n\nx: int = undefined\n",
	})
	w.serve(t)
	a := w.agent(t, attach{})
	r, err := a.tryLint(t.Context(), "a.py")
	must(t, err)
	found := 0
	for _, d := range r.Items {
		if strings.Contains(d.Message, `"undefined" is not defined`) {
			found++
		}
	}
	if found != 2 {
		t.Errorf("both servers say the same, and there are %d: %v", found, r.Items)
	}
	var hover struct{ Contents json.RawMessage }
	a.get(t, "textDocument/hover", at(w.uri("a.py"), 2, 0), &hover)
	if len(hover.Contents) < 3 {
		t.Errorf("hover: %s", hover.Contents)
	}
}
