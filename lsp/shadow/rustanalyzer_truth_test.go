package shadow_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"shadowlsp/lsp/barrier"
)

// freshEvery is how many steps are made for one that is compared: a fresh
// rust-analyzer takes seconds. SHADOWLSP_CONFORMANCE=full compares all.
const freshEvery = 4

// Steps are compared to what a fresh rust-analyzer says on a copy.
func TestRustAnalyzerSaysWhatAFreshOneSays(t *testing.T) {
	m := rustProject(t, twoCrates())
	steps := []struct {
		what string
		do   func()
	}{
		{"an error in a dependent", func() { m.both("lib/src/lib.rs", rustLibString) }},
		{"that edit closed, the file as it was", func() { delete(m.docs, "lib/src/lib.rs"); m.put("lib/src/lib.rs", rustLib) }},
		{"a module that is not there", func() { m.both("lib/src/lib.rs", "mod extra;\n"+rustLib) }},
		{"the module, on the disk only", func() { m.put("lib/src/extra.rs", "pub fn g() -> i32 { \"\" }\n") }},
		{"the module, as a folder", func() {
			m.put("lib/src/extra.rs", "")
			m.put("lib/src/extra/mod.rs", "pub fn g() -> bool { 1 }\n")
		}},
		{"broken syntax", func() { m.both("lib/src/lib.rs", "mod extra;\npub fn f(n: i32) -> i32 {\n") }},
		{"no module any more", func() {
			m.put("lib/src/extra/mod.rs", "")
			m.both("lib/src/lib.rs", rustLib)
		}},
		{"a dependency gone", func() {
			m.put("app/Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n")
		}},
		{"the dependency back, another edition", func() {
			m.put("app/Cargo.toml", strings.Replace(twoCrates()["app/Cargo.toml"], "2021", "2018", 1))
		}},
		{"a build script with a cfg", func() {
			m.put("lib/build.rs", "fn main() {\n    println!(\"cargo::rustc-check-cfg=cfg(odd)\");\n    println!(\"cargo::rustc-cfg=odd\");\n}\n")
			m.both("lib/src/lib.rs", rustLib+"#[cfg(odd)]\npub fn odd() -> i32 { \"odd\" }\n#[cfg(not(odd))]\npub fn even() -> i32 { \"even\" }\n")
		}},
		{"the script edited", func() {
			m.both("lib/build.rs", "fn main() {\n    println!(\"cargo::rustc-check-cfg=cfg(odd)\");\n}\n")
		}},
		{"a script that does not compile", func() {
			m.both("lib/build.rs", "fn main() {\n    missing();\n}\n")
			m.expect(m.lint("app/src/main.rs")) // the error is the script's, and no reason to refuse
		}},
		{"a script that fails", func() {
			m.both("lib/src/lib.rs", rustLib)
			m.both("lib/build.rs", "fn main() {\n    std::fs::read(\"none\").unwrap();\n}\n")
			m.sync()
			_, err := m.gopls.Diagnose(within(t), nil)
			if e := (*barrier.Error)(nil); !errors.As(err, &e) || e.Kind != barrier.LoadFailed {
				m.Errorf("what depends on it is not checked, and that is no error: %v", err)
			}
			m.both("lib/build.rs", "fn main() {}\n")
		}},
		{"the script gone", func() { delete(m.docs, "lib/build.rs"); m.put("lib/build.rs", ""); m.both("lib/src/lib.rs", rustLib) }},
		{"a new crate", func() {
			m.put("Cargo.toml", "[workspace]\nmembers = [\"lib\", \"app\", \"tool\"]\nresolver = \"2\"\n")
			m.put("tool/Cargo.toml", strings.Replace(twoCrates()["app/Cargo.toml"], "\"app\"", "\"tool\"", 1))
			m.both("tool/src/main.rs", "fn main() {\n    lib::f(\"\");\n    none();\n}\n")
		}},
		{"a test and an example", func() {
			m.put("lib/tests/it.rs", "#[test]\nfn it() { let _: bool = lib::f(1); }\n")
			m.put("lib/examples/ex.rs", "fn main() { unknown }\n")
		}},
		{"warnings", func() { m.both("tool/src/main.rs", "fn unused() {}\nfn main() {\n    let x = lib::f(1);\n}\n") }},
		{"all closed", func() { clear(m.docs) }},
		{"include_str of a file that is not there", func() {
			m.both("lib/src/lib.rs", rustLib+"pub const D: &str = include_str!(\"data.txt\");\n")
		}},
		{"the file", func() { m.put("lib/src/data.txt", "data") }},
		{"the file gone", func() { m.put("lib/src/data.txt", "") }},
	}
	every := freshEvery
	if os.Getenv("SHADOWLSP_CONFORMANCE") == "full" {
		every = 1
	}
	for n, s := range steps {
		t.Run(strings.ReplaceAll(s.what, " ", "_"), func(t *testing.T) {
			m.TB = t
			s.do()
			if n%every == every-1 {
				m.same()
			}
			t.Log(len(m.lint()), "diagnostics")
		})
		m.TB = t
	}
	m.report()
}
