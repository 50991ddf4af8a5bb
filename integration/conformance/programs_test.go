package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
)

// Real programs: what they print in a view is what they print on the disk.

// alike runs a script natively and in a view of an equal folder, which stays as
// it is, and compares the outputs after clean.
func alike(t *testing.T, fill func(root string), script string, clean func(string) string) (v *view) {
	t.Helper()
	disk, under := openTemp(t), openTemp(t)
	for _, root := range []string{disk, under} {
		fill(root)
	}
	v = overRoot(t, under)
	want := clean(strings.ReplaceAll(native(t, disk, script), disk, "ROOT"))
	got := clean(strings.ReplaceAll(v.sh(script), v.root, "ROOT"))
	if got != want {
		t.Errorf("in the view:\n%.3000s\non the disk:\n%.3000s", got, want)
	}
	return v
}

func same(s string) string { return s }

// planting fills a folder with files.
func planting(t *testing.T, files map[string]string) func(string) {
	return func(root string) { plant(t, root, files) }
}

// copying fills a folder with another one's content.
func copying(t *testing.T, from string) func(string) {
	return func(root string) { must(t, stage.Copy(root, from)) }
}

const gitWork = `
export GIT_AUTHOR_DATE=2024-01-02T03:04:05Z GIT_COMMITTER_DATE=2024-01-02T03:04:05Z
alias git='git -c user.name=t -c user.email=t@example.org -c init.defaultBranch=main -c gc.auto=0 -c advice.detachedHead=false'
git status --porcelain
git checkout -q -b work
for i in 1 2 3; do echo line $i >> file$i.txt; mkdir -p new/d$i; echo $i > new/d$i/f; git add -A; git commit -qm "work $i"; done
git mv new moved && git commit -qm moved
git log --format='%H %s'
git checkout -q main; git status --porcelain; ls
git merge -q --no-edit work; git diff --stat HEAD~4 | tail -1
git stash list; echo x >> file1.txt; git stash -q; git stash pop -q; git status --porcelain; git checkout -q .
git checkout -q HEAD~2; git status --porcelain; git checkout -q main
git gc -q --prune=now; git fsck --strict --full 2>&1; git count-objects
git worktree add -q ../ROOTTREE HEAD~1 2>/dev/null && git -C ../ROOTTREE status --porcelain && git worktree remove ../ROOTTREE
git clone -q . clone && git -C clone log --format=%H -1 && rm -rf clone
git clean -fdxq; git reset -q --hard; git status --porcelain; git ls-files -s | git hash-object --stdin`

func TestGit(t *testing.T) {
	t.Parallel()
	need.Tool(t, "git")
	alike(t, func(root string) {
		files := map[string]string{}
		for i := range 40 {
			files[fmt.Sprintf("file%d.txt", i)] = strings.Repeat(fmt.Sprintln("line", i), i+1)
		}
		plant(t, root, files)
		native(t, root, "export GIT_AUTHOR_DATE=2024-01-01T03:04:05Z GIT_COMMITTER_DATE=2024-01-01T03:04:05Z; "+gitIdentity+"init -q . && git add . && "+gitIdentity+"commit -qm first && git status")
	}, strings.ReplaceAll(gitWork, "ROOTTREE", "$(basename $PWD)-tree"), same)
}

// goTimes are what go test prints of time.
var goTimes = regexp.MustCompile(`\t(\(cached\)|[0-9.]+s)`)

func TestGoOnXTools(t *testing.T) {
	full(t)
	need.Tool(t, "go")
	// A build cache of its own for each: what one run has found out is not told
	// to the other.
	script := `export GOCACHE=$(mktemp -d) GOPROXY=off; trap 'chmod -R u+w $GOCACHE; rm -rf $GOCACHE' EXIT
go build ./... 2>&1; go vet ./cmd/... ./go/ast/... ./internal/... 2>&1 | tail -20
go list ./... | wc -l
go test ./go/ast/... ./go/cfg ./go/callgraph/... ./internal/diff/... ./present ./container/... ./txtar/... 2>&1`
	alike(t, func(root string) {
		copying(t, need.Source(t, "xtools"))(root)
		native(t, root, "chmod -R u+w .")
	}, script, func(s string) string { return goTimes.ReplaceAllString(s, "") })
}

