package shadow_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	plain "shadowlsp/integration/client"
	"shadowlsp/integration/need"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/shadow"
	"shadowlsp/lsp/wire"
)

// tsServers are the servers around tsserver.
var tsServers = [][]string{{"typescript-language-server", "--stdio"}, {"vtsls", "--stdio"}}

// each runs a test with each server.
func each(t *testing.T, servers [][]string, test func(t *testing.T, command []string)) {
	for _, command := range servers {
		t.Run(command[0], func(t *testing.T) { test(t, command) })
	}
}

// bare is a server without anything of ours, and what it has published.
type bare struct {
	*plain.Client

	mu      sync.Mutex // guards the fields below
	found   map[string]json.RawMessage
	changed chan struct{}
}

// canary is a document that a bare server checks last. The diagnostic is a
// suggestion, of the kind that is checked last: behind its publish all others
// have been published.
const (
	canaryText = "export {};\nconst canary = 1;\n"
	canarySays = "'canary' is declared but its value is never read."
)

// published returns what a new bare server publishes on the disk as it is with
// the same documents open, by URI. It works in the same folder: names in messages
// are the same.
func (m *module) published() map[string]json.RawMessage {
	m.Helper()
	var err error
	b := &bare{found: make(map[string]json.RawMessage), changed: make(chan struct{})}
	b.Client, err = plain.Start(plain.Config{
		Command: append([]string{need.Tool(m, m.command[0])}, m.command[1:]...), Dir: m.dir, Notify: b.hear,
	})
	if err != nil {
		m.Fatal(err)
	}
	defer b.Close()
	var params map[string]any
	if err := json.Unmarshal(initializeParams(m.dir), &params); err != nil {
		m.Fatal(err)
	}
	capabilities := params["capabilities"].(map[string]any)
	capabilities["workspace"] = map[string]any{"configuration": true}
	if _, err := b.Initialize(within(m), docuri.FromPath(m.dir), capabilities, nil); err != nil {
		m.Fatal(err)
	}
	open := func(uri, language, text string) {
		if err := b.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
			"uri": uri, "languageId": language, "version": 1, "text": text,
		}}); err != nil {
			m.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.docs)) {
		id, _ := m.gopls.Language(name)
		open(m.uri(name), id, m.docs[name])
	}
	canary := docuri.FromPath(filepath.Join(m.TempDir(), "canary.ts"))
	open(canary, "typescript", canaryText)
	ctx := within(m)
	for {
		b.mu.Lock()
		found, changed := maps.Clone(b.found), b.changed
		b.mu.Unlock()
		if strings.Contains(string(found[canary]), canarySays) {
			delete(found, canary)
			return found
		}
		select {
		case <-changed:
		case <-ctx.Done():
			m.Fatalf("the canary's diagnostics: %s", found[canary])
		}
	}
}

