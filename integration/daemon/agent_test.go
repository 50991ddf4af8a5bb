package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shadowlsp/lsp/wire"
)

// agent is a plain LSP client on the agent port. Its methods may be called from
// any goroutine; those that take a t end that test when they fail.
type agent struct {
	w    *world
	conn io.ReadWriteCloser
	out  *wire.Writer
	init json.RawMessage // the answer to initialize
	read chan struct{}   // closed when the reader has ended

	mu      sync.Mutex // guards the fields below
	next    int
	waits   map[string]chan wire.Message
	told    []wire.Message // notifications and requests, in order
	answers map[string]func(json.RawMessage) any
	changed chan struct{} // closed and replaced whenever something is told
	err     error         // why the reader ended
}

// attach is what an agent asks for when it connects.
type attach struct {
	branch, from, base string
	keep               bool
	noAutosave         bool
	token              string
	push               bool           // do not declare pull diagnostics
	capabilities       map[string]any // more of them
	options            map[string]any // more initializationOptions
}

func (a attach) params(w *world) map[string]any {
	ours := map[string]any{}
	for name, value := range map[string]string{"branch": a.branch, "from": a.from, "base": a.base, "token": a.token} {
		if value != "" {
			ours[name] = value
		}
	}
	if a.keep {
		ours["keep"] = true
	}
	if a.noAutosave {
		ours["autosave"] = false
	}
	document := map[string]any{}
	if !a.push {
		document["diagnostic"] = map[string]any{}
	}
	capabilities := map[string]any{"textDocument": document}
	for name, value := range a.capabilities {
		if more, ok := value.(map[string]any); ok && name == "textDocument" {
			for name, value := range more {
				document[name] = value
			}
			continue
		}
		capabilities[name] = value
	}
	options := map[string]any{"shadowlsp": ours}
	for name, value := range a.options {
		options[name] = value
	}
	return map[string]any{
		"processId": os.Getpid(), "rootUri": w.uri(""), "capabilities": capabilities,
		"workspaceFolders":      []map[string]string{{"uri": w.uri(""), "name": "m"}},
		"initializationOptions": options,
	}
}

// speak makes an agent of a connection, which it closes at the end of t.
func (w *world) speak(t testing.TB, conn io.ReadWriteCloser) *agent {
	a := &agent{
		w: w, conn: conn, out: wire.NewWriter(conn), read: make(chan struct{}),
		waits: map[string]chan wire.Message{}, answers: map[string]func(json.RawMessage) any{}, changed: make(chan struct{}),
	}
	go a.listen()
	t.Cleanup(func() {
		a.conn.Close()
		<-a.read
	})
	return a
}

// agent connects to the running daemon.
func (w *world) agent(t testing.TB, want attach) *agent {
	t.Helper()
	a := w.speak(t, w.dial(t))
	must(t, a.initialize(t.Context(), want))
	return a
}

// initialize does the handshake.
func (a *agent) initialize(ctx context.Context, want attach) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if a.init, err = a.call(ctx, "initialize", want.params(a.w)); err != nil {
		return err
	}
	return a.notify("initialized", struct{}{})
}

// connected is an agent that a process of `shadowlsp connect` joins to the port.
type connected struct {
	*agent
	process *exec.Cmd
	stderr  *strings.Builder
}

type stdio struct {
	io.Reader
	io.WriteCloser
}

// connect runs `shadowlsp connect`, which starts the daemon where none runs.
func (w *world) connect(t testing.TB, folder string, args ...string) connected {
	t.Helper()
	cmd := w.command(w.binary, append([]string{"connect"}, args...)...)
	cmd.Dir = w.path(folder)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	c := connected{w.speak(t, stdio{out, in}), cmd, &stderr}
	t.Cleanup(func() {
		in.Close()
		<-c.read
		cmd.Wait()
	})
	return c
}

// about is what an agent is told of its place.
func (a *agent) about(t testing.TB) (branch string, methods []string) {
	t.Helper()
	var r struct {
		Capabilities struct {
			Experimental struct {
				Shadowlsp struct {
					Branch  string
					Methods []string
				}
			}
		}
		ServerInfo struct{ Name string }
	}
	must(t, json.Unmarshal(a.init, &r))
	if r.ServerInfo.Name != "shadowlsp" {
		t.Errorf("serverInfo.name is %q", r.ServerInfo.Name)
	}
	s := r.Capabilities.Experimental.Shadowlsp
	return s.Branch, s.Methods
}

// listen is the reader.
func (a *agent) listen() {
	defer close(a.read)
	in := wire.NewReader(a.conn, wire.MaxServerFrame)
	for {
		body, err := in.ReadFrame()
		var m wire.Message
		if err == nil {
			m, err = wire.Parse(body)
		}
		if err != nil {
			a.mu.Lock()
			a.err = err
			close(a.changed)
			a.changed = make(chan struct{})
			a.mu.Unlock()
			return
		}
		a.take(m)
	}
}

