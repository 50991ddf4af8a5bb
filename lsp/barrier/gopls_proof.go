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
//     of the way that led to them. Then Final has gopls make its views anew, if
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
	reloads    int    // counts them
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
	return answered(ctx, h, "shadowlsp/roundTrip", nil)
}

// answered returns when the server has answered a request of ours, whatever it says.
func answered(ctx context.Context, h Host, method string, params any) error {
	_, err := h.Call(ctx, method, params)
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		return nil
	}
	return err
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
