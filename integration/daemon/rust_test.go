package daemon

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"shadowlsp/integration/need"
)

// crates are a library, a program that needs it and that nobody opens, and a
// build script that decides what the library has.
var crates = map[string]string{
	".gitignore":      "/target\n",
	"Cargo.toml":      "[workspace]\nmembers = [\"lib\", \"app\"]\nresolver = \"2\"\n",
	"lib/Cargo.toml":  "[package]\nname = \"lib\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
	"lib/build.rs":    scriptText("plain"),
	"lib/src/lib.rs":  crateText("i32"),
	"app/Cargo.toml":  "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nlib = { path = \"../lib\" }\n",
	"app/src/main.rs": "fn main() {\n    let n: i32 = lib::f(1);\n    println!(\"{n}\");\n}\n",
}

// crateText is lib/src/lib.rs with a parameter type; any other than i32 is
// declared there and makes the call in app/src/main.rs an error that names it.
func crateText(parameter string) string {
	text := "pub fn f(a: " + parameter + ") -> " + parameter + " {\n    a\n}\n"
	if parameter != "i32" {
		text += "\npub struct " + parameter + ";\n"
	}
	for _, odd := range []string{"oddA", "oddB"} {
		text += "\n#[cfg(" + odd + ")]\npub fn odd() -> i32 {\n    missing_" + odd + "\n}\n"
	}
	return text
}

// scriptText is lib/build.rs, which sets a cfg.
func scriptText(cfg string) string {
	return "fn main() {\n    println!(\"cargo::rustc-check-cfg=cfg(oddA, oddB, plain)\");\n    println!(\"cargo::rustc-cfg=" + cfg + "\");\n}\n"
}

// newCrates makes that workspace, with a daemon.
func newCrates(t *testing.T) *world {
	need.Tool(t, "rust-analyzer")
	need.Tool(t, "cargo")
	w := newWorld(t, crates)
	w.serve(t)
	return w
}

// What cargo and rustc say of edits that nobody has saved, on two branches that
// contradict each other and whose times cargo compares, in turn.
func TestRustBranchesInTurn(t *testing.T) {
	w := newCrates(t)
	a, b := w.agent(t, attach{branch: "a"}), w.agent(t, attach{branch: "b"})
	for n := range 4 {
		for name, agent := range map[string]*agent{"AgentA": a, "AgentB": b} {
			parameter := fmt.Sprintf("%sx%d", name, n)
			agent.edit(t, w.text("lib/src/lib.rs", crateText(parameter)))
			agent.names(t, "app/src/main.rs", parameter)
			// No edit of its own this time, and the other has had its turn.
			if n%2 == 1 {
				agent.edit(t, w.text("lib/src/lib.rs", crateText("i32")))
				agent.clean(t, "app/src/main.rs")
			}
		}
		if n%2 == 0 {
			a.names(t, "app/src/main.rs", fmt.Sprintf("AgentAx%d", n))
			b.names(t, "app/src/main.rs", fmt.Sprintf("AgentBx%d", n))
			a.names(t, "app/src/main.rs", fmt.Sprintf("AgentAx%d", n))
		}
	}
}

