package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// generic is the profile of servers without a file of their own.
func generic() Profile {
	return Profile{
		Name: "generic", Languages: commonLanguages, OpenOnly: true,
		New: func(h Host) Barrier { return newLadder(h) },
	}
}

// What the ladder waits.
const (
	// quietWindow is how long nothing must come behind the last publish before
	// the lowest rung believes that nothing more does. The longest pauses that
	// were seen between an edit and its publish, or between a wrong first
	// publish and the right one, are 0.8 s (typescript-language-server);
	// servers that debounce do so for 0.2 to 0.5 s.
	quietWindow = 1500 * time.Millisecond
	// restWindow is how long the server's processes must have had nothing to do
	// where a signal has come that is believed otherwise.
	restWindow = 200 * time.Millisecond
	// lookTime is how often they are looked at.
	lookTime = 20 * time.Millisecond
	// signalLimit is how long a server may take to say anything about a
	// modification before it is an error. It is long because it never ends in
	// an answer.
	signalLimit = 20 * time.Second
)

// The rungs, as reports name them.
const (
	rungPull      = "pull"
	rungPullPush  = "pull+push"
	rungProgress  = "progress"
	rungVersioned = "versioned"
	rungQuiet     = "quiet"
)

// diagnosingTitle are titles of progress that servers show while they diagnose.
var diagnosingTitle = regexp.MustCompile(`(?i)diagnos|check|analy[sz]|lint|validat`)

// ladder is the barrier for servers that nothing is known about. It stands on
// the highest rung that holds, and names it:
//
//   - pull: the server advertises textDocument/diagnostic, or registered it. The
//     answer belongs to the text at the time of the request, LSP says; requests
//     are ordered behind didChange. News of files are not (rust-analyzer loads
//     them when it finds the time), so the server must have had nothing to do for
//     restWindow since. What the server publishes beside that is added, and the
//     rung is "pull+push", because nothing orders the push.
//   - progress: behind our last modification the server has begun, and ended, a
//     progress whose title says that it diagnoses.
//   - versioned: one document was changed, nothing else, and the server has
//     published that document with that version, and answered a request since.
//     Its dependents are not covered.
//   - quiet: every modified document among those asked for was published since,
//     (an unmodified one: any was), a request was answered, no progress is open,
//     and nothing came for quietWindow. This is a guess, and is named so that a
//     reader can tell.
//
// A server may read other files for a document and not look at it again because
// they have changed (bash-language-server, for shellcheck): a document that was not
// modified last is changed and changed back, before the lower rungs are tried. Who
// publishes nothing where nothing is new is not held to it.
//
// A signal alone is not believed: pyright, when it publishes, publishes a document
// that was just opened as clean, and then works for seconds in silence. So where
// the server's processes are seen (Host.Busy), there must also be nothing that
// they have to do, for restWindow, and on the rung quiet for all of quietWindow.
// What may still be wrong then is a server that waits longer than that before it
// sets to work, or has its work done elsewhere.
//
// Without such a signal there is an error after signalLimit, in which the server
// had nothing to do: Unsupported if it never published anything, else Partial. A
// document that is not open has no rung: most servers diagnose open documents
// only, and an empty answer about another one says nothing.
type ladder struct {
	host Host

	watch watch // guards the fields below
	work  brackets
	// modified counts modifications; last is that of each document, and
	// published that at the time of each document's last publish.
	modified  uint64
	last      map[string]uint64
	published map[string]uint64
	anything  uint64 // modified at the time of the last publish of any document
	ever      bool   // the server has published something, some time
	diagnosed uint64 // modified at the time of the last begin of a diagnosing bracket
	// alone is the document that was changed since the last Final if nothing
	// else was modified; "" at first, "?" if something was.
	alone string
	heard time.Time // of the last publish or progress
	busy  bool      // experimental/serverStatus says so

	// news counts what the server may have to look at documents again for:
	// modifications, and files that changed of which it did not ask to hear. sent is
	// that when each document was sent last; resent counts those on their way that are
	// sent once more, which are no modifications.
	news   uint64
	sent   map[string]uint64
	resent map[string]int

	// proven is modified when each rung last held.
	proven map[string]uint64
	// aside says that something else than the text of documents was modified
	// since the server last had nothing to do.
	aside bool
}

