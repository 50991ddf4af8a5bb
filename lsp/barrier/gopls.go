package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"shadowlsp/lsp/wire"
)

// gopls is the profile of gopls. Settings are read from initializationOptions
// and from workspace/configuration, section "gopls"; both must hold ours,
// because the first count for the session and the second for its views.
func gopls() Profile {
	return Profile{
		Name:        "gopls",
		Commands:    []string{"gopls"},
		ServerNames: []string{"gopls"},
		Languages: []Language{
			{"go.mod", "go.mod"}, {"go.sum", "go.sum"}, {"go.work", "go.work"},
			{".go", "go"}, {".tmpl", "gotmpl"}, {".gotmpl", "gotmpl"}, {".gohtml", "gotmpl"},
		},
		Drop: []Flag{
			// A shadow is a process of its own, in its own view of the files,
			// never a guest of a shared daemon.
			{"remote", true}, {"remote.", true}, {"listen", true}, {"listen.", true},
			// These name a port or a file that the person's own gopls has.
			{"debug", true}, {"mcp.listen", true}, {"logfile", true}, {"otel", true},
		},
		Settings: Settings{
			Section: "gopls", InitializationOptions: true, Flat: true,
			Options: []Option{
				// The progress that the barrier counts.
				{Name: "verboseWorkDoneProgress", Value: Raw(true)},
				// One phase of diagnosing in place of two, a second apart.
				{Name: "diagnosticsDelay", Value: Raw("0s")},
				// With "Save" a didChange ends without having diagnosed.
				{Name: "diagnosticsTrigger", Value: Raw("Edit")},
				// A watcher of its own would begin progress that no
				// notification of ours has caused.
				{Name: "fileWatcher", Value: Raw("off")},
				// "Prompt" (the default) starts govulncheck in the background
				// after go.mod changes where the person once answered
				// "always"; its findings come outside any order.
				{Name: "vulncheck", Value: Raw("Off"), Keep: []json.RawMessage{Raw("Imports")}},
				{Name: "telemetryPrompt", Value: Raw(false)},
			},
		},
		New: func(h Host) Barrier { return newGopls(h) },
	}
}

// Titles of the progress that gopls 0.23.0 shows with verboseWorkDoneProgress
// (internal/server/text_synchronization.go, ModificationSource.String).
const (
	goplsDiagnosing = "diagnosing "
	goplsLoading    = goplsDiagnosing + "initial workspace load"
	goplsLoadFailed = "Error loading workspace" // diagnostics.go, WorkspaceLoadFailure
)

// goplsCauses maps each notification that gopls answers with a bracket to the
// bracket's title.
var goplsCauses = map[string]string{
	"textDocument/didOpen":                goplsDiagnosing + "opened files",
	"textDocument/didChange":              goplsDiagnosing + "changed files",
	"textDocument/didSave":                goplsDiagnosing + "saved files",
	"textDocument/didClose":               goplsDiagnosing + "close files",
	"workspace/didChangeWatchedFiles":     goplsDiagnosing + "files changed on disk",
	"workspace/didChangeConfiguration":    goplsDiagnosing + "unknown file modification",
	"workspace/didChangeWorkspaceFolders": goplsLoading,
	"initialized":                         goplsLoading,
}

// goplsDiagnosesInOrder are the titles whose diagnosis a later modification
// takes over when it cancels it (server.viewsToDiagnose). All other "diagnosing"
// brackets work on a context of their snapshot: a later modification cancels
// them, and what they would have found is lost until something touches it
// again. So no modification is sent while one of those is open.
var goplsDiagnosesInOrder = map[string]bool{
	goplsCauses["textDocument/didOpen"]:            true,
	goplsCauses["textDocument/didChange"]:          true,
	goplsCauses["textDocument/didSave"]:            true,
	goplsCauses["textDocument/didClose"]:           true,
	goplsCauses["workspace/didChangeWatchedFiles"]: true,
}

