package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shadowlsp/integration/need"
	"shadowlsp/overlay"
)

// What each tool trusts must change whenever the content does, across switches
// between branches in one view.

const makeText = "out: in.txt\n\tcp in.txt out\n"

func TestMakeAcrossSwitches(t *testing.T) {
	t.Parallel()
	need.Tool(t, "make")
	// Built outside: the person's out is newer than the person's in.txt.
	v := over(t, map[string]string{"Makefile": makeText, "in.txt": "base\n", "out": "base\n"})
	b := v.create("b")
	v.agent(b, "in.txt", "of b\n")
	const build = "make -s 2>/dev/null; cat out" // it warns of times a second ahead
	for range 2 {
		if got := v.sh(build); got != "base\n" {
			t.Errorf("main: %q", got)
		}
		v.switchTo(b)
		if got := v.sh(build); got != "of b\n" {
			t.Errorf("b: %q", got)
		}
		v.switchTo(v.branch)
	}
	// Back to what the base has: its own time is older than b's out.
	v.agent(b, "in.txt", "base\n")
	v.switchTo(b)
	if got := v.sh(build); got != "base\n" {
		t.Errorf("reverted: %q", got)
	}
}

// A base edit that moves mtime back, as restoring a backup does.
func TestMakeWhenTheBaseGoesBack(t *testing.T) {
	need.Tool(t, "make")
	old := time.Now().Add(-24 * time.Hour)
	for name, restore := range map[string]func(t *testing.T, root string){
		"in place": func(t *testing.T, root string) {
			must(t, os.WriteFile(filepath.Join(root, "in.txt"), []byte("older\n"), 0o644))
			must(t, os.Chtimes(filepath.Join(root, "in.txt"), old, old))
		},
		"by rename": func(t *testing.T, root string) { native(t, root, "cp -p ../backup tmp && mv tmp in.txt") },
		"removed first": func(t *testing.T, root string) {
			native(t, root, "rm in.txt && cp -p ../backup in.txt")
		},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			root := filepath.Join(top, "work")
			plant(t, root, map[string]string{"Makefile": makeText, "in.txt": "new\n"})
			plant(t, top, map[string]string{"backup": "older\n"})
			must(t, os.Chtimes(filepath.Join(top, "backup"), old, old))
			v := overRoot(t, root)
			v.before = nil
			if got := v.sh("make -s; cat out"); got != "new\n" {
				t.Errorf("at first: %q", got)
			}
			restore(t, v.root)
			v.sync()
			if got := v.sh("make -s; cat out"); got != "older\n" {
				t.Errorf("after going back: %q", got)
			}
			if got := v.sh("make -q && echo done"); got != "done\n" {
				t.Errorf("a second time: %q", got)
			}
		})
	}
}

