package daemon

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/wire"
)

// Files come, go and move on a branch by shadowlsp/lint, and its answer is of
// the result.
func TestFilesComeAndGo(t *testing.T) {
	w := shared(t)
	a := w.agent(t, attach{branch: "b"})
	other := w.agent(t, attach{})
	lint := func(what string, edits []fileEdit, path string, words ...string) {
		t.Helper()
		found := a.editAndLint(t, edits, path)
		if _, ok := found[path]; !ok {
			t.Errorf("%s: no item for %s: %v", what, path, found)
		}
		if why := judge(errorsIn(found[path]), words...); why != "" {
			t.Errorf("%s: %s: %s", what, path, why)
		}
	}
	for round := range 6 {
		word := fmt.Sprintf("Round%d", round)
		lint("change", []fileEdit{w.text("lib/lib.go", stage.LibText(word))}, "use/use.go", word)
		lint("delete", []fileEdit{w.deleted("lib/lib.go")}, "use/use.go", "lib")
		lint("come back", []fileEdit{w.text("lib/lib.go", module["lib/lib.go"])}, "use/use.go")
		// A second file of the package, which is in conflict with the first.
		more := fmt.Sprintf("lib/more%d.go", round)
		lint("add", []fileEdit{w.text(more, "package lib\n\nfunc F(b bool) bool { return b }\n")}, more, "F redeclared")
		// The first goes: the second is the package.
		lint("delete the first", []fileEdit{w.deleted("lib/lib.go")}, "use/use.go", "bool")
		lint("rename", []fileEdit{w.deleted(more), w.text("lib/lib.go", module["lib/lib.go"])}, "use/use.go")
		// A package moves, and its user with it.
		moved := strings.Replace(module["use/use.go"], "m/lib", "m/moved", 1)
		moved = strings.Replace(moved, "lib.F", "moved.F", 1)
		lint("move the package", []fileEdit{w.deleted("lib/lib.go"), w.text("moved/moved.go", strings.Replace(module["lib/lib.go"], "package lib", "package moved", 1))}, "use/use.go", "lib")
		lint("move its user", []fileEdit{w.text("use/use.go", moved)}, "use/use.go")
		lint("all back", []fileEdit{w.deleted("moved/moved.go"), w.text("lib/lib.go", module["lib/lib.go"]), w.text("use/use.go", module["use/use.go"])}, "use/use.go")
		other.clean(t, "use/use.go")
	}
	if patch := a.patch(t); patch != "" {
		t.Errorf("all is as in the base, and the patch is\n%s", patch)
	}
	// Nothing is made where one of the edits is refused.
	a.refused(t, "shadowlsp/lint", map[string]any{"edits": []fileEdit{w.text("lib/lib.go", "x"), w.deleted("no/such.go")}})
	a.refused(t, "shadowlsp/lint", map[string]any{"edits": []fileEdit{w.text("lib/lib.go", "x"), {"uri": "file:///etc/passwd", "text": "x"}}})
	a.clean(t, "use/use.go")
	// Without uris: everything that has diagnostics, and everything edited.
	found := a.editAndLint(t, []fileEdit{w.text("lib/lib.go", stage.LibText("Everywhere")), w.text("quiet/quiet.go", "// Package quiet is right.\npackage quiet\n")})
	for path, words := range map[string][]string{"use/use.go": {"Everywhere"}, "lib/lib.go": nil, "quiet/quiet.go": nil} {
		items, ok := found[path]
		if why := judge(errorsIn(items), words...); !ok || why != "" {
			t.Errorf("%s: %v, %s", path, ok, why)
		}
	}
	if _, ok := found["own/own.go"]; ok {
		t.Errorf("own/own.go is right and was not edited: %v", found)
	}
}

