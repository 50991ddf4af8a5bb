package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"shadowlsp/lsp/wire"
)

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
//   - A file in a folder of which gopls has loaded no package is not diagnosed
//     by the modification that brings it: see goPackages. Final has such files
//     loaded by the command gopls.list_imports and then names them in one more
//     didChangeWatchedFiles, which diagnoses their views again.
//   - Packages that are broken (errors of go list, missing imports) leave traces
//     of the way that led to them. Then Final has everything loaded anew, if
//     anything that decides about packages was modified: see reload.
//   - Without open documents nothing tells of a load that failed and has left no
//     package. Then Final opens an empty document of its own for a moment.
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
	packages   *goPackages
	broken     bool   // when Final last succeeded, some package was broken
	probed     uint64 // modified, when Final last looked for a silent failure
}

func newGopls(h Host) *goplsBarrier {
	return &goplsBarrier{
		host: h, sent: make(map[string]uint64), begun: make(map[string]uint64), packages: newGoPackages(),
	}
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
		g.packages.observe(m)
	}
	if m.Method == "workspace/executeCommand" && m.Kind == wire.Request {
		var p struct {
			Command string `json:"command"`
		}
		if json.Unmarshal(m.Params, &p) != nil || !goplsReads[p.Command] {
			g.modified++ // perhaps; its bracket says when it is through
		}
	}
}

// goplsReads are commands that modify nothing.
var goplsReads = map[string]bool{goplsViews: true, goplsListPackages: true, goplsListImports: true}

// The commands that the barrier uses.
const (
	goplsViews        = "gopls.views"
	goplsListPackages = "gopls.packages"
	goplsListImports  = "gopls.list_imports"
)

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
	return g.listPackages(ctx)
}

// views returns how many views gopls has; -1 if it does not tell.
func (g *goplsBarrier) views(ctx context.Context) (int, error) {
	answer, err := g.command(ctx, goplsViews, nil)
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		return -1, nil // an older gopls; the answer is behind "initialized" all the same
	}
	if err != nil {
		return 0, err
	}
	var views []json.RawMessage
	if err := json.Unmarshal(answer, &views); err != nil {
		return 0, fmt.Errorf("%s: %w", goplsViews, err)
	}
	return len(views), nil
}

// command has gopls execute a command.
func (g *goplsBarrier) command(ctx context.Context, name string, argument any) (json.RawMessage, error) {
	params := map[string]any{"command": name}
	if argument != nil {
		params["arguments"] = []any{argument}
	}
	return g.host.Call(ctx, "workspace/executeCommand", params)
}

// Final implements Barrier.
func (g *goplsBarrier) Final(ctx context.Context, _ []string) (Result, error) {
	r, err := g.final(ctx)
	return r, g.error("final", err)
}

func (g *goplsBarrier) final(ctx context.Context) (Result, error) {
	renew := g.loadNew
	if g.wantsReload() {
		renew = g.reload
	}
	if err := renew(ctx); err != nil {
		return Result{}, err
	}
	if err := g.settle(ctx); err != nil {
		return Result{}, err
	}
	if g.wantsReload() {
		if err := errors.Join(g.reload(ctx), g.settle(ctx)); err != nil {
			return Result{}, err
		}
	}
	if err := g.listPackages(ctx); err != nil {
		return Result{}, err
	}
	if err := g.probe(ctx); err != nil {
		return Result{}, err
	}
	r := Result{Barrier: "progress"}
	var load string
	g.watch.view(func() {
		load = g.load
		r.Notes = append(r.Notes, g.notes...)
	})
	if load != "" {
		if !g.anyError() {
			return Result{}, kinded(LoadFailed, errors.New(load))
		}
		r.Notes = append(r.Notes, load)
	}
	return r, nil
}

// wantsReload says whether what gopls knows of packages may depend on how it
// came to know it. That is so where packages are broken: which file bears an
// error of go list, and whether it is noticed that another import has mended it,
// depends on what was loaded in which order. A fresh gopls has loaded all at
// once.
func (g *goplsBarrier) wantsReload() bool {
	var shifted, broken bool
	g.watch.view(func() { shifted, broken = g.packages.shifted, g.broken })
	if !shifted {
		return false
	}
	return broken || g.anyBroken()
}

// reload has gopls load and diagnose everything anew. A change of a file of this
// name does that in every view, whether or not there is such a file
// (internal/cache/snapshot.go, clone: "vendor/modules.txt").
func (g *goplsBarrier) reload(ctx context.Context) error {
	folders := g.host.Folders()
	if len(folders) == 0 {
		return g.loadNew(ctx)
	}
	uri := strings.TrimRight(folders[0], "/") + "/vendor/modules.txt"
	err := g.nudge(ctx, []any{map[string]any{"uri": uri, "type": 2}})
	if err == nil {
		g.watch.update(func() { g.packages.reloaded() })
	}
	return err
}