func newLadder(h Host) *ladder {
	return &ladder{
		host: h, last: make(map[string]uint64), published: make(map[string]uint64), proven: make(map[string]uint64),
		sent: make(map[string]uint64), resent: make(map[string]int),
	}
}

// Observe implements Barrier.
func (l *ladder) Observe(e Event) {
	l.watch.update(func() {
		if e.Sent {
			l.observeSent(e.Msg)
		} else {
			l.observeReceived(e.Msg)
		}
	})
}

func (l *ladder) observeSent(m wire.Message) {
	switch m.Method {
	case "textDocument/didOpen", "textDocument/didChange", "textDocument/didSave":
		uri := uriOf(m.Params, "textDocument", "uri")
		if m.Method == "textDocument/didChange" && l.resent[uri] > 0 {
			l.resent[uri]--
			return
		}
		l.modified++
		l.news++
		l.last[uri], l.sent[uri] = l.modified, l.news
		if m.Method == "textDocument/didChange" && (l.alone == "" || l.alone == uri) {
			l.alone = uri
		} else {
			l.alone = "?"
		}
	case "textDocument/didClose":
		l.modified++
		l.news++
		delete(l.last, uriOf(m.Params, "textDocument", "uri"))
		l.alone, l.aside = "?", true
	case "workspace/didChangeWatchedFiles", "workspace/didChangeConfiguration", "workspace/didChangeWorkspaceFolders":
		l.modified++
		l.news++
		l.alone, l.aside = "?", true
	}
}

// Touched implements Toucher.
func (l *ladder) Touched(files []File) {
	open := make(map[string]bool)
	for _, d := range l.host.Documents() {
		if p, ok := docuri.Path(d.URI); ok {
			open[p] = true // its text is sent
		}
	}
	if !slices.ContainsFunc(files, func(f File) bool { return !open[f.Path] }) {
		return
	}
	l.watch.update(func() {
		l.news++
		l.alone, l.aside = "?", true
		clear(l.proven)
	})
}

func (l *ladder) observeReceived(m wire.Message) {
	switch m.Method {
	case "textDocument/publishDiagnostics":
		uri := uriOf(m.Params, "uri")
		l.published[uri], l.anything, l.ever = l.modified, l.modified, true
		l.heard = time.Now()
	case "$/progress":
		s := l.work.observe(m)
		if s.began != nil && diagnosingTitle.MatchString(s.began.title) {
			l.diagnosed = l.modified
		}
		l.heard = time.Now()
	case "experimental/serverStatus":
		raw, ok := Lookup(m.Params, "quiescent")
		l.busy = ok && string(raw) == "false"
	}
}

// uriOf returns the canonical URI at a path of params.
func uriOf(params json.RawMessage, path ...string) string {
	raw, _ := Lookup(params, path...)
	var uri string
	if json.Unmarshal(raw, &uri) != nil {
		return ""
	}
	return docuri.Canonical(uri)
}

