package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
)

// suite is a test suite that runs natively and in a branch.
type suite struct {
	name string
	// source makes a folder with its project, in a directory of its own.
	source func(ctx context.Context, dir string) (string, error)
	argv   []string
}

// runs measures test suites in a branch beside the same ones run natively, in a
// copy of the folder, in turns. The first of each warms the caches and is not
// counted.
func runs(ctx context.Context, s setting, args []string) error {
	flags := flag.NewFlagSet("runs", flag.ContinueOnError)
	rounds := flags.Int("rounds", 3, "how often each suite runs natively and in a branch")
	only := flags.String("suites", ".", "which suites, by an expression for their names")
	packages := flags.String("packages", "./go/ast/... ./go/cfg/... ./go/types/... ./container/... ./cover/... ./txtar/... ./internal/diff/... ./internal/event/... ./internal/jsonrpc2/...", "the packages of x/tools to test")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	suites := []suite{
		{"go test, x/tools", found("xtools"), append([]string{"go", "test", "-count=1"}, strings.Fields(*packages)...)},
		{"cargo test, regex-syntax", crate("regex-syntax-0.6.27"), []string{"sh", "-c", "touch src/lib.rs && exec cargo test --offline --quiet"}},
		{"npm test, qs", npmPackage, []string{"npm", "test", "--silent"}},
		{"python -m unittest, email and json", pythonPackage, []string{"python3", "-m", "unittest", "discover", "-q", "-t", ".", "-s", "test", "-p", "test_*.py"}},
		{"sqlite, four writers", emptyFolder, []string{"python3", "-c", sqliteStress}},
	}
	fmt.Fprintf(s.out, "\nTest suites in a branch beside native ones, in turns (%d rounds; load now %s)\n\n", *rounds, load())
	fmt.Fprintf(s.out, "Processor time is what the suite's processes used and, in a branch, what the daemon used meanwhile;\non a machine that others keep busy it says more than time on the clock.\n\n")
	fmt.Fprintf(s.out, "| suite | native, median | in a branch | ratio | by round | processor time | in a branch | ratio | by round | same results |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, one := range suites {
		if !chosen.MatchString(one.name) {
			continue
		}
		if err := one.compare(ctx, s, *rounds); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

// load is the machine's load average over a minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	return string(bytes.SplitN(text, []byte(" "), 2)[0])
}

// compare runs a suite natively and in a branch, and prints its line.
func (one suite) compare(ctx context.Context, s setting, rounds int) (err error) {
	top, err := os.MkdirTemp("", "runs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(top)
	source, err := one.source(ctx, top)
	if err != nil {
		return err
	}
	branch, err := stage.New(ctx, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, branch.Close()) }()
	native, err := stage.New(ctx, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, native.Close()) }()
	before, err := stage.Read(branch.Dir)
	if err != nil {
		return err
	}
	lanes := []runner{
		{at: native, argv: timed(one.argv)},
		{at: branch, argv: append([]string{s.shadowlsp, "exec", "--branch", "bench", "--"}, timed(one.argv)...)},
	}
	same := true
	for round := range rounds + 1 {
		for i := range lanes {
			if err := lanes[i].run(ctx, round > 0); err != nil {
				return err
			}
		}
		same = same && (round == 0 || lanes[0].result == lanes[1].result)
	}
	after, err := stage.Read(branch.Dir)
	if err != nil {
		return err
	}
	if changed := before.Differences(after); len(changed) > 0 {
		return fmt.Errorf("the person's folder has changed: %q", changed)
	}
	verdict := "yes"
	if !same {
		verdict = "no"
	}
	fmt.Fprintf(s.out, "| %s | %s | %s | %s |\n", one.name, beside(lanes[0].took, lanes[1].took), beside(lanes[0].used, lanes[1].used), verdict)
	if !same {
		fmt.Fprintf(s.out, "\nnatively:\n%s\nin the branch:\n%s\n\n", lanes[0].result, lanes[1].result)
	}
	return nil
}

// beside is the cells that compare two lists of times.
func beside(native, branch []time.Duration) string {
	var ratios []string
	for i := range native {
		ratios = append(ratios, fmt.Sprintf("%.2f", float64(branch[i])/float64(native[i])))
	}
	n, b := stage.Quantile(native, 0.5), stage.Quantile(branch, 0.5)
	return fmt.Sprintf("%.2f s | %.2f s | **%.2f** | %s", n.Seconds(), b.Seconds(), float64(b)/float64(n), strings.Join(ratios, " "))
}

// runner is one of the two ways to run a suite.
type runner struct {
	at     *stage.Stage
	argv   []string
	took   []time.Duration // on the clock
	used   []time.Duration // of processors
	result string
}

func (l *runner) run(ctx context.Context, counts bool) error {
	cmd := exec.CommandContext(ctx, l.argv[0], l.argv[1:]...)
	cmd.Dir, cmd.Env = l.at.Dir, append(os.Environ(), l.at.Env...)
	served := usedBy(l.at.Daemon())
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	served = usedBy(l.at.Daemon()) - served
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if err != nil {
		const most = 3000
		return fmt.Errorf("%q: %w\n%s", l.argv, err, out[max(len(out)-most, 0):])
	}
	text, used, err := splitTimes(string(out))
	if err != nil {
		return err
	}
	l.result = comparable(text, l.at.Dir)
	if counts {
		l.took, l.used = append(l.took, took), append(l.used, used+served)
	}
	return nil
}

