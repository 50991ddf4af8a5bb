package coverage

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
)

// project is what one server is asked about.
type project struct {
	command []string
	files   map[string]string
	// open are the documents that both sides hold open, and are asked about.
	open map[string]string // language by path
	// queries of workspace/symbol.
	queries []string
	// ready is where the server has found another file's symbol only when it has
	// loaded: a path, and a text in it.
	readyPath, readyAt string
	// tools are programs that the server needs beside its own.
	tools []string
	// options are the person's initializationOptions. What the shadow of a server
	// has in another way than a bare one, the bare one is given here: see the
	// comment beside it.
	options map[string]any
	// settings are the bare server's, by section of workspace/configuration, for the
	// same reason.
	settings map[string]any
	// links are symbolic ones to sources that scripts/setup has fetched, by path.
	links map[string]string
	// alone says that no other server is on the PATH.
	alone bool
	// never are commands that are not executed: they do something else than edit.
	never []string
}

// env is the environment of a server that command starts, and of shadowlsp.
func (p project) env(s *stage.Stage, command []string) []string {
	tools, path := filepath.Dir(command[0]), os.Getenv("PATH")
	if p.alone {
		path = strings.Join(slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return filepath.Base(filepath.Dir(dir)) == ".tools" }), ":")
	} else {
		path = tools + ":" + path
	}
	return append(slices.Clip(s.Env), "PATH="+path)
}

// link makes the project's links below a folder.
func (p project) link(t *testing.T, dir string) {
	t.Helper()
	for path, source := range p.links {
		must(t, os.Symlink(need.Source(t, source), filepath.Join(dir, path)))
	}
}

var projects = map[string]project{
	"gopls": {
		command:  []string{"gopls"},
		settings: map[string]any{"gopls": map[string]any{"semanticTokens": true, "symbolScope": "workspace"}},
		// They open a browser, or run tests.
		never: []string{"gopls.doc", "gopls.free_symbols", "gopls.assembly", "gopls.split_package", "gopls.gc_details", "gopls.run_tests", "gopls.client_open_url"},
		files: map[string]string{
			"shadowlsp.toml": goplsSettings,
			"go.mod":         "module example.test/m\n\ngo 1.24\n",
			"shape/shape.go": "// Package shape has shapes.\npackage shape\n\nimport \"math\"\n\n// Shape has an area.\ntype Shape interface {\n\tArea() float64\n}\n\n// Circle is round.\ntype Circle struct{ R float64 }\n\n// Area implements Shape.\nfunc (c Circle) Area() float64 { return math.Pi * c.R * c.R }\n\n// Sum adds areas.\nfunc Sum(all ...Shape) (total float64) {\n\tfor _, s := range all {\n\t\ttotal += s.Area()\n\t}\n\treturn total\n}\n",
			"main.go":        "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.test/m/shape\"\n)\n\ntype square struct{ a float64 }\n\nfunc (s square) Area() float64 {\n\treturn s.a*s.a\n}\n\nfunc main() {\n\tc := shape.Circle{R: 1}\n\tfmt.Println(shape.Sum(c, square{2}), len(\"😀\"))\n}\n",
		},
		open:    map[string]string{"main.go": "go", "shape/shape.go": "go"},
		queries: []string{"Shape", "sum"}, readyPath: "main.go", readyAt: "Sum(c",
	},
	"rust-analyzer": {
		command: []string{"rust-analyzer"}, tools: []string{"cargo"},
		files: map[string]string{
			"Cargo.toml":   "[package]\nname = \"shapes\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
			"Cargo.lock":   "version = 4\n\n[[package]]\nname = \"shapes\"\nversion = \"0.1.0\"\n",
			".gitignore":   "/target\n",
			"src/lib.rs":   "//! Shapes.\npub mod shape;\n\nuse shape::{Circle, Shape};\n\n/// Adds areas.\npub fn sum(all: &[Box<dyn Shape>]) -> f64 {\n    let mut total = 0.0;\n    for s in all {\n        total += s.area();\n    }\n    total\n}\n\npub fn one() -> f64 {\n    sum(&[Box::new(Circle { r: 1.0 })])\n}\n",
			"src/shape.rs": "/// It has an area.\npub trait Shape {\n    fn area(&self) -> f64;\n}\n\n/// It is round.\npub struct Circle {\n    pub r: f64,\n}\n\nimpl Shape for Circle {\n    fn area(&self) -> f64 {\n        std::f64::consts::PI*self.r * self.r\n    }\n}\n",
		},
		open:    map[string]string{"src/lib.rs": "rust", "src/shape.rs": "rust"},
		queries: []string{"Circle", "sum"}, readyPath: "src/lib.rs", readyAt: "Circle { r",
	},
	"typescript-language-server": {
		command: []string{"typescript-language-server", "--stdio"},
		// With a syntax server of its own the outermost selectionRange ends elsewhere:
		// the two processes disagree about a newline at the end.
		options: map[string]any{"tsserver": map[string]any{"useSyntaxServer": "never"}},
		files:   typescriptFiles, open: typescriptOpen,
		queries: []string{"Circle", "sum"}, readyPath: "src/main.ts", readyAt: "area();",
	},
	"vtsls": {
		command:  []string{"vtsls", "--stdio"},
		settings: map[string]any{"": map[string]any{"typescript": map[string]any{"tsserver": map[string]any{"useSyntaxServer": "never"}}}},
		files:    typescriptFiles, open: typescriptOpen,
		queries: []string{"Circle", "sum"}, readyPath: "src/main.ts", readyAt: "area();",
	},
	"typescript7": {
		command: []string{"tsc7", "--lsp", "--stdio"},
		files:   typescriptFiles, open: typescriptOpen,
		queries: []string{"Circle", "sum"}, readyPath: "src/main.ts", readyAt: "area();",
	},
	"pyright": {
		command: []string{"pyright-langserver", "--stdio"},
		files:   pythonFiles, open: pythonOpen,
		queries: []string{"Circle", "total"}, readyPath: "main.py", readyAt: "area()",
	},
	"basedpyright": {
		command: []string{"basedpyright-langserver", "--stdio"},
		files:   pythonFiles, open: pythonOpen,
		queries: []string{"Circle", "total"}, readyPath: "main.py", readyAt: "area()",
	},
	"clangd": {
		command: []string{"clangd", "--background-index=false"},
		files: map[string]string{
			"compile_flags.txt": "-std=c++17\n",
			// Scores depend on when the standard library's index is ready.
			".clangd":  "Index:\n  StandardLibrary: false\n",
			"shape.h":  "#pragma once\n/// It has an area.\nstruct Shape {\n  virtual double area() const = 0;\n};\n\n/// It is round.\nstruct Circle : Shape {\n  explicit Circle(double r) : r(r) {}\n  double area() const override { return 3.14*r * r; }\n  double r;\n};\n",
			"main.cpp": "#include \"shape.h\"\n\nstatic double sum(const Shape *const *all, int n) {\n  double total = 0;\n  for (int i = 0; i < n; i++)\n    total += all[i]->area();\n  return total;\n}\n\nint main() {\n  Circle c(1);\n  const Shape *all[] = {&c};\n  return sum(all, 1) > sizeof(\"😀\");\n}\n",
		},
		open:    map[string]string{"main.cpp": "cpp", "shape.h": "cpp"},
		queries: []string{"Circle", "sum"}, readyPath: "main.cpp", readyAt: "area();",
	},
}

