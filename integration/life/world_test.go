package life

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"shadowlsp/integration/client"
	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds everything that is waited for.
const patience = stage.Patience

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// module is the person's folder in most tests.
var module = stage.Module(map[string]string{
	"text":       "one\ntwo\nthree\nfour\nfive\nsix\nseven\n",
	"dir/a":      "a\n",
	"dir/b":      "b\n",
	".gitignore": "target/\n",
})

// world is a person's folder with a daemon of its own.
type world struct {
	*stage.Stage
	top, binary string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	need.View(t)
	tools := filepath.Dir(need.Tool(t, "gopls"))
	s := stage.Set(t, module)
	w := &world{Stage: s, top: filepath.Dir(s.Dir), binary: need.Shadowlsp(t)}
	must(t, os.Mkdir(filepath.Join(w.top, "home"), 0o755))
	s.Env = append(s.Env, "PATH="+tools+":"+os.Getenv("PATH"), "HOME="+filepath.Join(w.top, "home"), "GOPROXY=off", "GOTOOLCHAIN=local",
		"GIT_AUTHOR_NAME=person", "GIT_AUTHOR_EMAIL=person@example.test", "GIT_COMMITTER_NAME=person", "GIT_COMMITTER_EMAIL=person@example.test")
	t.Cleanup(func() { w.lookOver(t) })
	return w
}

// lookOver ends a world and says what is not as it must be.
func (w *world) lookOver(t testing.TB) {
	for _, left := range []string{".shadowlsp-*", ".git/shadowlsp-*"} {
		if found, _ := filepath.Glob(filepath.Join(w.Dir, left)); len(found) > 0 {
			t.Errorf("left in the folder: %q", found)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(w.top, "state", "shadowlsp", "*", "git-*")); len(found) > 0 {
		t.Errorf("left in the state directory: %q", found)
	}
	w.ReadLogs(t)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.Dir, name) }
func (w *world) uri(name string) string  { return docuri.FromPath(w.path(name)) }

func (w *world) write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.WriteFile(w.path(name), []byte(text), 0o644))
}

func (w *world) read(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(w.path(name))
	must(t, err)
	return string(data)
}

// run runs a program in the folder, as the person.
func (w *world) run(program string, args ...string) (out, said string, code int) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = w.Dir, append(os.Environ(), w.Env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err.Error(), -1
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// output is what a program prints that must succeed.
func (w *world) output(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, said, code := w.run(program, args...)
	if code != 0 {
		t.Fatalf("%s %s: exit status %d: %s", filepath.Base(program), strings.Join(args, " "), code, said)
	}
	return out
}

func (w *world) git(t testing.TB, args ...string) string {
	t.Helper()
	return w.output(t, "git", args...)
}

// branch runs `shadowlsp branch`, which must succeed.
func (w *world) branch(t testing.TB, args ...string) string {
	t.Helper()
	return w.output(t, w.binary, append([]string{"branch"}, args...)...)
}

// refused runs `shadowlsp branch`, which must be refused with these words.
func (w *world) refused(t testing.TB, want int, words string, args ...string) {
	t.Helper()
	out, said, code := w.run(w.binary, append([]string{"branch"}, args...)...)
	if code != want || !strings.Contains(said, words) {
		t.Errorf("branch %s: exit status %d, want %d with %q: %s%s", strings.Join(args, " "), code, want, words, out, said)
	}
}

// shell runs a shell script in a branch.
func (w *world) shell(t testing.TB, branch, script string) string {
	t.Helper()
	return w.output(t, w.binary, "exec", "--branch", branch, "--", "sh", "-ec", script)
}

// tree is all that a branch shows, but for .git.
func (w *world) tree(t testing.TB, branch string) stage.Tree {
	t.Helper()
	return readTree(t, w.extract(t, branch))
}

// extract copies what a branch shows to a directory.
func (w *world) extract(t testing.TB, branch string) string {
	t.Helper()
	out := w.output(t, w.binary, "exec", "--branch", branch, "--", "tar", "--exclude=./.git", "-cf", "-", ".")
	to := filepath.Join(t.TempDir(), "tree")
	must(t, os.Mkdir(to, 0o755))
	r := tar.NewReader(strings.NewReader(out))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return to
		}
		must(t, err)
		at := filepath.Join(to, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			must(t, os.MkdirAll(at, 0o755))
		case tar.TypeSymlink:
			must(t, os.Symlink(h.Linkname, at))
		case tar.TypeLink:
			must(t, os.Link(filepath.Join(to, h.Linkname), at))
		default:
			data, err := io.ReadAll(r)
			must(t, err)
			must(t, os.WriteFile(at, data, 0o600))
			must(t, os.Chmod(at, h.FileInfo().Mode()))
		}
	}
}

