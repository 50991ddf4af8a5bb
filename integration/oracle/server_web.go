package main

// bashServer works in scripts that source each other.
var bashServer = Server{
	Name: "bash", Command: []string{"bash-language-server", "start"}, OpenAsked: true, Late: true,
	// It runs shellcheck.
	Env:     []string{"PATH={tools}:{path}"},
	Project: Project{Files: bashFiles},
	Grammar: Grammar{
		Edit: []string{"**/*.sh", ".shellcheckrc"},
		Rules: []Rule{
			{"no quotes", `"(\$\w+)"`, []string{`$1`}},
			{"rename a variable", `(?m)^(\w+)=`, []string{`${1}_$§=`, `${1}§=`}},
			{"use a variable", `(?m)^echo `, []string{"echo \"$$missing§\" "}},
			{"break syntax", `(?m)^(fi|done|esac|\})$`, []string{``}},
			{"a constant test", `\[ `, []string{`[ -n x ] && [ `, `[[ `}},
			{"drop a line", `(?m)^\S.*\n`, []string{``}},
			{"another shell", `^#!/bin/\w+`, []string{`#!/bin/sh`, `#!/usr/bin/env bash`, `#!/bin/none`}},
			{"a setting", `(?m)^disable=.*$`, []string{`disable=SC2154`, `disable=SC2086,SC2034`, `enable=all`}},
			{"a comment", `(?m)^echo `, []string{"# changed §\necho "}},
		},
		New: []NewFile{
			{"oracle§.sh", `^`, "#!/bin/bash\necho $1 $§\n"},
			{"more.sh", `^`, "more=§\nknown=§\n"},
		},
	},
}

var bashFiles = map[string]string{
	".shellcheckrc": "disable=SC1091\n",
	"lib.sh":        "# A library.\nknown=1\nunused=2\ngreet() {\n  local name=$1\n  echo \"hello $name\"\n}\n",
	"more.sh":       "# More.\nmore=1\n",
	"main.sh":       "#!/bin/bash\n# shellcheck source=lib.sh\n. lib.sh\n# shellcheck source=more.sh\nsource more.sh\necho \"$known\" \"$more\"\ngreet \"$1\"\nif [ \"$known\" = 1 ]; then\n  echo yes\nfi\n",
	"tool.sh":       "#!/bin/bash\nset -eu\nfor f in ./*; do\n  echo \"$f\"\n  rm -f \"$f\"\ndone\ncase \"$1\" in\n  a) echo a ;;\n  *) echo other ;;\nesac\n",
	"sub/sub.sh":    "#!/bin/sh\n. ../lib.sh\necho \"$known\" \"$none\"\nread line\necho \"$line\"\n",
}

// yamlServer works in files with schemas of their own.
var yamlServer = Server{
	Name: "yaml", Command: []string{"yaml-language-server", "--stdio"}, OpenAsked: true, Late: true,
	// Else it waits for the schema store, which is to be had or not.
	Settings: map[string]any{"yaml": map[string]any{"schemaStore": map[string]any{"enable": false}, "kubernetesCRDStore": map[string]any{"enable": false}}},
	// Its parser's recursion goes deeper once node has compiled it: a text that goes
	// round in a circle (an alias inside of its anchor) is more than a new process
	// can check, and then it says nothing of it.
	Ways:    []Way{{Name: "checked often", Again: 4}},
	Project: Project{Files: yamlFiles},
	Grammar: Grammar{
		Edit: []string{"**/*.yaml", "**/*.json"},
		Rules: []Rule{
			{"another value", `(?m): (\d+)$`, []string{`: "§"`, `: [§]`, `: §§`}},
			{"rename a key", `(?m)^( *)(\w+):`, []string{`$1${2}§:`}},
			{"twice", `(?m)^(\w+: .*)$`, []string{"$1\n$1"}},
			{"indentation", `(?m)^  (\w)`, []string{`   $1`, `$1`}},
			{"break syntax", `: `, []string{`:`, `: [`, `: {`}},
			{"a tag", `(?m): (\w+)$`, []string{`: !own $1`}},
			{"drop a line", `(?m)^.*\n`, []string{``}},
			{"a type of the schema", `"type": ?"(\w+)"`, []string{`"type": "string"`, `"type": "number"`, `"type": "object"`}},
			{"required", `"required": ?\[`, []string{`"required": ["key§", `}},
			{"break the schema", `\}\n$`, []string{``}},
		},
		New: []NewFile{
			{"oracle§.yaml", `^`, "name: §\nport: port\n"},
			{"more.json", `^`, `{"properties":{"n":{"type":"number"}}}`},
		},
	},
}

var yamlFiles = map[string]string{
	"schemas/service.json": "{\n  \"type\": \"object\",\n  \"properties\": {\"name\": {\"type\": \"string\"}, \"port\": {\"type\": \"number\"}, \"env\": {\"type\": \"object\"}},\n  \"required\": [\"name\"],\n  \"additionalProperties\": false\n}\n",
	"schemas/more.json":    "{\"properties\": {\"n\": {\"type\": \"number\"}}}\n",
	"services/web.yaml":    "# yaml-language-server: $schema=../schemas/service.json\nname: web\nport: 80\nenv:\n  A: 1\n  B: two\n",
	"services/db.yaml":     "# yaml-language-server: $schema=../schemas/service.json\nname: db\nport: 5432\nenv:\n  DATA: /data\n",
	"plain.yaml":           "a: 1\nlist:\n  - x\n  - y: 2\nanchor: &x\n  k: v\nuse:\n  <<: *x\n",
	"modeline.yaml":        "# yaml-language-server: $schema=schemas/more.json\nn: 1\n",
}