func TestPythonAcrossSwitches(t *testing.T) {
	t.Parallel()
	need.Tool(t, "python3")
	files := map[string]string{"main.py": "import m\nprint(m.V)\n", "m.py": "V = 'base'\n", "pkg/__init__.py": ""}
	v := over(t, files)
	const run = "python3 main.py; ls __pycache__ | wc -l"
	branches := []*overlay.Branch{v.branch}
	want := []string{"base\n1\n"}
	for i := range 4 {
		b := v.create(fmt.Sprint("b", i))
		v.agent(b, "m.py", fmt.Sprintf("V = 'of %d'\n", i)) // the same size, the same second
		branches, want = append(branches, b), append(want, fmt.Sprintf("of %d\n1\n", i))
	}
	for range 2 {
		for i, b := range branches {
			v.switchTo(b)
			if got := v.sh(run); got != want[i] {
				t.Errorf("%s: %q, want %q", b.Name(), got, want[i])
			}
		}
	}
	// One branch, edited within the second in which Python looked.
	for i := range 4 {
		v.agent(branches[4], "m.py", fmt.Sprintf("V = 'is %d'\n", i))
		v.settle()
		if got, want := v.sh(run), fmt.Sprintf("is %d\n1\n", i); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What the person's own Python has compiled is in the base, for all branches.
func TestPythonWithTheBasesCache(t *testing.T) {
	t.Parallel()
	need.Tool(t, "python3")
	root := t.TempDir()
	plant(t, root, map[string]string{"main.py": "import m\nprint(m.V)\n", "m.py": "V = 'base'\n"})
	native(t, root, "python3 main.py")
	v := overRoot(t, root)
	b := v.create("b")
	v.agent(b, "m.py", "V = 'of b'\n")
	for range 3 {
		v.switchTo(b)
		if got := v.sh("python3 main.py"); got != "of b\n" {
			t.Errorf("%q", got)
		}
		v.switchTo(v.branch)
		if got := v.sh("python3 main.py"); got != "base\n" {
			t.Errorf("%q", got)
		}
	}
}

func TestGoTestCacheAcrossSwitches(t *testing.T) {
	t.Parallel()
	need.Tool(t, "go")
	v := over(t, map[string]string{
		"go.mod":      "module example.test/m\n\ngo 1.24\n",
		"data.txt":    "base",
		"one_test.go": "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestData(t *testing.T) {\n\tdata, _ := os.ReadFile(\"data.txt\")\n\tif string(data) != \"base\" {\n\t\tt.Fatal(string(data))\n\t}\n}\n",
	})
	b := v.create("b")
	v.agent(b, "data.txt", "of b") // the same size
	const run = "go test . 2>&1 || true"
	for range 2 {
		if got := v.sh(run); !strings.HasPrefix(got, "ok") {
			t.Errorf("main: %s", got)
		}
		v.switchTo(b)
		if got := v.sh(run); !strings.Contains(got, "of b") {
			t.Errorf("b: %s", got)
		}
		v.switchTo(v.branch)
	}
	if got := v.sh(run); !strings.Contains(got, "(cached)") {
		t.Errorf("unchanged, and not from the cache: %s", got)
	}
}

const gitIdentity = "git -c user.name=t -c user.email=t@example.org -c init.defaultBranch=main "

func TestGitIndexAcrossSwitches(t *testing.T) {
	t.Parallel()
	need.Tool(t, "git")
	root := t.TempDir()
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("d%d/f%d.txt", i%5, i)] = fmt.Sprintf("%4d", i)
	}
	plant(t, root, files)
	native(t, root, gitIdentity+"init -q . && git add . && "+gitIdentity+"commit -qm one && git status --porcelain")
	v := overRoot(t, root)
	b := v.create("b")
	v.agent(b, "d1/f1.txt", "   x") // the same size
	for range 3 {
		// Not refreshed by hashing: the index as the person's git left it is right.
		if got := v.sh("git diff-files --name-only"); got != "" {
			t.Errorf("main: the index is stale: %s", got)
		}
		if got := v.sh("git status --porcelain"); got != "" {
			t.Errorf("main: %s", got)
		}
		v.switchTo(b)
		if got := v.sh("git status --porcelain"); got != " M d1/f1.txt\n" {
			t.Errorf("b: %q", got)
		}
		v.switchTo(v.branch)
	}
	v.switchTo(b)
	v.agent(b, "d1/f1.txt", "   1")
	v.settle()
	if got := v.sh("git status --porcelain"); got != "" {
		t.Errorf("reverted: %q", got)
	}
}