func (b *bare) hear(method string, params json.RawMessage) {
	if method != "textDocument/publishDiagnostics" {
		return
	}
	var p struct {
		URI         string
		Diagnostics json.RawMessage
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.found[docuri.Canonical(p.URI)] = p.Diagnostics
	close(b.changed)
	b.changed = make(chan struct{})
}

// equal fails unless every open document's diagnostics are, in JSON and in their
// order, those that a new bare server publishes. It returns their number.
func (m *module) equal() (found int) {
	m.Helper()
	began := time.Now()
	m.sync()
	var uris []string
	for name := range m.docs {
		uris = append(uris, m.uri(name))
	}
	reports, err := m.gopls.Diagnose(within(m), uris)
	if err != nil {
		m.Fatal(err)
	}
	m.took = append(m.took, time.Since(began))
	published := m.published()
	for _, uri := range uris {
		want := published[docuri.Canonical(uri)]
		if want == nil {
			want = json.RawMessage("[]") // nothing to say at first is not said
		}
		var a, b []any
		if json.Unmarshal(want, &a) != nil || json.Unmarshal(reports[uri].Diagnostics, &b) != nil {
			m.Fatalf("%s: %s, %s", uri, want, reports[uri].Diagnostics)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			m.Errorf("%s: published (-), ours (+):\n%s", uri, diff)
		}
		found += len(a)
	}
	return found
}

// tsProject is a folder with two projects, one of which refers to the other, and
// files that belong to none.
func tsProject() map[string]string {
	return map[string]string{
		"tsconfig.json":     `{"compilerOptions":{"strict":true,"target":"es2020","module":"commonjs","noEmit":true,"lib":["es2020"]},"include":["src"],"files":[]}`,
		"src/lib.ts":        "export function f(n: number): number { return n; }\n/** @deprecated use f */\nexport function old() {}\n",
		"src/use.ts":        "import { f } from './lib';\nexport const n: number = f(1);\n",
		"src/other.ts":      "import { n } from './use';\nexport const s: string = String(n);\n",
		"pkg/tsconfig.json": `{"compilerOptions":{"composite":true,"target":"es2020","lib":["es2020"],"outDir":"out"}}`,
		"pkg/p.ts":          "export const p = 1;\n",
		"loose.ts":          "const loose: number = '';\n",
		"plain.js":          "function g(a) { return a.b; }\nlet unused = g(1, 2);\n",
	}
}

const (
	tsString   = "export function f(s: string): string { return s; }\n/** @deprecated use f */\nexport function old() {}\n"
	tsFindings = "import { f, old } from './lib';\nimport { nothing } from './nowhere';\n" +
		"interface A { a: number }\ninterface B extends A { b: string }\n" +
		"export function g(a: A, b?: B): number {\n  let x;\n  old();\n  label: for (;;) { break; }\n  switch (a.a) { case 1: f('x'); case 2: }\n  if (a) { return 1; }\n}\n" +
		"const q: B = { a: 1 };\nvar e = <A>null;\nfunction over(n: number): void;\nfunction over(s: string): void {}\n"
)

// Every kind of finding, in the words of the server itself.
func TestTsserverSaysWhatItPublishes(t *testing.T) {
	each(t, tsServers, func(t *testing.T, command []string) {
		m := newProject(t, command, tsProject())
		for _, name := range []string{"src/lib.ts", "loose.ts", "plain.js", "pkg/p.ts"} {
			m.docs[name] = m.disk[name]
		}
		m.docs["src/use.ts"] = tsFindings
		m.docs["src/checked.js"] = "// @ts-check\n/** @type {number} */\nlet x = '';\nconst { a } = require('./lib');\n"
		m.docs["src/a b(c)@.tsx"] = "export const z = <div>{f}</div>;\nlet u: number = z\nlet u: string;\n"
		m.docs["src/broken.ts"] = "export class { \n const = 3;\n"
		if n := m.equal(); n < 20 {
			t.Errorf("%d diagnostics", n)
		} else {
			t.Log(n, "diagnostics")
		}
	})
}

// Turns that change documents, files and projects, compared to a new server: each
// with SHADOWLSP_CONFORMANCE=full, else every seventh.
func TestTsserverSaysWhatAFreshOneSays(t *testing.T) {
	both := func(m *module, name, text string) { m.put(name, text); m.docs[name] = text }
	steps := []struct {
		what string
		do   func(m *module)
	}{
		{"a dependency changed, on disk only", func(m *module) {
			m.docs["src/use.ts"] = m.disk["src/use.ts"]
			m.put("src/lib.ts", tsString)
		}},
		{"the same, open; a new file that is imported, on disk only", func(m *module) {
			m.docs["src/lib.ts"] = tsString
			m.put("src/new.ts", "export const fresh = 1;\n")
			both(m, "src/other.ts", "import { fresh } from './new';\nexport const s: string = fresh;\n")
		}},
		{"back on disk and closed; the new file gone", func(m *module) {
			m.put("src/lib.ts", tsProject()["src/lib.ts"])
			delete(m.docs, "src/lib.ts")
			m.put("src/new.ts", "")
		}},
		{"the project's options; an orphan", func(m *module) {
			m.put("tsconfig.json", strings.Replace(m.disk["tsconfig.json"], `"strict":true`, `"strict":false,"noUnusedLocals":true`, 1))
			both(m, "src/use.ts", "import { f, old } from './lib';\nlet a;\na = null;\nexport const n: number = f(a);\nconst hidden = 1;\n")
			both(m, "scripts/run.ts", "import { n } from '../src/use';\nconst x: string = n;\nexport {};\n")
		}},
		{"a tsconfig.json of its own for the orphan", func(m *module) {
			m.put("scripts/tsconfig.json", `{"compilerOptions":{"noImplicitAny":true,"target":"es5","lib":["es5"]}}`)
			m.docs["scripts/run.ts"] += "function h(a) { return new Map(); }\n"
		}},
		{"it is gone, with a package that comes", func(m *module) {
			m.put("scripts/tsconfig.json", "")
			m.put("node_modules/dep/package.json", `{"name":"dep","types":"index.d.ts"}`)
			m.put("node_modules/dep/index.d.ts", "export declare const d: number;\n")
			both(m, "src/use.ts", "import { d } from 'dep';\nexport const n: string = d;\n")
		}},
		{"the package changes", func(m *module) {
			m.put("node_modules/dep/index.d.ts", "export declare const d: string;\n")
		}},
		{"its entry point changes", func(m *module) {
			m.put("node_modules/dep/other.d.ts", "export declare const d: boolean;\n")
			m.put("node_modules/dep/package.json", `{"name":"dep","types":"other.d.ts"}`)
		}},
		{"a directory comes", func(m *module) {
			m.put("src/deep/index.ts", "export const deep = 1;\n")
			both(m, "src/use.ts", "import { deep } from './deep';\nexport const n: string = deep;\n")
		}},
		{"and goes", func(m *module) {
			m.putAway("src/deep")
			m.putAway("node_modules")
		}},
		{"globals", func(m *module) {
			m.put("src/globals.d.ts", "declare const everywhere: number;\n")
			both(m, "src/use.ts", "export const n: string = everywhere;\n")
		}},
		{"JSON", func(m *module) {
			m.put("tsconfig.json", `{"extends":"./base.json","include":["src"]}`)
			m.put("base.json", `{"compilerOptions":{"resolveJsonModule":true,"esModuleInterop":true,"strict":true}}`)
			m.put("src/data.json", `{"a": 1}`)
			both(m, "src/use.ts", "import data from './data.json';\nexport const n: string = data.a;\nlet z; z.x;\n")
		}},
		{"JSON changes, and the base of the options", func(m *module) {
			m.put("src/data.json", `{"a": "1"}`)
			m.put("base.json", `{"compilerOptions":{"resolveJsonModule":true,"esModuleInterop":true,"strict":false}}`)
		}},
		{"no project", func(m *module) { m.put("tsconfig.json", "") }},
		{"everything closed but one", func(m *module) {
			for name := range m.docs {
				if name != "src/other.ts" {
					delete(m.docs, name)
				}
			}
		}},
	}
	each(t, tsServers, func(t *testing.T, command []string) {
		m := newProject(t, command, tsProject())
		for n, s := range steps {
			t.Run(strings.ReplaceAll(s.what, " ", "_"), func(t *testing.T) {
				m.TB = t
				s.do(m)
				if (n == 0 || n%7 != 0) && os.Getenv("SHADOWLSP_CONFORMANCE") != "full" {
					m.lint() // a new server takes seconds
					return
				}
				t.Log(m.equal(), "diagnostics")
			})
			m.TB = t
		}
		m.report()
	})
}

// putAway removes a folder: the news is of the folder alone.
func (m *module) putAway(folder string) {
	m.Helper()
	if err := os.RemoveAll(m.path(folder)); err != nil {
		m.Fatal(err)
	}
	for name := range m.disk {
		if strings.HasPrefix(name, folder+"/") {
			delete(m.disk, name)
		}
	}
	m.files = append(m.files, shadow.FileEvent{URI: m.uri(folder), Type: shadow.Deleted})
}

// Files that nobody opened: one that is asked about, and those that an edit
// broke.
func TestTsserverDependents(t *testing.T) {
	each(t, tsServers, func(t *testing.T, command []string) {
		m := newProject(t, command, tsProject())
		m.expect(m.lint("src/use.ts", "pkg/p.ts"))
		m.docs["src/lib.ts"] = tsString
		m.expect(m.lint("src/use.ts"), "Argument of type 'number'", "Type 'string' is not assignable")
		m.expect(m.lint(), "Argument of type 'number'", "Type 'string' is not assignable")
		m.docs["src/lib.ts"] = m.disk["src/lib.ts"]
		m.expect(m.lint())
		reports, err := m.gopls.Diagnose(within(t), []string{m.uri("tsconfig.json"), m.uri("src/use.ts")})
		if err == nil || len(reports) != 1 {
			t.Errorf("%v, %v: a document that the server does not take", reports, err)
		}
	})
}

// Other requests see files that came and went, too.
func TestTsserverAnswersFromTheDisk(t *testing.T) {
	each(t, tsServers, func(t *testing.T, command []string) {
		m := newProject(t, command, tsProject())
		text := "import { fresh } from './new';\nexport const x = fresh;\n"
		m.docs["src/use.ts"] = text
		m.put("src/use.ts", text)
		for n := range 6 {
			if n%2 == 0 {
				m.put("src/new.ts", fmt.Sprintf("export const fresh: %q = %q;\n", fmt.Sprint("v", n), fmt.Sprint("v", n)))
			} else {
				m.put("src/new.ts", "")
			}
			m.sync()
			question, err := wire.Parse(wire.NewRequest(json.RawMessage("1"), "textDocument/hover", map[string]any{
				"textDocument": map[string]any{"uri": m.uri("src/use.ts")}, "position": map[string]any{"line": 1, "character": 18},
			}))
			if err != nil {
				t.Fatal(err)
			}
			hover, err := m.gopls.Forward(within(t), question, nil)
			if want := fmt.Sprint("v", n); err != nil || strings.Contains(string(hover.Result), want) != (n%2 == 0) {
				t.Errorf("turn %d: %s, %v", n, hover.Body, err)
			}
		}
	})
}

// Two branches in turn.
func TestTsserverAlternates(t *testing.T) {
	each(t, tsServers, func(t *testing.T, command []string) {
		m := newProject(t, command, tsProject())
		for n := range 40 {
			clear(m.docs)
			if n%2 == 0 {
				m.docs["src/lib.ts"] = tsString
				m.put("src/lib.ts", tsString)
				m.expect(m.lint("src/lib.ts", "src/use.ts"), "Argument of type 'number'", "Type 'string' is not assignable")
			} else {
				m.put("src/lib.ts", tsProject()["src/lib.ts"])
				m.docs["src/use.ts"] = m.disk["src/use.ts"]
				m.expect(m.lint("src/lib.ts", "src/use.ts"))
			}
		}
		m.report()
	})
}

// A tsconfig.json that comes, or goes, between a document that stays open and
// that of the project it was in: branches that have it and do not, in turn.
func TestTsserverTakesTheNearestProject(t *testing.T) {
	each(t, tsServers, func(t *testing.T, command []string) {
		files := tsProject()
		files["src/deep/stays.ts"] = "export function h(a) { return a; }\n"
		files["src/deep/also.ts"] = "export function i(a) { return a; }\n"
		m := newProject(t, command, files)
		names := []string{"src/deep/stays.ts", "src/deep/also.ts", "src/deep/unopened.ts"}
		m.docs["src/use.ts"] = m.disk["src/use.ts"]
		m.docs[names[0]] = files[names[0]]
		m.put(names[2], "export function j(a) { return a; }\n")
		const (
			strict = "Parameter 'a' implicitly has an 'any' type."
			loose  = "Parameter 'a' implicitly has an 'any' type, but a better type may be inferred from usage."
		)
		for n := range 6 {
			config := []string{"src/deep/tsconfig.json", "src/tsconfig.json", "src/deep/jsconfig.json"}[n/2]
			m.expect(m.lint(names...), strict, strict, strict)
			m.put(config, `{"compilerOptions":{"allowJs":true,"strict":false,"target":"es2020","lib":["es2020"]}}`)
			if n%2 == 0 {
				m.docs[names[1]] = m.disk[names[1]] // is opened as the other is closed
			} else {
				delete(m.docs, names[1])
			}
			if closed := m.sync().Closed; command[0] == tsServers[0][0] && closed != []int{1, 2, 2, 3, 1, 2}[n] {
				t.Errorf("turn %d: %d documents were closed, of those below %s and others", n, closed, config)
			}
			m.expect(m.lint(names...), loose, loose, loose)
			m.put(config, "")
		}
		m.report()
	})
}

// BenchmarkTsserver lints rxjs while an edit alternates with its absence.
func BenchmarkTsserver(b *testing.B) {
	for _, command := range tsServers {
		b.Run(command[0], func(b *testing.B) {
			m := &module{TB: b, dir: b.TempDir(), command: command, disk: map[string]string{}, docs: map[string]string{}}
			copyInto(b, m, "rxjs", "src", "tsconfig.json", "package.json")
			began := time.Now()
			m.gopls = m.start(m.dir)
			const name, user = "src/internal/operators/map.ts", "src/internal/operators/mapTo.ts"
			text := m.disk[name]
			broken := strings.Replace(text, "index: number) => R): OperatorFunction<T, R>", "index: number) => number): OperatorFunction<T, number>", 1)
			if broken == text {
				b.Fatal("nothing to edit")
			}
			m.docs[name] = text
			base := m.lint(name, user)
			b.Logf("first lint after %v", time.Since(began))
			m.took = nil
			for n := 0; b.Loop(); n++ {
				m.docs[name] = broken
				if n%2 == 1 {
					m.docs[name] = text
				}
				m.put(name, m.docs[name])
				if got := m.lint(name, user); slices.Equal(got, base) != (n%2 == 1) {
					b.Fatalf("%d: %q", n, got)
				}
			}
			m.report()
		})
	}
}

// copyInto copies parts of a source into a module.
func copyInto(t testing.TB, m *module, source string, parts ...string) {
	t.Helper()
	top := need.Source(t, source)
	for _, part := range parts {
		err := filepath.WalkDir(filepath.Join(top, part), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(top, name)
			m.put(rel, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	m.files = nil
}
