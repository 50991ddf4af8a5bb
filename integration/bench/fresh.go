package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shadowlsp/integration/client"
	"shadowlsp/lsp/docuri"
)

// fresh is a bare gopls on a real copy that shows its diagnostics as it does to
// an editor: by publishing them. It is believed when it has told of all its work
// that it is over and has then been silent for a while.
type fresh struct {
	conn    *client.Client
	dir     string
	version map[string]int // of the files that are open

	mu    sync.Mutex // guards the fields below
	table map[string]json.RawMessage
	work  map[string]bool // tokens of progress that has not ended
	heard time.Time       // when the last message came
}

func newFresh(ctx context.Context, gopls, dir string, env []string) (*fresh, error) {
	f := &fresh{dir: dir, version: map[string]int{}, table: map[string]json.RawMessage{}, work: map[string]bool{}}
	settings := map[string]any{"verboseWorkDoneProgress": true, "diagnosticsDelay": "0s"}
	var err error
	f.conn, err = client.Start(client.Config{
		Command: []string{gopls}, Dir: dir, Env: env, Stderr: os.Stderr, Notify: f.notified,
		Settings: map[string]any{"gopls": settings},
	})
	if err != nil {
		return nil, err
	}
	capabilities := map[string]any{
		"window":    map[string]any{"workDoneProgress": true},
		"workspace": map[string]any{"configuration": true},
	}
	if _, err := f.conn.Initialize(ctx, docuri.FromPath(dir), capabilities, settings); err != nil {
		f.conn.Close()
		return nil, err
	}
	return f, nil
}

func (f *fresh) notified(method string, params json.RawMessage) {
	var p struct {
		URI         string
		Diagnostics json.RawMessage
		Token       json.RawMessage
		Value       struct{ Kind string }
	}
	_ = json.Unmarshal(params, &p) // what is not understood is heard all the same
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = time.Now()
	switch {
	case method == "textDocument/publishDiagnostics":
		f.table[docuri.Canonical(p.URI)] = p.Diagnostics
	case method == "$/progress" && p.Value.Kind == "begin":
		f.work[string(p.Token)] = true
	case method == "$/progress" && p.Value.Kind == "end":
		delete(f.work, string(p.Token))
	}
}

// put opens a file with a text, or changes it; it is on the disk as well.
func (f *fresh) put(path, text string) error {
	name := filepath.Join(f.dir, path)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return err
	}
	f.version[path]++
	document := map[string]any{"uri": docuri.FromPath(name), "version": f.version[path]}
	if f.version[path] == 1 {
		document["languageId"], document["text"] = "go", text
		return f.conn.Notify("textDocument/didOpen", map[string]any{"textDocument": document})
	}
	return f.conn.Notify("textDocument/didChange", map[string]any{
		"textDocument": document, "contentChanges": []map[string]string{{"text": text}},
	})
}

// settled returns when the server has been silent for quiet with no work open.
func (f *fresh) settled(ctx context.Context, quiet time.Duration) error {
	// Behind its answer all that was sent before has been taken up.
	if _, err := f.conn.Call(ctx, "workspace/executeCommand", map[string]any{"command": "gopls.views"}); err != nil {
		return err
	}
	f.mu.Lock()
	f.heard = time.Now()
	f.mu.Unlock()
	for {
		f.mu.Lock()
		left, working := quiet-time.Since(f.heard), len(f.work) > 0
		f.mu.Unlock()
		if left <= 0 && !working {
			return nil
		}
		pause := time.NewTimer(max(left, 10*time.Millisecond))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// answer is what it says about a file, as canonical spells it.
func (f *fresh) answer(path string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	raw, ok := f.table[docuri.Canonical(docuri.FromPath(filepath.Join(f.dir, path)))]
	if !ok {
		raw = json.RawMessage("[]")
	}
	return canonical(raw, f.dir)
}

// canonical spells diagnostics in one way: sorted, since their order has no
// meaning in LSP, without the server's notes to itself, with paths relative to
// the workspace.
func canonical(raw json.RawMessage, dir string) (string, error) {
	items, err := spelled(raw, dir)
	return strings.Join(items, "\n"), err
}

func spelled(raw json.RawMessage, dir string) ([]string, error) {
	var list []map[string]any
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	var items []string
	for _, d := range list {
		delete(d, "data")
		item, err := json.Marshal(d)
		if err != nil {
			return nil, err
		}
		items = append(items, strings.ReplaceAll(string(item), dir, ""))
	}
	slices.Sort(items)
	return items, nil
}
