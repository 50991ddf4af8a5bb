package shadow_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/shadow"
)

// Each step is compared to what a fresh gopls says on a copy.
func TestGoplsSaysWhatAFreshOneSays(t *testing.T) {
	m := newModule(t, map[string]string{
		"go.mod": "module m\n\ngo 1.21\n", "lib/lib.go": libInt, "use/use.go": useInt,
		"use/use_test.go": "package use\n\nimport \"testing\"\n\nfunc TestN(t *testing.T) { _ = N + 1 }\n",
	})
	both := func(name, text string) { m.put(name, text); m.docs[name] = text }
	steps := []struct {
		what string
		do   func()
	}{
		{"nothing", func() {}},
		{"a new file, open", func() { both("lib/new.go", "package lib\n\nfunc G() {}\n") }},
		{"a new package that is imported, disk only", func() {
			m.put("extra/extra.go", "package extra\n\nconst C = 1\n")
			both("use/use.go", "package use\n\nimport (\n\t\"m/extra\"\n\t\"m/lib\"\n)\n\nvar N int = lib.F(extra.C)\n")
		}},
		{"that package deleted", func() { m.put("extra/extra.go", "") }},
		{"broken syntax", func() { both("lib/lib.go", "package lib\n\nfunc F(n int) int { return n \n") }},
		{"syntax repaired", func() { both("lib/lib.go", libInt) }},
		{"the broken import removed", func() { both("use/use.go", useInt) }},
		{"a vet finding in an open file", func() {
			both("lib/new.go", "package lib\n\nimport \"fmt\"\n\nfunc G() { fmt.Printf(\"%d\", \"x\") }\n")
		}},
		{"closed, the finding stays on disk", func() { delete(m.docs, "lib/new.go") }},
		{"go.mod broken", func() { both("go.mod", "module m\n\ngo 1.21\n\nrequire\n(") }},
		{"go.mod repaired", func() { both("go.mod", "module m\n\ngo 1.21\n") }},
		{"go.mod requires what cannot be had", func() { both("go.mod", "module m\n\ngo 1.21\n\nrequire example.com/none v1.0.0\n") }},
		{"go.mod as before, closed", func() { m.put("go.mod", "module m\n\ngo 1.21\n"); delete(m.docs, "go.mod") }},
		{"module renamed", func() { m.put("go.mod", "module other\n\ngo 1.21\n") }},
		{"module named back", func() { m.put("go.mod", "module m\n\ngo 1.21\n") }},
		{"a nested module", func() {
			m.put("nested/go.mod", "module n\n\ngo 1.21\n")
			both("nested/n.go", "package n\n\nvar x int = \"\"\n")
		}},
		{"its file closed", func() { delete(m.docs, "nested/n.go") }},
		{"an orphan: a file with another GOOS", func() { both("lib/lib_plan9.go", "package lib\n\nvar p int = \"\"\n") }},
		{"an orphan: in testdata", func() { both("lib/testdata/x.go", "package x\n\nvar p int = \"\"\n") }},
		{"orphans gone", func() {
			for _, name := range []string{"lib/lib_plan9.go", "lib/testdata/x.go"} {
				m.put(name, "")
				delete(m.docs, name)
			}
		}},
		{"go.work", func() { m.put("go.work", "go 1.21\n\nuse .\nuse ./nested\n") }},
		{"go.work gone", func() { m.put("go.work", "") }},
		{"no go.mod", func() { m.put("go.mod", "") }},
		{"go.mod back", func() { m.put("go.mod", "module m\n\ngo 1.21\n") }},
		{"everything closed", func() { clear(m.docs) }},
	}
	for _, s := range steps {
		t.Run(strings.ReplaceAll(s.what, " ", "_"), func(t *testing.T) {
			m.TB = t
			s.do()
			m.same()
			t.Log(len(m.lint()), "diagnostics")
		})
		m.TB = t
	}
	m.report()
}

// A package that is new to gopls: its first file loads nothing by itself.
func TestGoplsNewPackage(t *testing.T) {
	const wrong, cannotUse = "package p\n\nvar x int = \"\"\n", `p/p.go:3: compiler: cannot use ""`
	m := newModule(t, twoPackages())
	m.expect(m.lint())
	m.put("p/p.go", wrong)
	m.expect(m.lint(), cannotUse)
	m.docs["p/p.go"] = wrong
	m.expect(m.lint(), cannotUse)
	m.docs["p/p.go"] = "//go:build ignore\n\n" + wrong
	m.put("p/p.go", m.docs["p/p.go"])
	m.expect(m.lint(), "No packages found", cannotUse[:len("p/p.go:")])
	m.docs["p/p.go"] = wrong
	m.put("p/p.go", wrong)
	m.expect(m.lint(), cannotUse)
	delete(m.docs, "p/p.go")
	m.put("p/p.go", "")
	m.expect(m.lint())
	// Opened before it is on the disk, two at once, and gone and back between
	// two questions.
	m.docs["p/p.go"], m.docs["q/q.go"] = wrong, "package q\n\nvar x int = \"\"\n"
	m.expect(m.lint(), cannotUse, "q/q.go:3")
	delete(m.docs, "p/p.go")
	m.sync()
	m.docs["p/p.go"] = wrong
	m.expect(m.lint(), cannotUse, "q/q.go:3")
}

