package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"shadowlsp/integration/client"
	"shadowlsp/integration/stage"
	"shadowlsp/internal/sandbox"
	"shadowlsp/lsp/docuri"
)

const (
	// quietTime is how long a server must have nothing to do before its
	// diagnostics are taken for final: longer than any delay that a server is
	// known to have before it sets to work.
	quietTime = 2 * time.Second
	// sampleTime is how often it is looked at.
	sampleTime = 100 * time.Millisecond
	// settleTime is when something is wrong.
	settleTime = 10 * time.Minute
)

// reference is a new process of the bare server on a new copy.
type reference struct {
	server Server
	dir    string
	conn   *client.Client

	version int // of the document that was sent last

	mu        sync.Mutex // guards the fields below
	published map[string][]json.RawMessage
	working   map[string]bool // progress, by token
	heard     time.Time
}

// scene is what a fresh server is started on.
type scene struct {
	server   Server
	texts    map[string]string // the project's
	from     string            // the project, to be copied
	dir      string            // where to
	caches   string            // the server's
	env      []string
	state    state
	edited   string    // the document that was edited last
	differ   []string  // the documents about which the two sides differ, or features of theirs
	features []feature // to be asked besides
	// order arranges the documents for opening, nil as they are.
	order func(paths []string) []string
	// past has the project as it was while they are opened, and then what the
	// branch has made of it.
	past bool
	// again changes them and changes them back that often.
	again int
	// company are other documents to open, where they are there.
	company []string
}

// all are the project's files that match a pattern.
func (s scene) all(pattern string) []string {
	paths := slices.Sorted(maps.Keys(s.texts))
	return slices.DeleteFunc(paths, func(path string) bool { return !matches([]string{pattern}, path) })
}

// set makes the copy.
func (s scene) set() error {
	return errors.Join(os.RemoveAll(s.dir), stage.Copy(s.dir, s.from))
}

// override makes the branch's files of the project's.
func (s scene) override() (err error) {
	for path, text := range s.state.files {
		name := filepath.Join(s.dir, path)
		if text == nil {
			err = errors.Join(err, os.Remove(name))
			continue
		}
		err = errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(*text), 0o644))
	}
	return err
}

// fresh returns what a new server says on a new copy: the diagnostics of every
// document that has any, or that is open.
func fresh(ctx context.Context, s scene) (_ map[string]lints, took time.Duration, err error) {
	if err := s.set(); err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	if !s.past {
		if err := s.override(); err != nil {
			return nil, 0, err
		}
	}
	command, err := s.server.command()
	if err != nil {
		return nil, 0, err
	}
	r := &reference{server: s.server, dir: s.dir, published: map[string][]json.RawMessage{}, working: map[string]bool{}, heard: time.Now()}
	r.conn, err = client.Start(client.Config{
		Command: command, Dir: s.dir, Env: s.env, Stderr: logWriter("reference"), Settings: s.server.Settings, Notify: r.hear,
	})
	if err != nil {
		return nil, 0, err
	}
	// How it ends is not what is asked: TypeScript 7's exits with 1 at times.
	defer r.conn.Close()
	began := time.Now()
	if _, err = r.conn.Initialize(ctx, docuri.FromPath(s.dir), s.server.capabilities(s.server.Pull), s.server.options()); err != nil {
		return nil, 0, err
	}
	if s.server.Late {
		if err := r.settle(ctx); err != nil {
			return nil, 0, err
		}
		began = time.Now()
	}
	open, err := r.open(ctx, s)
	if err != nil {
		return nil, 0, err
	}
	if err := r.settle(ctx); err != nil {
		return nil, 0, err
	}
	took = time.Since(began) - quietTime
	for range s.again {
		if err := r.change(ctx, open); err != nil {
			return nil, 0, err
		}
	}
	found, err := r.read(ctx, open)
	if err != nil {
		return nil, 0, err
	}
	for _, f := range s.features {
		if found[f.name()], err = f.ask(ctx, r.conn, s.dir); err != nil {
			return nil, 0, err
		}
	}
	return found, took, nil
}

// hear takes a notification.
func (r *reference) hear(method string, params json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = time.Now()
	switch method {
	case "textDocument/publishDiagnostics":
		var p struct {
			URI         string
			Diagnostics []json.RawMessage
		}
		if json.Unmarshal(params, &p) == nil {
			r.published[relative(r.dir, p.URI)] = p.Diagnostics
		}
	case "$/progress":
		var p struct {
			Token json.RawMessage
			Value struct{ Kind string }
		}
		if json.Unmarshal(params, &p) != nil {
			return
		}
		switch p.Value.Kind {
		case "begin":
			r.working[string(p.Token)] = true
		case "end":
			delete(r.working, string(p.Token))
		}
	}
}

