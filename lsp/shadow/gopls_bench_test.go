package shadow_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shadowlsp/integration/need"
)

// BenchmarkGoplsXTools lints a copy of golang.org/x/tools while a branch's edit
// of an exported function alternates with its absence.
func BenchmarkGoplsXTools(b *testing.B) {
	source := need.Source(b, "xtools")
	m := &module{TB: b, dir: b.TempDir(), disk: map[string]string{}, docs: map[string]string{}}
	if out, err := exec.Command("cp", "-r", "--no-preserve=mode", source+"/.", m.dir).CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	began := time.Now()
	m.gopls = m.start(m.dir)
	b.Logf("ready after %v", time.Since(began))
	const name = "go/types/typeutil/callee.go"
	text, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		b.Fatal(err)
	}
	m.disk[name] = string(text)
	m.docs[name] = string(text)
	began = time.Now()
	base := m.lint()
	b.Logf("first lint after %v: %d diagnostics", time.Since(began), len(base))
	broken := strings.Replace(string(text), "func Callee(info *types.Info, call *ast.CallExpr)", "func Callee(info *types.Info, call *ast.CallExpr, n int)", 1)
	if broken == string(text) {
		b.Fatal("nothing to edit")
	}
	m.took = nil
	for n := 0; b.Loop(); n++ {
		m.docs[name] = broken
		if n%2 == 1 {
			m.docs[name] = string(text)
		}
		m.put(name, m.docs[name])
		got := m.lint()
		if n%2 == 1 && !slices.Equal(got, base) || n%2 == 0 && len(got) <= len(base) {
			b.Fatalf("%d: %d diagnostics, %d before", n, len(got), len(base))
		}
	}
	m.report()
	slices.Sort(m.took)
	b.ReportMetric(float64(m.took[len(m.took)/2].Milliseconds()), "ms-median")
	// A package that is new, and one that is broken.
	for _, s := range []struct{ what, name, text string }{
		{"a new package", "zzz/z.go", "package zzz\n\nvar x int = \"\"\n"},
		{"a broken import", "zzz/z.go", "package zzz\n\nimport _ \"golang.org/x/tools/none\"\n"},
		{"broken, an edit of a body", "zzz/z.go", "package zzz\n\nimport _ \"golang.org/x/tools/none\"\n\nvar x int = \"\"\n"},
		{"a second broken import", "zzz/y.go", "package zzz\n\nimport _ \"golang.org/x/tools/none2\"\n"},
		{"repaired", "zzz/z.go", "package zzz\n"},
		{"repaired, both", "zzz/y.go", "package zzz\n"},
	} {
		m.put(s.name, s.text)
		m.docs[s.name] = s.text
		began := time.Now()
		got := m.lint()
		b.Logf("%s: %v, %d diagnostics", s.what, time.Since(began), len(got)-len(base))
	}
}
