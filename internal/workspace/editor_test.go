package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"shadowlsp/lsp/front"
)

// told is an editor that has been told of frames: "> …" went to the server, "< …"
// came from it.
func told(t *testing.T, frames ...string) *editor {
	t.Helper()
	e := newEditor(func() {})
	e.Hello(front.Hello{Command: []string{"gopls"}, Dir: "/w"})
	for _, f := range frames {
		e.Frame(f[0] == '>', []byte(f[2:]))
	}
	return e
}

const (
	sayInitialize = `> {"jsonrpc":"2.0","id":"one","method":"initialize","params":{"x":1.0,"rootUri":"file:///w"}}`
	sayResult     = `< {"jsonrpc":"2.0","id":"one","result":{"capabilities":{}}}`
)

func open(text string) string {
	b, _ := json.Marshal(text)
	return fmt.Sprintf(`> {"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///w/a.go","languageId":"go","version":1,"text":%s}}}`, b)
}

const insertAtStart = `> {"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///w/a.go","version":2},"contentChanges":[{"range":{"start":{"line":0,"character":2},"end":{"line":0,"character":2}},"text":"x"}]}}`

func TestEditorsSettingsAreLearnt(t *testing.T) {
	e := told(t, sayInitialize, sayResult,
		`< {"jsonrpc":"2.0","id":3,"method":"workspace/configuration","params":{"items":[{"section":"gopls"},{"scopeUri":"file:///w","section":"other"}]}}`,
		`> {"jsonrpc":"2.0","id":3,"result":[{"staticcheck":true},null]}`,
	)
	l, ok := e.learnt()
	if !ok || string(l.Initialize) != `{"x":1.0,"rootUri":"file:///w"}` || len(l.Answers) != 2 {
		t.Fatalf("learnt %+v, %v", l, ok)
	}
	p := &pool{learnt: l}
	for item, want := range map[configItem]string{
		{Section: "gopls"}:                          `{"staticcheck":true}`,
		{ScopeURI: "file:///w/b", Section: "gopls"}: `{"staticcheck":true}`,
		{Section: "unknown"}:                        `null`,
	} {
		if got := string(p.configuration(item)); got != want {
			t.Errorf("%+v: %s, want %s", item, got, want)
		}
	}
	e.Frame(true, []byte(`{"jsonrpc":"2.0","method":"workspace/didChangeConfiguration","params":{"settings":{}}}`))
	// Until the server has asked again, the old answers are better than none.
	if l, _ := e.learnt(); len(l.Answers) != 2 || string(l.Settings) != `{"settings":{}}` {
		t.Errorf("after didChangeConfiguration: %+v", l)
	}
}

func TestUnsavedTextIsKnownForSureOrNotAtAll(t *testing.T) {
	disk := func(string) ([]byte, error) { return []byte("😀old"), nil }
	missing := func(string) ([]byte, error) { return nil, errors.New("no such file") }
	unsaved := func(e *editor, read func(string) ([]byte, error)) string {
		texts, complete := e.unsaved(read)
		return fmt.Sprint(texts, complete)
	}
	base := []string{sayInitialize, sayResult}
	for name, tc := range map[string]struct {
		e    *editor
		read func(string) ([]byte, error)
		want string
	}{
		"as on disk":  {told(t, append(base, open("😀old"))...), disk, `map[] true`},
		"new file":    {told(t, append(base, open("n"))...), missing, `map[/w/a.go:n] true`},
		"changed":     {told(t, append(base, open("😀old"), insertAtStart)...), disk, `map[/w/a.go:😀xold] true`},
		"not opened":  {told(t, append(base, insertAtStart)...), disk, `map[] false`},
		"utf-8 lanes": {told(t, sayInitialize, `< {"id":"one","result":{"capabilities":{"positionEncoding":"utf-8"}},"jsonrpc":"2.0"}`, open("😀old"), insertAtStart), disk, `map[] false`},
	} {
		if got := unsaved(tc.e, tc.read); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	e := told(t, append(base, open("one"))...)
	e.Gap(true, 10)
	if got := unsaved(e, disk); got != `map[] false` {
		t.Errorf("after a gap: %s", got)
	}
	if _, ok := newEditor(func() {}).learnt(); ok {
		t.Error("something was learnt from nothing")
	}
}