// loadNew has gopls load the packages of files that it cannot have loaded, and
// diagnose them.
func (g *goplsBarrier) loadNew(ctx context.Context) error {
	var files []string
	g.watch.view(func() { files = g.packages.unsure() })
	var loaded []any
	for _, uri := range files {
		_, err := g.command(ctx, goplsListImports, map[string]any{"URI": uri})
		if e := (*wire.Error)(nil); errors.As(err, &e) {
			continue // no package can be had for it, as for a file in testdata
		}
		if err != nil {
			return err
		}
		loaded = append(loaded, map[string]any{"uri": uri, "type": 2})
	}
	if len(loaded) == 0 {
		return nil
	}
	return g.nudge(ctx, loaded)
}

// nudge has gopls diagnose the views of files that have not changed.
func (g *goplsBarrier) nudge(ctx context.Context, changes []any) error {
	return g.host.Notify(ctx, "workspace/didChangeWatchedFiles", map[string]any{"changes": changes})
}

// listPackages asks which packages are loaded, if that may have changed.
func (g *goplsBarrier) listPackages(ctx context.Context) error {
	var stale bool
	g.watch.view(func() { stale = g.packages.stale })
	if !stale {
		return nil
	}
	answer, err := g.command(ctx, goplsListPackages, map[string]any{"Files": g.host.Folders(), "Recursive": true})
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		return nil // then every file is asked for whenever it is modified
	}
	if err != nil {
		return err
	}
	var all goplsPackages
	if err := json.Unmarshal(answer, &all); err != nil {
		return fmt.Errorf("%s: %w", goplsListPackages, err)
	}
	g.watch.update(func() { g.packages.answered(all) })
	return nil
}

// probe looks for a failed load that nothing tells of: there is no package, and
// no open document with which gopls would show the failure.
func (g *goplsBarrier) probe(ctx context.Context) error {
	folders := g.host.Folders()
	var silent bool
	g.watch.view(func() {
		silent = len(g.packages.loaded) == 0 && g.load == "" && g.probed != g.modified && !g.hasDocuments()
	})
	if !silent || len(folders) == 0 {
		return nil
	}
	uri := strings.TrimRight(folders[0], "/") + "/shadowlsp_probe.go"
	document := map[string]any{"uri": uri, "languageId": "go", "version": 1, "text": "package probe\n"}
	if err := g.host.Notify(ctx, "textDocument/didOpen", map[string]any{"textDocument": document}); err != nil {
		return err
	}
	err := g.settle(ctx)
	closing := g.host.Notify(ctx, "textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": uri}})
	if err := errors.Join(err, closing); err != nil {
		return err
	}
	if err := g.settle(ctx); err != nil {
		return err
	}
	g.watch.update(func() { g.probed = g.modified })
	return g.listPackages(ctx)
}

// settle returns when all that was sent before has been diagnosed and nothing
// that was written under way can be wrong.
func (g *goplsBarrier) settle(ctx context.Context) error {
	for range maxFlushes {
		clean, err := g.settleOnce(ctx)
		if err != nil {
			return err
		}
		if clean {
			documents, broken := g.host.Documents(), g.anyBroken()
			g.watch.update(func() {
				g.packages.settled(documents)
				g.broken = broken
			})
			return nil
		}
		if err := g.nudge(ctx, []any{}); err != nil {
			return err
		}
	}
	return errors.New("something else keeps modifying it")
}

// settleOnce returns when all that was sent before has been diagnosed. It is not
// clean when the orphans may have been overwritten.
func (g *goplsBarrier) settleOnce(ctx context.Context) (clean bool, err error) {
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
	return g.any(func(d goplsDiagnostic) bool { return d.Severity <= 2 })
}

// anyBroken says whether any document has an error about packages or imports.
func (g *goplsBarrier) anyBroken() bool {
	return g.any(func(d goplsDiagnostic) bool {
		return d.Source == "go list" || strings.HasPrefix(d.Message, "could not import")
	})
}

// goplsDiagnostic is what has to be known of a diagnostic.
type goplsDiagnostic struct {
	Severity int    `json:"severity"`
	Source   string `json:"source"`
	Message  string `json:"message"`
}

func (g *goplsBarrier) any(is func(goplsDiagnostic) bool) bool {
	for _, p := range g.host.Table() {
		var list []goplsDiagnostic
		if len(p.Diagnostics) > len("[]") && json.Unmarshal(p.Diagnostics, &list) == nil && slices.ContainsFunc(list, is) {
			return true
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
