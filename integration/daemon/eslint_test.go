package daemon

import (
	"os"
	"strings"
	"testing"

	"shadowlsp/integration/need"
)

// ESLint stands beside the server of the language: its findings are in the same
// lists, follow a branch's configuration, and where it fails nothing is handed out.
func TestESLintBeside(t *testing.T) {
	need.Tool(t, "typescript-language-server")
	need.Tool(t, "vscode-eslint-language-server")
	library := need.Source(t, "eslint")
	rules := func(rule string) string { return "export default [{ rules: { \"" + rule + "\": \"error\" } }];\n" }
	w := newWorld(t, map[string]string{
		"package.json": "{ \"type\": \"module\" }\n", "jsconfig.json": "{ \"compilerOptions\": { \"checkJs\": true } }\n",
		"eslint.config.js": rules("no-var"), "a.js": "var a = 1;\nif (a == 2) missing();\n", ".gitignore": "node_modules\n",
	})
	w.before = nil
	must(t, os.Symlink(library, w.path("node_modules")))
	t.Cleanup(func() { os.Remove(w.path("node_modules")) })
	w.serve(t)
	a, b := w.agent(t, attach{branch: "a"}), w.agent(t, attach{branch: "b"})
	says := func(a *agent, words ...string) {
		t.Helper()
		r, err := a.tryLint(t.Context(), "a.js")
		must(t, err)
		var all []string
		for _, d := range r.Items {
			all = append(all, d.Message)
		}
		text := strings.Join(all, "\n")
		for _, word := range words {
			never, is := strings.CutPrefix(word, "!")
			if strings.Contains(text, strings.TrimPrefix(word, "!")) == is {
				t.Errorf("%s: %q", never, text)
			}
		}
	}
	const missing, noVar, equal = "Cannot find name 'missing'", "Unexpected var", "Expected '===' and instead saw '=='"
	says(a, missing, noVar, "!"+equal)
	for range 2 {
		b.edit(t, w.text("eslint.config.js", rules("eqeqeq")))
		says(b, missing, equal, "!"+noVar)
		says(a, missing, noVar, "!"+equal)
		a.edit(t, w.text("a.js", "let a = 1;\nif (a == 2) missing();\n"))
		says(a, missing, "!"+noVar)
		b.edit(t, w.text("eslint.config.js", "export default [{ rules: {"))
		if _, err := b.tryLint(t.Context(), "a.js"); err == nil || !strings.Contains(err.Error(), "configuration") {
			t.Errorf("with a broken configuration: %v", err)
		}
		a.edit(t, w.text("a.js", "var a = 1;\nif (a == 2) missing();\n"))
		says(a, missing, noVar, "!"+equal)
	}
}

// What ESLint's process has read of the project it goes by for ever: where a branch has
// that otherwise, another process answers. Edits of what is linted need none.
func TestESLintReadsAnew(t *testing.T) {
	server := need.Tool(t, "vscode-eslint-language-server")
	library := need.Source(t, "eslint")
	rules := func(rule string) string { return "export const rules = { \"" + rule + "\": \"error\" };\n" }
	w := newWorld(t, map[string]string{
		"package.json": "{ \"type\": \"module\" }\n", ".gitignore": "node_modules\n",
		"eslint.config.js": "import { existsSync } from \"node:fs\";\nimport { rules } from \"./lint/rules.js\";\nconst more = existsSync(new URL(\"./lint/more\", import.meta.url)) ? { \"no-undef\": \"error\" } : {};\nexport default [{ rules: { ...rules, ...more } }];\n",
		"lint/rules.js":    rules("no-var"), "a.js": "var a = 1;\nif (a == 2) missing();\n",
	})
	w.before = nil
	must(t, os.Symlink(library, w.path("node_modules")))
	t.Cleanup(func() { os.Remove(w.path("node_modules")) })
	w.serve(t, "--", server, "--stdio")
	says := func(a *agent, want ...string) {
		t.Helper()
		r, err := a.tryLint(t.Context(), "a.js")
		must(t, err)
		var all []string
		for _, d := range r.Items {
			all = append(all, strings.SplitAfter(d.Message, ".")[0])
		}
		if strings.Join(all, "|") != strings.Join(want, "|") {
			t.Errorf("%q, not %q", all, want)
		}
	}
	const missing, noVar, equal = "'missing' is not defined.", "Unexpected var, use let or const instead.", "Expected '===' and instead saw '=='."
	a, b, c := w.agent(t, attach{branch: "a"}), w.agent(t, attach{branch: "b"}), w.agent(t, attach{branch: "c"})
	answers := func() (name string) {
		t.Helper()
		s, _ := w.status(t)
		for _, server := range s.Servers {
			if server.Name == "eslint" && len(server.Instances) == 1 {
				return server.Instances[0].Name
			}
		}
		t.Fatalf("which instance is there? %+v", s.Servers)
		return ""
	}
	says(a, noVar)
	first := answers()
	a.edit(t, w.text("a.js", "let a = 1;\nif (a == 2) missing();\n"))
	says(a)
	c.edit(t, w.text("b.js", "var b = 1;\n"))
	says(c, noVar)
	if now := answers(); now != first {
		t.Errorf("%q answers after %q, though nothing has changed that it had read", now, first)
	}
	b.edit(t, w.text("lint/rules.js", rules("eqeqeq")))
	says(b, equal)
	says(c, noVar)
	c.edit(t, w.text("lint/more", ""))
	says(c, noVar, missing)
	b.edit(t, w.deleted("lint/rules.js"))
	if _, err := b.tryLint(t.Context(), "a.js"); err == nil {
		t.Error("a configuration that cannot be loaded finds nothing")
	}
	says(a)
}