// logged is what the server writes to its client's log, "" where an event is anything else.
func logged(e Event) (text string) {
	if e.Sent || e.Msg.Method != "window/logMessage" {
		return ""
	}
	raw, _ := Lookup(e.Msg.Params, "message")
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// Ready implements Barrier: a request is answered, the server has nothing to do,
// and neither a progress of its own nor a status says that it is still loading.
// Where its processes are not seen, a server that loads without telling is taken
// for ready; its first diagnostics may be too early.
func (l *ladder) Ready(ctx context.Context) error {
	var untouched bool
	l.watch.view(func() { untouched = l.modified == 0 })
	if untouched {
		if err := errors.Join(roundTrip(ctx, l.host), l.rested(ctx)); err != nil {
			return wrap("generic", "ready", err)
		}
	}
	return wrap("generic", "ready", l.calm(ctx))
}

// Idle implements Barrier.
func (l *ladder) Idle(ctx context.Context) error { return wrap("generic", "idle", l.calm(ctx)) }

func (l *ladder) calm(ctx context.Context) error {
	return l.watch.await(ctx, l.host.Done(), func() (bool, error) { return l.calmLocked(), nil })
}

func (l *ladder) calmLocked() bool { return !l.busy && len(l.work.open) == 0 }

// Final implements Barrier.
func (l *ladder) Final(ctx context.Context, uris []string) (Result, error) {
	documents := make(map[string]Document)
	for _, d := range l.host.Documents() {
		documents[docuri.Canonical(d.URI)] = d
	}
	asked := uris
	if len(asked) == 0 {
		for uri := range documents {
			asked = append(asked, uri)
		}
	}
	r := Result{Items: make(map[string]Item)}
	if err := l.nudge(ctx, asked, documents); err != nil {
		return r, wrap("generic", "final", err)
	}
	var failed error
	for _, uri := range asked {
		d, open := documents[uri]
		if !open {
			failed = kinded(Unsupported, fmt.Errorf("%s is not open", uri))
			continue
		}
		item, err := l.item(ctx, d)
		if err != nil {
			failed = err
			break // the others would only wait as long again
		}
		r.Items[uri] = item
	}
	if failed == nil {
		l.watch.update(func() { l.alone = "" })
	}
	return r, wrap("generic", "final", failed)
}

// nudge sends documents once more that the server has not looked at since something
// else was modified. All of them before one is waited for.
func (l *ladder) nudge(ctx context.Context, uris []string, documents map[string]Document) error {
	if _, ok := l.pulls(); ok {
		return nil
	}
	for _, uri := range uris {
		d, open := documents[uri]
		stale := false
		l.watch.update(func() {
			// What was published since may be of a check that had begun before.
			stale = open && l.sent[uri] < l.news
			if stale {
				l.sent[uri] = l.news
				l.resent[uri] += 2
				clear(l.proven)
				l.heard = time.Now()
			}
		})
		if !stale {
			continue
		}
		// Some servers do nothing where the text is what it was.
		other := Edit{Path: []string{"contentChanges"}, Value: Raw([]map[string]string{{"text": d.Text + "\n"}})}
		if err := l.host.Resend(ctx, d.URI, []Edit{other}); err != nil {
			return err
		}
		if err := l.host.Resend(ctx, d.URI, nil); err != nil {
			return err
		}
	}
	return nil
}

// item stands on the highest rung for one open document.
func (l *ladder) item(ctx context.Context, d Document) (Item, error) {
	if identifier, ok := l.pulls(); ok {
		var aside bool
		l.watch.view(func() { aside = l.aside })
		if aside {
			if err := errors.Join(roundTrip(ctx, l.host), l.rested(ctx)); err != nil {
				return Item{}, err
			}
			l.watch.update(func() { l.aside = false })
		}
		return l.pull(ctx, d, identifier)
	}
	rung, err := l.climb(ctx, docuri.Canonical(d.URI), d.Version)
	if err != nil {
		return Item{}, err
	}
	item := Item{Diagnostics: json.RawMessage("[]"), Barrier: rung}
	if p, ok := l.host.Published(d.URI); ok {
		item.Diagnostics = p.Diagnostics
	}
	return item, nil
}

// climb waits until a rung below pull holds, and names it.
func (l *ladder) climb(ctx context.Context, uri string, version int32) (string, error) {
	if err := roundTrip(ctx, l.host); err != nil {
		return "", err
	}
	// A server that works is not silent, however long that takes it.
	worked := time.Now()
	for {
		var rung string
		var rest time.Duration
		busy, seen := l.host.Busy()
		if busy {
			worked = time.Now()
		}
		l.watch.update(func() {
			if rung, rest = l.rungLocked(uri, version, seen, worked); rung != "" && rest <= 0 {
				l.proven[rung] = l.modified
			}
		})
		switch {
		case rung != "" && rest <= 0:
			return rung, nil
		case rung == "" && time.Since(worked) > signalLimit:
			return "", l.silence()
		case rung == "" || seen:
			rest = lookTime
		}
		if err := l.pause(ctx, rest); err != nil {
			return "", err
		}
	}
}

// pause lets time go by.
func (l *ladder) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.host.Done():
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rungLocked returns the highest rung that may hold, and for how long there must
// still be rest until it does; "" if a signal is missing. worked is when the
// server last had something to do, as far as that is seen.
func (l *ladder) rungLocked(uri string, version int32, seen bool, worked time.Time) (rung string, rest time.Duration) {
	if !l.calmLocked() {
		return "", 0
	}
	p, ok := l.host.Published(uri)
	switch {
	case l.modified > 0 && l.diagnosed == l.modified:
		rung = rungProgress
	case l.alone == uri && ok && p.HasVersion && p.Version == version:
		rung = rungVersioned
	case ok && l.published[uri] >= l.last[uri] && l.anything == l.modified:
		rung = rungQuiet
	default:
		return "", 0
	}
	switch {
	case l.modified > 0 && l.proven[rung] == l.modified:
	case rung == rungQuiet:
		since := l.heard
		if seen && worked.After(since) {
			since = worked
		}
		rest = quietWindow - time.Since(since)
	case seen:
		rest = restWindow - time.Since(worked)
	}
	return rung, rest
}

// silence is what a missing signal is called.
func (l *ladder) silence() error {
	var ever bool
	l.watch.view(func() { ever = l.ever })
	if !ever {
		return kinded(Unsupported, fmt.Errorf("it has said nothing about diagnostics for %v", signalLimit))
	}
	return kinded(Partial, fmt.Errorf("it has said nothing about the last modification for %v", signalLimit))
}

// rested returns when the server's processes have had nothing to do for
// restWindow; at once where that is not seen.
func (l *ladder) rested(ctx context.Context) error {
	for worked := time.Now(); ; {
		busy, seen := l.host.Busy()
		if busy {
			worked = time.Now()
		}
		if !seen || time.Since(worked) >= restWindow {
			return nil
		}
		if err := l.pause(ctx, lookTime); err != nil {
			return err
		}
	}
}

// pulls says whether the server can be asked, and under which identifier.
func (l *ladder) pulls() (identifier json.RawMessage, ok bool) {
	provider, ok := Lookup(l.host.Capabilities(), "diagnosticProvider")
	if ok && string(provider) != "null" && string(provider) != "false" {
		identifier, _ = Lookup(provider, "identifier")
		return identifier, true
	}
	registered := l.host.Registrations("textDocument/diagnostic")
	if len(registered) == 0 {
		return nil, false
	}
	identifier, _ = Lookup(registered[0], "identifier")
	return identifier, true
}

// pull asks for a document; what the server publishes beside that is added.
func (l *ladder) pull(ctx context.Context, d Document, identifier json.RawMessage) (Item, error) {
	items, err := pull(ctx, l.host, d.URI, identifier)
	if err != nil {
		return Item{}, err
	}
	p, ok := l.host.Published(d.URI)
	if !ok {
		return Item{Diagnostics: items, Barrier: rungPull}, nil
	}
	all, err := joined(items, p.Diagnostics)
	if err != nil || len(all) == len(items) {
		return Item{Diagnostics: items, Barrier: rungPull}, nil
	}
	return Item{Diagnostics: all, Barrier: rungPullPush}, nil
}