// jsonServer works in files with schemas of their own, and in rxjs'.
var jsonServer = Server{
	Name: "json", Command: []string{"vscode-json-language-server", "--stdio"}, OpenAsked: true, Pull: true,
	Project: Project{Source: "rxjs", Keep: []string{"**/*.json"}, Files: map[string]string{
		"schema.json": "{\n  \"properties\": {\"n\": {\"type\": \"number\"}, \"s\": {\"$ref\": \"./other.json\"}},\n  \"required\": [\"n\"]\n}\n",
		"other.json":  "{\"type\": \"string\"}\n",
		"one.json":    "{\n  \"$schema\": \"./schema.json\",\n  \"n\": 1,\n  \"s\": \"x\"\n}\n",
		"two.json":    "{\n  \"$schema\": \"./schema.json\",\n  \"n\": 2,\n  \"s\": \"y\"\n}\n",
	}},
	Grammar: Grammar{
		Edit: []string{"**/*.json"},
		Rules: []Rule{
			{"another type", `"type": ?"(\w+)"`, []string{`"type": "string"`, `"type": "number"`, `"type": ["boolean"]`}},
			{"another value", `: ?("[^"\n]*"|\d+)`, []string{`: §`, `: "§"`, `: null`, `: {"a": §}`}},
			{"rename a member", `"(\w+)":`, []string{`"${1}§":`}},
			{"a comma", `,\n`, []string{"\n", ",,\n"}},
			{"break syntax", `\{`, []string{``, `[`}},
			{"a comment", `\n`, []string{" // §\n"}},
			{"drop a line", `(?m)^ .*\n`, []string{``}},
		},
		New: []NewFile{{"oracle§.json", `^`, "{\"$schema\": \"./schema.json\", \"n\": \"§\"}\n"}},
	},
}

// cssServer works in Django's style sheets.
var cssServer = Server{
	Name: "css", Command: []string{"vscode-css-language-server", "--stdio"}, OpenAsked: true, Pull: true,
	Settings: map[string]any{"css": map[string]any{"validate": true}, "scss": map[string]any{"validate": true}, "less": map[string]any{"validate": true}},
	Project: Project{Source: "django", Keep: []string{"**/*.css"}, Files: map[string]string{
		"own.scss": "$color: red;\n.a {\n  .b { color: $color; }\n}\n",
		"own.less": "@color: red;\n.a {\n  .b { color: @color; }\n}\n",
	}},
	Grammar: Grammar{
		Edit: []string{"**/*.css", "**/*.scss", "**/*.less"},
		Rules: []Rule{
			{"an unknown property", `(?m)^( +)([a-z-]+):`, []string{`$1${2}§:`}},
			{"break syntax", `\{\n`, []string{"\n", "{{\n"}},
			{"break syntax", `;\n`, []string{"\n", ";;\n"}},
			{"nothing in it", `\{[^{}]*\}`, []string{`{}`, `{`}},
			{"no value", `: [^;\n]+;`, []string{`: ;`, `;`}},
			{"important", `;\n`, []string{" !important;\n", " !importan§;\n"}},
			{"drop a line", `(?m)^ .*\n`, []string{``}},
		},
		New: []NewFile{{"oracle§.css", `^`, "a§ { colour: red }\nb { float: left; display: inline\n"}},
	},
}

// htmlServer works in Django's templates.
var htmlServer = Server{
	Name: "html", Command: []string{"vscode-html-language-server", "--stdio"}, OpenAsked: true, Pull: true,
	Settings: map[string]any{"html": map[string]any{}, "css": map[string]any{}, "javascript": map[string]any{}},
	Project: Project{Source: "django", Keep: []string{"views/**/*.html", "contrib/admin/templates/**/*.html"}, Files: map[string]string{
		"own.html": "<html>\n<style>a { color: red; }</style>\n<script>\nlet a = 1;\nconst b = a.toFixed(2);\n</script>\n<p style=\"color: red\" onclick=\"go()\">x</p>\n</html>\n",
	}},
	Grammar: Grammar{
		Edit: []string{"**/*.html"},
		Rules: []Rule{
			{"a style", `<(p|div|h1|h2|td|tr|ul|li)\b`, []string{`<$1 style="color"`, `<$1 style="colour§: red"`}},
			{"a script", `<(p|div|h1|h2|td|tr|ul|li)\b`, []string{"<script>let x = ;</script>\n<$1", "<script>const x = missing§(</script>\n<$1"}},
			{"a style sheet", `</(p|div|h1|h2|td|tr|ul|li)>`, []string{"</$1>\n<style>a { color§ }</style>"}},
			{"drop a line", `(?m)^.+\n`, []string{``}},
			{"break it", `>\n`, []string{"\n"}},
		},
		New: []NewFile{{"oracle§.html", `^`, "<style>b {</style><script>let §;</script>\n"}},
	},
}
