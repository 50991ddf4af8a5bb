package shadow_test

import (
	"testing"
)

func twoCrates() map[string]string {
	return map[string]string{
		"Cargo.toml":      "[workspace]\nmembers = [\"lib\", \"app\"]\nresolver = \"2\"\n",
		"lib/Cargo.toml":  "[package]\nname = \"lib\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"lib/src/lib.rs":  rustLib,
		"app/Cargo.toml":  "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nlib = { path = \"../lib\" }\n",
		"app/src/main.rs": "fn main() {\n    let n: i32 = lib::f(1);\n    println!(\"{n}\");\n}\n",
	}
}

const (
	rustLib       = "pub fn f(n: i32) -> i32 {\n    n\n}\n"
	rustLibString = "pub fn f(s: String) -> String {\n    s\n}\n"
)

func rustProject(t testing.TB, files map[string]string) *module {
	t.Helper()
	return newProject(t, []string{"rust-analyzer"}, files)
}

// both puts a text on the disk and opens it.
func (m *module) both(name, text string) {
	m.Helper()
	m.put(name, text)
	m.docs[name] = text
}

func TestRustAnalyzerAlternates(t *testing.T) {
	m := rustProject(t, twoCrates())
	t.Log(m.lint("app/src/main.rs"))
	for n := range 6 {
		if n%2 == 0 {
			m.both("lib/src/lib.rs", rustLibString)
		} else {
			m.both("lib/src/lib.rs", rustLib)
		}
		t.Logf("%q", m.lint())
		t.Log(m.took[len(m.took)-1])
	}
	m.same()
	m.report()
}
