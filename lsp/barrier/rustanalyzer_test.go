package barrier

import "testing"

func TestRustBuilt(t *testing.T) {
	for file, built := range map[string]bool{
		"/w/target": true, "/w/target/debug/deps/libx.rmeta": true, "/w/target/CACHEDIR.TAG": true,
		"/w/a/target/release/.cargo-lock": true, "/w/target/rust-analyzer/flycheck0/stderr": true,
		"/w/src/target.rs": false, "/w/src/target/mod.rs": false, "/w/src/lib.rs": false, "/w/Cargo.lock": false,
	} {
		if rustBuilt(file) != built {
			t.Errorf("%s: %v", file, !built)
		}
	}
}

func TestIncludesLate(t *testing.T) {
	for text, late := range map[string]bool{
		"#include \"a.h\"\n\n/* text\n#include \"b.h\"\n*/\n// x\n#define X\n#include \"b.h\"\nint n;\n": false,
		"int n;\n#include \"a.h\"\n":                                 true,
		"/* x */ int n;\n#  include \"a.h\"\n":                       true,
		"#ifdef __cplusplus\nextern \"C\" {\n#endif\n#include <a>\n": true,
		"": false,
	} {
		if includesLate(text) != late {
			t.Errorf("%q: %v", text, !late)
		}
	}
}

// Settings of servers that nest them.
func TestNestedSettings(t *testing.T) {
	s := rustAnalyzer().Settings
	for person, want := range map[string]string{
		`{}`:                              `{"checkOnSave":false,"check":{"workspace":true},"files":{"watcher":"client"},"cargo":{"autoreload":true},"cachePriming":{"enable":false},"numThreads":1,"completion":{"snippets":{"custom":{}}}}`,
		`{"checkOnSave":{"command":"x"}}`: `{"checkOnSave":{"command":"x","enable":false},"check":{"workspace":true},"files":{"watcher":"client"},"cargo":{"autoreload":true},"cachePriming":{"enable":false},"numThreads":1}`,
		`{"check":{"a":1},"cachePriming":{"enable":true}}`: `{"check":{"a":1,"workspace":true},"cachePriming":{"enable":false},"checkOnSave":false,"files":{"watcher":"client"},"cargo":{"autoreload":true},"numThreads":1}`,
	} {
		if got := string(s.Apply([]byte(person))); got != want {
			t.Errorf("%s:\n%s, want\n%s", person, got, want)
		}
	}
	s = pyright().Settings
	for person, want := range map[string]string{
		`null`: `null`, `{"analysis":{"x":1}}`: `{"analysis":{"x":1}}`,
		`{"analysis":{"logLevel":"Trace"}}`: `{"analysis":{"logLevel":"Trace"}}`,
		`{"analysis":{"logLevel":"Error"}}`: `{"analysis":{"logLevel":"Information"}}`,
	} {
		if got := string(s.Apply([]byte(person))); got != want {
			t.Errorf("%s:\n%s, want\n%s", person, got, want)
		}
	}
}
