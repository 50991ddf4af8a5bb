package main

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
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

const (
	edited    = "semver/semver.go" // what both agents change
	dependent = "module/module.go" // calls it, and no agent opens it
	signature = "func Compare(v, w string) int {"
)

// agent is one agent's session and the edit that it makes.
type agent struct {
	name  string // of the agent and its branch
	word  string // the type that its edit brings in: all its errors name it
	build func(word string) string
	conn  *client.Client
	dir   string
	base  string // the edited file's text as the person has it
	opens int
}

// hire connects an agent to its branch.
func hire(ctx context.Context, shadowlsp string, s *stage.Stage, a agent) (*agent, error) {
	base, err := os.ReadFile(filepath.Join(s.Dir, edited))
	if err != nil {
		return nil, err
	}
	a.dir, a.base = s.Dir, string(base)
	if strings.Count(a.base, signature) != 1 {
		return nil, fmt.Errorf("%s has not the signature that this demo changes", edited)
	}
	a.conn, err = client.Start(client.Config{
		Command: []string{shadowlsp, "connect", "--branch", a.name}, Dir: s.Dir, Env: s.Env, Stderr: os.Stderr,
	})
	if err != nil {
		return nil, err
	}
	pull := map[string]any{"textDocument": map[string]any{"diagnostic": map[string]any{}}}
	if _, err := a.conn.Initialize(ctx, docuri.FromPath(s.Dir), pull, nil); err != nil {
		a.conn.Close()
		return nil, fmt.Errorf("agent %s: %w", a.name, err)
	}
	return &a, nil
}

func (a *agent) uri(path string) string { return docuri.FromPath(filepath.Join(a.dir, path)) }

// edit changes the signature, with a type named for the round, so that an
// answer about an earlier round is recognised.
func (a *agent) edit(round int) (word string, err error) {
	word = fmt.Sprintf("%s%d", a.word, round)
	text := strings.Replace(a.base, signature, a.build(word), 1)
	text += fmt.Sprintf("\n// %s is what agent %s wants to be told.\ntype %s int\n", word, a.name, word)
	document := map[string]any{"uri": a.uri(edited), "version": a.opens + 1}
	a.opens++
	if a.opens == 1 {
		document["languageId"], document["text"] = "go", text
		return word, a.conn.Notify("textDocument/didOpen", map[string]any{"textDocument": document})
	}
	return word, a.conn.Notify("textDocument/didChange", map[string]any{
		"textDocument": document, "contentChanges": []map[string]string{{"text": text}},
	})
}

// lint is one document's diagnostics as an agent got them.
type lint struct {
	raw     string
	verdict string
	errors  []string // messages of severity error, one line each
	took    time.Duration
}

// retries bounds how often a client honours retriggerRequest.
const retries = 5

// lint asks for a document's final diagnostics.
func (a *agent) lint(ctx context.Context, path string) (lint, error) {
	began := time.Now()
	for try := 0; ; try++ {
		raw, err := a.conn.Call(ctx, "textDocument/diagnostic", map[string]any{"textDocument": map[string]string{"uri": a.uri(path)}})
		if again := new(wire.Error); errors.As(err, &again) && again.Code == wire.CodeServerCancelled && try < retries {
			continue // not proven final yet: an honest error, never an empty report
		}
		if err != nil {
			return lint{}, fmt.Errorf("agent %s, %s: %w", a.name, path, err)
		}
		var report struct {
			Items []struct {
				Severity int
				Message  string
			}
			Shadowlsp struct{ Verdict string }
		}
		if err := json.Unmarshal(raw, &report); err != nil {
			return lint{}, fmt.Errorf("agent %s, %s: %w in %s", a.name, path, err, raw)
		}
		found := lint{raw: string(raw), verdict: report.Shadowlsp.Verdict, took: time.Since(began)}
		for _, item := range report.Items {
			if item.Severity == 1 {
				found.errors = append(found.errors, strings.Join(strings.Fields(item.Message), " "))
			}
		}
		return found, nil
	}
}

// judge says what is wrong with a lint: it must hold exactly one error per call
// of the changed function, each naming this round's type, and nothing of the
// other agent.
func (l lint) judge(calls int, word, foreign string) error {
	switch {
	case l.verdict != "fresh":
		return fmt.Errorf("the verdict is %q", l.verdict)
	case strings.Contains(l.raw, foreign):
		return fmt.Errorf("it names %s, the other agent's type: %s", foreign, l.raw)
	case len(l.errors) != calls:
		return fmt.Errorf("%d errors, want %d: %q", len(l.errors), calls, l.errors)
	}
	for _, message := range l.errors {
		if !strings.Contains(message, word+")") && !strings.Contains(message, word+",") {
			return fmt.Errorf("an error of another round: %q, want one that names %s", message, word)
		}
	}
	return nil
}
