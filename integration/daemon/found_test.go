package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shadowlsp/integration/need"
)

// references are those of the name at line, character of a file, by file.
func (a *agent) references(t testing.TB, path string, line, character int) (files []string) {
	t.Helper()
	params := at(a.w.uri(path), line, character)
	params["context"] = map[string]bool{"includeDeclaration": true}
	var found []location
	a.get(t, "textDocument/references", params, &found)
	for _, l := range found {
		files = append(files, strings.TrimPrefix(l.URI, a.w.uri("")+"/"))
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// A file that a branch has just written, or has again, is looked through at once, and
// one that another branch has is not.
func TestReferencesInFilesThatCome(t *testing.T) {
	const others = "[servers.%s]\ndisabled = true\n"
	python := map[string]string{
		"lib.py": "def f(a):\n    return a\n", "use.py": "from lib import f\n\nf(1)\n",
		"new.py": "from lib import f\n\nprint(f(2))\n",
	}
	typescript := map[string]string{
		"tsconfig.json": "{\"compilerOptions\": {\"strict\": true, \"types\": []}}\n",
		"lib.ts":        "export function f(a: number) { return a; }\n", "use.ts": "import { f } from './lib';\n\nf(1);\n",
		"new.ts": "import { f } from './lib';\n\nf(2);\n",
	}
	for _, c := range []struct {
		name, tool, config string
		files              map[string]string
		lib, use, come     string
		language           string
		character          int
	}{
		{"gopls", "gopls", "", map[string]string{
			"go.mod": "module m\n\ngo 1.24\n", "lib/lib.go": "package lib\n\nfunc F(a int) int { return a }\n",
			"use/use.go": "package use\n\nimport \"m/lib\"\n\nvar X = lib.F(1)\n", "new/new.go": "package new\n\nimport \"m/lib\"\n\nvar X = lib.F(2)\n",
		}, "lib/lib.go", "use/use.go", "new/new.go", "go", 5},
		{"pyright", "pyright-langserver", fmt.Sprintf(others, "basedpyright"), python, "lib.py", "use.py", "new.py", "python", 4},
		{"pyright whose log is switched off", "pyright-langserver", fmt.Sprintf(others, "basedpyright") +
			"[servers.pyright.settings.python.analysis]\nlogLevel = \"Error\"\nautoSearchPaths = true\n", python, "lib.py", "use.py", "new.py", "python", 4},
		{"basedpyright", "basedpyright-langserver", fmt.Sprintf(others, "pyright"), python, "lib.py", "use.py", "new.py", "python", 4},
		{"typescript-language-server", "typescript-language-server", fmt.Sprintf(others, "vtsls"), typescript, "lib.ts", "use.ts", "new.ts", "typescript", 16},
		{"vtsls", "vtsls", fmt.Sprintf(others, "typescript-language-server"), typescript, "lib.ts", "use.ts", "new.ts", "typescript", 16},
		{"typescript7", "tsc7", onlyTypeScript7, typescript, "lib.ts", "use.ts", "new.ts", "typescript", 16},
		{"bash", "bash-language-server", "", map[string]string{
			"lib.sh": "f() { echo; }", "use.sh": "#!/bin/bash\nsource lib.sh\nf\n", "new.sh": "#!/bin/bash\nsource lib.sh\nf 2\n",
		}, "lib.sh", "use.sh", "new.sh", "shellscript", 0},
		{"rust-analyzer", "rust-analyzer", "", map[string]string{
			"Cargo.toml":  "[package]\nname = \"m\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
			"src/lib.rs":  "pub fn f(a: i32) -> i32 { a }\npub mod used;\npub mod new;\n",
			"src/used.rs": "pub fn g() -> i32 { crate::f(1) }\n", "src/new.rs": "pub fn h() -> i32 { crate::f(2) }\n",
		}, "src/lib.rs", "src/used.rs", "src/new.rs", "rust", 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			need.Tool(t, c.tool)
			come := c.files[c.come]
			files := map[string]string{"shadowlsp.toml": c.config}
			for name, text := range c.files {
				if name != c.come {
					files[name] = text
				}
			}
			w := newWorld(t, files)
			w.serve(t)
			line := strings.Count(strings.Split(files[c.lib], "(a")[0], "\n")
			with, without := []string{c.lib, c.come, c.use}, []string{c.lib, c.use}
			slices.Sort(with)
			a, b := w.agent(t, attach{branch: "a"}), w.agent(t, attach{branch: "b"})
			for _, one := range []*agent{a, b} {
				one.openAs(t, c.lib, c.language, files[c.lib])
			}
			for n := range 2 {
				for _, s := range []struct {
					a    *agent
					what string
					edit []fileEdit
					want []string
				}{
					{a, "a file came", []fileEdit{w.text(c.come, come)}, with},
					{b, "it came on another branch", nil, without},
					{a, "back on the branch", nil, with},
					{b, "one is gone", []fileEdit{w.deleted(c.use)}, []string{c.lib}},
					{a, "it is gone on another branch", nil, with},
					{b, "it is back", []fileEdit{w.text(c.use, files[c.use])}, without},
					{a, "it is back on another branch", nil, with},
					{a, "the file is gone again", []fileEdit{w.deleted(c.come)}, without},
				} {
					if s.edit != nil {
						s.a.edit(t, s.edit...)
					}
					if got := s.a.references(t, c.lib, line, c.character); !slices.Equal(got, s.want) {
						t.Errorf("round %d, %s: references in %q, want %q", n, s.what, got, s.want)
					}
				}
			}
		})
	}
}
