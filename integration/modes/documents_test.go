package modes

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/internal/mode"
	"shadowlsp/internal/root"
	"shadowlsp/internal/sandbox"
	"shadowlsp/lsp/wire"
)

// beside is another daemon for the same folder, with runtime and state
// directories of its own.
func (w *world) beside(t *testing.T, name string) *world {
	t.Helper()
	top := filepath.Dir(w.Dir)
	run, state := filepath.Join(top, "run-"+name), filepath.Join(top, "state-"+name)
	for _, dir := range []string{run, state} {
		must(t, os.Mkdir(dir, 0o700))
	}
	s := *w.Stage
	s.Env = append(slices.Clone(s.Env), "XDG_RUNTIME_DIR="+run, "XDG_STATE_HOME="+state)
	place, err := root.At(w.Dir, root.Dirs{Runtime: run, State: state})
	must(t, err)
	other := &world{Stage: &s, binary: w.binary, place: place}
	t.Cleanup(func() {
		if _, err := other.run(t, "stop"); err != nil {
			t.Error(err)
		}
	})
	return other
}

// refusal says whether err is a lint refused as unsupported: because of the mode,
// or because nothing could be said in any.
func refusal(err error) bool {
	var e *wire.Error
	return errors.As(err, &e) && e.Code == wire.CodeServerCancelled && strings.Contains(string(e.Data), `"unsupported"`) &&
		strings.Contains(string(e.Data), `"retriggerRequest":false`) && slices.ContainsFunc(
		[]string{"mode documents", "no such file on the branch", "no language server is there for it"},
		func(why string) bool { return strings.Contains(e.Message, why) })
}

// scenario is what a branch changes of the folder.
type scenario struct {
	name    string
	text    map[string]string
	deleted []string
	// refused: in mode documents all of its lints are.
	refused bool
	// lints are the files whose lints are compared, beside those edited.
	lints []string
}

const useGo = "package use\n\nimport \"example.test/m/lib\"\n\nvar V = lib.F(1)\n"

