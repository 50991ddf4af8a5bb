package main

// eslintServer works in what rxjs is published as, with a configuration of our own that
// is made of several modules.
var eslintServer = Server{
	Name: "eslint", Command: []string{"vscode-eslint-language-server", "--stdio"},
	OpenAsked: true, Pull: true,
	Settings: map[string]any{"": map[string]any{
		"validate": "on", "run": "onType", "nodePath": "", "options": map[string]any{}, "quiet": false, "format": false, "onIgnoredFiles": "off",
		"problems": map[string]any{"shortenToSingleLine": false}, "rulesCustomizations": []any{}, "experimental": map[string]any{"useFlatConfig": false},
		"workingDirectory": map[string]any{"mode": "location"},
	}},
	Project: Project{
		Source: "rxjs", Keep: []string{"dist/esm/internal/**/*.js"},
		Files: eslintFiles, Links: map[string]string{"node_modules": "eslint"},
	},
	Grammar: Grammar{
		Edit: []string{"dist/**/*.js", "lint/*", "eslint.config.js"},
		Rules: []Rule{
			{"rename a function", `(?m)^export function (\w+)`, []string{`export function ${1}R§`}},
			{"var", `(?m)^( *)(const|let) `, []string{`${1}var `, `${1}let `}},
			{"drop an argument", `(\w+)\((\w+), `, []string{`$1(`}},
			{"drop an import", `(?m)^import [^\n]*;\n`, []string{``}},
			{"unused variable", `(?m)^( +)return\b`, []string{"${1}const unused§ = §;\n${1}return"}},
			{"undefined name", `\b(null|undefined|true|false)\b`, []string{`missing§`}},
			{"unreachable", `(?m)^( +)return (.+);$`, []string{"${1}return $2;\n${1}missing§();"}},
			{"equality", ` === `, []string{` == `}},
			{"debugger", `(?m)^( +)return\b`, []string{"${1}debugger;\n${1}return"}},
			{"break syntax", `\) \{\n`, []string{") \n", ") {{\n"}},
			{"drop a line", `(?m)^ +\S.*\n`, []string{``}},
			{"a comment", `(?m)^export `, []string{"// eslint-disable-next-line no-var\nexport ", "/* eslint eqeqeq: \"error\" */\nexport "}},
			{"a rule", `"(error|warn|off)"`, []string{`"error"`, `"warn"`, `"off"`}},
			{"a rule of our own", `length > \d+`, []string{`length > 9`, `length > 15`, `length > §`}},
			{"what it says", `the name is \w+`, []string{`the name is long§`}},
			{"a global", `"(missing\d*|known)": `, []string{`"missing§": `, `"known": `}},
			{"where", `\*\*/observable/\*\*`, []string{`**/operators/**`, `**/*.js`}},
		},
		New: []NewFile{
			{"oracle§.js", `^`, "var oracle§ = missing§;\nif (oracle§ == 1) debugger;\n"},
			{"eslint.config.js", `^`, "export default [{ rules: { \"no-undef\": \"error\", \"max-lines\": [\"warn\", §] } }]\n"},
			{"index.js", `^`, "export let index = §;\n"},
		},
	},
}

// eslintFiles are a configuration whose parts are imported, read and tried for.
var eslintFiles = map[string]string{
	"package.json":      "{ \"name\": \"linted\", \"type\": \"module\" }\n",
	".gitignore":        "node_modules\n",
	"eslint.config.js":  "import { existsSync, readFileSync } from \"node:fs\"\nimport rules from \"./lint/rules.js\"\nimport plugin from \"./lint/plugin.js\"\n\nexport default [\n\t{ plugins: { own: plugin }, languageOptions: { globals: read(\"globals.json\") }, rules },\n\t{ files: [\"**/observable/**\"], rules: { \"no-shadow\": \"warn\", \"own/names\": \"error\" } },\n]\n\nfunction read(name) {\n\tconst at = new URL(\"./lint/\" + name, import.meta.url)\n\treturn existsSync(at) ? JSON.parse(readFileSync(at, \"utf8\")) : {}\n}\n",
	"lint/rules.js":     "export default {\n\t\"no-unused-vars\": \"error\",\n\t\"no-undef\": \"error\",\n\t\"no-var\": \"error\",\n\t\"prefer-const\": \"warn\",\n\t\"eqeqeq\": \"warn\",\n\t\"no-unreachable\": \"error\",\n\t\"no-debugger\": \"warn\",\n\t\"no-param-reassign\": \"off\",\n\t\"no-nested-ternary\": \"warn\",\n\t\"own/names\": \"warn\",\n}\n",
	"lint/plugin.js":    "export default {\n\trules: {\n\t\tnames: {\n\t\t\tcreate: context => ({\n\t\t\t\tFunctionDeclaration(node) {\n\t\t\t\t\tif (node.id && node.id.name.length > 12) context.report({ node: node.id, message: \"the name is long\" })\n\t\t\t\t},\n\t\t\t}),\n\t\t},\n\t},\n}\n",
	"lint/globals.json": "{ \"known\": \"readonly\", \"setTimeout\": \"readonly\", \"clearTimeout\": \"readonly\", \"Promise\": \"readonly\" }\n",
}