// The branch's go.mod is what go list is told.
func TestGoModOnABranch(t *testing.T) {
	w := shared(t)
	a, other := w.agent(t, attach{branch: "b"}), w.agent(t, attach{})
	other.clean(t, "use/use.go")
	renamed := strings.Replace(module["go.mod"], "example.test/m", "example.test/other", 1)
	for round := range 3 {
		a.edit(t, w.text("go.mod", renamed))
		if found := a.lint(t, "use/use.go"); len(found) == 0 {
			t.Errorf("round %d: the module has another name, and use/use.go is clean", round)
		}
		other.clean(t, "use/use.go")
		a.edit(t, w.text("go.mod", module["go.mod"]+"nonsense\n"))
		a.names(t, "go.mod", "nonsense")
		a.edit(t, w.text("use/use.go", "// Of the branch.\n"+module["use/use.go"]))
		a.edit(t, w.text("go.mod", module["go.mod"]))
		a.clean(t, "use/use.go")
		a.clean(t, "go.mod")
		// A module of its own, below, and used by way of a replace.
		a.edit(t,
			w.text("sub/go.mod", "module example.test/sub\n\ngo 1.24\n"),
			w.text("sub/sub.go", fmt.Sprintf("package sub\n\n// G is G.\nfunc G(Sub%d) {}\n\n// Sub%d is a type.\ntype Sub%d bool\n", round, round, round)),
			w.text("go.mod", module["go.mod"]+"\nrequire example.test/sub v0.0.0\n\nreplace example.test/sub => ./sub\n"),
			w.text("use/use.go", "package use\n\nimport \"example.test/sub\"\n\nfunc init() { sub.G(1) }\n"))
		a.names(t, "use/use.go", fmt.Sprintf("Sub%d", round))
		other.clean(t, "use/use.go")
		a.edit(t, w.deleted("sub"), w.text("go.mod", module["go.mod"]), w.text("use/use.go", module["use/use.go"]))
		a.clean(t, "use/use.go")
	}
}

// copyOf makes a real copy of the person's folder.
func (w *world) copyOf(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	must(t, exec.Command("cp", "-a", w.Dir, dir).Run())
	return dir
}

