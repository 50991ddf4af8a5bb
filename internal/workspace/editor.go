package workspace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/front"
	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
)

// maxEditorDocument bounds the text of one open document that is remembered of
// the editor, in bytes; a larger one counts as unknown.
const maxEditorDocument = 16 << 20

// editor is what the copies of one front have told: it is fed frames and
// answers questions, and never talks back.
//
// Invariant: what is not known for sure is reported as unknown. A gap in the
// copies towards the server makes every open document unknown until the editor
// sends its whole text again.
type editor struct {
	mu sync.Mutex // guards the fields below

	hello       front.Hello
	initialize  json.RawMessage // the editor's params, nil until seen
	initResult  json.RawMessage // the real server's answer
	settings    json.RawMessage // params of the last didChangeConfiguration
	answers     map[configItem]json.RawMessage
	initID      json.RawMessage
	questions   map[string][]configItem // workspace/configuration in flight, by raw id
	documents   map[string]editorDocument
	documentsOK bool     // false: some open document may be unknown
	languages   []string // ids of all documents that were open some time, sorted
	onChange    func()
	courtesy    *courtesy // nil: none
}

type configItem struct {
	ScopeURI string `json:"scopeUri,omitempty"`
	Section  string `json:"section,omitempty"`
}

type editorDocument struct {
	language string
	text     string
	known    bool
}

func newEditor(onChange func()) *editor {
	return &editor{
		answers:     map[configItem]json.RawMessage{},
		questions:   map[string][]configItem{},
		documents:   map[string]editorDocument{},
		documentsOK: true,
		onChange:    onChange,
	}
}

// Hello implements front.Handler.
func (e *editor) Hello(h front.Hello) {
	e.mu.Lock()
	e.hello = h
	e.mu.Unlock()
	e.onChange()
}