// What decides about crates: build scripts, manifests, modules that come and go.
func TestRustCrates(t *testing.T) {
	w := newCrates(t)
	a, b := w.agent(t, attach{branch: "a"}), w.agent(t, attach{branch: "b"})
	a.edit(t, w.text("lib/build.rs", scriptText("oddA")))
	b.edit(t, w.text("lib/build.rs", scriptText("oddB")))
	for range 2 {
		a.names(t, "lib/src/lib.rs", "missing_oddA")
		b.names(t, "lib/src/lib.rs", "missing_oddB")
	}
	a.edit(t, w.text("lib/build.rs", scriptText("plain")))
	a.clean(t, "lib/src/lib.rs")
	b.names(t, "lib/src/lib.rs", "missing_oddB")
	b.edit(t, w.deleted("lib/build.rs"))

	a.edit(t, w.text("app/Cargo.toml", strings.Split(crates["app/Cargo.toml"], "\n\n[")[0]+"\n"))
	a.names(t, "app/src/main.rs", "lib")
	b.edit(t, w.text("lib/src/lib.rs", "mod more;\n"+crateText("i32")))
	b.names(t, "lib/src/lib.rs", "more")
	b.edit(t, w.text("lib/src/more.rs", "pub fn g() -> i32 {\n    missing_more\n}\n"))
	b.clean(t, "lib/src/lib.rs")
	b.names(t, "lib/src/more.rs", "missing_more")
	a.names(t, "app/src/main.rs", "lib")
	a.edit(t, w.text("app/Cargo.toml", crates["app/Cargo.toml"]))
	a.clean(t, "app/src/main.rs")
	b.edit(t, w.deleted("lib/src/more.rs"))
	b.names(t, "lib/src/lib.rs", "more")
	b.edit(t, w.text("lib/src/lib.rs", crateText("i32")))
	b.clean(t, "lib/src/lib.rs")

	// A manifest that is none is no clean workspace.
	a.edit(t, w.text("app/Cargo.toml", "[package\n"))
	if e := a.refused(t, "textDocument/diagnostic", document(w.uri("app/src/main.rs"))); !strings.Contains(e.Message, "Cargo.toml") {
		t.Errorf("what is wrong is not named: %v", e)
	}
	b.clean(t, "app/src/main.rs")
	a.edit(t, w.text("app/Cargo.toml", crates["app/Cargo.toml"]))
	a.clean(t, "app/src/main.rs")
}

// What a build script writes lies in the branch's target, and rust-analyzer reads
// it from there.
func TestRustGenerated(t *testing.T) {
	w := newCrates(t)
	lib := "include!(concat!(env!(\"OUT_DIR\"), \"/gen.rs\"));\n\npub fn f(_: i32) -> i32 {\n    K\n}\n"
	script := func(kind, value string) string {
		return "fn main() {\n    let out = std::env::var(\"OUT_DIR\").unwrap() + \"/gen.rs\";\n    std::fs::write(out, \"pub const K: " + kind + " = " + value + ";\\n\").unwrap();\n}\n"
	}
	a, b := w.agent(t, attach{branch: "a"}), w.agent(t, attach{branch: "b"})
	a.edit(t, w.text("lib/src/lib.rs", lib), w.text("lib/build.rs", script("i32", "1")))
	b.edit(t, w.text("lib/src/lib.rs", lib), w.text("lib/build.rs", script("bool", "true")))
	for range 2 {
		a.clean(t, "lib/src/lib.rs")
		b.names(t, "lib/src/lib.rs", "bool")
	}
	a.edit(t, w.text("lib/build.rs", script("u8", "1")))
	a.names(t, "lib/src/lib.rs", "u8")
	b.edit(t, w.text("lib/build.rs", script("i32", "2")))
	b.clean(t, "lib/src/lib.rs")
	a.names(t, "lib/src/lib.rs", "u8")
}

// The person builds in the folder, too. What cargo keeps of that is of the person's
// text, and newer than what a branch has edited before: cargo compares times.
func TestRustBesideThePersonsBuilds(t *testing.T) {
	need.Tool(t, "rust-analyzer")
	need.Tool(t, "cargo")
	files := maps.Clone(crates)
	delete(files, "lib/build.rs") // with one, cargo compares the newest file's time exactly
	w := newWorld(t, files)
	w.before = nil // it is built in
	w.serve(t)
	defer w.git(t, "clean", "-dfxq")
	defer w.git(t, "checkout", "-q", ".")
	build := func() { w.output(t, "cargo", "check", "--offline", "--quiet", "--workspace", "--all-targets") }
	build()
	a := w.agent(t, attach{branch: "a"})
	a.clean(t, "app/src/main.rs")
	for n := range 2 {
		mine := fmt.Sprintf("mine%d", n)
		// What rustc alone says.
		a.edit(t, w.text("lib/src/lib.rs", crateText("i32")+"pub fn g() {\n    let "+mine+" = String::new();\n    drop("+mine+");\n    drop("+mine+");\n}\n"))
		w.write(t, "lib/src/lib.rs", crateText("i32")+fmt.Sprintf("// saved %d\n", n))
		build()
		a.names(t, "lib/src/lib.rs", "moved value: `"+mine)
	}
}
