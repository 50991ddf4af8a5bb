package editor

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// Diagnostic is one as Neovim shows it. Lines and columns count from 0, columns
// in bytes.
type Diagnostic struct {
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Severity int    `json:"severity"`
	Message  string `json:"message"`
	Source   string `json:"source"`
}

// event is what the driver reports unasked.
type event struct {
	Event       string          `json:"event"`
	Path        string          `json:"path"`
	Diagnostics list            `json:"diagnostics"`
	Params      json.RawMessage `json:"params"`
	Code        int             `json:"code"`
	Signal      int             `json:"signal"`
}

// list is a JSON array; Lua writes an empty one as an object.
type list []Diagnostic

func (l *list) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		*l = nil
		return nil
	}
	return json.Unmarshal(b, (*[]Diagnostic)(l))
}

// heard is all that came unasked.
type heard struct {
	shown map[string][]Diagnostic // by path, as shown now
	log   []string                // everything that came, raw
	exit  error                   // set when a server has ended
}

func (h *heard) add(ev event) {
	switch ev.Event {
	case "diagnostics":
		if h.shown == nil {
			h.shown = map[string][]Diagnostic{}
		}
		h.shown[ev.Path] = ev.Diagnostics
	case "exit":
		h.exit = fmt.Errorf("the language server has ended: status %d, signal %d", ev.Code, ev.Signal)
	default:
		h.log = append(h.log, string(ev.Params))
	}
}

// Shown returns the diagnostics that the editor shows for path now.
func (e *Editor) Shown(path string) []Diagnostic {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard.shown[e.abs(path)]
}

// WaitShown waits until the diagnostics shown for path satisfy condition, and
// returns them. It fails at once when the server ends.
func (e *Editor) WaitShown(ctx context.Context, path string, condition func([]Diagnostic) bool) ([]Diagnostic, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	for {
		e.mu.Lock()
		shown, exit, changed := e.heard.shown[e.abs(path)], e.heard.exit, e.changed
		e.mu.Unlock()
		if condition(shown) {
			return shown, nil
		}
		if exit != nil {
			return shown, exit
		}
		select {
		case <-changed:
		case <-e.reading:
			return shown, fmt.Errorf("waiting for diagnostics of %s: Neovim has ended", path)
		case <-ctx.Done():
			return shown, fmt.Errorf("waiting for diagnostics of %s: %w; shown now: %v", path, ctx.Err(), shown)
		}
	}
}

// Heard returns every published diagnostic and message that came from the
// server and contains text, raw, oldest first.
func (e *Editor) Heard(text string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []string
	for _, raw := range e.heard.log {
		if strings.Contains(raw, text) {
			found = append(found, raw)
		}
	}
	return found
}

// ServerEnded returns how the language server ended, nil while it runs.
func (e *Editor) ServerEnded() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard.exit
}

func (e *Editor) abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(e.dir, path)
}
