package conflict

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shadowlsp/integration/client"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// Config says who an agent is and how it reaches a server.
type Config struct {
	// Command speaks LSP on stdin and stdout: `shadowlsp connect --branch …`, or
	// a server itself.
	Command []string
	// Socket is the agent port's, to be dialled in the place of a Command.
	Socket  string
	Dir     string // the workspace
	Env     []string
	Options any // initializationOptions; may be nil
	Target  Target
}

// Agent is one session.
type Agent struct {
	target  Target
	dir     string
	base    string // the edited file's text as it is on disk
	version int
	conn    *client.Client
}

// Connect starts an agent's session.
func Connect(ctx context.Context, cfg Config) (*Agent, error) {
	base, err := os.ReadFile(filepath.Join(cfg.Dir, cfg.Target.Edited))
	if err != nil {
		return nil, err
	}
	a := &Agent{target: cfg.Target, dir: cfg.Dir, base: string(base)}
	to := client.Config{Command: cfg.Command, Dir: cfg.Dir, Env: cfg.Env, Stderr: os.Stderr}
	if cfg.Socket != "" {
		a.conn, err = client.Dial(cfg.Socket, to)
	} else {
		a.conn, err = client.Start(to)
	}
	if err != nil {
		return nil, err
	}
	pull := map[string]any{"textDocument": map[string]any{"diagnostic": map[string]any{}}}
	if _, err := a.conn.Initialize(ctx, docuri.FromPath(cfg.Dir), pull, cfg.Options); err != nil {
		a.conn.Close()
		return nil, err
	}
	return a, nil
}

// Beside is an agent on the same connection that edits another file: what it
// edits, a sees.
func (a *Agent) Beside(t Target) *Agent { return &Agent{target: t, dir: a.dir, conn: a.conn} }

// Pid is the process of the Command.
func (a *Agent) Pid() int { return a.conn.Pid() }

// Close ends the session.
func (a *Agent) Close() error { return a.conn.Close() }

func (a *Agent) uri(path string) string { return docuri.FromPath(filepath.Join(a.dir, path)) }

// Edit gives the function one more parameter, of a new type called word, in the
// place of any earlier edit.
func (a *Agent) Edit(word string, odd bool) error {
	text := strings.Replace(a.base, a.target.signature(a.target.Params), a.target.With(word, odd), 1)
	return a.Put(text + fmt.Sprintf("\n// %s is what the function is told besides.\ntype %s int\n", word, word))
}

// Put gives the edited file a whole new text.
func (a *Agent) Put(text string) error {
	a.version++
	document := map[string]any{"uri": a.uri(a.target.Edited), "version": a.version}
	if a.version == 1 {
		document["languageId"], document["text"] = "go", text
		return a.conn.Notify("textDocument/didOpen", map[string]any{"textDocument": document})
	}
	return a.conn.Notify("textDocument/didChange", map[string]any{
		"textDocument": document, "contentChanges": []map[string]string{{"text": text}},
	})
}

// Lint is one document's diagnostics as an agent got them.
type Lint struct {
	Verdict string        // "" from a bare server
	Errors  []string      // messages of severity error, one line each
	Items   string        // all diagnostics, in one spelling, paths relative to the workspace
	Took    time.Duration // from the question to the answer, asking again included
}

// retries bounds how often an agent honours retriggerRequest.
const retries = 5

// Lint asks for a document's final diagnostics.
func (a *Agent) Lint(ctx context.Context, path string) (Lint, error) {
	began := time.Now()
	params := map[string]any{"textDocument": map[string]string{"uri": a.uri(path)}}
	raw, err := a.conn.Call(ctx, "textDocument/diagnostic", params)
	for try := 0; err != nil && try < retries; try++ {
		// Not proven final in time: an honest error, never an empty report.
		if refused := new(wire.Error); !errors.As(err, &refused) || refused.Code != wire.CodeServerCancelled {
			break
		}
		raw, err = a.conn.Call(ctx, "textDocument/diagnostic", params)
	}
	if err != nil {
		return Lint{}, fmt.Errorf("%s: %w", path, err)
	}
	found, err := a.read(raw)
	found.Took = time.Since(began)
	return found, err
}

// read takes a diagnostic report apart.
func (a *Agent) read(raw json.RawMessage) (Lint, error) {
	var report struct {
		Items     []map[string]any
		Shadowlsp struct{ Verdict string }
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return Lint{}, fmt.Errorf("%w in %s", err, raw)
	}
	found := Lint{Verdict: report.Shadowlsp.Verdict}
	for _, item := range report.Items {
		delete(item, "data") // the server's own note to itself
		if message, _ := item["message"].(string); item["severity"] == 1.0 {
			found.Errors = append(found.Errors, strings.Join(strings.Fields(message), " "))
		}
	}
	canonical, err := json.Marshal(report.Items)
	found.Items = strings.ReplaceAll(string(canonical), a.dir, "")
	return found, err
}

// Judge says what is wrong with a lint, nil when it is right: it must be fresh
// and hold exactly one error per call of the changed function, each naming word;
// and foreign, the beginning of every other agent's words, must be nowhere.
func (l Lint) Judge(calls int, word string, foreign ...string) error {
	for _, other := range foreign {
		if strings.Contains(l.Items, other) {
			return fmt.Errorf("it names %s, another agent's type: %s", other, l.Items)
		}
	}
	if l.Verdict != "fresh" {
		return fmt.Errorf("the verdict is %q", l.Verdict)
	}
	if len(l.Errors) != calls {
		return fmt.Errorf("%d errors, want %d: %q", len(l.Errors), calls, l.Errors)
	}
	for _, message := range l.Errors {
		// The type stands in a list of parameters: first, or last.
		if !strings.Contains(message, word+")") && !strings.Contains(message, word+",") {
			return fmt.Errorf("an error of another edit: %q, want one that names %s", message, word)
		}
	}
	return nil
}
