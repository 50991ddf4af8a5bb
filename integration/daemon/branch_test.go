package daemon

import (
	"encoding/json"
	"strings"
	"testing"

	"shadowlsp/integration/stage"
	"shadowlsp/lsp/wire"
)

func TestBranches(t *testing.T) {
	w := shared(t)

	t.Run("a fresh branch goes with its agent", func(t *testing.T) {
		a := w.agent(t, attach{})
		name, _ := a.about(t)
		a.edit(t, w.text("lib/lib.go", stage.LibText("Fresh")))
		a.names(t, "use/use.go", "Fresh")
		if b, ok := w.branch(t, name); !ok || b.Keep || b.Agents != 1 || b.Overrides != 1 {
			t.Errorf("status says %+v, %v", b, ok)
		}
		a.leave(t)
		stage.Eventually(t, "the branch has gone", func() bool { _, ok := w.branch(t, name); return !ok })
		if found := w.layersNaming(t, "Fresh"); len(found) > 0 {
			t.Errorf("its files are left: %q", found)
		}
	})
	t.Run("a fresh branch that is kept stays", func(t *testing.T) {
		a := w.agent(t, attach{keep: true})
		name, _ := a.about(t)
		a.edit(t, w.text("own/own.go", ownText("kept")))
		a.leave(t)
		again := w.agent(t, attach{branch: name})
		again.names(t, "own/own.go", "kept")
	})
	t.Run("a named branch stays, and two sessions see one content", func(t *testing.T) {
		a := w.agent(t, attach{branch: "named"})
		a.edit(t, w.text("own/own.go", ownText("mine")))
		a.leave(t)
		if b, ok := w.branch(t, "named"); !ok || !b.Keep {
			t.Errorf("status says %+v, %v", b, ok)
		}
		again := w.agent(t, attach{branch: "named"})
		again.names(t, "own/own.go", "mine")
	})
	t.Run("a fork is its own from then on", func(t *testing.T) {
		parent := w.agent(t, attach{})
		from, _ := parent.about(t)
		parent.edit(t, w.text("lib/lib.go", stage.LibText("Before")), w.text("own/own.go", ownText("before")))
		child := w.agent(t, attach{branch: "child", from: from})
		child.names(t, "use/use.go", "Before")
		parent.edit(t, w.text("lib/lib.go", stage.LibText("After")), w.text("extra/extra.go", "package extra\n"), w.deleted("own/own.go"))
		parent.names(t, "use/use.go", "After")
		child.names(t, "use/use.go", "Before")
		child.names(t, "own/own.go", "before")
		if e := child.refused(t, "shadowlsp/read", map[string]any{"uri": w.uri("extra/extra.go")}); e.Code != wire.CodeInvalidParams {
			t.Errorf("the parent's later file: %+v", e)
		}
		child.edit(t, w.text("lib/lib.go", stage.LibText("Childs")))
		child.names(t, "use/use.go", "Childs")
		parent.names(t, "use/use.go", "After")
		// Its parent was a fresh branch: that goes, the child stays whole.
		parent.leave(t)
		stage.Eventually(t, "the parent has gone", func() bool { _, ok := w.branch(t, from); return !ok })
		child.names(t, "own/own.go", "before")
		child.names(t, "use/use.go", "Childs")
	})
	t.Run("a fork of nothing", func(t *testing.T) {
		before, _ := w.status(t)
		a := w.speak(t, w.dial(t))
		e := a.refused(t, "initialize", attach{branch: "orphan", from: "nobody"}.params(w))
		if e.Code != wire.CodeInvalidParams || !strings.Contains(e.Message, "nobody") {
			t.Errorf("got %+v", e)
		}
		<-a.read
		if after, _ := w.status(t); len(after.Branches) != len(before.Branches) {
			t.Errorf("it has made a branch: %+v", after.Branches)
		}
	})
	t.Run("a deleted file in a fork", func(t *testing.T) {
		parent := w.agent(t, attach{branch: "deleter"})
		parent.edit(t, w.deleted("lib/lib.go"))
		child := w.agent(t, attach{branch: "child-of-deleter", from: "deleter"})
		if found := child.lint(t, "use/use.go"); len(found) == 0 {
			t.Error("use/use.go is clean without lib")
		}
		child.edit(t, w.text("lib/lib.go", module["lib/lib.go"]))
		child.clean(t, "use/use.go")
		if found := parent.lint(t, "use/use.go"); len(found) == 0 {
			t.Error("the child's file has come back in the parent")
		}
	})
}

