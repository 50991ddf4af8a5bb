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

// tsserverBarrier asks tsserver itself, through the command of both servers that
// passes requests on, and puts its answers into the form in which the server
// would have published them. What the server publishes by itself is not looked
// at: it has no version, comes 0.3 to 0.8 s late, is left out where nothing
// changed, and is often wrong at first, because a round of checks (geterr) that
// an edit has cut short is not taken back.
//
// What makes an answer final (typescript-language-server 5.3.0, lib/cli.mjs;
// vtsls 0.3.0, @vtsls/language-service; TypeScript 5.9.3, lib/typescript.js):
//
//  1. Both servers handle messages in order, and turn didOpen, didChange and
//     didClose into requests to tsserver before the next message is looked at
//     (LspDocuments; BufferSyncSupport, whose batch is sent before any request:
//     beforeCommand). tsserver handles requests one at a time, in order; the
//     queue before it lets nothing pass an edit (RequestQueueingType.Fence).
//  2. syntacticDiagnosticsSync, semanticDiagnosticsSync and
//     suggestionDiagnosticsSync are answered from a program that is brought up
//     to date first (Project.getLanguageService, updateProjectIfDirty), by the
//     same functions as the checks whose results are published (semanticCheck
//     and its like beside getSemanticDiagnosticsSync), for the same project
//     (ensureDefaultProjectForFile). They are synchronous: nothing comes later.
//  3. News of files mark projects dirty at once, but some of it is put off by
//     timers: which imports resolve anew (1 s), which project an open document
//     belongs to (2.5 s). A question about a file that no project has runs all
//     that is put off before it fails (doEnsureDefaultProjectForFile,
//     ensureProjectStructuresUptoDate): the flush. It is sent after news of
//     files, and after opening and closing.
//  4. Which news reach tsserver, and what is done where they do not, is
//     tsDisk.repair.
//
// Files that are not open are opened in tsserver alone, from the disk, for the
// question, and closed again: which project a file belongs to, and whether it
// has any, is decided for open files only. So the answer is what the server
// would publish if the file were opened. Without uris the answer is about the
// open documents and all files of the projects that they belong to, below the
// workspace's folders and outside node_modules, at most maxTSFiles; where there
// are more, only the open documents are answered and a note says so.
//
// What differs from a person's server: types are not acquired automatically.
// The order in which files are checked is that of the question; where TypeScript
// itself reports an error in whichever file is checked first (circularities),
// that shows.
type tsserverBarrier struct {
	host   Host
	speaks tsDialect

	watch     watch // guards the fields below
	ready     bool
	watched   bool              // it hands file events to tsserver
	modified  uint64            // counts what was sent that may change diagnostics
	flushed   uint64            // modified, when the last flush was answered
	disk      tsDisk            // what has happened to files
	view      tsView            // what diagnostics look like
	questions map[string][]bool // its questions for settings, by id: which items are for all of them
	answers   map[string]Item   // by canonical URI, for the state when modified was answered
	answered  uint64
}

func newTsserver(h Host, speaks tsDialect) *tsserverBarrier {
	return &tsserverBarrier{
		host: h, speaks: speaks, disk: newTSDisk(), questions: make(map[string][]bool),
		answers: make(map[string]Item), view: tsView{settings: make(map[string]any), suggestions: true},
	}
}

// maxTSFiles bounds the files that are opened for a question without uris. A
// project is checked at 50 to 200 files a second.
const maxTSFiles = 1000

// Observe implements Barrier.
func (t *tsserverBarrier) Observe(e Event) {
	t.watch.update(func() {
		if e.Sent {
			t.observeSent(e.Msg)
		} else if e.Msg.Kind == wire.Request {
			t.observeRequest(e.Msg)
		}
	})
}

