package shadow

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
)

// Target is the state that a turn wants the server in.
type Target struct {
	// Branch is whose turn it is, for the trace.
	Branch string
	// Documents are all that is to be open; others are closed.
	Documents []Document
	// Files changed on the server's disk since the last Sync. What the server
	// did not ask to hear about is left out here.
	Files []FileEvent
	// Saved are URIs of open documents that were saved.
	Saved []string
}

// Document is a document that is to be open.
type Document struct {
	URI, LanguageID, Text string
	Quiet                 bool // it is open for what the server keeps of it; nobody asks about it
}

// SyncStats counts what Sync sent.
type SyncStats struct {
	Opened, Changed, Closed, Saved int
	Events, Filtered               int // file events sent, and not asked for
}

// Sync brings the server to exactly t: it tells it of the files that changed on
// disk, opens and changes documents by the smallest edits, closes those that are
// not wanted, tells of the files that are open, and saves, in this order. What is so already gets no message. It returns when all that
// is queued, behind Ready.
//
// After an error the documents are in a state between: a Sync again goes on from
// there, but its Files must hold those that this one had.
func (i *Instance) Sync(ctx context.Context, t Target) (SyncStats, error) {
	i.turn.Lock()
	defer i.turn.Unlock()
	var stats SyncStats
	wanted, err := i.wanted(t.Documents)
	if err != nil {
		return stats, err
	}
	if err := i.Err(); err != nil {
		return stats, err
	}
	if err := i.barrier.Ready(ctx); err != nil {
		return stats, err
	}
	i.branch.Store(&t.Branch)
	i.touch(t.Files)
	s := syncing{Instance: i, ctx: ctx, stats: &stats, caps: i.syncCapabilities()}
	// News of a document that stays open comes behind its change, as from an
	// editor that saves: gopls takes text that is on the disk for saved, and a
	// document that goes from unsaved to saved has it run `go mod tidy`.
	early, late := i.behind(t.Files, wanted)
	if err := s.tellFiles(early); err != nil {
		return stats, err
	}
	if err := s.closeBelow(i.moved(t.Files)); err != nil {
		return stats, err
	}
	// In the order given: the caller may know which file matters to which.
	for _, d := range t.Documents {
		if err := s.openOrChange(d); err != nil {
			return stats, err
		}
	}
	// Closing comes last: servers drop a project when its last document is
	// closed, and would load it anew for the first one that is opened.
	if err := s.closeOthers(wanted); err != nil {
		return stats, err
	}
	if err := s.tellFiles(late); err != nil {
		return stats, err
	}
	for _, uri := range t.Saved {
		if err := s.save(uri); err != nil {
			return stats, err
		}
	}
	return stats, nil
}

// touch tells a barrier that wants to know of all files that changed.
func (i *Instance) touch(files []FileEvent) {
	b, wants := i.barrier.(barrier.Toucher)
	if !wants || len(files) == 0 {
		return
	}
	touched := make([]barrier.File, 0, len(files))
	for _, f := range files {
		if p, ok := docuri.Path(f.URI); ok {
			touched = append(touched, barrier.File{Path: p, Created: f.Type == Created})
		}
	}
	b.Touched(touched)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.modified++
}

// behind splits news of files: late is of documents that are open and stay so.
func (i *Instance) behind(files []FileEvent, wanted map[string]Document) (early, late []FileEvent) {
	for _, e := range files {
		_, open := i.document(e.URI)
		_, stays := wanted[docuri.Canonical(e.URI)]
		if open && stays {
			late = append(late, e)
		} else {
			early = append(early, e)
		}
	}
	return early, late
}

// wanted indexes documents by canonical URI.
func (i *Instance) wanted(documents []Document) (map[string]Document, error) {
	byURI := make(map[string]Document, len(documents))
	for _, d := range documents {
		uri := docuri.Canonical(d.URI)
		if _, twice := byURI[uri]; twice {
			return nil, i.error("sync", Malformed, fmt.Errorf("%s is there twice", d.URI))
		}
		byURI[uri] = d
	}
	return byURI, nil
}

// syncing is one Sync on its way.
type syncing struct {
	*Instance
	ctx   context.Context
	stats *SyncStats
	caps  capabilities
}

// syncCapabilities are the static ones with what the server registered since. A
// registration's document selector is not looked at: what is opened here was
// chosen by the server's own languages.
func (i *Instance) syncCapabilities() capabilities {
	i.mu.Lock()
	defer i.mu.Unlock()
	c := i.caps
	if len(i.registeredLocked("textDocument/didOpen")) > 0 {
		c.openClose = true
	}
	for _, r := range i.registeredLocked("textDocument/didChange") {
		var o struct {
			SyncKind int `json:"syncKind"`
		}
		if json.Unmarshal(r.options, &o) == nil && o.SyncKind != syncNone {
			c.change = o.SyncKind
		}
	}
	for _, r := range i.registeredLocked("textDocument/didSave") {
		c.save = true
		if text, _ := barrier.Lookup(r.options, "includeText"); string(text) == "true" {
			c.includeText = true
		}
	}
	return c
}

// modify sends a notification that changes what the server has, and keeps the
// books when it is queued.
func (s syncing) modify(method string, params any, book func()) error {
	body := wire.NewNotification(method, params)
	if err := s.send(s.ctx, body); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.modified++
	book()
	return nil
}