var scenarios = []scenario{
	{name: "nothing"},
	{name: "an error in a dependent", text: map[string]string{"lib/lib.go": "package lib\n\nfunc F(a string) string { return a }\n"}},
	{name: "an error in itself", text: map[string]string{"own/own.go": "package own\n\nvar _ = undefined\n"}},
	{name: "a syntax error", text: map[string]string{"lib/lib.go": "package lib\n\nfunc F(a int int { return a }\n"}},
	{name: "a new file of a package", text: map[string]string{"lib/more.go": "package lib\n\nfunc G() int { return F(2) }\n", "use/use.go": useGo + "\nvar _ = lib.G()\n"}},
	{name: "a new file in conflict", text: map[string]string{"lib/more.go": "package lib\n\nfunc F() {}\n"}},
	{name: "a new package", text: map[string]string{"fresh/fresh.go": "package fresh\n\nconst C = 1\n", "use/use.go": useGo + "\nimport \"example.test/m/fresh\"\n"}},
	{name: "a new package that is used", text: map[string]string{"fresh/fresh.go": "package fresh\n\nconst C = 1\n", "own/own.go": "package own\n\nimport \"example.test/m/fresh\"\n\nvar N = fresh.C\nvar _ string = fresh.C\n"}},
	{name: "a new package deep down", text: map[string]string{"a/b/c/c.go": "package c\n\nvar X = lib.Y\n"}},
	{name: "a package is renamed", text: map[string]string{"lib/lib.go": "package other\n\nfunc F(a int) int { return a }\n"}},
	{name: "an import of the standard library", text: map[string]string{"own/own.go": "package own\n\nimport \"os\"\n\nvar N = os.Args[0] + 1\n"}},
	{name: "an import of nothing", text: map[string]string{"own/own.go": "package own\n\nimport \"example.test/m/nowhere\"\n\nvar N = nowhere.X\n"}},
	{name: "an import of a module that is not required", text: map[string]string{"own/own.go": "package own\n\nimport \"example.com/absent/thing\"\n\nvar N = thing.X\n"}},
	{name: "an import that is not used", text: map[string]string{"own/own.go": "package own\n\nimport \"fmt\"\n"}},
	{name: "a cycle of imports", text: map[string]string{"lib/lib.go": "package lib\n\nimport \"example.test/m/use\"\n\nfunc F(a int) int { return use.V }\n"}},
	{name: "an import goes", text: map[string]string{"use/use.go": "package use\n\nvar V = 1\n"}},
	{name: "a test", text: map[string]string{"lib/lib_test.go": "package lib\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { var s string = F(1); _ = s }\n"}},
	{name: "an external test", text: map[string]string{"lib/x_test.go": "package lib_test\n\nimport (\n\t\"testing\"\n\n\t\"example.test/m/lib\"\n)\n\nfunc TestF(t *testing.T) { lib.F(\"\") }\n"}},
	{name: "a build constraint", text: map[string]string{"lib/lib.go": "//go:build never\n\npackage lib\n\nfunc F(a int) int { return a }\n"}},
	{name: "an embedded file", text: map[string]string{"own/own.go": "package own\n\nimport _ \"embed\"\n\n//go:embed own.go\nvar S string\n"}},
	{name: "an embedded file that is not there", text: map[string]string{"own/own.go": "package own\n\nimport _ \"embed\"\n\n//go:embed absent.txt\nvar S string\n"}},
	{name: "an embedded file of the branch", text: map[string]string{"own/new.go": "package own\n", "own/own.go": "package own\n\nimport _ \"embed\"\n\n//go:embed new.go\nvar S string\n"}},
	{name: "an empty file", text: map[string]string{"own/own.go": ""}},
	{name: "main and a printf check", text: map[string]string{"cmd/main.go": "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Printf(\"%d\\n\", \"x\") }\n"}},
	{name: "cgo", text: map[string]string{"own/own.go": "package own\n\n// int f(void);\nimport \"C\"\n\nvar N = C.f()\n"}, refused: true},
	{name: "go.mod", text: map[string]string{"go.mod": "module example.test/n\n\ngo 1.24\n"}, refused: true, lints: []string{"use/use.go"}},
	{name: "a text file", text: map[string]string{"note.txt": "another note\n"}, refused: true, lints: []string{"use/use.go"}},
	{name: "a deletion", deleted: []string{"lib/lib.go"}, refused: true, lints: []string{"use/use.go"}},
	{name: "a directory that goes", deleted: []string{"lib"}, refused: true, lints: []string{"use/use.go"}},
	{name: "a file becomes a directory", deleted: []string{"note.txt"}, text: map[string]string{"note.txt/note.go": "package note\n"}, refused: true},
	{name: "a move", deleted: []string{"own/own.go"}, text: map[string]string{"own2/own.go": module["own/own.go"]}, refused: true},
	{name: "too large", text: map[string]string{"own/own.go": "package own\n\n" + strings.Repeat("// line\n", 600_000)}, refused: true},
}

// play has each agent make the edits, and returns the documents whose lints are
// compared.
func (s scenario) play(t *testing.T, agents ...*agent) (lints []string) {
	t.Helper()
	w := agents[0].w
	var gone, made []map[string]any
	lints = append([]string{"lib/lib.go", "use/use.go", "own/own.go"}, s.lints...)
	for _, name := range s.deleted {
		gone = append(gone, w.deleted(name))
	}
	for name, text := range s.text {
		made = append(made, w.text(name, text))
		lints = append(lints, name)
	}
	for _, a := range agents {
		a.call(t, "shadowlsp/write", edits(gone...))
		a.call(t, "shadowlsp/write", edits(made...))
	}
	slices.Sort(lints)
	return slices.Compact(lints)
}

// says compares the lints of a document with those that mode full has.
func (a *agent) says(t *testing.T, mode, name string, full *agent) {
	t.Helper()
	got, gotErr := a.lint(t.Context(), name)
	want, wantErr := full.lint(t.Context(), name)
	slices.Sort(got)
	slices.Sort(want)
	if (gotErr != nil) != (wantErr != nil) || !slices.Equal(got, want) {
		t.Errorf("%s: mode %s says %q, %v\nmode full says %q, %v", name, mode, got, gotErr, want, wantErr)
	}
}