func TestCargo(t *testing.T) {
	full(t)
	need.Tool(t, "cargo")
	alike(t, planting(t, cargoFiles), "cargo build -q --offline 2>&1; cargo run -q --offline; cargo test -q --offline 2>&1 | grep -c 'test result: ok'; find target -name '*.rlib' | wc -l; touch lib/src/lib.rs; cargo run -q --offline", same)
}

const cProject = `CFLAGS = -O1 -Wall
OBJECTS = $(patsubst %.c,obj/%.o,$(wildcard *.c))
prog: $(OBJECTS)
	$(CC) -o $@ $^
obj/%.o: %.c all.h | obj
	$(CC) $(CFLAGS) -MMD -c -o $@ $<
obj:
	mkdir -p obj
clean:
	rm -rf obj prog
-include obj/*.d
`

func TestMakeOfC(t *testing.T) {
	full(t)
	need.Tool(t, "make")
	need.Tool(t, "cc")
	files := map[string]string{"Makefile": cProject}
	header, calls := "#include <stdio.h>\n", ""
	for i := range 40 {
		files[fmt.Sprintf("f%d.c", i)] = fmt.Sprintf("#include \"all.h\"\nint f%d(int x) { return x * %d + 1; }\n", i, i)
		header += fmt.Sprintf("int f%d(int);\n", i)
		calls += fmt.Sprintf("s += f%d(s %% 1000);", i)
	}
	files["all.h"] = header
	files["main.c"] = "#include \"all.h\"\nint main(void) { int s = 1; " + calls + " printf(\"%d\\n\", s); return 0; }\n"
	alike(t, planting(t, files), `make -s -j4; ./prog; make -q && echo done
echo '/* */' >> f7.c; make -n | grep -c MMD; make -s -j4; ./prog; touch all.h; make -n | grep -c MMD; make -s -j4; ls obj | wc -l; make -s clean; ls`, same)
}

func TestPython(t *testing.T) {
	full(t)
	need.Tool(t, "python3")
	alike(t, planting(t, map[string]string{
		"pkg/__init__.py": "from . import a, b\n", "pkg/a.py": "A = 1\n", "pkg/b.py": "from .a import A\nB = A + 1\n",
		"main.py": "import pkg, sys, os\nprint(pkg.b.B, sorted(os.listdir('pkg/__pycache__')))\n",
	}), "python3 main.py; python3 -m compileall -q . && echo A = 5 > pkg/a.py && python3 main.py && python3 -O main.py && find . -name '*.pyc' | wc -l && python3 -c 'import shutil; shutil.copytree(\"pkg\", \"copy\"); shutil.rmtree(\"pkg\"); shutil.move(\"copy\", \"pkg\")' && python3 main.py", same)
}

// sqliteStress has two processes write to one data base and check it.
const sqliteStress = `import sqlite3, os, sys
mode, rounds = sys.argv[1], int(sys.argv[2])
def connect():
    c = sqlite3.connect("t.db", timeout=60, isolation_level=None)
    c.execute("pragma journal_mode=" + mode)
    return c
c = connect()
c.execute("create table if not exists t(who int, n int, pad blob)")
c.execute("create table if not exists sum(total int)")
c.execute("insert into sum values(0)")
c.close()
children = []
for who in range(2):
    pid = os.fork()
    if pid == 0:
        c = connect()
        for n in range(rounds):
            c.execute("begin immediate")
            c.execute("insert into t values(?, ?, zeroblob(?))", (who, n, 100 + n % 5000))
            c.execute("update sum set total = total + 1")
            if n % 7 == 3:
                c.execute("rollback")
            else:
                c.execute("commit")
            a = c.execute("select count(*), (select total from sum) from t").fetchone()
            assert a[0] == a[1], a
        os._exit(0)
    children.append(pid)
codes = [os.waitpid(p, 0)[1] for p in children]
c = connect()
print(codes, c.execute("select total from sum").fetchone(), c.execute("pragma integrity_check").fetchone(), c.execute("pragma journal_mode").fetchone())
c.execute("vacuum")
c.close()
print(sorted(f for f in os.listdir(".") if f.startswith("t.db")))
`

