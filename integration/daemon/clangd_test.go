package daemon

import (
	"encoding/json"
	"strings"
	"testing"

	"shadowlsp/integration/need"
)

// sources are C: a header, what includes it before and behind its first
// declaration, and nothing that says how it is compiled but flags.
var sources = map[string]string{
	".gitignore":        ".cache\n",
	"compile_flags.txt": "-std=c11\n",
	"lib.h":             "int f(int a);\n",
	"use.c":             "#include \"lib.h\"\nint g(void) { return f(1); }\n",
	"late.c":            "int first;\n#include \"lib.h\"\nint h(void) { return f(2); }\n",
	"own.c":             "int own(void) { return 0; }\n",
}

// A header that two branches edit in their own way, saved by nobody, is seen in
// all that include it: C without a build, flags that differ, names that no other
// branch finds.
func TestClangdBranchesInTurn(t *testing.T) {
	need.Tool(t, "clangd")
	w := newWorld(t, sources)
	w.serve(t)
	a, b := w.agent(t, attach{branch: "a"}), w.agent(t, attach{branch: "b"})
	for _, agent := range []*agent{a, b} {
		agent.openAs(t, "use.c", "c", sources["use.c"])
		agent.openAs(t, "late.c", "c", sources["late.c"])
	}
	for range 3 {
		a.edit(t, w.text("lib.h", "struct A { int a; };\nint f(struct A a);\n"))
		b.edit(t, w.text("lib.h", "struct B { int b; };\nint f(struct B b);\n"))
		for _, path := range []string{"use.c", "late.c"} {
			a.names(t, path, "struct A")
			b.names(t, path, "struct B")
		}
		a.edit(t, w.text("lib.h", sources["lib.h"]))
		a.clean(t, "late.c")
		a.clean(t, "use.c")
		b.names(t, "use.c", "struct B")
		b.edit(t, w.deleted("lib.h"))
		b.names(t, "late.c", "lib.h", "f")
		a.clean(t, "late.c")
	}
	t.Run("names of another branch", func(t *testing.T) {
		finds := func(agent *agent, name string) bool {
			var r json.RawMessage
			agent.get(t, "workspace/symbol", map[string]any{"query": name}, &r)
			return strings.Contains(string(r), `"`+name+`"`)
		}
		a.edit(t, w.text("own.c", sources["own.c"]+"int onlyInA(void) { return own(); }\n"), w.text("new.c", "int newInA;\n"), w.text("new.h", "int headerInA(void);\n"))
		b.edit(t, w.text("own.c", sources["own.c"]+"int onlyInB(void) { return own(); }\n"))
		for range 2 {
			for _, name := range []string{"onlyInA", "newInA", "headerInA"} {
				if !finds(a, name) {
					t.Errorf("a does not find its own %s", name)
				}
				if finds(b, name) {
					t.Errorf("b finds %s of a", name)
				}
			}
			if !finds(b, "onlyInB") || finds(a, "onlyInB") {
				t.Error("onlyInB is found by the wrong branch")
			}
		}
	})
	t.Run("flags", func(t *testing.T) {
		a.edit(t, w.text("compile_flags.txt", "-std=c11\n-Dg=1\n"))
		if found := a.lint(t, "use.c"); len(found) == 0 {
			t.Error("what the flags of a break is not seen")
		}
		b.edit(t, w.text("lib.h", sources["lib.h"]))
		b.clean(t, "use.c")
	})
}