// What a branch holds can be read, listed and searched, and its patch makes a
// copy of the folder into it.
func TestReadListSearchDiff(t *testing.T) {
	w := newWorld(t, with(map[string]string{
		"docs/a.txt": "one\ntwo\nthree\n", "docs/b.txt": "no end of line", "docs/crlf.txt": "a\r\nb\r\n", "docs/deep/er/c.txt": "deep\n",
		"space name.txt": "x\n", "tüb/ä\"q.txt": "quoted\n", "tool.sh": "#!/bin/sh\necho\n",
	}))
	w.serve(t)
	a := w.agent(t, attach{branch: "b"})
	binary := "\x00\x01\xff binary"
	a.edit(t,
		w.text("docs/a.txt", "one\nTWO\nthree\nfour"), w.text("docs/b.txt", "an end of line\n"), w.text("docs/crlf.txt", "a\r\nB\r\nc\n"),
		w.deleted("docs/deep/er/c.txt"), w.text("docs/new/dir/n.txt", "new 😀\n"), w.text("empty", ""), w.text("space name.txt", "y\n"),
		w.text("tüb/ä\"q.txt", "quoted twice\n"), w.text("out.ignored", "build output\n"), w.deleted("tool.sh"), w.text("nul.bin", "\x00\x01 text\n"),
		w.text("lib/lib.go", stage.LibText("Mine")), w.text("a\ttab", "tab\n"))
	want := map[string]string{
		"docs/a.txt": "one\nTWO\nthree\nfour", "docs/b.txt": "an end of line\n", "docs/crlf.txt": "a\r\nB\r\nc\n", "docs/new/dir/n.txt": "new 😀\n", "empty": "",
		"space name.txt": "y\n", "tüb/ä\"q.txt": "quoted twice\n", "nul.bin": "\x00\x01 text\n", "lib/lib.go": stage.LibText("Mine"), "a\ttab": "tab\n",
		// Not overridden.
		"go.mod": module["go.mod"], "use/use.go": module["use/use.go"],
	}

	t.Run("read", func(t *testing.T) {
		for path, text := range want {
			var r struct {
				Text       *string
				Overridden bool
			}
			a.get(t, "shadowlsp/read", map[string]any{"uri": w.uri(path)}, &r)
			inBase := path == "go.mod" || path == "use/use.go"
			if r.Text == nil || *r.Text != text || r.Overridden == inBase {
				t.Errorf("%s: %+v, want %q", path, r, text)
			}
		}
		for _, path := range []string{"docs/deep/er/c.txt", "tool.sh", "never", "docs", "docs/a.txt/below"} {
			if e := a.refused(t, "shadowlsp/read", map[string]any{"uri": w.uri(path)}); e.Code != wire.CodeInvalidParams {
				t.Errorf("%s: %+v", path, e)
			}
		}
		must(t, os.WriteFile(w.path("bin.ignored"), []byte(binary), 0o644)) // the person's, and ignored
		var r struct {
			Text   *string
			Base64 string
		}
		a.get(t, "shadowlsp/read", map[string]any{"uri": w.uri("bin.ignored")}, &r)
		if got, err := base64.StdEncoding.DecodeString(r.Base64); err != nil || string(got) != binary || r.Text != nil {
			t.Errorf("binary: %q, %v", got, err)
		}
		must(t, os.Remove(w.path("bin.ignored")))
		w.before = nil // the folder's own time has changed by that
	})
	t.Run("list", func(t *testing.T) {
		list := func(params map[string]any) (paths []string) {
			t.Helper()
			var r struct{ Entries []struct{ Path, Kind string } }
			a.get(t, "shadowlsp/list", params, &r)
			for _, e := range r.Entries {
				paths = append(paths, e.Kind+" "+e.Path)
			}
			return paths
		}
		if got, want := list(map[string]any{"uri": w.uri("docs")}), []string{"file docs/a.txt", "file docs/b.txt", "file docs/crlf.txt", "dir docs/deep", "dir docs/new"}; !slices.Equal(got, want) {
			t.Errorf("docs: %q", got)
		}
		if got, want := list(map[string]any{"glob": "**/*.go"}), []string{"file lib/lib.go", "file own/own.go", "file use/use.go"}; !slices.Equal(got, want) {
			t.Errorf("**/*.go: %q", got)
		}
		got := list(map[string]any{"overridden": true})
		for _, want := range []string{"deleted tool.sh", "deleted docs/deep/er/c.txt", "file empty", "file docs/a.txt", "file out.ignored"} {
			if !slices.Contains(got, want) {
				t.Errorf("overridden lacks %q: %q", want, got)
			}
		}
		if slices.Contains(got, "file go.mod") {
			t.Errorf("overridden: %q", got)
		}
	})
	t.Run("search", func(t *testing.T) {
		search := func(params map[string]any) (found []string) {
			t.Helper()
			var r struct {
				Matches []struct {
					URI, Line string
					Range     struct{ Start struct{ Line, Character int } }
				}
			}
			a.get(t, "shadowlsp/search", params, &r)
			for _, m := range r.Matches {
				found = append(found, fmt.Sprintf("%s:%d:%d %s", strings.TrimPrefix(m.URI, w.uri("")+"/"), m.Range.Start.Line, m.Range.Start.Character, m.Line))
			}
			return found
		}
		if got := search(map[string]any{"pattern": "Mine struct"}); !slices.Equal(got, []string{"lib/lib.go:7:5 type Mine struct{}"}) {
			t.Errorf("the branch's own text: %q", got)
		}
		if got := search(map[string]any{"pattern": "deep"}); len(got) != 0 {
			t.Errorf("a deleted file's text: %q", got)
		}
		if got := search(map[string]any{"pattern": "^two$", "regexp": true, "ignoreCase": true, "glob": "docs/**"}); len(got) != 0 {
			t.Logf("^ without (?m) is the text's begin: %q", got)
		}
		if got := search(map[string]any{"pattern": "(?m)^two$", "regexp": true, "ignoreCase": true, "glob": "docs/**"}); !slices.Equal(got, []string{"docs/a.txt:1:0 TWO"}) {
			t.Errorf("TWO: %q", got)
		}
		if e := a.refused(t, "shadowlsp/search", map[string]any{"pattern": "(", "regexp": true}); e.Code != wire.CodeInvalidParams {
			t.Errorf("a bad expression: %+v", e)
		}
	})
	t.Run("diff", func(t *testing.T) {
		patch := a.patch(t)
		copied := w.copyOf(t)
		apply := exec.Command("git", "-C", copied, "apply", "--whitespace=nowarn", "-")
		apply.Stdin = strings.NewReader(patch)
		if out, err := apply.CombinedOutput(); err != nil {
			t.Fatalf("git apply: %v: %s\n%s", err, out, patch)
		}
		for path, text := range want {
			if got, err := os.ReadFile(filepath.Join(copied, path)); err != nil || string(got) != text {
				t.Errorf("in the copy %s is %q, %v; want %q", path, got, err, text)
			}
		}
		for _, path := range []string{"docs/deep/er/c.txt", "tool.sh", "out.ignored"} {
			if _, err := os.Lstat(filepath.Join(copied, path)); err == nil {
				t.Errorf("in the copy there is %s", path)
			}
		}
		var r struct {
			Patch string
			Paths []string
		}
		a.get(t, "shadowlsp/diff", map[string]any{"paths": []string{"docs/new"}, "ignored": true}, &r)
		if !slices.Equal(r.Paths, []string{"docs/new/dir/n.txt"}) || strings.Count(r.Patch, "diff --git") != 1 {
			t.Errorf("one folder's patch: %q\n%s", r.Paths, r.Patch)
		}
		a.get(t, "shadowlsp/diff", map[string]any{"ignored": true}, &r)
		if !slices.Contains(r.Paths, "out.ignored") {
			t.Errorf("with what git ignores: %q", r.Paths)
		}
		// A fresh gopls on the copy says what the branch's lint says.
		a.names(t, "use/use.go", "Mine")
	})
}

