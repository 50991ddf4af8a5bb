package shadow_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/shadow"
)

// person is a Client with settings, and with ears for progress.
type person struct {
	shadow.Client
	section string
	value   func() string
	hear    func(progress string)
}

func (s *person) Configuration(items json.RawMessage) (json.RawMessage, bool) {
	if s.value == nil {
		return nil, false
	}
	var asked []struct{ Section string }
	if json.Unmarshal(items, &asked) != nil {
		return nil, false
	}
	values := make([]json.RawMessage, len(asked))
	for n, item := range asked {
		if values[n] = json.RawMessage("null"); item.Section == s.section {
			values[n] = json.RawMessage(s.value())
		}
	}
	return barrier.Raw(values), true
}

func (*person) Notification(string, json.RawMessage) {}

func (s *person) Progress(params json.RawMessage) {
	if s.hear != nil && strings.Contains(string(params), `"kind":"begin"`) {
		s.hear(string(params))
	}
}

// What the person has set holds, with what the barrier needs beside it: another
// command, no checks at all, and that changed while it runs.
func TestRustAnalyzerSettings(t *testing.T) {
	files := map[string]string{
		"Cargo.toml":  "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/main.rs": "fn main() {\n    let x = 1;\n    let y = x == x;\n    println!(\"{y}\");\n}\n",
	}
	setting := `{"check":{"command":"clippy"}}`
	m := &module{TB: t, dir: t.TempDir(), command: []string{"rust-analyzer"}, disk: map[string]string{}, docs: map[string]string{}}
	for name, text := range files {
		m.both(name, text)
	}
	m.client = &person{section: "rust-analyzer", value: func() string { return setting }}
	m.gopls = m.start(m.dir)
	report := func() (string, string) {
		m.sync()
		reports, err := m.gopls.Diagnose(within(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := reports[m.uri("src/main.rs")]
		return r.Barrier, string(r.Diagnostics)
	}
	change := func(to string) {
		setting = to
		if err := m.gopls.Notify(within(t), "workspace/didChangeConfiguration", json.RawMessage(`{"settings":null}`)); err != nil {
			t.Fatal(err)
		}
	}
	change(setting) // asked for now, so that what comes first is known
	name, found := report()
	if name != "pull+check" || !strings.Contains(found, "clippy::eq_op") {
		t.Errorf("%s: clippy is not heard: %s", name, found)
	}
	// An error, behind which clippy has nothing to say.
	m.both("src/main.rs", strings.Replace(files["src/main.rs"], "1;", "1;\n    let _: bool = 1;", 1))
	change(`{"checkOnSave":false}`)
	if name, found = report(); name != "pull" || !strings.Contains(found, "expected bool") {
		t.Errorf("%s, without checks: %s", name, found)
	}
	change(`{"checkOnSave":{"command":"check","enable":true},"diagnostics":{"enable":false}}`)
	if name, found = report(); name != "pull+check" || !strings.Contains(found, "rustc") || strings.Contains(found, "eq_op") || strings.Contains(found, `"rust-analyzer"`) {
		t.Errorf("%s, cargo check alone: %s", name, found)
	}
	change(`{}`) // which it takes for nothing, and keeps what it has
	if name, found = report(); name != "pull+check" || strings.Contains(found, `"rust-analyzer"`) {
		t.Errorf("%s, nothing new: %s", name, found)
	}
}

// heardCrates are two crates whose server's progress a test hears.
func heardCrates(t *testing.T, hear *atomic.Pointer[func(string)]) *module {
	m := &module{TB: t, dir: t.TempDir(), command: []string{"rust-analyzer"}, disk: map[string]string{}, docs: map[string]string{}}
	for name, text := range twoCrates() {
		m.put(name, text)
	}
	m.client = &person{hear: func(progress string) {
		if f := hear.Load(); f != nil {
			(*f)(progress)
		}
	}}
	m.gopls = m.start(m.dir)
	return m
}

// A lint that is given up leaves no check behind, and the next one is whole.
func TestRustAnalyzerCancelled(t *testing.T) {
	var hear atomic.Pointer[func(string)]
	m := heardCrates(t, &hear)
	m.both("lib/src/lib.rs", rustLibString)
	m.sync()
	ctx, cancel := context.WithCancelCause(within(t))
	giveUp := func(progress string) {
		if strings.Contains(progress, "flycheck") {
			cancel(errors.New("given up"))
		}
	}
	hear.Store(&giveUp)
	if _, err := m.gopls.Diagnose(ctx, nil); err == nil {
		t.Error("a lint that was given up has an answer")
	}
	if err := m.gopls.Idle(within(t)); err != nil {
		t.Fatal(err)
	}
	m.expect(m.lint("app/src/main.rs"), "arguments", "expected due", "mismatched", "mismatched", "try using")
}

// A server that dies under a lint is an error of Kind Gone, at once.
func TestRustAnalyzerDies(t *testing.T) {
	var hear atomic.Pointer[func(string)]
	m := heardCrates(t, &hear)
	m.both("lib/src/lib.rs", rustLibString)
	m.sync()
	die := func(progress string) {
		if strings.Contains(progress, "flycheck") {
			m.conn.Close()
		}
	}
	hear.Store(&die)
	_, err := m.gopls.Diagnose(within(t), nil)
	if e := (*barrier.Error)(nil); !errors.As(err, &e) || e.Kind != barrier.Gone {
		t.Errorf("%v", err)
	}
}

// What is no workspace is an error that says so.
func TestRustAnalyzerWithoutAWorkspace(t *testing.T) {
	for what, manifest := range map[string]string{"none": "", "broken": "[package\n"} {
		files := map[string]string{"src/main.rs": "fn main() {}\n"}
		if manifest != "" {
			files["Cargo.toml"] = manifest
		}
		m := rustProject(t, files)
		m.docs["src/main.rs"] = m.disk["src/main.rs"]
		m.sync()
		r, err := m.gopls.Diagnose(within(t), nil)
		if e := (*barrier.Error)(nil); !errors.As(err, &e) || e.Kind != barrier.LoadFailed {
			t.Errorf("%s: %v, %v", what, r, err)
		}
	}
}
