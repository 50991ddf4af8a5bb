package editor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Place is a position in an open file, named by a text on one line of it.
type Place struct{ path, at, after string }

// At is the first byte of the first occurrence of text.
func At(path, text string) Place { return Place{path: path, at: text} }

// After is behind the first occurrence of text.
func After(path, text string) Place { return Place{path: path, after: text} }

func (e *Editor) args(p Place, more map[string]any) map[string]any {
	args := map[string]any{"path": e.abs(p.path)}
	if p.at != "" {
		args["at"] = p.at
	} else {
		args["after"] = p.after
	}
	for key, value := range more {
		args[key] = value
	}
	return args
}

// Open opens a file and returns when its language server is attached.
func (e *Editor) Open(ctx context.Context, path string) error {
	return e.do(ctx, "open", map[string]any{"path": e.abs(path)}, nil)
}

// Type types text in insert mode.
func (e *Editor) Type(ctx context.Context, at Place, text string) error {
	return e.do(ctx, "type", e.args(at, map[string]any{"text": text}), nil)
}

// Replace puts text in the place of the first occurrence of old.
func (e *Editor) Replace(ctx context.Context, path, old, text string) error {
	return e.do(ctx, "replace", e.args(At(path, old), map[string]any{"text": text}), nil)
}

// Undo takes back all changes of the open file since it was opened.
func (e *Editor) Undo(ctx context.Context, path string) error {
	return e.do(ctx, "undo", map[string]any{"path": e.abs(path)}, nil)
}

// Save writes all changed files.
func (e *Editor) Save(ctx context.Context) error { return e.do(ctx, "save", nil, nil) }

// Text returns an open file's text as the person sees it.
func (e *Editor) Text(ctx context.Context, path string) (string, error) {
	var result struct{ Text string }
	err := e.do(ctx, "text", map[string]any{"path": e.abs(path)}, &result)
	return result.Text, err
}

// Request sends an LSP request about a place, with more added to its
// parameters. The duration is Neovim's own: from the request, pending changes
// included, to the decoded answer. The answer has been through Lua: nulls are
// absent in it and an empty array may read {}.
func (e *Editor) Request(ctx context.Context, at Place, method string, more map[string]any) (json.RawMessage, time.Duration, error) {
	args := map[string]any{"method": method}
	if more != nil {
		args["more"] = more
	}
	var result struct {
		Nanoseconds float64 // Lua writes large numbers as 1e9
		Result      json.RawMessage
	}
	err := e.do(ctx, "request", e.args(at, args), &result)
	return result.Result, time.Duration(result.Nanoseconds), err
}

// Complete returns the labels that the server proposes.
func (e *Editor) Complete(ctx context.Context, at Place) ([]string, time.Duration, error) {
	raw, took, err := e.Request(ctx, at, "textDocument/completion", nil)
	if err != nil {
		return nil, took, err
	}
	var answer struct{ Items json.RawMessage }
	if json.Unmarshal(raw, &answer) != nil || answer.Items == nil {
		answer.Items = raw // a plain array of items, or nothing
	}
	var items []struct{ Label string }
	if len(answer.Items) > 0 && answer.Items[0] == '[' {
		if err := json.Unmarshal(answer.Items, &items); err != nil {
			return nil, took, err
		}
	}
	var labels []string
	for _, item := range items {
		labels = append(labels, item.Label)
	}
	return labels, took, nil
}

// Hover returns the text of the hover, "" where there is none.
func (e *Editor) Hover(ctx context.Context, at Place) (string, time.Duration, error) {
	raw, took, err := e.Request(ctx, at, "textDocument/hover", nil)
	if err != nil || len(raw) == 0 {
		return "", took, err
	}
	var answer struct{ Contents struct{ Value string } }
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", took, fmt.Errorf("hover answered %s: %w", raw, err)
	}
	return answer.Contents.Value, took, nil
}

// Location is where something stands; Line counts from 0.
type Location struct {
	Path string
	Line int
}

// Definition returns where what stands at the place is defined.
func (e *Editor) Definition(ctx context.Context, at Place) ([]Location, time.Duration, error) {
	raw, took, err := e.Request(ctx, at, "textDocument/definition", nil)
	if err != nil {
		return nil, took, err
	}
	type location struct {
		URI   string
		Range struct{ Start struct{ Line int } }
	}
	var many []location
	if len(raw) > 0 && raw[0] == '[' {
		err = json.Unmarshal(raw, &many)
	} else if len(raw) > 2 {
		many = make([]location, 1)
		err = json.Unmarshal(raw, &many[0])
	}
	var found []Location
	for _, l := range many {
		found = append(found, Location{strings.TrimPrefix(l.URI, "file://"), l.Range.Start.Line})
	}
	return found, took, err
}

// Rename renames what stands at the place, applies the answer as Neovim does,
// and returns the paths of the files changed by it or before and not saved.
func (e *Editor) Rename(ctx context.Context, at Place, name string) ([]string, time.Duration, error) {
	edit, took, err := e.Request(ctx, at, "textDocument/rename", map[string]any{"newName": name})
	if err != nil {
		return nil, took, err
	}
	var result struct{ Modified json.RawMessage }
	if err := e.do(ctx, "apply", map[string]any{"edit": edit}, &result); err != nil {
		return nil, took, err
	}
	var paths []string
	if len(result.Modified) > 0 && result.Modified[0] == '[' {
		err = json.Unmarshal(result.Modified, &paths)
	}
	return paths, took, err
}