func (t *tsserverBarrier) observeSent(m wire.Message) {
	switch m.Method {
	case "textDocument/didOpen", "textDocument/didChange", "textDocument/didClose", "workspace/didChangeWatchedFiles":
		t.modified++
		t.disk.observe(m)
	case "workspace/didChangeConfiguration":
		t.modified++
		raw, _ := Lookup(m.Params, "settings")
		t.configured(raw)
	case "workspace/didChangeWorkspaceFolders":
		t.modified++
	case "initialize":
		tags, ok := Lookup(m.Params, "capabilities", "textDocument", "publishDiagnostics", "tagSupport")
		t.view.tags = ok && string(tags) != "null" && string(tags) != "false"
		off, _ := Lookup(m.Params, "initializationOptions", "preferences", "disableSuggestions")
		t.view.suggestions = string(off) != "true"
	case "":
		t.observeAnswer(m)
	}
}

// observeRequest notes what the server asks for.
func (t *tsserverBarrier) observeRequest(m wire.Message) {
	switch m.Method {
	case "client/registerCapability":
		t.watched = t.watched || strings.Contains(string(m.Params), `"workspace/didChangeWatchedFiles"`)
	case "workspace/configuration":
		var p struct {
			Items []struct{ Section string } `json:"items"`
		}
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		all := make([]bool, len(p.Items))
		for n, item := range p.Items {
			all[n] = item.Section == ""
		}
		if slices.Contains(all, true) {
			t.questions[string(m.ID)] = all
		}
	}
}

// observeAnswer takes the settings from our answer to a question for them.
func (t *tsserverBarrier) observeAnswer(m wire.Message) {
	all, asked := t.questions[string(m.ID)]
	if !asked {
		return
	}
	delete(t.questions, string(m.ID))
	var values []json.RawMessage
	if json.Unmarshal(m.Result, &values) != nil {
		return
	}
	for n, value := range values {
		if n < len(all) && all[n] {
			t.configured(value)
		}
	}
}

func (t *tsserverBarrier) configured(raw json.RawMessage) {
	var settings map[string]any
	if json.Unmarshal(raw, &settings) != nil || settings == nil {
		return // null says nothing
	}
	if t.speaks.whole {
		t.view.settings = settings
		return
	}
	t.view.settings, _ = merged(t.view.settings, settings).(map[string]any)
}

// Ready implements Barrier: tsserver answers. Projects are loaded when a document
// is opened, and what is asked behind that waits for it.
func (t *tsserverBarrier) Ready(ctx context.Context) error {
	var ready bool
	t.watch.view(func() { ready = t.ready })
	if ready {
		return nil
	}
	if err := t.status(ctx); err != nil {
		return t.error("ready", err)
	}
	t.watch.update(func() { t.ready = true })
	return nil
}

// Idle implements Barrier. A project may still be loading, from files that are
// about to be others: the news of them comes behind, and has them read again.
func (t *tsserverBarrier) Idle(context.Context) error { return nil }

// status returns when tsserver has answered.
func (t *tsserverBarrier) status(ctx context.Context) error {
	_, err := t.ask(ctx, "status", nil)
	return err
}

// Final implements Barrier.
func (t *tsserverBarrier) Final(ctx context.Context, uris []string) (Result, error) {
	r := Result{Barrier: "tsserver", Items: make(map[string]Item)}
	err := t.final(ctx, uris, &r)
	return r, t.error("final", err)
}

func (t *tsserverBarrier) final(ctx context.Context, uris []string, r *Result) error {
	if err := t.settle(ctx); err != nil {
		return err
	}
	open := make(map[string]Document)
	for _, d := range t.host.Documents() {
		if _, ok := docuri.Path(d.URI); ok && isTS(d.LanguageID) {
			open[docuri.Canonical(d.URI)] = d
		}
	}
	asked := uris
	if len(asked) == 0 {
		for uri := range open {
			asked = append(asked, uri)
		}
		slices.Sort(asked)
		more, err := t.projectFiles(ctx, asked, open, r)
		if err != nil {
			return err
		}
		asked = append(asked, more...)
	}
	var failed error
	var others []string
	for _, uri := range asked {
		if d, ok := open[uri]; ok {
			if err := t.item(ctx, uri, d.LanguageID, r); err != nil {
				return err
			}
		} else if _, takes := t.language(uri); !takes {
			failed = kinded(Unsupported, fmt.Errorf("%s is no document of this server", uri))
		} else if !t.recall(uri, r) {
			others = append(others, uri)
		}
	}
	return errors.Join(t.visit(ctx, others, r), failed)
}