func (a *agent) take(m wire.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.Kind == wire.Response {
		if came := a.waits[string(m.ID)]; came != nil {
			delete(a.waits, string(m.ID))
			came <- m
		}
		return
	}
	a.told = append(a.told, m)
	close(a.changed)
	a.changed = make(chan struct{})
	if m.Kind == wire.Request {
		var result any
		if answer := a.answers[m.Method]; answer != nil {
			result = answer(m.Params)
		}
		_ = a.out.WriteFrame(wire.NewResult(m.ID, result))
	}
}

// answering sets what the agent answers to a request; f must not call the agent.
func (a *agent) answering(method string, f func(json.RawMessage) any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[method] = f
}

// question is a request that waits for its answer.
type question struct {
	a    *agent
	id   json.RawMessage
	name string
	came chan wire.Message
}

// ask sends a request.
func (a *agent) ask(method string, params any) (question, error) {
	q := question{a: a, name: method, came: make(chan wire.Message, 1)}
	a.mu.Lock()
	a.next++
	q.id = json.RawMessage(strconv.Itoa(a.next))
	a.waits[string(q.id)] = q.came
	a.mu.Unlock()
	if err := a.out.WriteFrame(wire.NewRequest(q.id, method, params)); err != nil {
		return q, fmt.Errorf("%s: %w", method, err)
	}
	return q, nil
}

// answer waits for the answer. An error of the other side is a *wire.Error.
func (q question) answer(ctx context.Context) (json.RawMessage, error) {
	select {
	case m := <-q.came:
		if m.Error != nil {
			return nil, fmt.Errorf("%s: %w", q.name, wire.ParseError(m.Error))
		}
		return m.Result, nil
	case <-q.a.read:
		select {
		case m := <-q.came: // right before the end
			if m.Error != nil {
				return nil, fmt.Errorf("%s: %w", q.name, wire.ParseError(m.Error))
			}
			return m.Result, nil
		default:
		}
		return nil, fmt.Errorf("%s: the connection has ended: %w", q.name, q.a.ended())
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: no answer: %w", q.name, ctx.Err())
	}
}

// cancel sends $/cancelRequest.
func (q question) cancel() error {
	return q.a.notify("$/cancelRequest", map[string]any{"id": q.id})
}

func (a *agent) ended() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (a *agent) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	q, err := a.ask(method, params)
	if err != nil {
		return nil, err
	}
	return q.answer(ctx)
}

func (a *agent) notify(method string, params any) error {
	return a.out.WriteFrame(wire.NewNotification(method, params))
}

// get is a request that must succeed; its result is decoded into result unless
// that is nil.
func (a *agent) get(t testing.TB, method string, params, result any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	raw, err := a.call(ctx, method, params)
	must(t, err)
	if result != nil {
		if err := json.Unmarshal(raw, result); err != nil {
			t.Fatalf("%s: %v in %s", method, err, raw)
		}
	}
}

// refused is a request that must fail with an error of the other side.
func (a *agent) refused(t testing.TB, method string, params any) *wire.Error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	raw, err := a.call(ctx, method, params)
	var e *wire.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: %v, %s; want an error response", method, err, raw)
	}
	return e
}

// leave ends the session as LSP says.
func (a *agent) leave(t testing.TB) {
	t.Helper()
	a.get(t, "shutdown", nil, nil)
	must(t, a.notify("exit", nil))
	select {
	case <-a.read:
	case <-time.After(patience):
		t.Fatal("the connection is still open after exit")
	}
}

// hears waits until something told satisfies f, and returns that. It fails at
// once when the connection has ended without it.
func (a *agent) hears(t testing.TB, what string, f func(wire.Message) bool) wire.Message {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for from := 0; ; {
		a.mu.Lock()
		told, changed, err := a.told[from:], a.changed, a.err
		a.mu.Unlock()
		for _, m := range told {
			if f(m) {
				return m
			}
		}
		from += len(told)
		if err != nil {
			t.Fatalf("%s: never told, and the connection has ended: %v", what, err)
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("%s: not told within %v; told were %s", what, patience, a.heard())
		}
	}
}

// heard names all that was told.
func (a *agent) heard() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, m := range a.told {
		all = append(all, string(m.Body))
	}
	return strings.Join(all, "\n")
}

// forget makes hears wait for what comes from now on.
func (a *agent) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = nil
}

func document(uri string) map[string]any {
	return map[string]any{"textDocument": map[string]any{"uri": uri}}
}

func at(uri string, line, character int) map[string]any {
	p := document(uri)
	p["position"] = map[string]int{"line": line, "character": character}
	return p
}

// open, change, save and close are the notifications, for a path in the world.
func (a *agent) open(t testing.TB, path, text string, version int) {
	t.Helper()
	language := "go"
	if strings.HasSuffix(path, "go.mod") {
		language = "go.mod"
	}
	must(t, a.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": a.w.uri(path), "languageId": language, "version": version, "text": text,
	}}))
}

func (a *agent) change(t testing.TB, path string, version int, changes ...any) {
	t.Helper()
	must(t, a.notify("textDocument/didChange", map[string]any{
		"textDocument": map[string]any{"uri": a.w.uri(path), "version": version}, "contentChanges": changes,
	}))
}

// whole is a content change that replaces everything.
func whole(text string) any { return map[string]any{"text": text} }

