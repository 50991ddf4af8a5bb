package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"shadowlsp/integration/client"
	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/docuri"
)

// front is a person's editor on a server: nothing but LSP. The daemon's servers do
// not stand back for it: what is tested is not that, and on a busy machine they
// would wait for ever.
func (w *world) front(t *testing.T, env []string, settings map[string]any, command ...string) *client.Client {
	t.Helper()
	w.serve(t, "--priority", "normal")
	c, err := client.Start(client.Config{
		Command: append([]string{w.binary, "--"}, command...), Dir: w.Dir, Env: append(w.Env, env...), Stderr: t.Output(), Settings: settings,
	})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// eventuallyNames waits until a document has an error that names word, or none for
// "": what the editor does is known here a moment later.
func (a *agent) eventuallyNames(t *testing.T, path, word string) {
	t.Helper()
	var found []string
	defer func() {
		if t.Failed() {
			t.Logf("%s: the errors were %q", path, found)
		}
	}()
	stage.Eventually(t, path+" names "+word, func() bool {
		found = a.lint(t, path)
		return word == "" && len(found) == 0 || word != "" && judge(found, word) == "" && len(found) > 0
	})
}

// Settings that an editor only tells, and never answers for, are there when a
// shadow starts, and when they change.
func TestSettingsThatAreTold(t *testing.T) {
	need.Tool(t, "pyright-langserver")
	w := newWorld(t, map[string]string{"a.py": "def f(a):\n    return a\n"})
	person := w.front(t, nil, nil, "pyright-langserver", "--stdio")
	_, err := person.Initialize(t.Context(), w.uri(""), map[string]any{}, nil)
	must(t, err)
	tell := func(mode string) {
		must(t, person.Notify("workspace/didChangeConfiguration", map[string]any{"settings": map[string]any{
			"python": map[string]any{"analysis": map[string]any{"typeCheckingMode": mode}},
		}}))
	}
	tell("strict")
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	a := w.agent(t, attach{})
	strict := func() bool { return len(a.lint(t, "a.py")) > 0 }
	stage.Eventually(t, "what was told before counts", strict)
	tell("basic")
	stage.Eventually(t, "what is told now counts", func() bool { return !strict() })
	tell("strict")
	stage.Eventually(t, "and what is told again", strict)
	leaves(t, person)
}

// Initialization options, the environment and the working directory are the
// person's.
func TestOptionsAndEnvironment(t *testing.T) {
	w := newWorld(t, with(map[string]string{"own/tagged.go": "//go:build extra && mine\n\npackage own\n\nvar _ = undefinedWithTheTags\n"}))
	// One of the two tags by the options, the other by the environment.
	person := w.front(t, []string{"GOFLAGS=-tags=mine,extra"}, nil, "gopls")
	_, err := person.Initialize(t.Context(), w.uri(""), map[string]any{}, map[string]any{"hints": map[string]bool{"constantValues": true}})
	must(t, err)
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	a := w.agent(t, attach{})
	a.eventuallyNames(t, "own/tagged.go", "undefinedWithTheTags")
	a.edit(t, w.text("own/own.go", "// Package own stands alone.\npackage own\n\nconst (\n\tA = iota\n\tB\n)\n"))
	var hints []struct{ Label json.RawMessage }
	params := document(w.uri("own/own.go"))
	params["range"] = map[string]any{"start": map[string]int{"line": 0, "character": 0}, "end": map[string]int{"line": 7, "character": 0}}
	a.get(t, "textDocument/inlayHint", params, &hints)
	if len(hints) == 0 {
		t.Error("the person's hints are not there")
	}
	daemon := w.Daemon()
	for _, p := range servers(t, daemon) {
		at, err := os.Readlink("/proc/" + strconv.Itoa(p.PID) + "/cwd")
		if err == nil && at != w.Dir {
			t.Errorf("the server works in %s", at)
		}
	}
	leaves(t, person)
}

// Folders that the person adds and removes are the shadow's, too.
func TestFoldersThatMove(t *testing.T) {
	need.Tool(t, "pyright-langserver")
	// Which folder a file belongs to decides which configuration holds.
	w := newWorld(t, map[string]string{
		"one/pyrightconfig.json": "{}\n", "one/a.py": "x = 1\n",
		"two/pyrightconfig.json": "{\"strict\": [\"**\"]}\n", "two/b.py": "def f(a):\n    return a\n",
	})
	person := w.front(t, nil, nil, "pyright-langserver", "--stdio")
	_, err := person.Call(t.Context(), "initialize", map[string]any{
		"processId": os.Getpid(), "rootUri": w.uri("one"),
		"capabilities":     map[string]any{"workspace": map[string]any{"workspaceFolders": true}},
		"workspaceFolders": []map[string]string{{"uri": w.uri("one"), "name": "one"}},
	})
	must(t, err)
	must(t, person.Notify("initialized", struct{}{}))
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	a := w.agent(t, attach{})
	a.eventuallyNames(t, "two/b.py", "")
	move := func(added, removed []map[string]string) {
		must(t, person.Notify("workspace/didChangeWorkspaceFolders", map[string]any{"event": map[string]any{"added": added, "removed": removed}}))
	}
	two := []map[string]string{{"uri": docuri.FromPath(w.path("two")), "name": "two"}}
	move(two, []map[string]string{})
	stage.Eventually(t, "the second folder's strictness counts", func() bool {
		return strings.Contains(strings.Join(a.lint(t, "two/b.py"), " "), "annotation")
	})
	move([]map[string]string{}, two)
	a.eventuallyNames(t, "two/b.py", "")
	// One that starts now has them from the beginning.
	move(two, []map[string]string{})
	stage.Eventually(t, "the second folder's strictness counts again", func() bool {
		return strings.Contains(strings.Join(a.lint(t, "two/b.py"), " "), "annotation")
	})
	must(t, w.Kill())
	<-a.read
	leaves(t, person)
	w.serve(t)
	b := w.agent(t, attach{})
	if found := strings.Join(b.lint(t, "two/b.py"), " "); !strings.Contains(found, "annotation") {
		t.Errorf("a daemon later: %q", found)
	}
}

// Folders come and go while agents work: what is asked meanwhile is answered right, and
// what was known of the other folders is not answered from memory.
func TestFoldersThatMoveUnderWork(t *testing.T) {
	two := "// Package two is another module.\npackage two\n\n// OnlyInTwo is found while the folder is there.\nconst OnlyInTwo = 1\n"
	files := map[string]string{"two/go.mod": "module example.test/two\n\ngo 1.24\n", "two/two.go": two}
	for name, text := range module {
		files["one/"+name] = text
	}
	w := newWorld(t, files)
	person := w.front(t, nil, nil, "gopls")
	_, err := person.Call(t.Context(), "initialize", map[string]any{
		"processId": os.Getpid(), "rootUri": w.uri("one"), "capabilities": map[string]any{"workspace": map[string]any{"workspaceFolders": true}},
		"workspaceFolders": []map[string]string{{"uri": w.uri("one"), "name": "one"}},
	})
	must(t, err)
	must(t, person.Notify("initialized", struct{}{}))
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	a, b := w.agent(t, attach{branch: "a"}), w.agent(t, attach{branch: "b"})
	found := func() bool {
		var symbols []struct{ Name string }
		b.get(t, "workspace/symbol", map[string]any{"query": "OnlyInTwo"}, &symbols)
		return len(symbols) > 0
	}
	if found() {
		t.Error("the folder is there before it was added")
	}
	var work sync.WaitGroup
	defer work.Wait()
	over := make(chan struct{})
	defer close(over)
	work.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			default:
			}
			word := fmt.Sprintf("Move%d", n)
			a.edit(t, w.text("one/lib/lib.go", stage.LibText(word)))
			a.names(t, "one/use/use.go", word)
		}
	})
	move := func(added, removed []map[string]string) {
		must(t, person.Notify("workspace/didChangeWorkspaceFolders", map[string]any{"event": map[string]any{"added": added, "removed": removed}}))
	}
	none, folder := []map[string]string{}, []map[string]string{{"uri": w.uri("two"), "name": "two"}}
	for range 3 {
		move(folder, none)
		stage.Eventually(t, "the folder that was added is looked through", found)
		move(none, folder)
		stage.Eventually(t, "the folder that was removed is not", func() bool { return !found() })
	}
}