func TestSQLite(t *testing.T) {
	t.Parallel()
	need.Tool(t, "python3")
	rounds, modes := 20, []string{"delete", "wal"}
	if os.Getenv(fullVariable) == "full" {
		rounds, modes = 500, []string{"delete", "wal", "truncate", "persist"}
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			run := fmt.Sprintf("python3 stress.py %s %d", mode, rounds)
			alike(t, func(root string) {
				plant(t, root, map[string]string{"stress.py": sqliteStress})
				// A data base that was there before: the first write copies it.
				native(t, root, fmt.Sprintf("python3 stress.py %s 3", mode))
			}, run+"; "+run, same)
		})
	}
}

// TestNode installs a real package with its compiler and compiles with it.
func TestNode(t *testing.T) {
	full(t)
	need.Tool(t, "npm")
	prepared := t.TempDir()
	plant(t, prepared, map[string]string{
		"package.json":  `{"name":"m","version":"1.0.0","private":true,"dependencies":{"typescript":"5.4.5","semver":"7.6.0"}}`,
		"tsconfig.json": `{"compilerOptions":{"outDir":"out","strict":true,"incremental":true,"declaration":true,"sourceMap":true,"module":"commonjs","target":"es2020"},"include":["src"]}`,
		"src/a.ts":      "export function twice(n: number): number { return n * 2 }\n",
		"src/b.ts":      "import { twice } from './a'\nconsole.log(twice(21))\n",
	})
	if out, err := run(t, prepared, "npm install --package-lock-only --no-audit --no-fund 2>&1"); err != nil {
		need.Unmet(t, true, "no packages to be had: %s", out)
	}
	alike(t, copying(t, prepared), `export npm_config_cache=$(mktemp -d); trap 'rm -rf $npm_config_cache' EXIT
npm ci --no-audit --no-fund >/dev/null 2>&1; ls node_modules node_modules/.bin
node_modules/.bin/tsc && node out/b.js; ls out
echo 'export const wrong: string = 1' >> src/a.ts; node_modules/.bin/tsc || true
node -e 'console.log(require("semver").inc("1.2.3", "minor"))'
find node_modules -type f | sort | xargs sha256sum | sha256sum
npm ci --no-audit --no-fund >/dev/null 2>&1 && find node_modules | wc -l; rm -rf node_modules; ls`, same)
}

func run(t *testing.T, dir, script string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-euc", script)
	cmd.Dir, cmd.Env = dir, environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestNeovim(t *testing.T) {
	full(t)
	nvim := need.Tool(t, "nvim")
	script := `export HOME=$(mktemp -d); trap 'rm -rf $HOME' EXIT
N='` + nvim + ` --headless --clean -n'
$N +'%s/one/two/g' +wq a.txt 2>&1; cat a.txt
$N +'set backupcopy=yes' +'normal Gonew line' +wq a.txt 2>&1; cat a.txt; stat -c '%a %h %s' a.txt
$N +'set backup backupskip= backupdir=.' +'normal ggdd' +wq a.txt 2>&1; ls; cat a.txt~
$N --cmd 'set undodir=. undofile' +'normal ggOundone' +w +undo +wq link 2>&1; cat link; ls -la | awk '{print $1,$9,$10,$11}' | grep link
` + strings.ReplaceAll(`$N`, "-n", "") + ` +'e new.txt' +'normal ifresh' +wq 2>&1; cat new.txt; ls -A | sort`
	alike(t, func(root string) {
		plant(t, root, map[string]string{"a.txt": "one\nand one\n"})
		must(t, os.Chmod(filepath.Join(root, "a.txt"), 0o640))
		must(t, os.Symlink("a.txt", filepath.Join(root, "link")))
	}, script, same)
}