// saysOfAll compares the diagnostics of all files with those that mode full has.
func (a *agent) saysOfAll(t *testing.T, mode string, full *agent) {
	t.Helper()
	if got, want := a.everything(t), full.everything(t); got != want {
		t.Errorf("of all files mode %s says\n%s\nmode full\n%s", mode, got, want)
	}
}

// Whatever mode documents says of a branch is what mode full says of it, or
// that it cannot know.
func TestDocumentsSaysWhatFullSays(t *testing.T) {
	need.FUSE(t)
	full := newWorld(t)
	before := full.Tree(t)
	documents := full.beside(t, "documents")
	full.serve(t, "--mode", "full")
	documents.serve(t, "--mode", "documents")
	if m := documents.status(t).Mode; m.Mode != mode.Documents || m.Why == "" || m.Lost == "" || m.Remedy == "" || m.Guard != sandbox.GuardMount {
		t.Errorf("status says %+v", m)
	}
	if m := full.status(t).Mode; m.Mode != mode.Full || m.Why != "" || m.Lost != "" {
		t.Errorf("status says %+v", m)
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			f, d := full.agent(t), documents.agent(t)
			for _, name := range s.play(t, f, d) {
				if !s.refused {
					d.says(t, "documents", name, f)
				} else if got, err := d.lint(t.Context(), name); !refusal(err) {
					t.Errorf("%s: %q, %v; want it refused", name, got, err)
				}
			}
			if s.refused {
				d.refused(t, "textDocument/references", map[string]any{
					"textDocument": map[string]any{"uri": full.uri("use/use.go")}, "position": map[string]int{"line": 6, "character": 4},
					"context": map[string]any{"includeDeclaration": true},
				}, "mode documents")
				d.refused(t, "workspace/diagnostic", map[string]any{"previousResultIds": []any{}}, "unsupported")
				return
			}
			// All at once, but for go.mod, of which nothing is said then.
			d.saysOfAll(t, "documents", f)
		})
	}
	full.Unchanged(t, before)
}

