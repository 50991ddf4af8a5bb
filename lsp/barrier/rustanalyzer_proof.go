package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

const (
	// maxRustRounds bounds how often one Final starts over because the server
	// loads something again. An edit of Cargo.toml costs three rounds at most
	// (manifest, build scripts, macros); more is something else that modifies it.
	maxRustRounds = 8
	// rustCheckStart bounds the time between our request for a check and its
	// begin: 50 ms of debouncing and the start of a process.
	rustCheckStart = 20 * time.Second
)

// rustBarrier proves finality of rust-analyzer's diagnostics: its own, which are
// pulled, and those of cargo check, which it publishes. Read in rust-analyzer of
// April 2026 (1.96), crates/rust-analyzer/src unless named otherwise:
//
//  1. One loop handles messages and internal events, one at a time
//     (main_loop.rs, handle_event); at the end of each turn it applies what has
//     changed to its database, then publishes, then sends its status if that is
//     another. An unknown request is answered within its turn, so behind two
//     round trips everything that an earlier turn had to say is on the wire.
//  2. didOpen and didChange take effect within their turn. didClose and
//     didChangeWatchedFiles do not: they hand the path to the loader thread
//     (handlers/notification.rs), which reads one path after the other in the
//     order of asking (vfs-notify, Message::Invalidate) and sends each back as
//     an event. So a path that we ask for ourselves, behind all others, proves
//     by its arrival that all others have arrived. It is /dev/null, opened with
//     a text for a moment and closed: when it is empty again, it was read from
//     the disk. A change like any other, it is followed by
//     workspace/diagnostic/refresh, so there is no need to ask in a circle.
//     (Its name is no Rust file's and it exists already, so neither modules nor
//     source roots are computed anew.)
//  3. What decides about packages (Cargo.toml, new targets) makes the status
//     non-quiescent in the turn in which it arrives (global_state.rs,
//     enqueue_workspace_fetch; reload.rs, is_quiescent), until cargo metadata,
//     build scripts, macros and files are all loaded. So "quiescent" behind 1
//     and 2 is about all that was sent.
//  4. A pull in a quiescent state is answered from the database as it is
//     (handlers/request.rs, handle_document_diagnostics), or refused with
//     ServerCancelled; before that it would be empty (dispatch.rs,
//     on_with_vfs_default).
//  5. cargo check runs when we say so (rust-analyzer/runFlycheck without a
//     document: every workspace as a whole, as at the start; checkOnSave is off
//     in a shadow) and reads the disk, which is the branch's. It has a progress
//     with a token of its own per workspace. Its end looks the same when it was
//     cancelled, which happens when the packages are loaded anew
//     (reload.rs, reload_flycheck): then the status was non-quiescent meanwhile,
//     and it is run again. Diagnostics that a check did not find again are
//     cleared at its end (flycheck.rs, ClearDiagnosticsKind::OlderThan). The
//     last ones are published at the end of the turn that tells the end, so one
//     round trip more is needed.
//
// A check that cannot run (a Cargo.toml that is not one, say) and a workspace
// that cannot be loaded are told in the status only: then Final is an error of
// Kind LoadFailed. Build scripts are run anew for what the server does not
// notice: an edit of build.rs, and of a macro's crate (which it only warns of).
//
// Where the person has switched checkOnSave off there is no check, and the
// report names "pull" alone.
type rustBarrier struct {
	host Host

	watch watch // guards the fields below
	// modified counts what can change an answer; files those that the loader
	// has to read for.
	modified, files uint64
	loaded          bool // was quiescent once
	status          rustStatus
	statuses        uint64 // counts them
	busy            uint64 // counts statuses that were not quiescent
	refreshes       uint64
	configuring     int                        // configuration changes that it has not asked about yet
	asked           map[string]bool            // ids of its questions for configuration
	checks          map[string]*rustCheck      // by token
	deleted         map[string]bool            // documents that we told it are gone
	scripts         bool                       // a build script may have changed
	built           uint64                     // modified, when we last had them run
	arrived         uint64                     // files, when the loader was last seen to be through
	checked         uint64                     // modified, when the last check began
	pulled          map[string]json.RawMessage // of the state pulledAt
	pulledAt        uint64
	workspaces      int    // as many checks run at a time
	workspacesAt    uint64 // busy, when they were counted
}