// maxFlushes bounds the flushes of one Final. One is enough unless something
// else modifies gopls at the same time.
const maxFlushes = 3

// goplsBarrier proves finality of gopls's published table. Read in gopls 0.23.0,
// internal/server unless named otherwise:
//
//  1. Messages are handled one at a time, in order: every handler is wrapped in
//     AsyncHandler (internal/protocol/protocol.go, Handlers), which starts the
//     next when the one before has replied. Only textDocument/diagnostic and
//     two commands let others pass. So the answer to a request that is sent
//     behind a notification comes after that notification's handler has ended.
//  2. Each didOpen, didChange, didSave, didClose and didChangeWatchedFiles calls
//     didModifyFiles, which writes a progress begin with its cause as title
//     before anything else, and an end when the handler is through and
//     diagnoseChangedViews has returned (text_synchronization.go; its wait
//     group). Publishes are written to the same stream, by that goroutine,
//     before it returns. So behind the end nothing more comes of that cause.
//  3. A later modification cancels the diagnosis before it, and takes over what
//     that had not finished: viewsToDiagnose loses a view only when a diagnosis
//     of it ran to its end uncancelled (diagnostics.go, diagnoseChangedViews;
//     server.go, "Modification tracking"). So when all brackets have ended, all
//     views have been diagnosed in their last state.
//
// Together: a request of our own is answered (1: all begins of what was sent
// before are on the wire), and every "diagnosing" bracket has ended (2, 3). The
// request is one that gopls does not know; MethodNotFound is as good an answer.
//
// Where there is no bracket, and what we do:
//   - A didChange that gopls cannot apply (no changes, a range outside the text,
//     a file it does not have) fails before didModifyFiles and is only logged.
//     Begins are counted per title: one missing behind the round trip is an
//     error of Kind Desync, at once.
//   - A failing workspace load leaves no diagnostics where gopls cannot place
//     the error. It shows a progress "Error loading workspace" while documents
//     are open (diagnostics.go, updateCriticalErrorStatus) and logs it. If that
//     stands and no document has an error, Final is an error of Kind LoadFailed.
//   - The diagnosis of the initial load, of added folders and of commands runs
//     on the snapshot's own context and is not taken over when cancelled (3 does
//     not hold): Ready waits for those before anything is modified.
//   - A diagnosis cancelled while it writes the "orphaned file" diagnostics does
//     not look at its context any more (updateOrphanedFileDiagnostics) and could
//     overwrite those of its successor. That is excluded if all earlier brackets
//     ended before the first publish behind the last begin (the last diagnosis
//     always publishes the file that was modified). Else Final sends an empty
//     didChangeWatchedFiles: it modifies nothing, but writes the orphans anew,
//     with no other diagnosis beside it.
//   - Warnings such as "diagnostics failed" are only logged, from a queue of
//     their own, so they prove nothing; those seen are in the Result's Notes.
type goplsBarrier struct {
	host Host

	watch watch // guards the fields below
	work  brackets
	sent  map[string]uint64 // notifications, by the title they cause
	begun map[string]uint64 // brackets, by title
	// modified counts what was sent that may change diagnostics; proven is
	// its value when Final last succeeded.
	modified, proven uint64
	// published: behind the last diagnosing begin. mixed: an earlier bracket
	// ended behind that publish.
	published, mixed bool
	lastBegin        uint64 // serial of the last diagnosing begin
	ready            bool
	// load is what the last failed workspace load said, until a later
	// diagnosis with an open document shows none.
	load       string
	loadBefore uint64 // lastBegin when it was seen
	refused    string // what gopls said about folders that it cannot load
	notes      []string
}

func newGopls(h Host) *goplsBarrier {
	return &goplsBarrier{host: h, sent: make(map[string]uint64), begun: make(map[string]uint64)}
}

// maxNotes bounds what is kept of gopls's warnings between two modifications.
const maxNotes = 16

