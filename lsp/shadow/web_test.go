package shadow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shadowlsp/integration/need"
)

// webCase is one server and a document of it that is wrong or right, and one
// that depends on a file that is not open.
type webCase struct {
	command     []string
	files       map[string]string
	name        string
	right       string
	wrong       string // has one finding that says
	says        string
	depends     string // a document that is never changed
	on          string // the file that it depends on
	good, bad   string // that file's texts
	complaint   string // about the bad one
	barrier     string
	environment string // a tool that it runs
}

var webCases = []webCase{
	{
		command: []string{"tsc7", "--lsp", "--stdio"}, barrier: "pull",
		files: map[string]string{"tsconfig.json": `{"compilerOptions":{"strict":true}}`},
		name:  "a.ts", right: "export const a: number = 1;\n", wrong: "export const a: number = '';\n", says: "Type 'string' is not assignable",
		depends: "import { b } from './b';\nexport const d: string = b;\n", on: "b.ts",
		good: "export const b = '';\n", bad: "export const b = 1;\n", complaint: "Type 'number' is not assignable",
	},
	{
		command: []string{"bash-language-server", "start"}, barrier: "versioned", environment: "shellcheck",
		name: "a.sh", right: "#!/bin/bash\necho \"$1\"\n", wrong: "#!/bin/bash\necho $1\n", says: "Double quote to prevent globbing",
		depends: "#!/bin/bash\n# shellcheck source=lib.sh\n. lib.sh\necho \"$known\"\n", on: "lib.sh",
		good: "known=1\n", bad: "# nothing\n", complaint: "known is referenced but not assigned",
	},
	{
		command: []string{"yaml-language-server", "--stdio"}, barrier: "counted",
		name: "a.yaml", right: "a: 1\nb: 2\n", wrong: "a: 1\na: 2\n", says: "Map keys must be unique",
		depends: "# yaml-language-server: $schema=schema.json\nn: 1\n", on: "schema.json",
		good: `{"properties":{"n":{"type":"number"}}}`, bad: `{"properties":{"n":{"type":"string"}}}`, complaint: "Incorrect type",
	},
	{
		command: []string{"vscode-json-language-server", "--stdio"}, barrier: "pull",
		name: "a.json", right: `{"a": 1}`, wrong: `{"a": 1,}`, says: "Trailing comma",
		depends: `{"$schema": "./schema.json", "n": 1}`, on: "schema.json",
		good: `{"properties":{"n":{"type":"number"}}}`, bad: `{"properties":{"n":{"type":"string"}}}`, complaint: "Incorrect type",
	},
	{
		command: []string{"vscode-css-language-server", "--stdio"}, barrier: "pull",
		name: "a.css", right: "a { color: red; }\n", wrong: "a { color: red; \n", says: "} expected",
	},
	{
		command: []string{"vscode-html-language-server", "--stdio"}, barrier: "pull",
		name: "a.html", right: "<style>a { color: red; }</style>\n", wrong: "<style>a { color; }</style>\n", says: "colon expected",
	},
}

// Branches alternate, in a document and in a file that another one depends on.
func TestWebAlternates(t *testing.T) {
	for _, c := range webCases {
		t.Run(c.command[0], func(t *testing.T) {
			if c.environment != "" {
				t.Setenv("PATH", filepath.Dir(need.Tool(t, c.environment))+":"+os.Getenv("PATH"))
			}
			m := newProject(t, c.command, c.files)
			ext := c.name[strings.LastIndexByte(c.name, '.'):]
			m.put(c.name, c.right)
			if c.on != "" {
				m.put(c.on, c.good)
				m.put("depends"+ext, c.depends)
				m.docs["depends"+ext] = c.depends
			}
			turns := 8
			if os.Getenv("SHADOWLSP_CONFORMANCE") == "full" {
				turns = 100
			}
			for n := range turns {
				text, want := c.right, []string{}
				if n%2 == 0 {
					text, want = c.wrong, []string{c.says}
				}
				m.docs[c.name] = text
				m.put(c.name, text)
				if c.on != "" && n%4 >= 2 {
					m.put(c.on, c.bad)
					want = append(want, c.complaint)
				} else if c.on != "" {
					m.put(c.on, c.good)
				}
				if n%6 == 4 {
					m.sync()
					continue // a turn without a question
				}
				m.expect(m.lint(), want...)
			}
			m.report()
			m.same()
			m.lint(c.name)
			if reports, err := m.gopls.Diagnose(within(t), []string{m.uri(c.name)}); err != nil || reports[m.uri(c.name)].Barrier != c.barrier {
				t.Errorf("%v, %v", reports, err)
			}
			delete(m.docs, c.name)
			m.sync()
			if reports, err := m.gopls.Diagnose(within(t), []string{"file:///nowhere/x.unknown"}); err == nil || len(reports) != 0 {
				t.Errorf("%v, %v", reports, err)
			}
		})
	}
}
