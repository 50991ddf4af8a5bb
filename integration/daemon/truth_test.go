package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"

	"shadowlsp/integration/stage"
	"shadowlsp/lsp/wire"
)

// Several agents edit and ask at the same time, at random. Every error that
// their edits make names the agent and the edit, so each answer tells whose and
// which state it is of.
func TestManyBranchesAtOnce(t *testing.T) {
	w := shared(t)
	const agents, steps = 6, 40
	var group sync.WaitGroup
	for n := range agents {
		group.Go(func() {
			if err := w.work(t, n, steps); err != nil {
				t.Errorf("agent %d: %v", n, err)
			}
		})
	}
	group.Wait()
}

// work is one agent's life.
func (w *world) work(t *testing.T, n, steps int) error {
	random := rand.New(rand.NewSource(int64(n)))
	a := w.speak(t, w.dial(t))
	if err := a.initialize(t.Context(), attach{branch: fmt.Sprintf("agent%d", n)}); err != nil {
		return err
	}
	lib, own := "int", "" // what the errors must name now
	opened := map[string]bool{}
	version := 0
	set := func(path, text string) error {
		version++
		if random.Intn(4) == 0 {
			_, err := a.call(t.Context(), "shadowlsp/write", map[string]any{"edits": []fileEdit{w.text(path, text)}})
			if err != nil || !opened[path] {
				return err
			}
			// What is open is the agent's to keep in step.
		}
		d := map[string]any{"uri": w.uri(path), "version": version}
		if !opened[path] {
			opened[path] = true
			d["languageId"], d["text"] = "go", text
			return a.notify("textDocument/didOpen", map[string]any{"textDocument": d})
		}
		return a.notify("textDocument/didChange", map[string]any{"textDocument": d, "contentChanges": []any{whole(text)}})
	}
	words := func(path string) []string {
		switch {
		case path == "use/use.go" && lib != "int":
			return []string{lib}
		case path == "own/own.go" && own != "":
			return []string{own}
		}
		return nil
	}
	check := func(path string, all []diagnostic) error {
		if why := judge(errorsIn(all), words(path)...); why != "" {
			return fmt.Errorf("%s: %s", path, why)
		}
		for _, d := range all {
			if i := strings.Index(d.Message, "Agent"); i >= 0 && !strings.HasPrefix(d.Message[i:], fmt.Sprintf("Agent%dx", n)) {
				return fmt.Errorf("%s: another agent's %q", path, d.Message)
			}
		}
		return nil
	}
	for step := range steps {
		var err error
		switch random.Intn(3) {
		case 0:
			lib = fmt.Sprintf("Agent%dx%d", n, step)
			err = set("lib/lib.go", stage.LibText(lib))
		case 1:
			own = fmt.Sprintf("undefinedAgent%dx%d", n, step)
			err = set("own/own.go", ownText(own))
		case 2:
			if own != "" && random.Intn(2) == 0 {
				own = ""
				err = set("own/own.go", ownText(""))
			}
		}
		if err != nil {
			return err
		}
		path := []string{"use/use.go", "own/own.go", "lib/lib.go"}[random.Intn(3)]
		switch random.Intn(4) {
		case 0, 1:
			var r report
			if r, err = a.tryLint(t.Context(), path); err == nil {
				err = check(path, r.Items)
			}
		case 2:
			var raw json.RawMessage
			raw, err = a.call(t.Context(), "workspace/diagnostic", map[string]any{"previousResultIds": []any{}})
			var refused *wire.Error
			if errors.As(err, &refused) && refused.Code == wire.CodeServerCancelled {
				continue
			}
			var r workspaceReport
			if err == nil {
				err = json.Unmarshal(raw, &r)
			}
			seen := map[string]bool{}
			for _, item := range r.Items {
				path := strings.TrimPrefix(item.URI, w.uri("")+"/")
				seen[path] = true
				err = errors.Join(err, check(path, item.Items))
			}
			for _, path := range []string{"use/use.go", "own/own.go"} {
				if err == nil && words(path) != nil && !seen[path] {
					err = fmt.Errorf("workspace/diagnostic lacks %s", path)
				}
			}
		case 3:
			var raw json.RawMessage
			raw, err = a.call(t.Context(), "textDocument/hover", at(w.uri("use/use.go"), 6, 12))
			if want := fmt.Sprintf("func lib.F(a %s)", map[bool]string{true: "int", false: "lib." + lib}[lib == "int"]); err == nil && !strings.Contains(string(raw), want) {
				err = fmt.Errorf("hover: %s, want %s", raw, want)
			}
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return nil
}

// Edits that come while a lint is in flight: an answer is of one text, and the
// version that it names is that text's.
func TestEditsWhileLintsAreInFlight(t *testing.T) {
	w := shared(t)
	a := w.agent(t, attach{branch: "busy"})
	other := w.agent(t, attach{branch: "other"})
	other.open(t, "lib/lib.go", stage.LibText("Others"), 1)
	text := func(version int) string { return ownText(fmt.Sprintf("undefinedVersion%d", version)) }
	a.open(t, "own/own.go", text(1), 1)
	type asked struct {
		question
		from int // the version that the agent had when it asked
		wide bool
	}
	var questions []asked
	const versions = 60
	for version := 2; version <= versions; version++ {
		a.change(t, "own/own.go", version, whole(text(version)))
		if version%10 == 0 {
			q, err := other.ask("textDocument/diagnostic", document(w.uri("use/use.go")))
			must(t, err)
			defer func() {
				raw, err := q.answer(t.Context())
				if err != nil || !strings.Contains(string(raw), "Others") {
					t.Errorf("the other agent's lint: %s, %v", raw, err)
				}
			}()
		}
		q := asked{from: version, wide: version%2 == 0}
		var err error
		if q.wide {
			q.question, err = a.ask("workspace/diagnostic", map[string]any{"previousResultIds": []any{}})
		} else {
			q.question, err = a.ask("textDocument/diagnostic", document(w.uri("own/own.go")))
		}
		must(t, err)
		questions = append(questions, q)
	}
	answered := 0
	for _, q := range questions {
		raw, err := q.answer(t.Context())
		var refused *wire.Error
		if errors.As(err, &refused) && refused.Code == wire.CodeServerCancelled {
			continue // honest
		}
		must(t, err)
		answered++
		var found []string
		version := 0
		if q.wide {
			var r workspaceReport
			must(t, json.Unmarshal(raw, &r))
			for _, item := range r.Items {
				if item.URI == w.uri("own/own.go") {
					found = errorsIn(item.Items)
					if item.Version == nil {
						t.Errorf("no version in %s", raw)
						continue
					}
					version = *item.Version
				}
			}
			if version < q.from {
				t.Errorf("asked at version %d, answered of version %d", q.from, version)
			}
			if why := judge(found, fmt.Sprintf("undefinedVersion%d", version)); why != "" {
				t.Errorf("version %d: %s", version, why)
			}
			continue
		}
		var r report
		must(t, json.Unmarshal(raw, &r))
		found = errorsIn(r.Items)
		if len(found) != 1 {
			t.Errorf("asked at version %d, got %q", q.from, found)
			continue
		}
		if _, err := fmt.Sscanf(found[0], "undefined: undefinedVersion%d", &version); err != nil || version < q.from {
			t.Errorf("asked at version %d, got %q", q.from, found)
		}
	}
	t.Logf("%d of %d lints were answered, the others refused as superseded", answered, len(questions))
	a.names(t, "own/own.go", fmt.Sprintf("undefinedVersion%d", versions))
}

// One revision, one answer: what a report is labelled with identifies what it is
// of, be it changed by the agent or by the person.
func TestARevisionIsOneState(t *testing.T) {
	w := newWorld(t, module)
	w.before = nil
	w.serve(t)
	a := w.agent(t, attach{branch: "b"})
	seen := map[uint64]string{}
	for i := range 24 {
		word := fmt.Sprintf("Rev%d", i)
		if i < 12 {
			w.write(t, "lib/lib.go", stage.LibText(word))
		} else {
			a.edit(t, w.text("lib/lib.go", stage.LibText(word)))
		}
		for range 2 {
			r, err := a.tryLint(t.Context(), "use/use.go")
			must(t, err)
			found := fmt.Sprint(errorsIn(r.Items))
			if old, ok := seen[r.Shadowlsp.Rev]; ok && old != found {
				t.Errorf("revision %d was %s and is %s", r.Shadowlsp.Rev, old, found)
			}
			seen[r.Shadowlsp.Rev] = found
			if !strings.Contains(found, word) {
				t.Errorf("edit %d: %s", i, found)
			}
		}
	}
	w.restore(t)
}
