package main

// solution is a server of TypeScript in a folder whose tsconfig.json has no files of its
// own, only references to siblings of other names: which of them a document is in decides
// what is said of it.
func solution(s Server) Server {
	s.Name, s.Small, s.Project, s.Grammar = s.Name+"-solution", nil, Project{Files: solutionFiles}, solutionGrammar
	return s
}

var solutionFiles = map[string]string{
	"tsconfig.json":       "{\n  \"files\": [],\n  \"references\": [\n    { \"path\": \"./tsconfig.app.json\" },\n    { \"path\": \"./tsconfig.spec.json\" }\n  ]\n}\n",
	"tsconfig.app.json":   "{\n  \"extends\": \"./tsconfig.base.json\",\n  \"compilerOptions\": { \"composite\": true, \"strict\": true, \"outDir\": \"out/app\" },\n  \"include\": [\"src\", \"lib\"],\n  \"exclude\": [\"src/**/*.spec.ts\"]\n}\n",
	"tsconfig.spec.json":  "{\n  \"extends\": \"./tsconfig.base.json\",\n  \"compilerOptions\": { \"composite\": true, \"strict\": false, \"outDir\": \"out/spec\" },\n  \"include\": [\"src/**/*.spec.ts\", \"test\"],\n  \"references\": [{ \"path\": \"./tsconfig.app.json\" }]\n}\n",
	"tsconfig.base.json":  "{\n  \"compilerOptions\": { \"target\": \"es2020\", \"lib\": [\"es2020\"], \"module\": \"commonjs\", \"moduleResolution\": \"node\", \"types\": [] }\n}\n",
	"src/shape.ts":        "export function area(size: number, name?: string): number {\n  return name.length * size;\n}\nexport function loose(value) {\n  return value;\n}\n",
	"src/main.ts":         "import { area, loose } from './shape';\nimport { twice } from '../lib/twice';\n\nexport const total: string = area(twice(2));\nexport const any = loose(1);\n",
	"src/shape.spec.ts":   "import { area } from './shape';\n\nfunction check(value) {\n  return value;\n}\nlet maybe: string = null;\ncheck(area('1', maybe));\n",
	"test/help.ts":        "import { total } from '../src/main';\n\nexport function help(what) {\n  let none: number = null;\n  return total + what + none;\n}\n",
	"lib/twice.ts":        "export function twice(n: number, extra?) {\n  return n * 2;\n}\n",
	"other/tsconfig.json": "{\n  \"compilerOptions\": { \"strict\": true, \"noUnusedLocals\": true, \"types\": [] },\n  \"references\": [{ \"path\": \"../tsconfig.app.json\" }]\n}\n",
	"other/uses.ts":       "import { area } from '../src/shape';\n\nconst hidden = 1;\nexport const used: string = area(1);\n",
}

var solutionGrammar = Grammar{
	Edit: []string{"**/*.ts", "*.json", "other/*.json"},
	Rules: []Rule{
		{"a reference", `(?m)^    \{ "path": "\./tsconfig\.app\.json" \},\n`, []string{``}},
		{"a reference", `,\n    \{ "path": "\./tsconfig\.spec\.json" \}`, []string{``, ",\n    { \"path\": \"./tsconfig.none.json\" }"}},
		{"references", `,?\s*"references": \[[^\]]*\]`, []string{``, `, "references": []`, `, "references": [{ "path": "./tsconfig.app.json" }]`, `, "references": [{ "path": "./tsconfig.spec.json" }]`}},
		{"files of its own", `"files": \[\]`, []string{`"include": ["src"]`, `"files": ["src/main.ts"]`}},
		{"strict", `"strict": (true|false)`, []string{`"strict": true`, `"strict": false`, `"strict": true, "noUnusedLocals": true, "noUnusedParameters": true`}},
		{"composite", `"composite": true, `, []string{``}},
		{"what is included", `"include": \[[^\]]*\]`, []string{`"include": ["src"]`, `"include": ["lib", "test"]`, `"include": ["src/**/*.spec.ts"]`, `"include": ["src", "lib", "test"]`}},
		{"what is not", `"exclude": \[[^\]]*\]`, []string{`"exclude": []`, `"exclude": ["src/main.ts"]`}},
		{"the base", `"target": "es\d+", "lib": \["es\d+"\]`, []string{`"target": "es2017", "lib": ["es2017"]`, `"target": "es5", "lib": ["es5"]`}},
		{"extends", `"extends": "[^"]*"`, []string{`"extends": "./tsconfig.none.json"`, `"extends": "./tsconfig.base.json"`}},
		{"a type", `: (string|number)\b`, []string{`: number`, `: string`}},
		{"an argument", `(\w+)\((\w+)\)`, []string{`$1($2, §)`}},
		{"an import", `(?m)^import [^\n]*;\n`, []string{``}},
		{"unused", `(?m)^( +)return\b`, []string{"${1}const unused§ = §;\n${1}return"}},
	},
	New: []NewFile{
		{"added§.ts", `^`, "import { area } from '../src/shape';\n\nfunction untyped(a) { return a; }\nconst s: string = area(untyped(§));\n"},
		{"added§.spec.ts", `^`, "import { area } from '../src/shape';\n\nfunction untyped(a) { return a; }\nconst s: string = area(untyped(null));\n"},
		{"tsconfig.spec.json", `^`, "{ \"compilerOptions\": { \"strict\": false, \"composite\": true }, \"include\": [\"*.ts\"] }\n"},
		{"tsconfig.json", `^`, "{ \"files\": [], \"references\": [{ \"path\": \"./tsconfig.spec.json\" }] }\n"},
	},
}
