package main

// typescriptLanguageServer works in the sources of rxjs.
var typescriptLanguageServer = Server{
	Name: "typescript-language-server", Command: []string{"typescript-language-server", "--stdio"},
	OpenAsked: true,
	Project:   rxjsProject,
	Grammar:   typescriptGrammar,
}

// vtslsServer works in the sources of rxjs.
var vtslsServer = Server{
	Name: "vtsls", Command: []string{"vtsls", "--stdio"},
	OpenAsked: true,
	Project:   rxjsProject,
	Grammar:   typescriptGrammar,
}

// typescript7Server works in the sources of rxjs.
var typescript7Server = Server{
	Name: "typescript7", Command: []string{"tsc7", "--lsp", "--stdio"},
	OpenAsked: true, Pull: true,
	// It publishes about tsconfig.json when it likes; a shadow is told not to.
	Options: map[string]any{"disablePushDiagnostics": true},
	Project: rxjsProject,
	Small:   &smallTypeScript,
	Grammar: typescriptGrammar,
}

var rxjsProject = Project{
	Source: "rxjs", Keep: []string{"src/**/*.ts", "tsconfig.json", "package.json"},
	Files: typescriptFiles,
}

// smallTypeScript is a part of rxjs that stands alone.
var smallTypeScript = Project{
	Source: "rxjs", Keep: []string{"src/internal/{util,scheduler,scheduled}/*.ts", "src/internal/*.ts", "tsconfig.json", "package.json"},
	Files: typescriptFiles,
}

// typescriptFiles are what rxjs has none of: a package, a second project that
// refers to another, checked JavaScript, JSON, and files of no project.
var typescriptFiles = map[string]string{
	"node_modules/dep/package.json": `{"name":"dep","version":"1.0.0","types":"index.d.ts"}`,
	"node_modules/dep/index.d.ts":   "export declare const dep: number;\nexport declare function depend(n: number): string;\n",
	"tools/tsconfig.json":           `{"extends":"./base.json","compilerOptions":{"composite":true,"checkJs":true,"allowJs":true,"noEmit":false,"outDir":"../out"},"include":["."]}`,
	"tools/base.json":               `{"compilerOptions":{"target":"es2020","lib":["es2020"],"moduleResolution":"node","module":"commonjs","strict":true,"resolveJsonModule":true}}`,
	"tools/run.ts":                  "import { dep, depend } from 'dep';\nimport data from './data.json';\n\nexport const made: string = depend(dep);\nexport const size: number = data.size;\n",
	"tools/check.js":                "// What is checked.\nconst { made } = require('./run');\n\n/** @param {number} n */\nfunction twice(n) {\n  return n * 2;\n}\n\nmodule.exports = { length: twice(made.length) };\n",
	"tools/data.json":               `{ "size": 1, "name": "data" }`,
	"loose/alone.ts":                "const alone: number = 1;\nconst list: string[] = [];\n",
}

// typescriptGrammar is about TypeScript, and what decides about its projects.
var typescriptGrammar = Grammar{
	Edit: []string{"src/**/*.ts", "tools/*", "loose/*.ts", "node_modules/dep/*", "tsconfig.json"},
	Rules: []Rule{
		{"rename a function", `(?m)^export function (\w+)`, []string{`export function ${1}R§`}},
		{"rename a type", `(?m)^export (interface|type|class) (\w+)`, []string{`export $1 ${2}R§`}},
		{"rename a constant", `(?m)^export (?:declare )?const (\w+)`, []string{`export const ${1}R§`}},
		{"change a type", `: (string|number|boolean)\b`, []string{`: number`, `: string`, `: string[]`, `: undefined`}},
		{"drop an argument", `(\w+)\((\w+), `, []string{`$1(`}},
		{"add an argument", `(\w+)\((\w+)\)`, []string{`$1($2, §)`}},
		{"add a parameter", `(?m)^(export function \w+(?:<[^>\n]*>)?\()`, []string{`${1}extra§: number, `}},
		{"drop a result", `(?m)^ +return .*;$`, []string{"return;", ``}},
		{"drop an import", `(?m)^import [^\n]*;\n`, []string{``}},
		{"another import", `from '(\.[^']*)'`, []string{`from '${1}x§'`, `from 'dep'`}},
		{"break syntax", `\{\n`, []string{"\n", "{{\n"}},
		{"break syntax", `\);\n`, []string{"\n"}},
		{"unused variable", `(?m)^( +)return\b`, []string{"${1}const unused§ = §;\n${1}return"}},
		{"undefined name", `\b(null|undefined|true|false)\b`, []string{`missing§`}},
		{"unreachable", `(?m)^( +)return (.+);$`, []string{"${1}return $2;\n${1}missing§();"}},
		{"an optional member", `(\w+): `, []string{`${1}?: `}},
		{"drop a line", `(?m)^ +\S.*\n`, []string{``}},
		{"deprecated", `(?m)^export (function|const|class|declare)`, []string{"/** @deprecated since § */\nexport $1"}},
		{"a type of its own", `(?m)^export `, []string{"type Own§<T> = T extends string ? number : never;\nexport const own§: Own§<string> = '§';\nexport "}},
		{"an option", `"strict": ?true`, []string{`"strict": false`, `"strict": true, "noUnusedLocals": true`, `"strict": true, "noImplicitOverride": true, "exactOptionalPropertyTypes": true`, `"strict": true, "types": ["none§"]`}},
		{"a member of JSON", `"size": 1`, []string{`"size": "1"`, `"sizes": 1`}},
		{"an entry point", `"types": ?"index.d.ts"`, []string{`"types":"none.d.ts"`}},
	},
	New: []NewFile{
		{"oracle§.ts", `^`, "export function oracle§(n: number): string {\n  return n;\n}\n"},
		{"oracle§.ts", `(?m)^export (?:function|const|class|interface|type) (\w+)`, "import { $1, missing§ } from './oracle';\n\nexport const other§ = $1;\n"},
		{"oracle.ts", `(?m)^export (?:function|const|class|interface|type) (\w+)`, "export const $1 = §;\n"},
		{"globals§.d.ts", `^`, "declare const everywhere§: number;\n"},
		{"index.ts", `^`, "export const index = '§';\n"},
		{"tsconfig.json", `^`, "{\"compilerOptions\":{\"strict\":false,\"target\":\"es2017\",\"lib\":[\"es2017\"]}}\n"},
		{"deep§/index.ts", `^`, "export const deep: string = §;\n"},
	},
}
