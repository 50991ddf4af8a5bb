package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// item asks for one document.
func (t *tsserverBarrier) item(ctx context.Context, uri, language string, r *Result) error {
	if t.recall(uri, r) {
		return nil
	}
	file, _ := docuri.Path(uri)
	var (
		v        tsView
		modified uint64
	)
	t.watch.view(func() { v, modified = t.view, t.modified })
	v.language = language
	all := []any{}
	for _, kind := range tsKinds {
		found, err := t.diagnostics(ctx, kind, file)
		if err != nil {
			return err
		}
		for _, d := range found {
			if !t.speaks.silent(v, language) && t.speaks.keeps(v, kind, d) {
				all = append(all, t.speaks.lsp(v, d))
			}
		}
	}
	diagnostics, err := encoded(all)
	if err != nil {
		return err
	}
	item := Item{Diagnostics: diagnostics}
	r.Items[uri] = item
	t.watch.update(func() {
		if t.answered != modified {
			clear(t.answers)
			t.answered = modified
		}
		if t.modified == modified {
			t.answers[uri] = item
		}
	})
	return nil
}

func (t *tsserverBarrier) diagnostics(ctx context.Context, kind, file string) ([]tsDiagnostic, error) {
	body, err := t.ask(ctx, kind+"DiagnosticsSync", map[string]any{"file": file})
	if err != nil {
		return nil, err
	}
	var found []tsDiagnostic
	if err := json.Unmarshal(body, &found); err != nil {
		return nil, fmt.Errorf("%s diagnostics of %s: %w", kind, file, err)
	}
	return found, nil
}

// visit opens files in tsserver, asks for them, and closes them.
func (t *tsserverBarrier) visit(ctx context.Context, uris []string, r *Result) error {
	if len(uris) == 0 {
		return nil
	}
	var open []map[string]any
	var files []string
	for _, uri := range uris {
		file, _ := docuri.Path(uri)
		files = append(files, file)
		open = append(open, map[string]any{"file": file, "projectRootPath": t.folder(file)})
	}
	// They are closed whatever becomes of the question.
	defer t.ask(context.WithoutCancel(ctx), "updateOpen", map[string]any{"closedFiles": files})
	if _, err := t.ask(ctx, "updateOpen", map[string]any{"openFiles": open}); err != nil {
		return err
	}
	for _, uri := range uris {
		language, _ := t.language(uri)
		if err := t.item(ctx, uri, language, r); err != nil {
			return err
		}
	}
	return nil
}

// projectFiles returns the URIs of the files that belong to the projects of the
// open documents, and are not among them.
func (t *tsserverBarrier) projectFiles(ctx context.Context, uris []string, open map[string]Document, r *Result) ([]string, error) {
	seen := make(map[string]bool) // projects
	files := make(map[string]bool)
	for _, uri := range uris {
		file, _ := docuri.Path(uri)
		var p struct {
			ConfigFileName string
			FileNames      []string
		}
		body, err := t.ask(ctx, "projectInfo", map[string]any{"file": file, "needFileNameList": false})
		if err == nil {
			err = json.Unmarshal(body, &p)
		}
		if err != nil {
			return nil, err
		}
		if seen[p.ConfigFileName] || !tsConfig.MatchString(path.Base(p.ConfigFileName)) {
			continue // an inferred project: what is open, and what that needs
		}
		seen[p.ConfigFileName] = true
		body, err = t.ask(ctx, "projectInfo", map[string]any{"file": file, "needFileNameList": true})
		if err == nil {
			err = json.Unmarshal(body, &p)
		}
		if err != nil {
			return nil, err
		}
		for _, name := range p.FileNames {
			uri := docuri.FromPath(name)
			if _, isOpen := open[uri]; !isOpen && t.own(name) {
				files[uri] = true
			}
		}
	}
	if len(files) > maxTSFiles {
		r.Notes = append(r.Notes, fmt.Sprintf("the projects have %d files, over %d: only open documents were asked about", len(files), maxTSFiles))
		return nil, nil
	}
	more := make([]string, 0, len(files))
	for uri := range files {
		more = append(more, uri)
	}
	slices.Sort(more)
	return more, nil
}

// own says whether a file of a project is the workspace's.
func (t *tsserverBarrier) own(file string) bool {
	if _, ok := t.language(docuri.FromPath(file)); !ok || strings.Contains(file, "/node_modules/") {
		return false
	}
	return strings.HasPrefix(file, strings.TrimRight(t.folder(file), "/")+"/")
}

// errNoProject is tsserver's answer about a file that no project has.
var errNoProject = errors.New("no project has the file")

func noProject(err error) bool { return errors.Is(err, errNoProject) }

// ask passes a request on to tsserver and returns the body of its answer.
func (t *tsserverBarrier) ask(ctx context.Context, command string, arguments any) (json.RawMessage, error) {
	answer, err := t.host.Call(ctx, "workspace/executeCommand", map[string]any{
		"command": "typescript.tsserverRequest", "arguments": []any{command, arguments},
	})
	if e := (*wire.Error)(nil); errors.As(err, &e) && strings.Contains(e.Message, "No Project") {
		return nil, errNoProject
	}
	if err != nil {
		return nil, err
	}
	var p struct {
		Type    string
		Success bool
		Message string
		Body    json.RawMessage
	}
	if err := json.Unmarshal(answer, &p); err != nil {
		return nil, fmt.Errorf("tsserver's %s: %w", command, err)
	}
	switch {
	case string(answer) == "null":
		return nil, errNoProject // vtsls does not say which error it was
	case p.Type == "noServer":
		return nil, kinded(Desync, errors.New("tsserver has ended"))
	case p.Type != "response" || !p.Success:
		return nil, fmt.Errorf("tsserver's %s: %.200s", command, answer)
	}
	return p.Body, nil
}