// Gap implements front.Handler.
func (e *editor) Gap(toServer bool, _ int) {
	e.courtesy.forget(e)
	if !toServer {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.documentsOK = false
	for uri := range e.documents {
		e.documents[uri] = editorDocument{}
	}
}

// Frame implements front.Handler. A frame that cannot be understood is none of
// our business: the real server has got it too.
func (e *editor) Frame(toServer bool, body []byte) {
	m, err := wire.Parse(body)
	if err != nil {
		return
	}
	e.courtesy.frame(e, toServer, m)
	e.mu.Lock()
	changed := e.observeLocked(toServer, m)
	e.mu.Unlock()
	if changed {
		e.onChange()
	}
}

// observeLocked learns from one message and says whether settings changed.
func (e *editor) observeLocked(toServer bool, m wire.Message) bool {
	switch {
	case toServer && m.Kind == wire.Request && m.Method == "initialize":
		e.initialize, e.initID = bytes.Clone(m.Params), bytes.Clone(m.ID)
	case !toServer && m.Kind == wire.Response && e.initResult == nil && bytes.Equal(m.ID, e.initID):
		e.initResult = bytes.Clone(m.Result)
		return true
	case !toServer && m.Kind == wire.Request && m.Method == "workspace/configuration":
		var p struct{ Items []configItem }
		if json.Unmarshal(m.Params, &p) == nil {
			e.questions[string(m.ID)] = p.Items
		}
	case toServer && m.Kind == wire.Response:
		items, asked := e.questions[string(m.ID)]
		if !asked {
			return false
		}
		delete(e.questions, string(m.ID))
		var values []json.RawMessage
		if m.Result == nil || json.Unmarshal(m.Result, &values) != nil || len(values) != len(items) {
			return false
		}
		for i, item := range items {
			e.answers[item] = values[i]
		}
		return true
	case toServer && m.Method == "workspace/didChangeConfiguration":
		// What was answered before may have changed; the server asks again, and until
		// then the old answers are better than none.
		e.settings = bytes.Clone(m.Params)
		return true
	case toServer && m.Method == "workspace/didChangeWorkspaceFolders":
		e.initialize = withFolders(e.initialize, m.Params)
		return true
	case toServer && m.Kind == wire.Notification:
		known := len(e.languages)
		e.documentLocked(m)
		return len(e.languages) > known
	}
	return false
}

// withFolders returns initialize params as an editor would send them after a
// didChangeWorkspaceFolders.
func withFolders(initialize, change json.RawMessage) json.RawMessage {
	var p struct {
		Event struct{ Added, Removed []json.RawMessage }
	}
	var folders []json.RawMessage
	raw, _ := barrier.Lookup(initialize, "workspaceFolders")
	_ = json.Unmarshal(raw, &folders) // null: there were none
	if initialize == nil || json.Unmarshal(change, &p) != nil {
		return initialize
	}
	uri := func(folder json.RawMessage) string {
		var f struct{ URI string }
		_ = json.Unmarshal(folder, &f) // what is none is compared as ""
		return docuri.Canonical(f.URI)
	}
	folders = slices.DeleteFunc(folders, func(f json.RawMessage) bool {
		return slices.ContainsFunc(slices.Concat(p.Event.Removed, p.Event.Added), func(r json.RawMessage) bool { return uri(r) == uri(f) })
	})
	folders = append(folders, p.Event.Added...)
	return barrier.Apply(initialize, []barrier.Edit{{Path: []string{"workspaceFolders"}, Value: barrier.Raw(folders)}})
}

// result is what the real server answered to initialize, nil until it did.
func (e *editor) result() json.RawMessage {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.initResult
}

// documentLocked follows the editor's open documents.
func (e *editor) documentLocked(m wire.Message) {
	var p struct {
		TextDocument struct {
			URI, LanguageID, Text string
		}
		ContentChanges []text.Change
	}
	switch m.Method {
	case "textDocument/didOpen", "textDocument/didChange", "textDocument/didClose":
		if json.Unmarshal(m.Params, &p) != nil {
			e.documentsOK = false
			return
		}
	default:
		return
	}
	uri := docuri.Canonical(p.TextDocument.URI)
	switch m.Method {
	case "textDocument/didOpen":
		d := p.TextDocument
		if at, known := slices.BinarySearch(e.languages, d.LanguageID); !known && d.LanguageID != "" {
			e.languages = slices.Insert(e.languages, at, d.LanguageID)
		}
		e.documents[uri] = editorDocument{d.LanguageID, d.Text, len(d.Text) <= maxEditorDocument}
	case "textDocument/didClose":
		delete(e.documents, uri)
	case "textDocument/didChange":
		d := e.documents[uri]
		if len(p.ContentChanges) > 0 && p.ContentChanges[0].Range == nil {
			d.known = true
		}
		if d.known {
			// The editor's positions are UTF-16 unless it negotiated otherwise.
			changed, err := text.Apply(d.text, p.ContentChanges)
			d.text, d.known = changed, err == nil && len(changed) <= maxEditorDocument && e.utf16Locked()
		}
		e.documents[uri] = d
	}
}

// utf16Locked says whether the real server took UTF-16 positions.
func (e *editor) utf16Locked() bool {
	var r struct {
		Capabilities struct{ PositionEncoding string }
	}
	_ = json.Unmarshal(e.initResult, &r)
	enc := r.Capabilities.PositionEncoding
	return enc == "" || enc == "utf-16"
}

// unsaved returns the texts, by file path, of open documents that differ from
// what read gives for their path. complete is false where some text is unknown.
func (e *editor) unsaved(read func(path string) ([]byte, error)) (texts map[string]string, complete bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	texts, complete = map[string]string{}, e.documentsOK
	for uri, d := range e.documents {
		path, ok := docuri.Path(uri)
		if !ok {
			continue
		}
		if !d.known {
			complete = false
			continue
		}
		if old, err := read(path); err != nil || string(old) != d.text {
			texts[path] = d.text
		}
	}
	return texts, complete
}

// learnt is what is known of a server for the start of a shadow of it, and what
// is kept in the state directory for the time without an editor. The
// environment is not kept: it may hold secrets.
type learnt struct {
	Command    []string        `json:"command"`
	Dir        string          `json:"dir"`
	Env        []string        `json:"env,omitempty"`
	Initialize json.RawMessage `json:"initialize,omitempty"`
	Settings   json.RawMessage `json:"settings,omitempty"`
	Answers    []learntAnswer  `json:"answers,omitempty"`
	// Languages are the ids of documents that the editor has opened in it.
	Languages []string `json:"languages,omitempty"`
	// Defaults are settings of the configuration, for what no editor has said.
	Defaults json.RawMessage `json:"-"`
}

type learntAnswer struct {
	Item  configItem      `json:"item"`
	Value json.RawMessage `json:"value"`
}

// learnt returns what this editor has told; ok is false before its initialize
// was seen.
func (e *editor) learnt() (l learnt, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l = learnt{Command: e.hello.Command, Dir: e.hello.Dir, Env: e.hello.Env, Initialize: e.initialize, Settings: e.settings}
	for item, v := range e.answers {
		l.Answers = append(l.Answers, learntAnswer{item, v})
	}
	l.Languages = slices.Clone(e.languages)
	slices.SortFunc(l.Answers, func(a, b learntAnswer) int {
		return cmp.Or(strings.Compare(a.Item.Section, b.Item.Section), strings.Compare(a.Item.ScopeURI, b.Item.ScopeURI))
	})
	return l, len(l.Command) > 0 && e.initialize != nil
}

// serverKey names a server within a workspace: its program and arguments.
func serverKey(command []string) string {
	key := filepath.Base(command[0])
	for _, a := range command[1:] {
		key += " " + a
	}
	return key
}