// timed runs a command and says, in the last line, what processor time it and its
// children used.
func timed(argv []string) []string {
	return append([]string{"sh", "-c", `"$@"; status=$?; echo; times; exit $status`, "sh"}, argv...)
}

// splitTimes takes that line off an output.
func splitTimes(out string) (text string, used time.Duration, err error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, field := range strings.Fields(lines[len(lines)-1]) {
		d, err := time.ParseDuration(field)
		if err != nil {
			return "", 0, fmt.Errorf("no times at the end of %q", out)
		}
		used += d
	}
	return strings.Join(lines[:max(len(lines)-2, 0)], "\n"), used, nil
}

// usedBy is the processor time that a process has used; 0 of none.
func usedBy(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const user, system, tick = 11, 12, 10 * time.Millisecond // behind the name; sysconf(_SC_CLK_TCK) is 100
	var all time.Duration
	for _, at := range []int{user, system} {
		n, _ := strconv.Atoi(string(fields[at]))
		all += time.Duration(n) * tick
	}
	return all
}

// durations are the parts of a suite's output that differ from run to run.
var durations = regexp.MustCompile(`\(?\b\d+(\.\d+)?m?s\b\)?|\(cached\)`)

// comparable is output without times and places, sorted: suites run in parallel.
func comparable(out, dir string) string {
	lines := strings.Split(durations.ReplaceAllString(strings.ReplaceAll(out, dir, "."), "T"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// found is a source that make setup has fetched.
func found(name string) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) { return need.FindSource(name) }
}

// crate is a Rust crate with its own tests.
func crate(name string) func(context.Context, string) (string, error) {
	return func(_ context.Context, dir string) (string, error) {
		crates, err := need.FindSource("crates")
		if err != nil {
			return "", err
		}
		dir = filepath.Join(dir, "crate")
		if err := stage.Copy(dir, filepath.Join(crates, name)); err != nil {
			return "", err
		}
		return dir, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("/target\n"), 0o644)
	}
}

// npmPackage is qs with what its own tests need. What only its linter and its
// release need is left out.
func npmPackage(ctx context.Context, dir string) (string, error) {
	const script = `set -e
npm pack --silent qs@6.17.1 >/dev/null && tar xzf qs-6.17.1.tgz && cd package
npm pkg delete scripts.pretest scripts.posttest scripts.prepack scripts.prepublish scripts.prepublishOnly devDependencies
npm install --silent --no-audit --no-fund --ignore-scripts --save-dev tape@5.9.0 nyc@10.3.2 es-value-fixtures@1.7.1 has-bigints@1 has-override-mistake@1 \
	has-property-descriptors@1 has-proto@1 has-symbols@1 iconv-lite@0.5.2 mock-property@1 object-inspect@1 safer-buffer@2 qs-iconv@1 for-each@0.3
printf '/.nyc_output\n/coverage\n' >.gitignore`
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "package"), nil
}

// pythonPackage is two packages of Python's own library with their tests.
func pythonPackage(ctx context.Context, dir string) (string, error) {
	const script = `set -e
lib=$(python3 -c 'import os; print(os.path.dirname(os.__file__))')
mkdir -p package/test && cd package
cp -r $lib/email $lib/json . && cp -r $lib/test/__init__.py $lib/test/support $lib/test/test_email $lib/test/test_json test/
find . -name __pycache__ | xargs rm -rf; printf '__pycache__\n' >.gitignore`
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "package"), nil
}

func emptyFolder(_ context.Context, dir string) (string, error) {
	dir = filepath.Join(dir, "empty")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*.db*\n"), 0o644)
}

// sqliteStress has four processes write into one database in WAL mode, by
// transactions that each wait for the disk, and checks it.
const sqliteStress = `
import os, sqlite3, multiprocessing
if os.path.exists("stress.db"):
    for end in ("", "-wal", "-shm"):
        if os.path.exists("stress.db" + end): os.remove("stress.db" + end)
def open_():
    c = sqlite3.connect("stress.db", timeout=60, isolation_level=None)
    c.execute("pragma journal_mode=wal"); c.execute("pragma synchronous=full")
    return c
c = open_(); c.execute("create table t (who integer, n integer, text text)"); c.execute("create index i on t (text)"); c.close()
def work(who):
    c = open_()
    for n in range(150):
        c.execute("begin immediate")
        c.executemany("insert into t values (?, ?, ?)", [(who, n, "%d %d %d" % (who, n, i) * 5) for i in range(100)])
        c.execute("commit")
ps = [multiprocessing.Process(target=work, args=(i,)) for i in range(4)]
[p.start() for p in ps]; [p.join() for p in ps]
c = open_()
print(c.execute("select count(*), count(distinct text) from t").fetchone(), c.execute("pragma integrity_check").fetchone())
`