// pushedTexts are what a client that does not pull is told.
func TestPushedDiagnostics(t *testing.T) {
	w := shared(t)
	a := w.agent(t, attach{push: true})
	a.open(t, "lib/lib.go", module["lib/lib.go"], 1)
	a.open(t, "use/use.go", module["use/use.go"], 5)
	a.hears(t, "a first publish", published(w.uri("use/use.go"), 5, ""))
	for version := 2; version < 12; version++ {
		a.forget()
		word := fmt.Sprintf("Pushed%d", version)
		a.change(t, "lib/lib.go", version, whole(stage.LibText(word)))
		a.hears(t, word, published(w.uri("use/use.go"), 5, word))
		a.hears(t, word, published(w.uri("lib/lib.go"), version, ""))
	}
	// In a burst, whatever is published of a version is of that version's text.
	a.forget()
	for version := 20; version < 60; version++ {
		a.change(t, "use/use.go", version, whole(strings.Replace(module["use/use.go"], "F(1)", fmt.Sprintf("Version%d", version), 1)))
	}
	a.hears(t, "the last version", published(w.uri("use/use.go"), 59, "Version59"))
	for _, m := range a.everything() {
		var p struct {
			URI         string
			Version     int
			Diagnostics []diagnostic
		}
		if m.Method != "textDocument/publishDiagnostics" || json.Unmarshal(m.Params, &p) != nil || p.URI != w.uri("use/use.go") || p.Version < 20 {
			continue
		}
		if why := judge(errorsIn(p.Diagnostics), fmt.Sprintf("Version%d", p.Version)); why != "" {
			t.Errorf("version %d: %s", p.Version, why)
		}
	}
	a.forget()
	a.close(t, "use/use.go")
	a.hears(t, "the end of a closed document's diagnostics", func(m wire.Message) bool {
		return m.Method == "textDocument/publishDiagnostics" && strings.Contains(string(m.Params), "use.go") && strings.Contains(string(m.Params), `"diagnostics":[]`)
	})
}

// everything is all that was told.
func (a *agent) everything() []wire.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.told)
}

// workspaceReport is the answer to workspace/diagnostic.
type workspaceReport struct {
	Items []struct {
		URI, Kind, ResultID string
		Version             *int
		Items               []diagnostic
		Shadowlsp           struct{ Verdict string }
	}
}

