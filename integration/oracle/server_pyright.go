package main

// pyrightServer works in Django.
var pyrightServer = Server{
	Name: "pyright", Command: []string{"pyright-langserver", "--stdio"},
	OpenAsked: true, Registers: true,
	Project: djangoProject,
	Ways:    pyrightWays,
	Small: &Project{
		Source: "django", Into: "django", Keep: []string{"{dispatch,http,urls,apps}/**/*.py", "utils/*.py", "*.py"},
	},
	Grammar: pythonGrammar,
}

// basedpyrightServer works in Django.
var basedpyrightServer = Server{
	Name: "basedpyright", Command: []string{"basedpyright-langserver", "--stdio"},
	OpenAsked: true, Registers: true,
	Project: djangoProject,
	Ways:    pyrightWays,
	Grammar: pythonGrammar,
}

// pyrightWays: what it infers of functions without annotations depends on what it
// has looked at before. What shadowlsp hands out shall be what it says of the
// document that it is shown first.
var pyrightWays = []Way{{Name: "alone", Alone: true}}

var djangoProject = Project{
	Source: "django", Into: "django", Keep: []string{"**/*.py"},
	Drop: []string{"conf/locale/**", "contrib/**/locale/**", "contrib/{gis,postgres,humanize,sitemaps,syndication}/**"},
	Files: map[string]string{
		"settings/__init__.py":      "",
		"settings/base.pyi":         "DEBUG: bool\nNAME: str\n",
		"settings/use.py":           "from settings.base import DEBUG, NAME\n\nlength: int = NAME\nflag: bool = DEBUG\n",
		"pyproject.toml":            "[project]\nname = \"oracle\"\nversion = \"1\"\n\n[tool.pyright]\nreportMissingImports = true\n\n[tool.basedpyright]\nreportMissingImports = true\n",
		"typings/yaml/__init__.pyi": "def safe_load(stream: str) -> dict[str, int]: ...\n",
	},
}

// pythonGrammar is about Python, its stubs, and what pyright reads besides.
var pythonGrammar = Grammar{
	Edit: []string{"**/*.py", "**/*.pyi", "pyproject.toml"},
	Rules: []Rule{
		{"rename a function", `(?m)^( *)def (\w+)\(`, []string{`${1}def ${2}_r§(`}},
		{"rename a class", `(?m)^class (\w+)`, []string{`class ${1}R§`}},
		{"rename a variable", `(?m)^([A-Za-z_]\w+) = `, []string{`${1}_r§ = `}},
		{"annotate a parameter", `(?m)^( *def \w+\((?:self, )?)(\w+)([,)])`, []string{`${1}${2}: int${3}`, `${1}${2}: "str"${3}`}},
		{"annotate a result", `(?m)^( *def \w+\([^()\n]*\)):`, []string{`${1} -> int:`, `${1} -> list[str]:`}},
		{"drop an argument", `(\w+)\((\w+), `, []string{`$1(`}},
		{"add an argument", `(\w+)\((\w+)\)`, []string{`$1($2, §)`}},
		{"add a parameter", `(?m)^( *def \w+\()self\b`, []string{`${1}self, extra§`}},
		{"change a base class", `(?m)^class (\w+)\((\w+)\)`, []string{`class $1`, `class $1($2, int)`}},
		{"drop an import", `(?m)^(?:from|import) [^(\n]*\n`, []string{``}},
		{"another import", `(?m)^from ([\w.]+) import (\w+)$`, []string{`from $1.x§ import $2`, `from $1 import missing§`, `import $1`}},
		{"an import of a stub", `(?m)^import (\w+)$`, []string{"import $1\nimport yaml\n\nloaded§: str = yaml.safe_load(\"\")"}},
		{"break syntax", `:\n`, []string{"\n", "::\n"}},
		{"break syntax", `\)\n`, []string{"\n"}},
		{"wrong indentation", `(?m)^    (\S)`, []string{`   $1`}},
		{"unused value", `(?m)^( +)return\b`, []string{"${1}unused§ + 1\n${1}return"}},
		{"undefined name", `\b(None|True|False)\b`, []string{`missing§`}},
		{"unreachable code", `(?m)^( +)return (.+)$`, []string{"${1}return $2\n${1}print(§)"}},
		{"drop a line", `(?m)^ +\S.*\n`, []string{``}},
		{"change a setting", `reportMissingImports = true`, []string{"reportMissingImports = false", "reportMissingImports = \"warning\"", "reportUnusedImport = true", "typeCheckingMode = \"strict\"", "typeCheckingMode = \"off\"", "]"}},
		{"change a stub", `: bool\n`, []string{": int\n", ": bool\nMORE§: int\n"}},
	},
	New: []NewFile{
		{"oracle§.py", `^`, "def oracle§(n: int) -> str:\n    return n\n"},
		{"oracle§.py", `(?m)^from ([\w.]+) import (\w+)$`, "from $1 import $2, missing§\n\nprint($2.nothing§)\n"},
		{"oracle§/__init__.py", `^`, "N: int = \"§\"\n"},
		{"__init__.pyi", `^`, "N: int\n"},
		{"x§.py", `^`, "X = §\n"},
	},
}