// Observe implements Barrier.
func (g *goplsBarrier) Observe(e Event) {
	g.watch.update(func() {
		if e.Sent {
			g.observeSent(e.Msg)
		} else {
			g.observeReceived(e.Msg)
		}
	})
}

func (g *goplsBarrier) observeSent(m wire.Message) {
	if title := goplsCauses[m.Method]; title != "" {
		g.sent[title]++
		g.modified++
		g.notes = nil
	}
	if m.Method == "workspace/executeCommand" && m.Kind == wire.Request {
		g.modified++ // it may; its bracket says when it is through
	}
}

func (g *goplsBarrier) observeReceived(m wire.Message) {
	switch m.Method {
	case "$/progress":
		g.observeProgress(g.work.observe(m))
	case "textDocument/publishDiagnostics":
		g.published = true
	case "window/logMessage", "window/showMessage":
		var p struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			g.observeMessage(p.Message)
		}
	}
}

func (g *goplsBarrier) observeProgress(s step) {
	switch {
	case s.began != nil && strings.HasPrefix(s.began.title, goplsDiagnosing):
		g.begun[s.began.title]++
		g.lastBegin = s.began.serial
		g.published, g.mixed = false, false
	case s.ended != nil && strings.HasPrefix(s.ended.title, goplsDiagnosing):
		if s.ended.serial != g.lastBegin && g.published {
			g.mixed = true
		}
		if g.load != "" && s.ended.serial > g.loadBefore && !g.work.any(isLoadFailure) && g.hasDocuments() {
			g.load = ""
		}
	case s.began != nil && isLoadFailure(s.began):
		g.load, g.loadBefore = s.began.message, g.lastBegin
	case s.told != nil && isLoadFailure(s.told):
		g.load, g.loadBefore = s.told.message, g.lastBegin
	}
}

// hasDocuments: updateCriticalErrorStatus shows nothing without open documents,
// so only with one does its silence say that the load is well.
func (g *goplsBarrier) hasDocuments() bool { return len(g.host.Documents()) > 0 }

func isLoadFailure(b *bracket) bool { return b.title == goplsLoadFailed }
func isDiagnosing(b *bracket) bool  { return strings.HasPrefix(b.title, goplsDiagnosing) }
func isUnsafe(b *bracket) bool      { return isDiagnosing(b) && !goplsDiagnosesInOrder[b.title] }

// observeMessage looks at what gopls says to people. The texts are those of
// internal/cache/view.go (initialize), general.go (addFolders), diagnostics.go.
func (g *goplsBarrier) observeMessage(text string) {
	switch {
	case strings.Contains(text, "initial workspace load"):
		g.load, g.loadBefore = text, g.lastBegin
	case strings.HasPrefix(text, "Error loading workspace folders"):
		g.refused = text
	case strings.Contains(text, "warning: ") && len(g.notes) < maxNotes:
		g.notes = append(g.notes, text)
	}
}

// Ready implements Barrier. The first time it asks gopls for its views: the
// request is answered behind the handler of "initialized", which begins the
// bracket of the initial load.
func (g *goplsBarrier) Ready(ctx context.Context) error {
	var ready bool
	g.watch.view(func() { ready = g.ready })
	if !ready {
		if err := g.loaded(ctx); err != nil {
			return g.error("ready", err)
		}
	}
	return g.error("ready", g.await(ctx, func() (bool, error) {
		g.ready = true
		return !g.work.any(isUnsafe), nil
	}))
}

func (g *goplsBarrier) loaded(ctx context.Context) error {
	views, err := g.views(ctx)
	if err != nil {
		return err
	}
	if err := g.await(ctx, func() (bool, error) {
		if g.begun[goplsLoading] == 0 {
			return false, kinded(Unsupported, errors.New("it shows no verbose progress: its diagnostics cannot be proven final"))
		}
		return !g.work.any(isDiagnosing), nil
	}); err != nil {
		return err
	}
	var refused string
	g.watch.view(func() { refused = g.refused })
	if folders := g.host.Folders(); len(folders) > 0 && (views == 0 || refused != "") {
		return kinded(LoadFailed, fmt.Errorf("%d folders, %d views: %s", len(folders), views, refused))
	}
	return nil
}