func TestWorkspaceDiagnostics(t *testing.T) {
	w := shared(t)
	a := w.agent(t, attach{})
	a.open(t, "lib/lib.go", module["lib/lib.go"], 3)
	a.change(t, "lib/lib.go", 4, whole(stage.LibText("Wide")))
	var r workspaceReport
	a.get(t, "workspace/diagnostic", map[string]any{"previousResultIds": []any{}}, &r)
	byURI := map[string]int{}
	previous := []any{}
	for i, item := range r.Items {
		byURI[item.URI] = i
		previous = append(previous, map[string]string{"uri": item.URI, "value": item.ResultID})
		if item.Shadowlsp.Verdict != "fresh" {
			t.Errorf("%s: the verdict is %q", item.URI, item.Shadowlsp.Verdict)
		}
	}
	use, ok := byURI[w.uri("use/use.go")]
	if !ok || judge(errorsIn(r.Items[use].Items), "Wide") != "" || r.Items[use].Version != nil {
		t.Errorf("use/use.go in %+v", r)
	}
	lib, ok := byURI[w.uri("lib/lib.go")]
	if !ok || len(errorsIn(r.Items[lib].Items)) != 0 || r.Items[lib].Version == nil || *r.Items[lib].Version != 4 {
		t.Errorf("lib/lib.go in %+v", r)
	}
	a.get(t, "workspace/diagnostic", map[string]any{"previousResultIds": previous}, &r)
	for _, item := range r.Items {
		if item.Kind != "unchanged" {
			t.Errorf("asked again, %s is %s", item.URI, item.Kind)
		}
	}
	a.change(t, "lib/lib.go", 5, whole(module["lib/lib.go"]))
	r = workspaceReport{}
	a.get(t, "workspace/diagnostic", map[string]any{"previousResultIds": previous}, &r)
	for _, item := range r.Items {
		if len(errorsIn(item.Items)) > 0 {
			t.Errorf("all is well, and %s has %+v", item.URI, item.Items)
		}
	}
	if !slices.ContainsFunc(r.Items, func(i struct {
		URI, Kind, ResultID string
		Version             *int
		Items               []diagnostic
		Shadowlsp           struct{ Verdict string }
	}) bool {
		return i.URI == w.uri("use/use.go") && i.Kind == "full"
	}) {
		t.Errorf("what had errors is not said to have none: %+v", r)
	}
}

// The tree that a branch shows is the tree that its patch makes: checked on a
// copy by a fresh gopls of its own, file by file.
func TestABranchIsARealCopy(t *testing.T) {
	w := shared(t)
	a := w.agent(t, attach{branch: "b"})
	a.edit(t, w.text("lib/lib.go", stage.LibText("Copied")), w.deleted("own/own.go"), w.text("new/new.go", "package new\n\nimport \"example.test/m/own\"\n\nvar _ = own.N\n"))
	copied := w.copyOf(t)
	apply := exec.Command("git", "-C", copied, "apply", "-")
	apply.Stdin = strings.NewReader(a.patch(t))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v: %s", err, out)
	}
	tree, err := stage.Read(copied)
	must(t, err)
	want := map[string][]string{}
	files := []string{}
	for path := range tree {
		if strings.HasSuffix(path, ".go") {
			files = append(files, path)
		}
	}
	check := w.command(need.Tool(t, "gopls"), append([]string{"check", "-severity=error"}, files...)...)
	check.Dir, check.Stderr = copied, t.Output()
	out, err := check.Output()
	must(t, err)
	for line := range strings.Lines(string(out)) {
		// path:line:column-column: message
		path, rest, _ := strings.Cut(strings.TrimPrefix(line, copied+"/"), ":")
		at, message, _ := strings.Cut(rest, ": ")
		begin, _, _ := strings.Cut(at, "-")
		want[path] = append(want[path], begin+" "+strings.Join(strings.Fields(message), " "))
	}
	if len(want) < 2 {
		t.Errorf("gopls check finds little on the copy:\n%s", out)
	}
	for _, path := range files {
		got := []string{}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		r, err := a.tryLint(ctx, path)
		cancel()
		must(t, err)
		for _, d := range r.Items {
			if d.Severity == 1 {
				got = append(got, fmt.Sprintf("%d:%d %s", d.Range.Start.Line+1, d.Range.Start.Character+1, strings.Join(strings.Fields(d.Message), " ")))
			}
		}
		slices.Sort(got)
		slices.Sort(want[path])
		if !slices.Equal(got, want[path]) {
			t.Errorf("%s: the lint says %q, a fresh gopls on a real copy %q", path, got, want[path])
		}
	}
	var listed struct{ Entries []struct{ Path, Kind string } }
	a.get(t, "shadowlsp/list", map[string]any{"glob": "**"}, &listed)
	got := []string{}
	for _, e := range listed.Entries {
		if e.Kind == "file" && !strings.HasPrefix(e.Path, ".git/") {
			got = append(got, e.Path)
		}
	}
	there := []string{}
	must(t, filepath.WalkDir(copied, func(name string, entry fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(copied, name)
		if err == nil && entry.Type().IsRegular() && !strings.HasPrefix(rel, ".git/") {
			there = append(there, rel)
		}
		return err
	}))
	slices.Sort(there)
	slices.Sort(got)
	if !slices.Equal(got, there) {
		t.Errorf("the branch lists %q, the copy has %q", got, there)
	}
}
