package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"shadowlsp/integration/client"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// state is what a branch holds, as a value.
type state struct {
	// files are the overridden ones; nil is a deleted one.
	files map[string]*string
	// open are documents that the agent holds open beside those.
	open map[string]bool
}

func (s state) clone() state { return state{maps.Clone(s.files), maps.Clone(s.open)} }

// String lists what differs from the project.
func (s state) String() string {
	var all []string
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		if s.files[path] == nil {
			path += " (deleted)"
		}
		all = append(all, path)
	}
	return fmt.Sprintf("overridden %q, open %q", all, slices.Sorted(maps.Keys(s.open)))
}

// branch is one agent at work, and what its branch must hold.
type branch struct {
	name   string
	server Server
	dir    string
	state  state
	// last is the file that was edited last and what it was before, to undo.
	last   string
	before *string

	conn    *client.Client
	version int
	opened  map[string]bool // documents that the agent holds open
}

// connect starts an agent on a branch of its own.
func connect(ctx context.Context, s Server, program []string, name, dir string, env []string) (*branch, error) {
	command, err := s.command()
	if err != nil {
		return nil, err
	}
	b := &branch{
		name: name, server: s, dir: dir, opened: map[string]bool{},
		state: state{files: map[string]*string{}, open: map[string]bool{}},
	}
	b.conn, err = client.Start(client.Config{
		Command: slices.Concat(program, []string{"connect", "--branch", name, "--"}, command),
		Dir:     dir, Env: env, Stderr: logWriter(name),
	})
	if err != nil {
		return nil, err
	}
	if _, err := b.conn.Initialize(ctx, docuri.FromPath(dir), s.capabilities(true), s.options()); err != nil {
		return nil, errors.Join(err, b.conn.Close())
	}
	return b, nil
}

// options are initializationOptions, null where there are none.
func (s Server) options() any {
	if s.Options == nil {
		return nil
	}
	return s.Options
}

func (b *branch) uri(path string) string { return docuri.FromPath(filepath.Join(b.dir, path)) }

// close drops the branch and ends the connection.
func (b *branch) close(ctx context.Context) error {
	_, err := b.conn.Call(ctx, "shadowlsp/drop", struct{}{})
	return errors.Join(err, b.conn.Close())
}

// put makes a file's text the branch's; with typed, as an editor types it.
func (b *branch) put(ctx context.Context, path, text string, typed bool) error {
	b.state.files[path] = &text
	b.version++
	document := map[string]any{"uri": b.uri(path), "version": b.version}
	language, takes := b.server.language(path)
	switch {
	case b.opened[path]:
		return b.conn.Notify("textDocument/didChange", map[string]any{
			"textDocument": document, "contentChanges": []map[string]string{{"text": text}},
		})
	case typed && takes:
		b.opened[path], b.state.open[path] = true, true
		document["languageId"], document["text"] = language, text
		return b.conn.Notify("textDocument/didOpen", map[string]any{"textDocument": document})
	}
	return b.write(ctx, map[string]any{"uri": b.uri(path), "text": text})
}

func (b *branch) write(ctx context.Context, edit map[string]any) error {
	_, err := b.conn.Call(ctx, "shadowlsp/write", map[string]any{"edits": []any{edit}})
	return err
}

// remove deletes a file.
func (b *branch) remove(ctx context.Context, path string, inBase bool) error {
	if err := b.leave(path); err != nil {
		return err
	}
	delete(b.state.files, path)
	if inBase {
		b.state.files[path] = nil
	}
	return b.write(ctx, map[string]any{"uri": b.uri(path), "delete": true})
}

// look opens a document with the text that it has.
func (b *branch) look(path, text string) error {
	language, takes := b.server.language(path)
	if b.opened[path] || !takes {
		return nil
	}
	b.version++
	b.opened[path], b.state.open[path] = true, true
	return b.conn.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": b.uri(path), "version": b.version, "languageId": language, "text": text,
	}})
}

// leave closes a document.
func (b *branch) leave(path string) error {
	if !b.opened[path] {
		return nil
	}
	delete(b.opened, path)
	delete(b.state.open, path)
	return b.conn.Notify("textDocument/didClose", map[string]any{"textDocument": map[string]string{"uri": b.uri(path)}})
}

// retries bounds how often an agent honours retriggerRequest.
const retries = 5

// ask puts a question until it is answered for good.
func (b *branch) ask(ctx context.Context, method string, params any) (answer json.RawMessage, took time.Duration, err error) {
	began := time.Now()
	for range 1 + retries {
		if answer, err = b.conn.Call(ctx, method, params); err == nil {
			break
		}
		var refused *wire.Error
		if !errors.As(err, &refused) || refused.Code != wire.CodeServerCancelled {
			break
		}
	}
	return answer, time.Since(began), err
}

// lint asks for one document's diagnostics; proof is what proved them final.
func (b *branch) lint(ctx context.Context, path string) (found lints, proof string, took time.Duration, err error) {
	raw, took, err := b.ask(ctx, "textDocument/diagnostic", map[string]any{"textDocument": map[string]string{"uri": b.uri(path)}})
	if err != nil {
		return nil, "", took, err
	}
	var report struct {
		Items     []json.RawMessage
		Shadowlsp struct{ Barrier string }
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return nil, "", took, fmt.Errorf("%w in %.200s", err, raw)
	}
	return spell(report.Items, b.dir), report.Shadowlsp.Barrier, took, nil
}

// lintAll asks for the whole workspace's diagnostics.
func (b *branch) lintAll(ctx context.Context) (map[string]lints, time.Duration, error) {
	raw, took, err := b.ask(ctx, "workspace/diagnostic", map[string]any{"previousResultIds": []any{}})
	if err != nil {
		return nil, took, err
	}
	var report struct {
		Items []struct {
			URI   string
			Items []json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return nil, took, fmt.Errorf("%w in %.200s", err, raw)
	}
	all := map[string]lints{}
	for _, item := range report.Items {
		all[relative(b.dir, item.URI)] = spell(item.Items, b.dir)
	}
	return all, took, nil
}
