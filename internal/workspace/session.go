package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
	"shadowlsp/scheduler"
)

// session is one agent's connection to its branch.
type session struct {
	d        *daemon
	branch   *branch
	base     agent.Base
	from     string
	peer     agent.Peer
	pool     *pool           // the server that answers what no document decides
	params   json.RawMessage // of initialize, as the agent sent them
	result   json.RawMessage // of initialize: what all servers offer, as the agent was told
	autosave bool
	edits    bool // the client takes workspace/applyEdit
	statuses bool // the client takes experimental/serverStatus
	inside   bool // it is that of a command in the branch, which reaches nothing else

	telling sync.Mutex // held while the agent is told of offers; guards nothing

	mu sync.Mutex // guards the fields below
	// told are the servers that the agent knows of, by serverKey. It is nil until
	// the session has joined.
	told map[string]*advertised
	// documents are those that this connection holds open, by canonical URI.
	documents map[string]openDocument
}

type openDocument struct {
	path    string // below the root
	version int32
	text    string
	saved   bool // the layer holds text
}

// Attach implements agent.Backend.
func (d *daemon) Attach(ctx context.Context, a agent.Attach) (agent.Attached, error) {
	line := d.lineup(ctx, lookAgain)
	if len(line) == 0 {
		line = d.lineup(ctx, 0) // one may have been installed since
	}
	if len(line) == 0 {
		return agent.Attached{}, d.none()
	}
	b, err := d.attachBranch(a.Options)
	if err != nil {
		return agent.Attached{}, d.explain(err)
	}
	s := &session{
		d: d, branch: b, base: a.Options.Base, from: a.Options.From, peer: a.Peer, params: a.Params,
		autosave: a.Options.Autosave, documents: map[string]openDocument{},
	}
	var client struct {
		Capabilities struct {
			Workspace    struct{ ApplyEdit bool }
			Experimental struct{ ServerStatusNotification bool }
		}
	}
	_ = json.Unmarshal(a.Params, &client) // what cannot be read is not declared
	s.edits, s.statuses = client.Capabilities.Workspace.ApplyEdit, client.Capabilities.Experimental.ServerStatusNotification
	if err := s.join(ctx, line); err != nil {
		d.detachBranch(b)
		return agent.Attached{}, err
	}
	if lost := d.lost(); lost != "" {
		s.warn("%s", lost)
	}
	if d.memory != nil && (a.Options.Branch != "" || a.Options.Keep) {
		s.warn("branches live in memory here (--store memory): %s stays when you leave, but not when the daemon ends", b.name)
	}
	d.addSession(s)
	d.cfg.Log.Info().Str("branch", b.name).Msg("agent attached")
	return agent.Attached{Session: s, Result: s.result, About: agent.About{
		Branch: b.name, Root: d.root, Base: s.base, Rev: b.revision(), Servers: s.names(),
		Mode: string(d.mode.Mode), Lost: d.mode.Lost,
	}}, nil
}

// warn shows the agent's person a message.
func (s *session) warn(format string, args ...any) {
	const warning = 2 // LSP's MessageType
	s.peer.Notify("window/showMessage", map[string]any{"type": warning, "message": fmt.Sprintf("shadowlsp: "+format, args...)})
}

// Detach implements agent.Session.
func (s *session) Detach() {
	s.mu.Lock()
	for _, doc := range s.documents {
		s.branch.close(s, doc.path)
	}
	held := len(s.documents) > 0
	s.documents = nil
	s.mu.Unlock()
	s.d.removeSession(s)
	if held {
		s.d.branchChanged(s.branch, s) // what was open and not saved has gone
	}
	s.d.detachBranch(s.branch)
	s.d.cfg.Log.Info().Str("branch", s.branch.name).Msg("agent detached")
}

// Open implements agent.Session.
func (s *session) Open(_ context.Context, doc agent.Document) error {
	path, err := s.locate(doc.URI)
	if err != nil {
		if outside(doc) {
			return nil // a library's source, to be asked about as it is on disk
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.branch.open(s, path, doc)
	return s.takeLocked(doc, path)
}

// locate returns the path below the root of the file that uri names in the
// branch, behind symbolic links.
func (s *session) locate(uri string) (string, error) {
	path, err := relativeURI(s.d.root, uri)
	if err != nil {
		return "", err
	}
	at, err := s.branch.over.Resolve(path)
	if err != nil {
		return "", invalid(err)
	}
	return at, nil
}

// outside says whether doc is a file of this machine as it is on disk.
func outside(doc agent.Document) bool {
	path, ok := docuri.Path(doc.URI)
	if !ok {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && string(data) == doc.Text
}

// Change implements agent.Session.
func (s *session) Change(_ context.Context, doc agent.Document) error {
	path, err := s.locate(doc.URI)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.branch.change(s, path, doc.Text, doc.Version)
	return s.takeLocked(doc, path)
}

// takeLocked makes doc's text the branch's.
func (s *session) takeLocked(doc agent.Document, path string) error {
	open := openDocument{path: path, version: doc.Version, text: doc.Text}
	var err error
	if s.autosave {
		err = s.branch.over.WriteFile(path, []byte(doc.Text), 0)
		open.saved = err == nil
	}
	s.documents[doc.URI] = open
	s.d.branchChanged(s.branch, s)
	return s.d.explain(err)
}

// Save implements agent.Session.
func (s *session) Save(_ context.Context, uri string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc, ok := s.documents[uri]
	if !ok || doc.saved {
		return nil
	}
	err := s.branch.over.WriteFile(doc.path, []byte(doc.text), 0)
	doc.saved = err == nil
	s.documents[uri] = doc
	return s.d.explain(err)
}

// Close implements agent.Session.
func (s *session) Close(_ context.Context, uri string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if doc, ok := s.documents[uri]; ok {
		s.branch.close(s, doc.path)
		delete(s.documents, uri)
		s.d.branchChanged(s.branch, s)
	}
	return nil
}

// WatchedFiles implements agent.Session. The branch's files change through the
// daemon, which tells the server by itself; what an agent claims adds nothing.
func (s *session) WatchedFiles(context.Context, json.RawMessage) error { return nil }

// Notification implements agent.Session. Settings are the person's: a server is
// shared by branches, so one agent's must not reach another's answers. What is
// left ($/setTrace and the like) would be told to whichever instance is next.
func (s *session) Notification(_ context.Context, m wire.Message) {
	s.d.cfg.Log.Debug().Str("branch", s.branch.name).Str("method", m.Method).Msg("notification not forwarded")
}

// Request implements agent.Session.
func (s *session) Request(ctx context.Context, m wire.Message) agent.Pending[json.RawMessage] {
	return func() (json.RawMessage, error) { return s.ask(ctx, m) }
}

// Diagnose implements agent.Session.
func (s *session) Diagnose(ctx context.Context, uris []string) agent.Pending[agent.Diagnosis] {
	return func() (agent.Diagnosis, error) { return s.diagnose(ctx, uris, scheduler.Interactive) }
}

var _ agent.Session = (*session)(nil)
