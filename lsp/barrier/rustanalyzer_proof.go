package barrier

import (
	"encoding/json"
	"path"
	"strings"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// rustBarrier proves finality of rust-analyzer's diagnostics: its own, which are
// pulled, and those of cargo check, which it publishes. Read in rust-analyzer of
// April 2026 (1.96), crates/rust-analyzer/src unless named otherwise:
//
//  1. One loop handles messages and internal events, one at a time
//     (main_loop.rs, handle_event); at the end of each turn it applies what has
//     changed to its database, then has publishes made (see 6), then sends its
//     status if that is another. An unknown request is answered within its turn,
//     so behind two round trips everything else that an earlier turn had to say is
//     on the wire.
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
//     last ones are published by the turn that tells the end.
//  6. A publish is made by a thread of the pool (global_state.rs,
//     publish_diagnostics), one for each turn in which a file's diagnostics have
//     changed. With several threads they overtake each other, so the last one on
//     the wire may lack what the check said last, and stays (the oracle's find:
//     two of rustc's warnings, the last ones of a file). A shadow has one thread,
//     which works in the order of asking (stdx, thread/pool.rs), questions
//     too: behind the answer to one that the pool gives, all is on the wire.
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

var (
	_ Toucher = (*rustBarrier)(nil)
	_ Settler = (*rustBarrier)(nil)
)