// everything is the workspace's diagnostics of Go files that have any.
func (a *agent) everything(t *testing.T) string {
	t.Helper()
	var r struct {
		Items []struct {
			URI   string
			Items []json.RawMessage
		}
	}
	var raw json.RawMessage
	var err error
	for range 20 {
		raw, err = a.Call(t.Context(), "workspace/diagnostic", map[string]any{"previousResultIds": []any{}})
		var e *wire.Error
		if !errors.As(err, &e) || !strings.Contains(string(e.Data), `"retriggerRequest":true`) {
			break
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	must(t, json.Unmarshal(raw, &r))
	var lines []string
	for _, item := range r.Items {
		if strings.HasSuffix(item.URI, "go.mod") {
			continue
		}
		for _, d := range item.Items {
			lines = append(lines, item.URI+" "+string(d))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// The rest of the product in mode documents: what is said of it, requests,
// changes of the person's folder, agents that listen.
func TestModeDocuments(t *testing.T) {
	w := newWorld(t)
	w.serve(t, "--mode", "documents")
	a := w.agent(t, "--branch", "b")
	var r struct {
		Capabilities struct {
			Experimental struct{ Shadowlsp struct{ Mode, Lost string } }
		}
	}
	must(t, json.Unmarshal(a.init, &r))
	if s := r.Capabilities.Experimental.Shadowlsp; s.Mode != "documents" || !strings.Contains(s.Lost, "unsupported") {
		t.Errorf("initialize says %+v", s)
	}
	a.hears(t, "window/showMessage", "mode documents", "--mode documents", "refused")
	if out, err := w.run(t, "status"); err != nil || !holdsAll(out, []string{"mode", "documents", "lost:", "to do:"}) {
		t.Errorf("%s, %v", out, err)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), w.Dir) {
		t.Errorf("something is mounted: %v", err)
	}

	// Requests see the branch's text.
	a.call(t, "shadowlsp/write", edits(w.text("lib/lib.go", "package lib\n\n\n\nfunc F(a int) int { return a }\n")))
	definition := string(a.call(t, "textDocument/definition", map[string]any{
		"textDocument": map[string]any{"uri": w.uri("use/use.go")}, "position": map[string]int{"line": 6, "character": 13},
	}))
	if !holdsAll(definition, []string{"lib/lib.go", `"line":4`}) {
		t.Errorf("definition: %s", definition)
	}
	a.clean(t, "use/use.go")
	// A new file and its going are all in the branch's own text.
	a.call(t, "shadowlsp/write", edits(w.text("own/more.go", "package own\n\nconst N = 2\n")))
	a.names(t, "own/more.go", "N redeclared")
	a.call(t, "shadowlsp/write", edits(w.deleted("own/more.go")))
	a.clean(t, "own/own.go")
	// A branch that cannot be known, and one beside it that can.
	b := w.agent(t)
	a.call(t, "shadowlsp/write", edits(w.deleted("lib/lib.go")))
	if _, err := a.lint(t.Context(), "use/use.go"); !refusal(err) || !strings.Contains(err.Error(), "deletes lib/lib.go") {
		t.Errorf("%v", err)
	}
	raw := string(a.call(t, "shadowlsp/lint", map[string]any{"edits": []any{}, "uris": []string{w.uri("use/use.go")}}))
	if !holdsAll(raw, []string{`"verdict":"unsupported"`, "deletes lib/lib.go"}) || strings.Contains(raw, `"diagnostics":`) {
		t.Errorf("shadowlsp/lint: %s", raw)
	}
	b.clean(t, "use/use.go")
	a.call(t, "shadowlsp/write", edits(w.text("lib/lib.go", module["lib/lib.go"])))
	a.clean(t, "use/use.go")
	// go.mod is right as long as the branch is the folder.
	a = b
	a.clean(t, "go.mod")
	a.call(t, "shadowlsp/write", edits(w.text("own/own.go", "package own\n\nimport _ \"example.com/absent\"\n")))
	if _, err := a.lint(t.Context(), "go.mod"); !refusal(err) || !strings.Contains(err.Error(), "go mod tidy") {
		t.Errorf("%v", err)
	}
	a.call(t, "shadowlsp/write", edits(w.text("own/own.go", module["own/own.go"])))

	// The person's saves, new files, deletions and new folders are seen at once.
	for round := range 8 {
		word := "Round" + string(rune('A'+round))
		w.write(t, "lib/lib.go", "package lib\n\ntype "+word+" int\n\nfunc F(a "+word+") struct{} { return a }\n")
		a.names(t, "lib/lib.go", word)
		w.write(t, "lib/lib.go", module["lib/lib.go"])
		a.clean(t, "lib/lib.go")
		w.write(t, "own/other.go", "package own\n\nconst N = "+word+"\n")
		a.names(t, "own/own.go", "N redeclared")
		must(t, os.Remove(w.path("own/other.go")))
		a.clean(t, "own/own.go")
		w.write(t, word+"/x.go", "package x\n\nvar _ = lost\n")
		a.names(t, word+"/x.go", "undefined: lost")
		must(t, os.Rename(w.path("lib"), w.path("elsewhere")))
		a.names(t, "use/use.go", "lib")
		must(t, os.Rename(w.path("elsewhere"), w.path("lib")))
		a.clean(t, "use/use.go")
		must(t, os.RemoveAll(w.path(word)))
	}
	// Kept branches, their diff, and the end.
	a = w.agent(t, "--branch", "b")
	a.call(t, "shadowlsp/write", edits(w.text("own/own.go", "package own\n\nvar _ = kept\n")))
	if diff := string(a.call(t, "shadowlsp/diff", struct{}{})); !strings.Contains(diff, "var _ = kept") {
		t.Errorf("diff: %s", diff)
	}
	must(t, w.Kill())
	w.serve(t, "--mode", "documents")
	w.agent(t, "--branch", "b").names(t, "own/own.go", "undefined: kept")
}

// A server of which nothing is known is asked about what must be right for any.
func TestDocumentsOfAnUnknownServer(t *testing.T) {
	w := newWorld(t)
	// pyright under a name that nobody knows; it does not say who it is.
	for _, name := range []string{"own.py", "lib.py", "use.py"} {
		w.write(t, name, "x = 1\n")
	}
	bin := t.TempDir()
	pyright, err := filepath.EvalSymlinks(need.Tool(t, "pyright-langserver"))
	must(t, err)
	must(t, os.Symlink(pyright, filepath.Join(bin, "strange.js")))
	must(t, os.WriteFile(filepath.Join(bin, "strange-server"), []byte("#!/bin/sh\nexec node "+bin+"/strange.js --stdio\n"), 0o755))
	w.serve(t, "--mode", "documents", "--", filepath.Join(bin, "strange-server"))
	a := w.agent(t)
	a.call(t, "shadowlsp/write", edits(w.text("own.py", "strange\n")))
	a.names(t, "own.py", `"strange" is not defined`)
	if _, err := a.lint(t.Context(), "use.py"); !refusal(err) {
		t.Errorf("another document: %v", err)
	}
	a.call(t, "shadowlsp/write", edits(w.text("lib.py", "x = 2\n")))
	if _, err := a.lint(t.Context(), "own.py"); !refusal(err) {
		t.Errorf("two overrides: %v", err)
	}
}

// The instance cannot write the person's folder: by a read-only mount where
// there are namespaces, by Landlock where there are none.
func TestDocumentsInstanceCannotWrite(t *testing.T) {
	for _, namespaces := range []bool{true, false} {
		name := map[bool]string{true: "namespaces", false: "no namespaces"}[namespaces]
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := w.Tree(t)
			bin := t.TempDir()
			gopls, said := need.Tool(t, "gopls"), filepath.Join(bin, "said")
			script := "#!/bin/sh\n[ $# = 0 ] && { for f in new lib/lib.go; do echo x >>$f; done; rm note.txt; mkdir dir; } 2>" + said + "\nexec " + gopls + " \"$@\"\n"
			must(t, os.WriteFile(filepath.Join(bin, "gopls"), []byte(script), 0o755))
			args := []string{"serve", "--detach", "--mode", "documents", "--", filepath.Join(bin, "gopls")}
			want := sandbox.GuardMount
			cmd := exec.Command(w.binary, args...)
			cmd.Dir, cmd.Env = w.Dir, append(os.Environ(), w.Env...)
			if !namespaces {
				if a := sandbox.Probe().Landlock; !a.OK {
					need.Unmet(t, false, "%s", a.Detail)
				}
				want = sandbox.GuardLandlock
				args[3] = "auto"
				cmd = confined(t, w, args...)
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			s := w.status(t)
			if s.Mode.Mode != mode.Documents || s.Mode.Guard != want {
				t.Errorf("status says %+v", s.Mode)
			}
			a := w.agent(t)
			a.call(t, "shadowlsp/write", edits(w.text("lib/lib.go", "package lib\n\nfunc F(a string) string { return a }\n"), w.text("lib/new.go", "package lib\n\nvar _ = New\n")))
			a.names(t, "use/use.go", "string")
			a.names(t, "lib/new.go", "undefined: New")
			refused := map[bool]string{true: "Read-only file system", false: "Permission denied"}[namespaces]
			if text, err := os.ReadFile(said); err != nil || strings.Count(string(text), refused) != 4 {
				t.Errorf("a server that wrote was told %s, %v", text, err)
			}
			w.Unchanged(t, before)
			// Nothing survives a kill of the daemon.
			all := stage.Family(t, w.Daemon())
			if !slices.ContainsFunc(all, func(p stage.Process) bool { return strings.Contains(p.Line, "gopls") }) {
				t.Errorf("no server is found: %+v", all)
			}
			must(t, w.Kill())
			stage.AllGone(t, all)
		})
	}
}