// readTree is a directory's files and links as git knows them.
func readTree(t testing.TB, dir string) stage.Tree {
	t.Helper()
	out := stage.Tree{}
	must(t, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		switch {
		case e.Name() == ".git" && e.IsDir():
			return filepath.SkipDir
		case e.IsDir():
			return nil
		case e.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(name)
			out[rel] = "link " + target
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		kind := "file "
		if st.Mode()&0o100 != 0 {
			kind = "program "
		}
		out[rel] = kind + string(data)
		return err
	}))
	return out
}

// same says what differs between two trees.
func same(t testing.TB, what string, got, want stage.Tree) {
	t.Helper()
	for i, path := range got.Differences(want) {
		if i == 10 {
			t.Errorf("%s: and more", what)
			return
		}
		t.Errorf("%s: %s is %.200q, want %.200q", what, path, got[path], want[path])
	}
}

// agent is an LSP client on a branch.
type agent struct {
	*client.Client
	w *world
}

func (w *world) agent(t testing.TB, branch string) *agent {
	t.Helper()
	c, err := client.Start(client.Config{Command: []string{w.binary, "connect", "--branch", branch}, Dir: w.Dir, Env: w.Env, Stderr: t.Output()})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = c.Initialize(ctx, w.uri(""), map[string]any{"textDocument": map[string]any{"diagnostic": struct{}{}}}, nil)
	must(t, err)
	return &agent{c, w}
}

// ask sends a request that must be answered.
func (a *agent) ask(t testing.TB, method string, params, result any) {
	t.Helper()
	raw, err := a.try(t, method, params)
	must(t, err)
	if result != nil {
		must(t, json.Unmarshal(raw, result))
	}
}

func (a *agent) try(t testing.TB, method string, params any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return a.Call(ctx, method, params)
}

// errors are the error messages of a lint of one file; "" for none.
func (a *agent) errors(t testing.TB, path string) string {
	t.Helper()
	const tries = 5 // of a verdict that is not final in time
	for try := 0; ; try++ {
		raw, err := a.try(t, "textDocument/diagnostic", map[string]any{"textDocument": map[string]any{"uri": a.w.uri(path)}})
		var e *wire.Error
		if errors.As(err, &e) && e.Code == wire.CodeServerCancelled && try < tries {
			continue
		}
		must(t, err)
		var r struct {
			Items []struct {
				Severity int
				Message  string
			}
		}
		must(t, json.Unmarshal(raw, &r))
		var all []string
		for _, d := range r.Items {
			if d.Severity == 1 {
				all = append(all, d.Message)
			}
		}
		return strings.Join(all, "; ")
	}
}

// expect lints use/use.go, which must have an error with word, or none for "".
func (a *agent) expect(t testing.TB, when, word string) {
	t.Helper()
	if got := a.errors(t, "use/use.go"); (word == "") != (got == "") || !strings.Contains(got, word) {
		t.Errorf("%s: use/use.go has errors %q, want %q", when, got, word)
	}
}

// put writes a file of the branch.
func (a *agent) put(t testing.TB, path, text string) {
	t.Helper()
	a.ask(t, "shadowlsp/write", map[string]any{"edits": []any{map[string]any{"uri": a.w.uri(path), "text": text}}}, nil)
}

// list is what `branch list --json` says of a branch.
func (w *world) list(t testing.TB, branch string) (changes int, checkpoints []string, there bool) {
	t.Helper()
	var all []struct {
		Name        string
		Overrides   int
		Checkpoints []struct{ ID string }
	}
	must(t, json.Unmarshal([]byte(w.branch(t, "list", "--json")), &all))
	for _, b := range all {
		if b.Name == branch {
			for _, cp := range b.Checkpoints {
				checkpoints = append(checkpoints, cp.ID)
			}
			return b.Overrides, checkpoints, true
		}
	}
	return 0, nil, false
}