// rustStatus is experimental/serverStatus.
type rustStatus struct {
	Health    string `json:"health"`
	Quiescent bool   `json:"quiescent"`
	Message   string `json:"message"`
}

// rustCheck counts the progress of one workspace's check.
type rustCheck struct{ begun, ended uint64 }

func newRust(h Host) *rustBarrier {
	return &rustBarrier{
		host: h, asked: map[string]bool{}, checks: map[string]*rustCheck{}, deleted: map[string]bool{},
		pulled: map[string]json.RawMessage{}, modified: 1,
	}
}

// rustCheckToken begins the token of a check's progress (main_loop.rs,
// handle_flycheck_msg).
const rustCheckToken = `"rust-analyzer/flycheck/`

// Observe implements Barrier.
func (r *rustBarrier) Observe(e Event) {
	r.watch.update(func() {
		if e.Sent {
			r.observeSent(e.Msg)
		} else {
			r.observeReceived(e.Msg)
		}
	})
}

func (r *rustBarrier) observeSent(m wire.Message) {
	if m.Kind == wire.Response {
		if r.asked[string(m.ID)] {
			delete(r.asked, string(m.ID))
			r.configuring = max(r.configuring-1, 0)
		}
		return
	}
	switch m.Method {
	case "textDocument/didOpen", "textDocument/didChange", "textDocument/didClose":
		uri := uriOf(m.Params, "textDocument", "uri")
		if uri == rustProbe {
			return
		}
		r.modified++
		r.touched(uri)
		switch m.Method {
		case "textDocument/didOpen":
			delete(r.deleted, uri)
		case "textDocument/didClose":
			r.files++
		}
	case "workspace/didChangeWatchedFiles":
		r.modified++
		r.files++
		r.observeFiles(m.Params)
	case "workspace/didChangeConfiguration":
		r.modified++
		r.configuring++
	case "workspace/didChangeWorkspaceFolders", "rust-analyzer/reloadWorkspace":
		r.modified++
	}
}

