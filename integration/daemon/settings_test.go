package daemon

import (
	"encoding/json"
	"sync/atomic"
	"testing"

	"shadowlsp/integration/client"
	"shadowlsp/integration/stage"
)

// A shadow has the person's settings: those that the editor answered, those that
// it told, and all of them after the daemon's and the editor's end.
func TestThePersonsSettings(t *testing.T) {
	tagged := "//go:build extra\n\npackage own\n\nvar _ = undefinedWithTheTag\n"
	w := newWorld(t, with(map[string]string{"own/tagged.go": tagged}))
	settings := map[string]any{"gopls": map[string]any{"buildFlags": []string{"-tags=extra"}}}
	person, err := client.Start(client.Config{
		Command: []string{w.binary, "--", "gopls"}, Dir: w.Dir, Env: w.Env, Stderr: t.Output(), Settings: settings,
	})
	must(t, err)
	defer person.Close()
	_, err = person.Initialize(t.Context(), w.uri(""), map[string]any{"workspace": map[string]any{"configuration": true, "didChangeConfiguration": map[string]any{}}}, nil)
	must(t, err)
	w.hover(t, person)
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	a := w.agent(t, attach{branch: "b"})
	// The copies are behind by a moment.
	stage.Eventually(t, "the person's build flags count", func() bool { return judge(a.lint(t, "own/tagged.go"), "undefinedWithTheTag") == "" })
	leaves(t, person)
	must(t, w.Kill())
	<-a.read
	w.serve(t)
	alone := w.agent(t, attach{branch: "b"})
	alone.names(t, "own/tagged.go", "undefinedWithTheTag")
}

// live are settings that change while a client has them.
type live struct{ flags atomic.Value }

// MarshalJSON implements json.Marshaler.
func (l *live) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"buildFlags": []any{l.flags.Load()}})
}

// Settings that change while a shadow runs reach it.
func TestThePersonsSettingsChange(t *testing.T) {
	tagged := "//go:build extra\n\npackage own\n\nvar _ = undefinedWithTheTag\n"
	w := newWorld(t, with(map[string]string{"own/tagged.go": tagged}))
	var settings live
	settings.flags.Store("-tags=none")
	person, err := client.Start(client.Config{
		Command: []string{w.binary, "--", "gopls"}, Dir: w.Dir, Env: w.Env, Stderr: t.Output(), Settings: map[string]any{"gopls": &settings},
	})
	must(t, err)
	defer person.Close()
	_, err = person.Initialize(t.Context(), w.uri(""), map[string]any{"workspace": map[string]any{"configuration": true}}, nil)
	must(t, err)
	w.hover(t, person)
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	a := w.agent(t, attach{branch: "b"})
	a.clean(t, "use/use.go")
	for range 2 {
		for _, flags := range []string{"-tags=extra", "-tags=none"} {
			settings.flags.Store(flags)
			// Editors say that something has changed, and not what.
			must(t, person.Notify("workspace/didChangeConfiguration", map[string]any{"settings": nil}))
			stage.Eventually(t, flags, func() bool {
				found := a.lint(t, "own/tagged.go")
				return (len(found) > 0 && judge(found, "undefinedWithTheTag") == "") == (flags == "-tags=extra")
			})
		}
	}
}
