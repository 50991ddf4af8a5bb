package coverage

// webProjects are those of node's smaller servers.
var webProjects = map[string]project{
	"bash-language-server": {
		command: []string{"bash-language-server", "start"}, tools: []string{"shellcheck"},
		files: map[string]string{
			"lib.sh":  "# A library.\nknown=1\n\n# Greets somebody.\ngreet() {\n  local name=$1\n  echo \"hello $name\"\n}\n",
			"main.sh": "#!/bin/bash\n# shellcheck source=lib.sh\n. ./lib.sh\ncount=0\nfor f in ./*; do\n  echo $f\n  count=$((count + known))\ndone\ngreet \"$1\"\necho \"$count 😀\"\n",
		},
		open:    map[string]string{"lib.sh": "shellscript", "main.sh": "shellscript"},
		queries: []string{"greet", "count"}, readyPath: "main.sh", readyAt: "eet \"$1\"",
	},
	"yaml-language-server": {
		command: []string{"yaml-language-server", "--stdio"},
		// A shadow looks up nothing in the network.
		settings: map[string]any{"yaml": map[string]any{"schemaStore": map[string]any{"enable": false}, "kubernetesCRDStore": map[string]any{"enable": false}}},
		files: map[string]string{
			"service.json": "{\n  \"type\": \"object\",\n  \"title\": \"A service\",\n  \"properties\": {\n    \"name\": {\"type\": \"string\", \"description\": \"What it is called.\"},\n    \"port\": {\"type\": \"number\", \"default\": 80},\n    \"kind\": {\"enum\": [\"web\", \"db\"]},\n    \"env\": {\"type\": \"object\"}\n  },\n  \"required\": [\"name\"],\n  \"additionalProperties\": false\n}\n",
			"web.yaml":     "# yaml-language-server: $schema=service.json\nname: web\nport: eighty\nkind: web\nenv: &common\n  A: 1\n  B: two 😀\n",
			"plain.yaml":   "base: &base\n  image: debian\n  tags: [a, b,   c]\nuse:\n  <<: *base\n  link: https://example.test/x\n---\nsecond: {a: 1,  b: 2}\n",
		},
		open:      map[string]string{"web.yaml": "yaml", "plain.yaml": "yaml"},
		readyPath: "plain.yaml", readyAt: "ase\n  link",
	},
	"vscode-json-language-server": {
		command:  []string{"vscode-json-language-server", "--stdio"},
		options:  map[string]any{"provideFormatter": true},
		settings: map[string]any{"json": map[string]any{"validate": map[string]any{"enable": true}}},
		files: map[string]string{
			"schema.json": "{\n  \"definitions\": {\"size\": {\"type\": \"number\", \"description\": \"In metres.\"}},\n  \"properties\": {\"wide\": {\"$ref\": \"#/definitions/size\"}, \"high\": {\"$ref\": \"#/definitions/size\"}, \"kind\": {\"enum\": [\"round\", \"square\"]}, \"colour\": {\"type\": \"string\", \"format\": \"color-hex\"}},\n  \"required\": [\"wide\"]\n}\n",
			"one.json":    "{\n  \"$schema\": \"./schema.json\",\n  \"wide\":   \"much 😀\",\n  \"kind\": \"round\",\n  \"colour\": \"#ff0000\",\n  \"list\": [1, 2,\n    3]\n}\n",
		},
		open: map[string]string{"schema.json": "json", "one.json": "json"},
	},
	"vscode-css-language-server": {
		command: []string{"vscode-css-language-server", "--stdio"},
		options: map[string]any{"provideFormatter": true},
		// Without any it fails.
		settings: map[string]any{"css": map[string]any{}, "scss": map[string]any{}, "less": map[string]any{}},
		files: map[string]string{
			"page.css":  ":root { --main: #336699; }\n\n/* A box. */\n.box {\n  colour: red;\n  color: var(--main);\n  background: url(\"box.png\") rgb(10, 20, 30);\n}\n.box:hover > p, .empty {}\n",
			"page.scss": "@import \"page\";\n$gap: 4px;\n@mixin wide($n) {\n  width: $n;\n}\n.card {\n  margin: $gap;\n  .title { @include wide(10px); }\n}\n",
		},
		open:      map[string]string{"page.css": "css", "page.scss": "scss"},
		queries:   []string{"box"},
		readyPath: "page.scss", readyAt: "gap;\n  .title",
	},
	"vscode-html-language-server": {
		command: []string{"vscode-html-language-server", "--stdio"},
		options: map[string]any{"provideFormatter": true, "embeddedLanguages": map[string]any{"css": true, "javascript": true}},
		// Without any it fails.
		settings: map[string]any{"css": map[string]any{}, "html": map[string]any{}, "javascript": map[string]any{}},
		files: map[string]string{
			"page.html": "<!DOCTYPE html>\n<html>\n<head>\n<style>\n.box { color: red; }\n</style>\n<script>\nfunction twice(n) { return n * 2; }\nlet four = twice(2);\n</script>\n</head>\n<body>\n<p class=\"box\" style=\"color: blue\">Text &amp; <b>more</b> 😀</p>\n<a href=\"other.html\">other</a>\n<img src=\"x.png\">\n</body>\n</html>\n",
		},
		open:      map[string]string{"page.html": "html"},
		readyPath: "page.html", readyAt: "wice(2)",
	},
	"dockerfile": {
		command: []string{"docker-langserver", "--stdio"},
		files: map[string]string{
			"Dockerfile": "# syntax=docker/dockerfile:1\nARG VERSION=1.26\nFROM golang:${VERSION} AS build\nWORKDIR /src\nCOPY go.mod go.sum ./\nRUN --mount=type=cache,target=/root go build \\\n    -o /out/server .\nCMD [\"a\"]\nCMD [\"b\"]\n\nFROM scratch AS final\nENV NAME=value PORT=80\nCOPY --from=build /out/server /server\nexpose 80 443\nMAINTAINER somebody\nENTRYPOINT ['/server', \"$NAME 😀\"]\n",
		},
		open:      map[string]string{"Dockerfile": "dockerfile"},
		readyPath: "Dockerfile", readyAt: "uild /out",
	},
	"eslint": {
		command: []string{"vscode-eslint-language-server", "--stdio"},
		files: map[string]string{
			"package.json":     "{ \"type\": \"module\" }\n",
			".gitignore":       "node_modules\n",
			"eslint.config.js": "export default [{ rules: { \"no-var\": \"error\", \"eqeqeq\": \"warn\", \"prefer-const\": \"error\", \"no-unused-vars\": \"error\", \"no-useless-escape\": \"error\", \"quotes\": [\"error\", \"single\"] } }];\n",
			"a.js":             "var a = \"one\";\nvar b = 'a\\q 😀';\nif (a == b) {\n  let never = 1;\n}\nexport const c = a != b;\n",
			"b.js":             "import { c } from './a.js';\nlet d = c;\nif (d == null) console.log(\"x\");\n",
		},
		links: map[string]string{"node_modules": "eslint"},
		// As in the table of servers: without any it fails.
		settings: map[string]any{"": map[string]any{
			"validate": "on", "run": "onType", "nodePath": "", "options": map[string]any{}, "quiet": false, "format": false, "onIgnoredFiles": "off",
			"problems": map[string]any{"shortenToSingleLine": false}, "rulesCustomizations": []any{}, "experimental": map[string]any{"useFlatConfig": false},
			"workingDirectory": map[string]any{"mode": "location"}, "codeActionOnSave": map[string]any{"mode": "all"},
			"codeAction": map[string]any{"disableRuleComment": map[string]any{"enable": true, "location": "separateLine"}, "showDocumentation": map[string]any{"enable": true}},
		}},
		open: map[string]string{"a.js": "javascript", "b.js": "javascript"},
		// Else a server of the language would answer for it, as it should.
		alone: true,
		// It opens a browser.
		never: []string{"eslint.openRuleDoc"},
	},
}