// gopls keeps what it read by inode and mtime, in one process for all sessions.
func TestGoplsAcrossSwitches(t *testing.T) {
	t.Parallel()
	gopls := need.Tool(t, "gopls")
	v := over(t, map[string]string{
		"go.mod": "module example.test/m\n\ngo 1.24\n",
		"m.go":   "package m\n\nvar V = W0\n",
		"w.go":   "package m\n\nconst W0 = 1\n",
	})
	b := v.create("b")
	v.agent(b, "w.go", "package m\n\nconst W1 = 1\n") // the same size
	socket := filepath.Join(t.TempDir(), "s")
	server := v.command("exec " + quote(gopls) + " serve -listen=" + quote("unix;"+socket))
	must(t, server.Start())
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	waitFor(t, "gopls", func() bool { _, err := os.Stat(socket); return err == nil })
	check := quote(gopls) + " -remote=" + quote("unix;"+socket) + " check m.go 2>/dev/null" // stderr has its log
	for range 3 {
		if got := v.sh(check); got != "" {
			t.Errorf("main: %s", got)
		}
		v.switchTo(b)
		if got := v.sh(check); !strings.Contains(got, "undefined: W0") {
			t.Errorf("b: %s", got)
		}
		v.switchTo(v.branch)
	}
}

func TestCargoAcrossSwitches(t *testing.T) {
	t.Parallel()
	need.Tool(t, "cargo")
	v := over(t, cargoFiles)
	b := v.create("b")
	v.agent(b, "lib/src/lib.rs", "pub fn word() -> &'static str { \"of b\" }\n")
	const run = "cargo run -q --offline"
	for range 2 {
		if got := v.sh(run); got != "base\n" {
			t.Errorf("main: %q", got)
		}
		v.switchTo(b)
		if got := v.sh(run); got != "of b\n" {
			t.Errorf("b: %q", got)
		}
		v.switchTo(v.branch)
	}
	// The same branch goes back to the base's content.
	v.switchTo(b)
	v.agent(b, "lib/src/lib.rs", cargoFiles["lib/src/lib.rs"])
	v.settle()
	if got := v.sh(run); got != "base\n" {
		t.Errorf("reverted: %q", got)
	}
}

// The person builds in the folder, too. What cargo keeps of that is newer than what a
// branch had edited before, and made of another text.
func TestCargoBesideThePersonsBuilds(t *testing.T) {
	t.Parallel()
	need.Tool(t, "cargo")
	v := over(t, cargoFiles)
	v.before = nil // it is built in
	b := v.create("b")
	v.agent(b, "lib/src/lib.rs", "pub fn word() -> &'static str { \"of b\" }\n")
	saved := strings.Replace(cargoFiles["lib/src/lib.rs"], "base", "saved", 1)
	must(t, os.WriteFile(filepath.Join(v.root, "lib/src/lib.rs"), []byte(saved), 0o644))
	const run, age = "cargo run -q --offline", "stat -c %.9Y target/debug/app"
	if got := native(t, v.root, run); got != "saved\n" {
		t.Fatalf("the person's: %q", got)
	}
	late := v.create("late")
	v.sync()
	built := native(t, v.root, age)
	for range 3 {
		v.switchTo(b)
		if got := v.sh(age); got >= built {
			t.Errorf("in a branch that began before the person built: from %s, and built %s", got, built)
		}
		v.switchTo(late)
		if got := v.sh(age); got != built {
			t.Errorf("in a branch that began later: from %s, and built %s", got, built)
		}
	}
	for range 2 {
		v.switchTo(b)
		if got := v.sh(run); got != "of b\n" {
			t.Errorf("b: %q", got)
		}
		for _, other := range []*overlay.Branch{late, v.branch} {
			v.switchTo(other)
			if got := v.sh(run); got != "saved\n" {
				t.Errorf("another: %q", got)
			}
		}
	}
}

var cargoFiles = map[string]string{
	"Cargo.toml":      "[workspace]\nmembers = [\"app\", \"lib\"]\nresolver = \"2\"\n",
	"app/Cargo.toml":  "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nlib = { path = \"../lib\" }\n",
	"app/src/main.rs": "fn main() { println!(\"{}\", lib::word()); }\n",
	"lib/Cargo.toml":  "[package]\nname = \"lib\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
	"lib/src/lib.rs":  "pub fn word() -> &'static str { \"base\" }\n",
}

// waitFor waits on a condition that nothing announces.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not in time", what)
		}
	}
}