// language returns the language id of a file that is not open.
func (t *tsserverBarrier) language(uri string) (string, bool) {
	file, ok := docuri.Path(uri)
	if !ok {
		return "", false
	}
	return Profile{Languages: tsLanguages}.Language(file)
}

func isTS(language string) bool {
	return slices.ContainsFunc(tsLanguages, func(l Language) bool { return l.ID == language })
}

// recall answers from what was proven before, if nothing was modified since.
func (t *tsserverBarrier) recall(uri string, r *Result) (ok bool) {
	t.watch.view(func() {
		var item Item
		if item, ok = t.answers[uri]; ok && t.answered == t.modified {
			r.Items[uri] = item
		} else {
			ok = false
		}
	})
	return ok
}

// Settle implements Settler: other requests are not asked behind a flush, and
// would be answered from before the news of files.
func (t *tsserverBarrier) Settle(ctx context.Context) error {
	return t.error("ready", t.settle(ctx))
}

// settle has tsserver take in all news of files.
func (t *tsserverBarrier) settle(ctx context.Context) error {
	open := make(map[string]bool)
	for _, d := range t.host.Documents() {
		if file, ok := docuri.Path(d.URI); ok {
			open[file] = true
		}
	}
	var (
		repair   tsRepair
		modified uint64
		known    bool
	)
	t.watch.view(func() {
		known, modified = t.flushed == t.modified, t.modified
		repair = t.disk.repair(t.watched, open)
	})
	if known {
		return nil
	}
	if err := t.repair(ctx, repair); err != nil {
		return err
	}
	if err := t.flush(ctx); err != nil {
		return err
	}
	t.watch.update(func() {
		t.flushed = modified
		t.disk.settled(repair, open)
	})
	return nil
}

func (t *tsserverBarrier) repair(ctx context.Context, r tsRepair) error {
	if r.restart && t.speaks.restart == "" {
		return kinded(Desync, errors.New("what configures its projects has changed, which it does not notice (TypeScript before 5.4.4)"))
	}
	if r.restart {
		_, err := t.host.Call(ctx, "workspace/executeCommand", map[string]any{"command": t.speaks.restart})
		return err
	}
	if r.projects {
		_, err := t.ask(ctx, "reloadProjects", nil)
		return err
	}
	for _, file := range r.files {
		if _, err := t.ask(ctx, "reload", map[string]any{"file": file}); err != nil && !noProject(err) {
			return err
		}
	}
	return nil
}

// tsNowhere is the name of a file that is never there.
const tsNowhere = ".shadowlsp-nowhere.ts"

// flush is the question about a file that no project has.
func (t *tsserverBarrier) flush(ctx context.Context) error {
	_, err := t.ask(ctx, "syntacticDiagnosticsSync", map[string]any{"file": path.Join(t.folder(""), tsNowhere)})
	if noProject(err) {
		return nil
	}
	return err
}

// folder is the workspace folder that a file is in, as a path: both servers give
// it to tsserver with each document that they open.
func (t *tsserverBarrier) folder(file string) string {
	first := "/"
	for n, uri := range t.host.Folders() {
		p, ok := docuri.Path(uri)
		if !ok {
			continue
		}
		if strings.HasPrefix(file, strings.TrimRight(p, "/")+"/") {
			return p
		}
		if n == 0 {
			first = p
		}
	}
	return first
}

func (t *tsserverBarrier) error(op string, err error) error { return wrap(t.speaks.name, op, err) }