// Random turns, a sample of them compared to a fresh gopls.
func TestGoplsRandomTurns(t *testing.T) {
	random(t, 1, 60, 10)
}

// random makes turns, and compares every one in so many to a fresh gopls.
func random(t *testing.T, seed uint64, turns, every int) {
	random := rand.New(rand.NewPCG(seed, 2))
	m := newModule(t, twoPackages())
	texts := map[string][]string{
		"lib/lib.go":      {libInt, libString, "package lib\n", "package lib\n\nfunc F(n int) int {\n", ""},
		"lib/lib_test.go": {"", "package lib\n\nvar _ int = F(\"\")\n", "package lib_test\n\nimport \"m/lib\"\n\nvar _ = lib.F(0, 0)\n"},
		"use/use.go":      {useInt, "package use\n\nimport \"m/lib\"\n\nvar S string = lib.F(\"\")\n", "package use\n"},
		"lib/b.go":        {"", "package lib\n\nfunc B() int { return \"\" }\n", "package lib\n\nfunc F() {}\n", "//go:build ignore\n\npackage lib\n\nvar x int = \"\"\n"},
		"use/b.go":        {"", "package use\n\nvar B = N + 1\n", "package other\n", "pack"},
		"p/p.go":          {"", "package p\n\nimport \"m/use\"\n\nvar P = use.N\n", "package p\n\nimport \"m/p\"\n", "//go:build ignore\n\npackage p\n\nvar x int = \"\"\n"},
		"p/q/q.go":        {"", "package q\n\nimport \"m/p\"\n\nvar Q = p.None\n", "package q\n\nimport \"fmt\"\n\nfunc Q() { fmt.Printf(\"%d\", \"\") }\n"},
		"go.mod":          {"module m\n\ngo 1.21\n", "module m\n\ngo 1.22\n", "module m2\n\ngo 1.21\n"},
	}
	names := slices.Sorted(maps.Keys(texts))
	for n := range turns {
		var did []string
		for _, name := range names {
			if random.IntN(3) != 0 {
				continue
			}
			text := texts[name][random.IntN(len(texts[name]))]
			if old := m.disk[name]; old != text {
				m.put(name, text)
			}
			delete(m.docs, name)
			if text != "" && random.IntN(2) == 0 {
				m.docs[name] = text
			}
			did = append(did, fmt.Sprintf("%s=%q open=%v", name, text, m.docs[name] != ""))
		}
		if n%every == 0 {
			m.same()
		} else if random.IntN(4) == 0 {
			m.sync() // a turn without a question
		} else {
			m.lint()
		}
		if t.Failed() {
			t.Fatalf("turn %d: %s", n, strings.Join(did, "\n"))
		}
	}
	m.report()
}

// A workspace that cannot be loaded is an error or has a diagnostic, never
// clean.
func TestGoplsFailedLoadIsNotClean(t *testing.T) {
	for name, goMod := range map[string]string{
		"bad syntax":  "module m\n\ngo 1.21\n)\n",
		"no module":   "go 1.21\n",
		"bad version": "module m\n\ngo 9.99\n",
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			files := twoPackages()
			files["go.mod"] = goMod
			m := newModule(t, files)
			reports, err := m.gopls.Diagnose(within(t), nil)
			if got := m.messages(m.dir, reports); err == nil && len(got) == 0 {
				t.Error("clean, without a document")
			} else {
				t.Log(err, got)
			}
			m.docs["lib/lib.go"] = libString
			m.sync()
			reports, err = m.gopls.Diagnose(within(t), nil)
			if got := m.messages(m.dir, reports); err == nil && len(got) == 0 {
				t.Error("clean, with a document")
			} else {
				t.Log(err, got)
			}
		})
	}
}

// A folder that is not there leaves gopls without a view.
func TestGoplsWithoutAView(t *testing.T) {
	dir := t.TempDir()
	i, err := shadow.Start(within(t), shadow.Config{
		Conn: launch(t, dir, need.Tool(t, "gopls")), Initialize: initializeParams(dir + "/none"), Root: dir,
		Profile: barrier.For([]string{"gopls"}, nil), Name: "gopls-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close(context.Background())
	if err := i.Ready(within(t)); err == nil {
		t.Fatal("ready without a view")
	} else {
		t.Log(err)
	}
}
