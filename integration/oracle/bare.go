package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"shadowlsp/integration/stage"
	"shadowlsp/internal/sandbox"
	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/shadow"
)

// bare is one dedicated server that stays, on a real copy which is made into one
// branch's state after the other: what is to be had without shadowlsp. It is
// asked in the best way that is known, our own barrier's.
type bare struct {
	r        *run
	dir      string
	process  *process
	instance *shadow.Instance
	state    state // what the copy holds
}

// process is a server's stdio.
type process struct {
	io.Reader
	io.WriteCloser
	cmd  *exec.Cmd
	once sync.Once
}

// Close implements io.Closer: it ends the server's whole process group.
func (p *process) Close() error {
	p.once.Do(func() {
		p.WriteCloser.Close()
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		p.cmd.Wait()
	})
	return nil
}

// startBare starts it on the unedited project.
func (r *run) startBare(ctx context.Context) (*bare, error) {
	top := filepath.Dir(r.stage.Dir)
	b := &bare{r: r, dir: filepath.Join(top, "bare000"), state: state{}}
	if err := stage.Copy(b.dir, r.source); err != nil {
		return nil, err
	}
	command, err := r.server.command()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stderr = b.dir, logWriter("bare")
	cmd.Env = append(os.Environ(), r.server.env(r.stage.Env, filepath.Join(top, "cache-bare"))...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A pipe of our own: StdoutPipe is closed by Wait, under the reader.
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b.process = &process{Reader: out, WriteCloser: in, cmd: cmd}
	b.instance, err = shadow.Start(ctx, shadow.Config{
		Conn: b.process, Root: b.dir, Profile: barrier.For(r.server.Command, nil), Name: "bare",
		Initialize: barrier.Raw(map[string]any{
			"processId": nil, "rootUri": docuri.FromPath(b.dir), "capabilities": r.server.capabilities(true),
			"workspaceFolders":      []map[string]string{{"uri": docuri.FromPath(b.dir), "name": "workspace"}},
			"initializationOptions": r.server.options(),
		}),
		Client: settings{r.server.Settings}, Busy: func() bool { return sandbox.Busy(cmd.Process.Pid) },
	})
	if err != nil {
		return nil, errors.Join(err, b.process.Close())
	}
	return b, nil
}

func (b *bare) close() {
	b.instance.Close(context.Background())
	b.process.Close()
}

// lint makes the copy the branch's and asks about one document.
func (b *bare) lint(ctx context.Context, st state, path string) (lints, time.Duration, error) {
	began := time.Now()
	target := shadow.Target{}
	for old, text := range b.state.files {
		if _, stays := st.files[old]; stays {
			continue
		}
		if base, inBase := b.r.texts[old]; inBase {
			b.write(&target, old, &base)
		} else if text != nil {
			b.write(&target, old, nil)
		}
	}
	for name, text := range st.files {
		if old, held := b.state.files[name]; !held || !same(old, text) {
			b.write(&target, name, text)
		}
	}
	b.state = st.clone()
	for name := range b.r.server.opened(st) {
		text, _ := b.r.textOf(st, name)
		language, _ := b.r.server.language(name)
		target.Documents = append(target.Documents, shadow.Document{URI: b.uri(name), LanguageID: language, Text: text})
		if b.instance.Profile().CheckOnSave {
			target.Saved = append(target.Saved, b.uri(name))
		}
	}
	if _, err := b.instance.Sync(ctx, target); err != nil {
		return nil, 0, err
	}
	reports, err := b.instance.Diagnose(ctx, []string{b.uri(path)})
	if err != nil {
		return nil, 0, err
	}
	took := time.Since(began)
	var items []json.RawMessage
	if err := json.Unmarshal(reports[b.uri(path)].Diagnostics, &items); err != nil {
		return nil, 0, err
	}
	return spell(items, b.dir), took, nil
}

func (b *bare) uri(path string) string { return docuri.FromPath(filepath.Join(b.dir, path)) }

func same(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// write changes a file of the copy, nil deletes it, and notes the news.
func (b *bare) write(target *shadow.Target, path string, text *string) {
	name := filepath.Join(b.dir, path)
	event := shadow.FileEvent{URI: docuri.FromPath(name), Type: shadow.Changed}
	_, err := os.Lstat(name)
	switch {
	case text == nil && err != nil:
		return
	case text == nil:
		event.Type = shadow.Deleted
		os.Remove(name)
	default:
		if err != nil {
			event.Type = shadow.Created
		}
		os.MkdirAll(filepath.Dir(name), 0o755)
		os.WriteFile(name, []byte(*text), 0o644)
	}
	target.Files = append(target.Files, event)
}

// opened are the documents that are open in a state: what is overridden and
// taken by the server, and what the agent holds open.
func (s Server) opened(st state) map[string]bool {
	open := map[string]bool{}
	for path, text := range st.files {
		if _, takes := s.language(path); takes && text != nil {
			open[path] = true
		}
	}
	for path := range st.open {
		open[path] = true
	}
	return open
}

// settings answers workspace/configuration as the person's editor does.
type settings struct{ sections map[string]any }

// Configuration implements shadow.Client.
func (s settings) Configuration(raw json.RawMessage) (json.RawMessage, bool) {
	var items []struct{ Section string }
	if s.sections == nil || json.Unmarshal(raw, &items) != nil {
		return nil, false
	}
	values := make([]any, len(items))
	for n, item := range items {
		values[n] = s.sections[item.Section]
	}
	return barrier.Raw(values), true
}

// ApplyEdit implements shadow.Client.
func (settings) ApplyEdit(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"applied":false}`), nil
}

// Notification implements shadow.Client.
func (settings) Notification(string, json.RawMessage) {}

// Progress implements shadow.Client.
func (settings) Progress(json.RawMessage) {}
