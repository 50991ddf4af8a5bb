package shadow_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"shadowlsp/integration/need"
	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/shadow"
)

const (
	cHeader       = "#ifndef LIB_H\n#define LIB_H\nint f(int n);\n#endif\n"
	cHeaderString = "#ifndef LIB_H\n#define LIB_H\nint f(int*n);\n#endif\n"
	cUse          = "#include \"lib.h\"\n\nint g(void) { return f(1); }\n"
)

func cProject(t testing.TB) *module {
	t.Helper()
	return newProject(t, []string{"clangd"}, map[string]string{
		"lib.h": cHeader, "a.c": cUse, "b.c": "int first;\n#include \"lib.h\"\nint h(void) { return f(2); }\n",
		"own.c": "int own(void) { return 0; }\n", "compile_flags.txt": "-std=c11\n-Wall\n",
	})
}

// age gives a file its own second, as the shadow folder does.
func (m *module) age(name string, seconds int) {
	m.Helper()
	at := time.Now().Add(time.Duration(seconds) * time.Second)
	if err := os.Chtimes(m.path(name), at, at); err != nil {
		m.Fatal(err)
	}
}

// Whatever the person's editor has negotiated, in either way, a shadow speaks
// UTF-16.
func TestClangdEncoding(t *testing.T) {
	dir := t.TempDir()
	profile := barrier.For([]string{"clangd"}, nil)
	params := barrier.Apply(initializeParams(dir), []barrier.Edit{
		{Path: []string{"capabilities", "offsetEncoding"}, Value: barrier.Raw([]string{"utf-8", "utf-16"})},
		{Path: []string{"capabilities", "general", "positionEncodings"}, Value: barrier.Raw([]string{"utf-8"})},
	})
	i, err := shadow.Start(within(t), shadow.Config{
		Conn:       launch(t, dir, profile.Arguments([]string{need.Tool(t, "clangd"), "--offset-encoding=utf-8", "-offset-encoding", "utf-32"})...),
		Initialize: params, Root: dir, Profile: profile, Name: "clangd-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close(context.Background())
	if got, _ := barrier.Lookup(i.InitializeResult(), "capabilities", "positionEncoding"); string(got) != `"utf-16"` {
		t.Errorf("it speaks %s", got)
	}
}

// An edited header reaches all that include it, before or behind their first
// declaration, opened or edited or neither in the same turn.
func TestClangdHeaders(t *testing.T) {
	m := cProject(t)
	for _, name := range []string{"a.c", "b.c", "own.c"} {
		m.docs[name] = m.disk[name]
	}
	m.expect(m.lint())
	for n := range 20 {
		if n%2 == 0 {
			m.put("lib.h", cHeaderString)
			m.age("lib.h", n+1)
			m.expect(m.lint(), "a.c:3", "b.c:3")
		} else {
			m.put("lib.h", cHeader)
			m.age("lib.h", n+1)
			m.expect(m.lint())
		}
	}
	m.report()
	m.same()
}

// Each step is compared to what a fresh clangd says on a copy.
func TestClangdSaysWhatAFreshOneSays(t *testing.T) {
	m := cProject(t)
	second := 0
	put := func(name, text string) {
		m.put(name, text)
		if second++; text != "" {
			m.age(name, second)
		}
	}
	both := func(name, text string) { put(name, text); m.docs[name] = text }
	steps := []struct {
		what string
		do   func()
	}{
		{"an includer", func() { both("a.c", cUse) }},
		{"the header, open", func() { both("lib.h", cHeaderString) }},
		{"a late includer too", func() { both("b.c", m.disk["b.c"]) }},
		{"the header as it was", func() { both("lib.h", cHeader) }},
		{"a new header that stands before", func() {
			put("inc/lib.h", cHeaderString)
			put("compile_flags.txt", "-std=c11\n-Wall\n-Iinc\n")
			both("a.c", strings.Replace(cUse, "\"lib.h\"", "<lib.h>", 1))
		}},
		{"gone again", func() { put("inc/lib.h", "") }},
		{"the old include", func() { both("a.c", cUse) }},
		{"an include that is not there", func() { both("a.c", "#include \"none.h\"\n"+cUse) }},
		{"it is there", func() { put("none.h", "int none = \"\";\n") }},
		{"header gone", func() { delete(m.docs, "lib.h"); put("lib.h", "") }},
		{"header back", func() { put("lib.h", cHeader) }},
		{"broken", func() { both("a.c", cUse+"int (") }},
		{"flags", func() {
			put("compile_flags.txt", "-std=c11\n-DBAD\n")
			both("a.c", cUse+"#ifdef BAD\nint bad = \"\";\n#endif\n")
		}},
		{"a configuration file", func() {
			put(".clangd", "CompileFlags:\n  Add: [-DWORSE]\n")
			both("own.c", "#ifdef WORSE\nint worse = x;\n#endif\n")
		}},
		{"C++", func() { both("c.cpp", "#include \"lib.h\"\nauto s = f(\"\");\n"); put("compile_flags.txt", "-Wall\n") }},
		{"all closed but one", func() { clear(m.docs); m.docs["own.c"] = m.disk["own.c"] }},
	}
	for _, s := range steps {
		t.Run(strings.ReplaceAll(s.what, " ", "_"), func(t *testing.T) {
			m.TB = t
			s.do()
			m.same()
			t.Log(len(m.lint()), "diagnostics", m.took[len(m.took)-2])
		})
		m.TB = t
	}
	m.report()
}
