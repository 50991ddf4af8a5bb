package barrier

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"shadowlsp/lsp/docuri"
)

// pyrightLike is the profile of pyright and its kin, by name and by the section of
// settings that has its log level.
func pyrightLike(name, section string) Profile {
	return Profile{
		Name:        name,
		Commands:    []string{name + "-langserver", name + "-python-langserver", name + ".langserver", name},
		ServerNames: []string{name},
		Languages:   []Language{{".py", "python"}, {".pyi", "python"}},
		Initialize: []Edit{
			// It is asked only by clients that declare this (server, initialize);
			// to others it publishes, when it thinks that nobody types.
			{Path: []string{"capabilities", "textDocument", "diagnostic", "dynamicRegistration"}, Value: Raw(true)},
			{Path: []string{"initializationOptions", "disablePullDiagnostics"}, Value: Raw(false), Existing: true},
		},
		OpenOnly: true,
		// Its log says what listed waits for. Analysis where there was none would take
		// autoSearchPaths from it (server.ts, getSettings).
		Settings: Settings{
			Section: section, Nested: true,
			Options: []Option{{
				Name: "analysis.logLevel", Value: Raw("Information"), Keep: []json.RawMessage{Raw("Trace")}, Present: true,
			}},
		},
		New: func(h Host) Barrier {
			return &pyrightBarrier{
				host: h, server: name, evaluator: newPyrightEvaluator(),
				listing: pyrightListing{due: true}, renewing: make(chan struct{}, 1),
			}
		},
	}
}

func pyright() Profile      { return pyrightLike("pyright", "python") }
func basedpyright() Profile { return pyrightLike("basedpyright", "basedpyright") }

// pyrightBarrier pulls. Read in pyright 1.1.413 (packages/pyright-internal/src),
// tried with 1.1.414 and basedpyright 1.40.1:
//
//   - A pull of an open document analyses it in the state that all earlier
//     messages have made, and does so again if that state changed meanwhile
//     (languageServerBase.ts, onDiagnostics). What an edit or a file event makes
//     invalid is made so while the message is handled (analyzer/service.ts,
//     invalidateAndForceReanalysis), so the order of messages is proof enough.
//     A pull also waits until the configuration has been read
//     (workspaceFactory.ts, isInitialized).
//   - A pull of a document that is not open is answered at once and empty: it is
//     not asked.
//   - Files that it does not know and that its configuration leaves out do not
//     concern it (_shouldHandleSourceFileWatchChanges), although importing them
//     does: what was not found stays not found. So is what is below
//     site-packages; watching libraries is for its command line only
//     (_watchForLibraryChanges). Then, and when a configuration file has changed,
//     it is told that its settings have, upon which it reads everything anew.
//   - A file that a configuration extends may have any name; it is read 100 ms
//     after the event (_scheduleReloadConfigFile), by a timer of a single thread.
//     A request that comes later than that comes behind it.
//   - What is looked for in all files is looked for in those of a list that is made
//     anew when files come and go, but late (pyrightListing).
//   - Pulled diagnostics are all there are: it publishes nothing to who pulls.
type pyrightBarrier struct {
	host   Host
	server string
	// renewing holds one token while it is made to take notice of something.
	renewing chan struct{}

	watch watch // guards the fields below
	// stale says that it must read its configuration and what it knows of files
	// anew.
	stale bool
	// extended is when it will have read what its configuration may extend.
	extended time.Time
	// roots and excludes count what it has said about its configuration since it
	// read it last: that it includes the whole folder, and leaves out what it
	// does where nobody said.
	roots, excludes int
	// asked and watches say that it has registered to be asked, and to hear of
	// files.
	asked, watches bool
	ready          bool // and that is in the host's books
	evaluator      pyrightEvaluator
	listing        pyrightListing
}

// pyrightReload is how long after an event it reads a configuration file.
const pyrightReload = 100 * time.Millisecond

// Observe implements Barrier.
func (p *pyrightBarrier) Observe(e Event) {
	if e.Sent {
		p.watch.update(func() { p.evaluator.sentLocked(e.Msg) })
	}
	switch e.Msg.Method {
	case "workspace/didChangeWatchedFiles":
		var params struct {
			Changes []struct {
				URI  string
				Type int
			}
		}
		if !e.Sent || json.Unmarshal(e.Msg.Params, &params) != nil {
			return
		}
		p.watch.update(func() {
			var listed bool
			for _, c := range params.Changes {
				if file, ok := docuri.Path(c.URI); ok {
					listed = p.changedLocked(file, c.Type != 2) || listed
				}
			}
			if listed {
				p.listing.dueLocked()
			}
		})
	case "workspace/didChangeConfiguration", "workspace/didChangeWorkspaceFolders":
		if e.Sent {
			p.watch.update(func() {
				// Of folders that come it lists those alone.
				p.stale, p.roots, p.excludes = e.Msg.Method != "workspace/didChangeConfiguration", 0, 0
				p.listing.anewLocked()
			})
		}
	case "client/registerCapability":
		p.watch.update(func() {
			p.asked = p.asked || strings.Contains(string(e.Msg.Params), `"textDocument/diagnostic"`)
			p.watches = p.watches || strings.Contains(string(e.Msg.Params), `"workspace/didChangeWatchedFiles"`)
		})
	case "window/logMessage":
		switch text := logged(e); {
		case strings.HasPrefix(text, "No include entries specified"):
			// Without folders that it knows it names none of ours.
			if top, ok := p.top(); ok && strings.HasSuffix(text, " "+top) {
				p.watch.update(func() { p.roots++ })
			}
		case text == "Auto-excluding **/.*":
			p.watch.update(func() { p.excludes++ })
		case pyrightListed(text):
			p.watch.update(func() { p.listing.madeLocked(p.lists()) })
		}
	}
}