// layersNaming lists the files of the daemon's state that hold a word.
func (w *world) layersNaming(t testing.TB, word string) []string {
	t.Helper()
	out, _ := w.command("grep", "-rl", word, w.place.State+"/layers").Output() // 1: none
	return strings.Fields(string(out))
}

// Two agents on one branch.
func TestTwoAgentsOnABranch(t *testing.T) {
	w := shared(t)
	refreshes := map[string]any{"workspace": map[string]any{"diagnostics": map[string]any{"refreshSupport": true}}}
	writer := w.agent(t, attach{branch: "both"})
	puller := w.agent(t, attach{branch: "both", capabilities: refreshes})
	pusher := w.agent(t, attach{branch: "both", push: true})
	stranger := w.agent(t, attach{branch: "other", capabilities: refreshes})
	puller.open(t, "use/use.go", module["use/use.go"], 1)
	pusher.open(t, "use/use.go", module["use/use.go"], 1)
	puller.clean(t, "use/use.go")
	pusher.hears(t, "a first publish", published(w.uri("use/use.go"), 1, ""))
	steps := []struct {
		name string
		edit func(t *testing.T, word string)
	}{
		{"didOpen", func(t *testing.T, word string) { writer.open(t, "lib/lib.go", stage.LibText(word), 1) }},
		{"didChange", func(t *testing.T, word string) { writer.change(t, "lib/lib.go", 2, whole(stage.LibText(word))) }},
		{"shadowlsp/write", func(t *testing.T, word string) { writer.edit(t, w.text("lib/lib.go", stage.LibText(word))) }},
		{"shadowlsp/lint", func(t *testing.T, word string) {
			writer.editAndLint(t, []fileEdit{w.text("lib/lib.go", stage.LibText(word))}, "own/own.go")
		}},
	}
	for i, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			word := []string{"Opened", "Changed", "Wrote", "Linted"}[i]
			puller.forget()
			pusher.forget()
			step.edit(t, word)
			puller.hears(t, "a refresh", func(m wire.Message) bool { return m.Method == "workspace/diagnostic/refresh" })
			puller.names(t, "use/use.go", word)
			pusher.hears(t, "a publish", published(w.uri("use/use.go"), 1, word))
		})
	}
	t.Run("a deletion", func(t *testing.T) {
		puller.forget()
		pusher.forget()
		must(t, writer.notify("textDocument/didClose", document(w.uri("lib/lib.go"))))
		writer.edit(t, w.deleted("lib/lib.go"))
		puller.hears(t, "a refresh", func(m wire.Message) bool { return m.Method == "workspace/diagnostic/refresh" })
		pusher.hears(t, "a publish", published(w.uri("use/use.go"), 1, "lib"))
	})
	if told := stranger.heard(); strings.Contains(told, "refresh") {
		t.Errorf("an agent on another branch was told: %s", told)
	}
	stranger.clean(t, "use/use.go")
}

// published matches a publishDiagnostics of a version whose errors name word;
// "" is one without errors.
func published(uri string, version int, word string) func(wire.Message) bool {
	return func(m wire.Message) bool {
		if m.Method != "textDocument/publishDiagnostics" {
			return false
		}
		var p struct {
			URI         string
			Version     *int
			Diagnostics []diagnostic
		}
		if json.Unmarshal(m.Params, &p) != nil || p.URI != uri || p.Version == nil || *p.Version != version {
			return false
		}
		found := errorsIn(p.Diagnostics)
		if word == "" {
			return len(found) == 0
		}
		return len(found) > 0 && judge(found, word) == ""
	}
}