func (r *rustBarrier) observeFiles(params json.RawMessage) {
	var p struct {
		Changes []struct {
			URI  string `json:"uri"`
			Type int    `json:"type"`
		} `json:"changes"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	for _, c := range p.Changes {
		uri := docuri.Canonical(c.URI)
		if delete(r.deleted, uri); c.Type == 3 {
			r.deleted[uri] = true
		}
	}
}

// touched notes that a file or document is another.
func (r *rustBarrier) touched(file string) {
	if path.Base(file) == "build.rs" {
		r.scripts = true
	}
}

// Touched implements Toucher: cargo reads any file.
func (r *rustBarrier) Touched(files []File) {
	r.watch.update(func() {
		for _, f := range files {
			if rustBuilt(f.Path) {
				continue
			}
			r.modified++
			r.touched(f.Path)
		}
	})
}

// rustBuilt says whether cargo has made a file, for itself: what a check says does
// not depend on it, and every check makes some. (Sources that build scripts make
// are watched, and told beside this.)
func rustBuilt(file string) bool {
	_, below, built := strings.Cut(file+"/", "/target/")
	if !built {
		return false
	}
	switch first, _, _ := strings.Cut(below, "/"); first {
	case "", "debug", "release", "tmp", "CACHEDIR.TAG", ".rustc_info.json", "rust-analyzer":
		return true
	}
	return false
}

func (r *rustBarrier) observeReceived(m wire.Message) {
	switch m.Method {
	case "experimental/serverStatus":
		var s rustStatus
		if json.Unmarshal(m.Params, &s) != nil {
			return
		}
		r.status = s
		r.statuses++
		if !s.Quiescent {
			r.busy++
		}
	case "workspace/diagnostic/refresh":
		r.refreshes++
	case "workspace/configuration":
		r.asked[string(m.ID)] = true
	case "$/progress":
		r.observeProgress(m.Params)
	}
}

func (r *rustBarrier) observeProgress(params json.RawMessage) {
	token, _ := Lookup(params, "token")
	kind, _ := Lookup(params, "value", "kind")
	if !strings.HasPrefix(string(token), rustCheckToken) {
		return
	}
	c := r.checks[string(token)]
	if c == nil {
		c = &rustCheck{}
		r.checks[string(token)] = c
	}
	switch string(kind) {
	case `"begin"`:
		c.begun++
	case `"end"`:
		c.ended = c.begun
	}
}

// checking says whether a check runs.
func (r *rustBarrier) checking() bool {
	for _, c := range r.checks {
		if c.begun != c.ended {
			return true
		}
	}
	return false
}

// Ready implements Barrier: it has loaded once. After that everything it is told
// keeps its order, whatever it does meanwhile.
func (r *rustBarrier) Ready(ctx context.Context) error {
	var loaded bool
	r.watch.view(func() { loaded = r.loaded })
	if loaded {
		return nil
	}
	return r.error("ready", r.load(ctx))
}

func (r *rustBarrier) load(ctx context.Context) error {
	// The first turn of its loop tells that it loads (see 1).
	if err := errors.Join(roundTrip(ctx, r.host), roundTrip(ctx, r.host)); err != nil {
		return err
	}
	return r.await(ctx, func() (bool, error) {
		if r.statuses == 0 {
			return false, kinded(Unsupported, errors.New("it does not tell its status: when it has loaded cannot be known"))
		}
		r.loaded = r.loaded || r.status.Quiescent
		return r.loaded, nil
	})
}

// Idle implements Barrier.
func (r *rustBarrier) Idle(ctx context.Context) error {
	return r.error("idle", r.await(ctx, func() (bool, error) {
		return !r.checking() && (r.status.Quiescent || r.statuses == 0), nil
	}))
}

// Final implements Barrier.
func (r *rustBarrier) Final(ctx context.Context, uris []string) (Result, error) {
	result, err := r.final(ctx, uris)
	return result, r.error("final", err)
}

func (r *rustBarrier) final(ctx context.Context, uris []string) (Result, error) {
	if err := r.Ready(ctx); err != nil {
		return Result{}, err
	}
	for range maxRustRounds {
		before, err := r.settle(ctx)
		if err != nil {
			return Result{}, err
		}
		name, err := r.check(ctx)
		if err != nil {
			return Result{}, err
		}
		items, err := r.items(ctx, uris)
		if err != nil {
			return Result{}, err
		}
		if err := roundTrip(ctx, r.host); err != nil {
			return Result{}, err
		}
		var same bool
		var status rustStatus
		r.watch.view(func() {
			same, status = r.busy == before && r.status.Quiescent && !r.rebuilds(), r.status
		})
		if same {
			return rustResult(name, items, status)
		}
	}
	return Result{}, errors.New("it keeps loading the workspace")
}

// Settle implements Settler. See 2: what comes from the disk comes late.
func (r *rustBarrier) Settle(ctx context.Context) error {
	var known bool
	r.watch.view(func() {
		known = r.loaded && r.arrived == r.files && r.configuring == 0 && r.status.Quiescent && !r.rebuilds()
	})
	if known {
		return nil
	}
	if err := r.Ready(ctx); err != nil {
		return err
	}
	_, err := r.settle(ctx)
	return r.error("settle", err)
}

// settle returns when everything that was sent has arrived and all that it
// causes has been loaded, and how often it had been busy until then.
func (r *rustBarrier) settle(ctx context.Context) (busy uint64, err error) {
	for range maxRustRounds {
		if err := r.await(ctx, func() (bool, error) { return r.configuring == 0 && len(r.asked) == 0, nil }); err != nil {
			return 0, err
		}
		if err := r.arrive(ctx); err != nil {
			return 0, err
		}
		var rebuild bool
		r.watch.view(func() { rebuild = r.rebuilds() })
		if rebuild {
			r.watch.update(func() { r.scripts, r.built = false, r.modified })
			// Answered at once; what it begins is told by the status.
			_, err := r.host.Call(ctx, "rust-analyzer/rebuildProcMacros", nil)
			if e := (*wire.Error)(nil); err != nil && !errors.As(err, &e) {
				return 0, err
			}
		}
		if err := errors.Join(roundTrip(ctx, r.host), roundTrip(ctx, r.host)); err != nil {
			return 0, err
		}
		var done bool
		if err := r.await(ctx, func() (bool, error) {
			done = r.arrived == r.files && !r.rebuilds()
			busy = r.busy
			return r.status.Quiescent, nil
		}); err != nil || done {
			return busy, err
		}
	}
	return 0, errors.New("it keeps loading the workspace")
}

// rebuilds says that build scripts or macros are not those of the present state.
func (r *rustBarrier) rebuilds() bool {
	return r.scripts || strings.Contains(r.status.Message, "need to be rebuilt") ||
		r.built != r.modified && strings.Contains(r.status.Message, rustScriptsFailed)
}

// rustScriptsFailed is in the status until they have run again (reload.rs,
// current_status), which the server does not do for an edit that mends them.
const rustScriptsFailed = "Failed to run build scripts"

// rustProbe is the document that proves that the loader is through. See 2.
const rustProbe = "file:///dev/null"

// arrive returns when the loader has read all files that it was told of.
func (r *rustBarrier) arrive(ctx context.Context) error {
	var files, arrived, seen uint64
	r.watch.view(func() { files, arrived, seen = r.files, r.arrived, r.refreshes })
	if files == arrived {
		return nil
	}
	document := map[string]any{"uri": rustProbe}
	open := map[string]any{"uri": rustProbe, "languageId": "plaintext", "version": files, "text": "probe"}
	if err := r.host.Notify(ctx, "textDocument/didOpen", map[string]any{"textDocument": open}); err != nil {
		return err
	}
	if err := r.host.Notify(ctx, "textDocument/didClose", map[string]any{"textDocument": document}); err != nil {
		return err
	}
	for {
		if err := r.await(ctx, func() (bool, error) {
			if r.refreshes == seen {
				return false, nil
			}
			seen = r.refreshes
			return true, nil
		}); err != nil {
			return err
		}
		text, err := r.host.Call(ctx, "rust-analyzer/viewFileText", document)
		e := (*wire.Error)(nil)
		switch {
		case again(err):
			// Some change has overtaken it, which a refresh will follow, or
			// has: ask again in either case.
			r.watch.update(func() { seen-- })
		case err == nil && string(text) == `""`, errors.As(err, &e):
			r.watch.update(func() { r.arrived = files })
			return nil
		case err != nil:
			return err
		}
	}
}

// rustResult makes the result of what was proven, or the error that there is no
// truth in it.
func rustResult(name string, items map[string]Item, s rustStatus) (Result, error) {
	message := strings.TrimSpace(s.Message)
	failed := s.Health == "error" || strings.Contains(message, "cargo check failed to start") ||
		strings.Contains(message, "Failed to discover workspace") ||
		strings.Contains(message, rustScriptsFailed) && !anyRustError(items)
	if failed {
		return Result{}, kinded(LoadFailed, errors.New(message))
	}
	result := Result{Barrier: name, Items: items}
	if message != "" {
		result.Notes = []string{message}
	}
	return result, nil
}

func anyRustError(items map[string]Item) bool {
	for _, item := range items {
		var all []struct{ Severity int }
		if json.Unmarshal(item.Diagnostics, &all) == nil &&
			slices.ContainsFunc(all, func(d struct{ Severity int }) bool { return d.Severity == 1 }) {
			return true
		}
	}
	return false
}

func (r *rustBarrier) await(ctx context.Context, met func() (bool, error)) error {
	return r.watch.await(ctx, r.host.Done(), met)
}

func (r *rustBarrier) error(op string, err error) error { return wrap("rust-analyzer", op, err) }

var (
	_ Toucher = (*rustBarrier)(nil)
	_ Settler = (*rustBarrier)(nil)
)