// changedLocked takes the news of a file; structural is one that came or went. It
// says whether the list of files is made anew for it.
func (p *pyrightBarrier) changedLocked(file string, structural bool) (listed bool) {
	if strings.Contains(file, "/.git/") {
		return false
	}
	base := path.Base(file)
	ext := path.Ext(base)
	listed = structural && (ext == ".py" || ext == ".pyi")
	switch {
	case base == "pyrightconfig.json", base == "pyproject.toml", base == "pyvenv.cfg", ext == ".pth",
		strings.Contains(file, "/.basedpyright/"):
		p.stale = true
	case ext == ".json" || ext == ".toml":
		p.extended = time.Now().Add(pyrightReload)
	case base == "py.typed", structural && (listed || ext == ".so" || ext == ".pyd" || ext == ""):
		p.stale = p.stale || p.overlookedLocked(file)
		// For a folder it may be.
		p.listing.unclear = p.listing.unclear || !listed
	}
	return listed
}

// overlookedLocked says whether it may have taken no notice of a file that came
// or went.
func (p *pyrightBarrier) overlookedLocked(file string) bool {
	top, ok := p.top()
	if !ok || p.roots == 0 || p.excludes == 0 {
		return true // it has a configuration that is not known here
	}
	rel, ok := strings.CutPrefix(file, top+"/")
	if !ok {
		return true
	}
	for name := range strings.SplitSeq(rel, "/") {
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "__editable__") || pyrightLeavesOut[name] {
			return true
		}
	}
	return false
}

// top is the folder, where there is one.
func (p *pyrightBarrier) top() (string, bool) {
	folders := p.host.Folders()
	if len(folders) != 1 {
		return "", false
	}
	top, ok := docuri.Path(folders[0])
	return path.Clean(top), ok
}

// pyrightLeavesOut are folders that it does not look for sources in: those that
// it names, and those of virtual environments, whatever their name is.
var pyrightLeavesOut = map[string]bool{
	"node_modules": true, "__pycache__": true, "site-packages": true, "dist-packages": true,
}

// Ready implements Barrier: it has registered to hear of files and to be asked,
// and the host, which books what it registers behind Observe, has done so.
func (p *pyrightBarrier) Ready(ctx context.Context) error {
	var ready bool
	if err := p.watch.await(ctx, p.host.Done(), func() (bool, error) {
		ready = p.ready
		return p.asked && p.watches, nil
	}); err != nil || ready {
		return wrap(p.server, "ready", err)
	}
	if err := roundTrip(ctx, p.host); err != nil {
		return wrap(p.server, "ready", err)
	}
	p.watch.update(func() { p.ready = true })
	return nil
}

// Idle implements Barrier: to a client that pulls it does nothing by itself.
func (p *pyrightBarrier) Idle(context.Context) error { return nil }

// Final implements Barrier.
func (p *pyrightBarrier) Final(ctx context.Context, uris []string) (Result, error) {
	r := Result{Barrier: rungPull, Items: map[string]Item{}}
	err := p.renew(ctx)
	if err == nil {
		err = p.pullAll(ctx, uris, r.Items)
	}
	return r, wrap(p.server, "final", err)
}

// Settle implements Settler.
func (p *pyrightBarrier) Settle(ctx context.Context) error {
	return wrap(p.server, "settle", p.renew(ctx))
}

// renew has it take notice of what it does not notice by itself, or not at once.
func (p *pyrightBarrier) renew(ctx context.Context) error {
	select {
	case p.renewing <- struct{}{}:
		defer func() { <-p.renewing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var stale bool
	var rest time.Duration
	p.watch.view(func() { stale, rest = p.stale, time.Until(p.extended) })
	if rest > 0 {
		if err := p.behind(ctx, pyrightReload); err != nil {
			return err
		}
	}
	if stale {
		if err := p.reread(ctx); err != nil {
			return err
		}
	}
	return p.listed(ctx)
}

// behind returns when a timer of the server has run that what was sent before may have
// set. It is a single thread.
func (p *pyrightBarrier) behind(ctx context.Context, after time.Duration) error {
	// The timer runs from when it handles what was sent, which it has when it answers
	// this.
	if err := roundTrip(ctx, p.host); err != nil {
		return err
	}
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// A process that was given no time until now may read a question before it runs its
	// timers; behind this answer it runs them before it reads on.
	return roundTrip(ctx, p.host)
}

func (p *pyrightBarrier) pullAll(ctx context.Context, uris []string, items map[string]Item) error {
	open := map[string]string{}
	for _, d := range p.host.Documents() {
		open[docuri.Canonical(d.URI)] = d.URI
	}
	if len(uris) == 0 {
		uris = slices.Sorted(maps.Keys(open))
	}
	var identifier json.RawMessage
	if registered := p.host.Registrations("textDocument/diagnostic"); len(registered) > 0 {
		identifier, _ = Lookup(registered[0], "identifier")
	}
	var missing error
	for _, uri := range uris {
		sent, ok := open[uri]
		if !ok {
			missing = kinded(Unsupported, fmt.Errorf("%s is not open", uri))
			continue
		}
		found, err := p.check(ctx, sent, identifier)
		if err != nil {
			return err
		}
		items[uri] = Item{Diagnostics: found}
	}
	return missing
}