// Without autosave the branch's files are what was saved, and lints are of what
// is open.
func TestWithoutAutosave(t *testing.T) {
	w := shared(t)
	a := w.agent(t, attach{branch: "slow", noAutosave: true})
	a.open(t, "lib/lib.go", module["lib/lib.go"], 1)
	a.change(t, "lib/lib.go", 2, whole(stage.LibText("Unsaved")))
	a.names(t, "use/use.go", "Unsaved")
	if patch := a.patch(t); patch != "" {
		t.Errorf("nothing is saved, and the patch is\n%s", patch)
	}
	if found := w.layersNaming(t, "Unsaved"); len(found) > 0 {
		t.Errorf("the unsaved text is in %q", found)
	}
	other := w.agent(t, attach{branch: "fork", from: "slow"})
	other.clean(t, "use/use.go") // a fork is of files
	a.save(t, "lib/lib.go")
	if patch := a.patch(t); !strings.Contains(patch, "+type Unsaved struct") {
		t.Errorf("it is saved, and the patch is\n%s", patch)
	}
	a.names(t, "use/use.go", "Unsaved")
	a.change(t, "lib/lib.go", 3, whole(stage.LibText("Again")))
	a.names(t, "use/use.go", "Again")
	a.close(t, "lib/lib.go") // without saving: the branch has what was saved
	a.names(t, "use/use.go", "Unsaved")
	other.clean(t, "use/use.go")
}

// base "editor" puts the person's unsaved text below the branch.
func TestTheEditorsTextBelowABranch(t *testing.T) {
	w := newWorld(t, module)
	person := w.person(t)
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	must(t, person.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": w.uri("lib/lib.go"), "languageId": "go", "version": 1, "text": stage.LibText("Typed"),
	}}))
	// The copies are behind: an answer says nothing of them, so ask until it is so.
	stage.Eventually(t, "the daemon knows the text", func() bool {
		a := w.speak(t, w.dial(t))
		if err := a.initialize(t.Context(), attach{base: "editor"}); err != nil {
			return false
		}
		defer a.leave(t)
		return a.file(t, "lib/lib.go") == stage.LibText("Typed")
	})
	a := w.agent(t, attach{base: "editor", branch: "with"})
	disk := w.agent(t, attach{branch: "without"})
	a.names(t, "use/use.go", "Typed")
	disk.clean(t, "use/use.go")
	// What the agent makes of it is not the person's.
	a.edit(t, w.text("lib/lib.go", stage.LibText("Edited")))
	a.names(t, "use/use.go", "Edited")
	raw, err := person.Call(t.Context(), "textDocument/hover", at(w.uri("use/use.go"), 6, 12))
	if err != nil || !strings.Contains(string(raw), "lib.Typed") {
		t.Errorf("the person's hover: %s, %v", raw, err)
	}
}

// A document that is opened as it is, to be asked about, is no change: when it is
// closed again the branch follows the person's folder there.
func TestOpeningIsNoChange(t *testing.T) {
	w := newWorld(t, module)
	w.before = nil
	w.serve(t)
	a := w.agent(t, attach{branch: "reads"})
	a.open(t, "lib/lib.go", module["lib/lib.go"], 1)
	a.clean(t, "use/use.go")
	if b, _ := w.branch(t, "reads"); b.Overrides != 0 || b.Documents != 1 {
		t.Errorf("opened: %+v", b)
	}
	w.write(t, "lib/lib.go", stage.LibText("Saved"))
	a.clean(t, "use/use.go") // what is open is the agent's
	a.close(t, "lib/lib.go")
	a.names(t, "use/use.go", "Saved")
	// Changed, and changed back: it is what the base was, and the agent's own.
	a.open(t, "own/own.go", module["own/own.go"], 1)
	a.change(t, "own/own.go", 2, whole(ownText("mine")))
	a.names(t, "own/own.go", "mine")
	a.change(t, "own/own.go", 3, whole(module["own/own.go"]))
	a.close(t, "own/own.go")
	a.clean(t, "own/own.go")
	if patch := a.patch(t); patch != "" {
		t.Errorf("the patch is\n%s", patch)
	}
	w.restore(t)
}