// goplsSettings are the shadow's; without them gopls has no semantic tokens, and of
// the many symbols of the standard library that match as well it tells any hundred.
const goplsSettings = "[servers.gopls.settings.gopls]\nsemanticTokens = true\nsymbolScope = \"workspace\"\n"

func init() { maps.Copy(projects, webProjects) }

var typescriptFiles = map[string]string{
	"tsconfig.json": "{\"compilerOptions\": {\"strict\": true, \"target\": \"es2020\", \"module\": \"commonjs\", \"types\": []}, \"include\": [\"src\"]}\n",
	"src/shape.ts":  "/** It has an area. */\nexport interface Shape {\n  area(): number;\n}\n\n/** It is round. */\nexport class Circle implements Shape {\n  constructor(readonly r: number) {}\n  area() {\n    return Math.PI*this.r ** 2;\n  }\n}\n",
	"src/main.ts":   "import { Circle, Shape } from './shape';\n\nexport function sum(all: Shape[], from = 0): number {\n  let total = from;\n  for (const s of all) {\n    total += s.area();\n  }\n  return total;\n}\n\nsum([new Circle(1)], '😀'.length);\n",
}

var typescriptOpen = map[string]string{"src/main.ts": "typescript", "src/shape.ts": "typescript"}

var pythonFiles = map[string]string{
	"pyrightconfig.json": "{}\n",
	"shape.py":           "\"\"\"Shapes.\"\"\"\nfrom abc import ABC, abstractmethod\n\n\nclass Shape(ABC):\n    \"\"\"It has an area.\"\"\"\n\n    @abstractmethod\n    def area(self) -> float: ...\n\n\nclass Circle(Shape):\n    \"\"\"It is round.\"\"\"\n\n    def __init__(self, r: float):\n        self.r = r\n\n    def area(self) -> float:\n        return 3.14 * self.r * self.r\n",
	"main.py":            "import os\nfrom shape import Circle, Shape\n\n\ndef total(shapes: list[Shape]) -> float:\n    result = 0.0\n    for s in shapes:\n        result += s.area()\n    return result\n\n\nprint(total([Circle(1)]), len('😀'))\n",
}

var pythonOpen = map[string]string{"main.py": "python", "shape.py": "python"}