func (s syncing) tellFiles(files []FileEvent) error {
	var asked []FileEvent
	s.mu.Lock()
	folders := s.folderPathsLocked()
	for _, f := range files {
		p, ok := docuri.Path(f.URI)
		// A deletion may be that of a directory, which no pattern for files names,
		// and stands for all that was in it.
		if ok && (f.Type == Deleted || s.cfg.Profile.AllFiles || s.watchesLocked(p, f.Type, folders)) {
			asked = append(asked, f)
		}
	}
	s.mu.Unlock()
	s.stats.Filtered += len(files) - len(asked)
	if len(asked) == 0 {
		return nil
	}
	return s.modify("workspace/didChangeWatchedFiles", map[string]any{"changes": asked}, func() {
		s.stats.Events += len(asked)
	})
}

// closeOthers closes what is not wanted.
func (s syncing) closeOthers(wanted map[string]Document) error {
	for _, d := range s.documents() {
		if _, ok := wanted[docuri.Canonical(d.URI)]; ok {
			continue
		}
		if err := s.close(d); err != nil {
			return err
		}
	}
	return nil
}

// moved are the directories in which a file has come or gone that decides about
// the documents below ([barrier.Profile] Nearest). The deletion of a directory
// stands for all that was in it.
func (i *Instance) moved(files []FileEvent) (directories []string) {
	if len(i.cfg.Profile.Nearest) == 0 {
		return nil
	}
	for _, f := range files {
		p, ok := docuri.Path(f.URI)
		if !ok || f.Type == Changed {
			continue
		}
		if f.Type == Deleted {
			directories = append(directories, p)
		}
		if slices.Contains(i.cfg.Profile.Nearest, path.Base(p)) {
			directories = append(directories, path.Dir(p))
		}
	}
	return directories
}

// closeBelow closes all documents below directories. They are all closed before
// the first of them is opened again.
func (s syncing) closeBelow(directories []string) error {
	if len(directories) == 0 {
		return nil
	}
	for _, d := range s.documents() {
		p, ok := docuri.Path(d.URI)
		if !ok || !slices.ContainsFunc(directories, func(dir string) bool { rest, in := below(dir, p); return in && rest != "" }) {
			continue
		}
		if err := s.close(d); err != nil {
			return err
		}
	}
	return nil
}

func (s syncing) close(d barrier.Document) error {
	forget := func() {
		delete(s.docs, docuri.Canonical(d.URI))
		s.stats.Closed++
	}
	if !s.caps.openClose {
		s.mu.Lock()
		defer s.mu.Unlock()
		forget()
		return nil
	}
	return s.modify("textDocument/didClose", map[string]any{"textDocument": identifier{URI: d.URI}}, forget)
}

func (s syncing) openOrChange(d Document) error {
	old, open := s.document(d.URI)
	switch {
	case !open:
		return s.open(d)
	case old.LanguageID == d.LanguageID && old.Text == d.Text:
		s.mu.Lock()
		defer s.mu.Unlock()
		old.Quiet = d.Quiet
		s.docs[docuri.Canonical(old.URI)] = old
		return nil
	case old.LanguageID != d.LanguageID || s.caps.change == syncNone:
		if err := s.close(old); err != nil {
			return err
		}
		return s.open(d)
	}
	edits := []text.Change{{Text: d.Text}}
	if s.caps.change == syncIncremental {
		edits = s.caps.encoding.Diff(old.Text, d.Text)
	}
	old.Version, old.Text, old.Quiet = s.nextVersion(), d.Text, d.Quiet
	params := map[string]any{
		"textDocument":   identifier{URI: old.URI, Version: old.Version},
		"contentChanges": edits,
	}
	return s.modify("textDocument/didChange", s.completed(params), func() {
		s.docs[docuri.Canonical(old.URI)] = old
		s.stats.Changed++
	})
}

// completed makes the profile's edits of a didChange.
func (s syncing) completed(params map[string]any) any {
	if len(s.cfg.Profile.Change) == 0 {
		return params
	}
	return barrier.Apply(barrier.Raw(params), s.cfg.Profile.Change)
}

func (s syncing) open(d Document) error {
	opened := barrier.Document{URI: d.URI, LanguageID: d.LanguageID, Version: s.nextVersion(), Text: d.Text, Quiet: d.Quiet}
	keep := func() {
		s.docs[docuri.Canonical(d.URI)] = opened
		s.stats.Opened++
	}
	if !s.caps.openClose {
		s.mu.Lock()
		defer s.mu.Unlock()
		keep()
		return nil
	}
	return s.modify("textDocument/didOpen", map[string]any{"textDocument": identifier{
		URI: d.URI, LanguageID: d.LanguageID, Version: opened.Version, Text: &d.Text,
	}}, keep)
}

func (s syncing) save(uri string) error {
	d, open := s.document(uri)
	if !open || !s.caps.save {
		return nil
	}
	params := map[string]any{"textDocument": identifier{URI: d.URI}}
	if s.caps.includeText {
		params["text"] = d.Text
	}
	return s.modify("textDocument/didSave", params, func() { s.stats.Saved++ })
}

// identifier is one of LSP's TextDocumentIdentifier, VersionedTextDocument-
// Identifier and TextDocumentItem.
type identifier struct {
	URI        string  `json:"uri"`
	LanguageID string  `json:"languageId,omitempty"`
	Version    int32   `json:"version,omitempty"`
	Text       *string `json:"text,omitempty"`
}

// nextVersion never repeats, whatever document it is for: a late publish of an
// earlier opening cannot be taken for one of the present.
func (i *Instance) nextVersion() int32 {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.version++
	return i.version
}

// document returns an open document.
func (i *Instance) document(uri string) (barrier.Document, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	d, ok := i.docs[docuri.Canonical(uri)]
	return d, ok
}

// documents returns all open documents, sorted by URI.
func (i *Instance) documents() []barrier.Document {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := make([]barrier.Document, 0, len(i.docs))
	for _, d := range i.docs {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b barrier.Document) int {
		if a.URI < b.URI {
			return -1
		}
		return 1
	})
	return all
}