// open opens the overridden files that the server takes, those that the agent
// holds open, and the company.
func (r *reference) open(ctx context.Context, s scene) (paths []string, err error) {
	own := r.server.opened(s.state)
	open := maps.Clone(own)
	for _, path := range s.company {
		if text, overridden := s.state.files[path]; !overridden || text != nil {
			open[path] = true
		}
	}
	if paths = slices.Sorted(maps.Keys(open)); s.order != nil {
		paths = s.order(paths)
	}
	if !s.past {
		paths, _, err = r.openThere(paths)
		return paths, err
	}
	paths, missing, err := r.openThere(paths)
	if err := errors.Join(err, r.settle(ctx), s.override()); err != nil {
		return nil, err
	}
	var changes []map[string]any
	for path, text := range s.state.files {
		event := 2 // changed
		if _, inBase := s.texts[path]; text == nil {
			event = 3 // deleted
		} else if !inBase {
			event = 1 // created
		}
		changes = append(changes, map[string]any{"uri": docuri.FromPath(filepath.Join(r.dir, path)), "type": event})
	}
	err = r.conn.Notify("workspace/didChangeWatchedFiles", map[string]any{"changes": changes})
	created, _, failed := r.openThere(missing)
	paths = append(paths, created...)
	mine := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !own[path] })
	return paths, errors.Join(err, failed, r.change(ctx, mine))
}

// openThere opens those documents whose files are there.
func (r *reference) openThere(paths []string) (opened, missing []string, err error) {
	for _, path := range paths {
		name := filepath.Join(r.dir, path)
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			missing = append(missing, path)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		language, _ := r.server.language(path)
		r.version++
		if err := r.conn.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
			"uri": docuri.FromPath(name), "languageId": language, "version": r.version, "text": string(text),
		}}); err != nil {
			return nil, nil, err
		}
		opened = append(opened, path)
	}
	return opened, missing, nil
}

// change changes documents and changes them back.
func (r *reference) change(ctx context.Context, paths []string) error {
	for _, more := range []string{"\n", ""} {
		for _, path := range paths {
			if err := r.send(path, more); err != nil {
				return err
			}
		}
		if err := r.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// send sends an open document's text as it is on the disk, and more.
func (r *reference) send(path, more string) error {
	name := filepath.Join(r.dir, path)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	r.version++
	return r.conn.Notify("textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": docuri.FromPath(name), "version": r.version},
		"contentChanges": []map[string]string{{"text": string(text) + more}},
	})
}

// settle returns when the server has nothing more to do.
func (r *reference) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleTime, fmt.Errorf("the bare server is not done after %v", settleTime))
	defer cancel()
	tick := time.NewTicker(sampleTime)
	defer tick.Stop()
	calm := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		running := sandbox.Busy(r.conn.Pid())
		r.mu.Lock()
		if running || len(r.working) > 0 {
			calm = time.Now()
		}
		done := time.Since(calm) > quietTime && time.Since(r.heard) > quietTime
		r.mu.Unlock()
		if done {
			return nil
		}
	}
}

// read takes what was published, and asks for open documents if that is how the
// server tells.
func (r *reference) read(ctx context.Context, open []string) (map[string]lints, error) {
	r.mu.Lock()
	published := maps.Clone(r.published)
	r.mu.Unlock()
	found := map[string]lints{}
	for path, items := range published {
		found[path] = spell(items, r.dir)
	}
	for _, path := range open {
		if !r.server.Pull {
			if found[path] == nil {
				found[path] = lints{}
			}
			continue
		}
		raw, err := r.conn.Call(ctx, "textDocument/diagnostic", map[string]any{
			"textDocument": map[string]string{"uri": docuri.FromPath(filepath.Join(r.dir, path))},
		})
		if err != nil {
			return nil, err
		}
		var report struct{ Items []json.RawMessage }
		if err := json.Unmarshal(raw, &report); err != nil {
			return nil, fmt.Errorf("%w in %.200s", err, raw)
		}
		found[path] = append(spell(report.Items, r.dir), found[path]...)
		slices.Sort(found[path])
	}
	return found, nil
}
