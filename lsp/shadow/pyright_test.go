package shadow_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pyrights are pyright and its kin.
var pyrights = [][]string{{"pyright-langserver", "--stdio"}, {"basedpyright-langserver", "--stdio"}}

// What pyright learns of files that it was told of, and what it has to be made
// to look at again.
func TestPyrightTakesNoticeOfFiles(t *testing.T) {
	noInt := func(name string) string { return `"` + name + `" is not assignable to "int"` }
	unresolved := func(name string) string { return `Import "` + name + `" could not be resolved` }
	const attribute = `"none" is not a known attribute of module "os"`
	const use = "import lib\n\nn: int = lib.f()\n"
	each(t, pyrights, func(t *testing.T, command []string) {
		config := func(severity string) string {
			return fmt.Sprintf("[tool.%s]\nreportAttributeAccessIssue = %q\n", strings.TrimSuffix(command[0], "-langserver"), severity)
		}
		m := newProject(t, command, map[string]string{
			"lib.py": "def f() -> int:\n    return 1\n", "use.py": use,
			"pyproject.toml": config("none"),
			// A virtual environment, as far as its libraries go.
			".venv/pyvenv.cfg":                        "home = /usr/bin\n",
			".venv/lib/python3.11/site-packages/x.py": "X = 1\n",
		})
		m.docs["use.py"] = use
		both := func(name, text string) { m.put(name, text); m.docs[name] = text }
		for _, s := range []struct {
			what string
			do   func()
			want string
		}{
			{"nothing", func() {}, ""},
			{"another type, on disk only", func() { m.put("lib.py", "def f() -> str:\n    return ''\n") }, noInt("str")},
			{"the same, open", func() { m.docs["lib.py"] = "def f() -> str:\n    return ''\n" }, noInt("str")},
			{"open, not on disk", func() { m.docs["lib.py"] = "def f() -> bytes:\n    return b''\n" }, noInt("bytes")},
			{"closed: the disk counts", func() { delete(m.docs, "lib.py") }, noInt("str")},
			{"the module is gone", func() { m.put("lib.py", "") }, unresolved("lib")},
			{"a package in its place", func() { m.put("lib/__init__.py", "def f() -> bool:\n    return True\n") }, ""},
			{"a stub beside it", func() { m.put("lib/__init__.pyi", "def f() -> float: ...\n") }, noInt("float")},
			{"the stub is gone", func() { m.put("lib/__init__.pyi", "") }, ""},
			{"an error that is not to be told", func() { both("use.py", "import os\nos.none\n"+use) }, ""},
			{"that is to be told", func() { m.put("pyproject.toml", config("error")) }, attribute},
			{"that is not", func() { m.put("pyproject.toml", config("none")) }, ""},
			{"no configuration", func() { m.put("pyproject.toml", "") }, attribute},
			{"another one comes", func() {
				m.put("pyrightconfig.json", `{"venvPath": ".", "venv": ".venv", "reportAttributeAccessIssue": "none"}`)
			}, ""},
			{"a library that is not there", func() { both("use.py", "import y\nprint(y)\n"+use) }, unresolved("y")},
			{"it is installed", func() { m.put(".venv/lib/python3.11/site-packages/y.py", "Y = 1\n") }, ""},
			{"and removed", func() { m.put(".venv/lib/python3.11/site-packages/y.py", "") }, unresolved("y")},
			{"a configuration that extends", func() {
				m.put("base.json", `{"reportMissingImports": "none"}`)
				m.put("pyrightconfig.json", `{"extends": "base.json", "venvPath": ".", "venv": ".venv"}`)
			}, ""},
			{"what it extends changes", func() { m.put("base.json", `{"reportMissingImports": "error"}`) }, unresolved("y")},
		} {
			s.do()
			got := strings.Join(m.lint(), "\n")
			// Only these are looked at: basedpyright has opinions about everything.
			for _, message := range []string{
				noInt("str"), noInt("bytes"), noInt("float"), unresolved("lib"), unresolved("y"), attribute,
			} {
				if strings.Contains(got, message) != (message == s.want) {
					t.Fatalf("%s: want %q, got %s", s.what, s.want, got)
				}
			}
		}
		m.same()
		m.report()
	})
}

// What pyright infers of functions that go round in a circle depends on which of
// them it comes upon first. A lint is what it says of a document that it is shown
// first, whatever was asked before.
func TestPyrightSaysTheSameInAnyOrder(t *testing.T) {
	files := map[string]string{
		"lib.py": `from functools import wraps


def keep(func):
    @wraps(func)
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs)
    return wrapper


def around(marker, func):
    @wraps(func)
    def wrapped(*args, **kwargs):
        return marker(func(*args, **kwargs))
    return wrapped


@keep
def mark(s):
    if callable(s):
        return around(mark, s)
    return str(s)


def length(s):
    return mark(s).length
`,
		"use.py":   "from lib import length, mark\n\nlength(\"\").none\nmark(\"\").none\n",
		"other.py": "from lib import around, mark\n\naround(mark, len).none\naround(mark, len)(1).none\nmark.none\n",
	}
	each(t, pyrights, func(t *testing.T, command []string) {
		m := newProject(t, command, files)
		alone := map[string][]string{}
		for name, text := range files {
			m.docs = map[string]string{name: text}
			alone[name] = m.fresh()
		}
		m.docs = maps.Clone(files)
		same := func(what, name string) {
			t.Helper()
			if diff := cmp.Diff(alone[name], m.lint(name)); diff != "" {
				t.Errorf("%s: %s, fresh server (-), this one (+):\n%s", what, name, diff)
			}
		}
		for _, order := range [][]string{
			{"lib.py", "use.py", "other.py"}, {"lib.py", "other.py", "use.py"}, {"use.py", "lib.py", "other.py"},
			{"use.py", "other.py", "lib.py"}, {"other.py", "lib.py", "use.py"}, {"other.py", "use.py", "lib.py"},
		} {
			for _, name := range order {
				same(fmt.Sprint(order), name)
			}
			m.docs["lib.py"] += "\n" // all is to be checked again
		}
		m.sync()
		if _, err := m.gopls.Call(within(m), "textDocument/hover", map[string]any{
			"textDocument": map[string]string{"uri": m.uri("other.py")}, "position": map[string]int{"line": 3, "character": 2},
		}); err != nil {
			t.Fatal(err)
		}
		same("after a hover", "use.py")
		// All at once.
		m.docs["lib.py"] += "\n"
		var all []string
		for name := range files {
			all = append(all, alone[name]...)
		}
		slices.Sort(all)
		if diff := cmp.Diff(all, m.lint()); diff != "" {
			t.Errorf("all, fresh servers (-), this one (+):\n%s", diff)
		}
		m.report()
	})
}