// views returns how many views gopls has; -1 if it does not tell.
func (g *goplsBarrier) views(ctx context.Context) (int, error) {
	answer, err := g.host.Call(ctx, "workspace/executeCommand", map[string]any{"command": "gopls.views"})
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		return -1, nil // an older gopls; the answer is behind "initialized" all the same
	}
	if err != nil {
		return 0, err
	}
	var views []json.RawMessage
	if err := json.Unmarshal(answer, &views); err != nil {
		return 0, fmt.Errorf("gopls.views: %w", err)
	}
	return len(views), nil
}

// Final implements Barrier.
func (g *goplsBarrier) Final(ctx context.Context, _ []string) (Result, error) {
	for flushes := 0; ; flushes++ {
		clean, err := g.settle(ctx)
		if err != nil {
			return Result{}, g.error("final", err)
		}
		if clean {
			break
		}
		if flushes == maxFlushes {
			return Result{}, g.error("final", errors.New("something else keeps modifying it"))
		}
		if err := g.host.Notify(ctx, "workspace/didChangeWatchedFiles", map[string]any{"changes": []any{}}); err != nil {
			return Result{}, g.error("final", err)
		}
	}
	r := Result{Barrier: "progress"}
	var load string
	g.watch.view(func() {
		load = g.load
		r.Notes = append(r.Notes, g.notes...)
	})
	if load != "" {
		if !g.anyError() {
			return Result{}, g.error("final", kinded(LoadFailed, errors.New(load)))
		}
		r.Notes = append(r.Notes, load)
	}
	return r, nil
}

// settle returns when all that was sent before has been diagnosed. It is not
// clean when the orphans may have been overwritten.
func (g *goplsBarrier) settle(ctx context.Context) (clean bool, err error) {
	var (
		sent     map[string]uint64
		modified uint64
		known    bool
	)
	g.watch.view(func() {
		modified, known = g.modified, g.modified == g.proven
		sent = maps.Clone(g.sent)
	})
	if !known {
		if err := roundTrip(ctx, g.host); err != nil {
			return false, err
		}
	}
	err = g.await(ctx, func() (bool, error) {
		for title, n := range sent {
			if g.begun[title] < n {
				return false, kinded(Desync, fmt.Errorf("%d of %d notifications were taken as %q", g.begun[title], n, title))
			}
		}
		if g.work.any(isDiagnosing) {
			return false, nil
		}
		if clean = !g.mixed; clean {
			g.proven = modified
		}
		return true, nil
	})
	return clean, err
}

// roundTrip returns when the server has answered a request of ours. No server
// knows its method; those that handle messages in order have then handled all
// that was sent before.
func roundTrip(ctx context.Context, h Host) error {
	_, err := h.Call(ctx, "shadowlsp/roundTrip", nil)
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		return nil
	}
	return err
}

// anyError says whether any document has a diagnostic that a person would see
// as an error or a warning: then a failed load is not silent.
func (g *goplsBarrier) anyError() bool {
	for _, p := range g.host.Table() {
		var list []struct {
			Severity int `json:"severity"`
		}
		if json.Unmarshal(p.Diagnostics, &list) != nil {
			continue
		}
		for _, d := range list {
			if d.Severity <= 2 {
				return true
			}
		}
	}
	return false
}

// Idle implements Barrier.
func (g *goplsBarrier) Idle(ctx context.Context) error {
	return g.error("idle", g.await(ctx, func() (bool, error) {
		return !g.work.any(func(b *bracket) bool { return !isLoadFailure(b) }), nil
	}))
}

func (g *goplsBarrier) await(ctx context.Context, met func() (bool, error)) error {
	return g.watch.await(ctx, g.host.Done(), met)
}

func (g *goplsBarrier) error(op string, err error) error { return wrap("gopls", op, err) }