func (a *agent) save(t testing.TB, path string) {
	t.Helper()
	must(t, a.notify("textDocument/didSave", document(a.w.uri(path))))
}

func (a *agent) close(t testing.TB, path string) {
	t.Helper()
	must(t, a.notify("textDocument/didClose", document(a.w.uri(path))))
}

// diagnostic is one of a server's.
type diagnostic struct {
	Range struct {
		Start, End struct{ Line, Character int }
	}
	Severity int
	Message  string
}

// errorsIn are the messages of severity error, each on one line.
func errorsIn(all []diagnostic) []string {
	found := []string{}
	for _, d := range all {
		if d.Severity == 1 {
			found = append(found, strings.Join(strings.Fields(d.Message), " "))
		}
	}
	return found
}

// report is the answer to textDocument/diagnostic.
type report struct {
	Kind      string
	ResultID  string
	Items     []diagnostic
	Shadowlsp struct {
		Verdict, Barrier string
		Rev              uint64
	}
}

// retries bounds how often an agent honours an honest "not proven in time".
const retries = 5

// tryLint asks for a document's diagnostics.
func (a *agent) tryLint(ctx context.Context, path string) (r report, err error) {
	var raw json.RawMessage
	for range retries {
		raw, err = a.call(ctx, "textDocument/diagnostic", document(a.w.uri(path)))
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.CodeServerCancelled {
			break
		}
	}
	if err != nil {
		return r, fmt.Errorf("lint of %s: %w", path, err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("lint of %s: %w in %s", path, err, raw)
	}
	if r.Kind != "full" || r.Shadowlsp.Verdict != "fresh" || r.Shadowlsp.Barrier == "" {
		return r, fmt.Errorf("lint of %s: kind, verdict or barrier are wrong in %s", path, raw)
	}
	return r, nil
}

// lint returns the errors in a document.
func (a *agent) lint(t testing.TB, path string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := a.tryLint(ctx, path)
	must(t, err)
	return errorsIn(r.Items)
}

// clean says that a document must have no errors now.
func (a *agent) clean(t testing.TB, path string) {
	t.Helper()
	if found := a.lint(t, path); len(found) > 0 {
		t.Errorf("%s has errors: %q", path, found)
	}
}

// names says that a document must have errors now, each of which names one of
// words, and each word is named.
func (a *agent) names(t testing.TB, path string, words ...string) {
	t.Helper()
	found := a.lint(t, path)
	if why := judge(found, words...); why != "" {
		t.Errorf("%s: %s", path, why)
	}
}

// judge compares errors to the words that they must name.
func judge(found []string, words ...string) string {
	for _, word := range words {
		if !slices.ContainsFunc(found, func(e string) bool { return strings.Contains(e, word) }) {
			return fmt.Sprintf("no error names %s: %q", word, found)
		}
	}
	for _, e := range found {
		if !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(e, word) }) {
			return fmt.Sprintf("an error names none of %q: %q", words, e)
		}
	}
	return ""
}

// fileEdit is one edit of shadowlsp/lint and shadowlsp/write.
type fileEdit map[string]any

func (w *world) text(path, text string) fileEdit { return fileEdit{"uri": w.uri(path), "text": text} }
func (w *world) deleted(path string) fileEdit    { return fileEdit{"uri": w.uri(path), "delete": true} }

// edit is shadowlsp/write.
func (a *agent) edit(t testing.TB, edits ...fileEdit) {
	t.Helper()
	a.get(t, "shadowlsp/write", map[string]any{"edits": edits}, nil)
}

// linted is the answer to shadowlsp/lint, by path.
type linted map[string][]diagnostic

// editAndLint is shadowlsp/lint of paths, none for the whole workspace.
func (a *agent) editAndLint(t testing.TB, edits []fileEdit, paths ...string) linted {
	t.Helper()
	params := map[string]any{"edits": edits}
	if len(paths) > 0 {
		uris := []string{}
		for _, path := range paths {
			uris = append(uris, a.w.uri(path))
		}
		params["uris"] = uris
	}
	var r struct {
		Items []struct {
			URI, Verdict, Barrier, Reason string
			Diagnostics                   []diagnostic
		}
	}
	a.get(t, "shadowlsp/lint", params, &r)
	found := linted{}
	for _, item := range r.Items {
		if item.Verdict != "fresh" {
			t.Fatalf("%s: the verdict is %q: %s", item.URI, item.Verdict, item.Reason)
		}
		found[strings.TrimPrefix(item.URI, a.w.uri("")+"/")] = item.Diagnostics
	}
	return found
}

// file is shadowlsp/read.
func (a *agent) file(t testing.TB, path string) string {
	t.Helper()
	var r struct{ Text *string }
	a.get(t, "shadowlsp/read", map[string]any{"uri": a.w.uri(path)}, &r)
	if r.Text == nil {
		t.Fatalf("%s has no text", path)
	}
	return *r.Text
}

// patch is shadowlsp/diff.
func (a *agent) patch(t testing.TB) string {
	t.Helper()
	var r struct{ Patch string }
	a.get(t, "shadowlsp/diff", struct{}{}, &r)
	return r.Patch
}
