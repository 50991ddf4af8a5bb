package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
)

// adjustments are all that a shadow changes in anyone's initialize params, but
// for the profile's own. The rest goes to the server byte by byte.
var adjustments = []barrier.Edit{
	// The server must not end when the editor does, and it cannot see the
	// editor's process from its own namespace: it would end at once.
	{Path: at("processId"), Value: raw("null")},
	// A token of the editor's own request.
	{Path: at("workDoneToken")},
	// One encoding for all agents; it is the default and must be offered.
	{Path: at("capabilities", "general", "positionEncodings"), Value: raw(`["utf-16"]`)},
	// Progress is what most barriers read.
	{Path: at("capabilities", "window", "workDoneProgress"), Value: raw("true")},
	// The server must not watch by itself but say what to tell it.
	{Path: at("capabilities", "workspace", "didChangeWatchedFiles", "dynamicRegistration"), Value: raw("true")},
	{Path: at("capabilities", "workspace", "didChangeWatchedFiles", "relativePatternSupport"), Value: raw("true")},
	// It is answered from what the editor answered, with the barrier's needs.
	{Path: at("capabilities", "workspace", "configuration"), Value: raw("true")},
	// Versions tell which text a publish is about.
	{Path: at("capabilities", "textDocument", "publishDiagnostics", "versionSupport"), Value: raw("true")},
}

func at(names ...string) []string  { return names }
func raw(s string) json.RawMessage { return json.RawMessage(s) }

// params returns what is sent as the params of initialize.
func (i *Instance) params() json.RawMessage {
	p := barrier.Apply(i.cfg.Initialize, adjustments)
	p = barrier.Apply(p, i.cfg.Profile.Initialize)
	if s := i.cfg.Profile.Settings; s.InitializationOptions {
		options, _ := barrier.Lookup(p, "initializationOptions")
		i.own(options)
		p = barrier.Apply(p, []barrier.Edit{{Path: at("initializationOptions"), Value: s.Apply(options)}})
	}
	return p
}

// initialize speaks initialize and initialized.
func (i *Instance) initialize(ctx context.Context) error {
	params := i.params()
	i.mu.Lock()
	i.folders = foldersOf(params)
	i.mu.Unlock()
	result, err := i.Call(ctx, "initialize", params)
	if err != nil {
		kind := Refused
		if e := (*Error)(nil); errors.As(err, &e) {
			kind, err = e.Kind, e.Err
		}
		return i.error("start", kind, err)
	}
	caps, err := parseCapabilities(result)
	if err != nil {
		return i.error("start", Malformed, fmt.Errorf("the answer to initialize: %w", err))
	}
	i.mu.Lock()
	i.result, i.caps = result, caps
	i.mu.Unlock()
	return i.send(ctx, wire.NewNotification("initialized", raw("{}")))
}

// Kinds of textDocumentSync.change.
const (
	syncNone = iota
	syncFull
	syncIncremental
)

// capabilities are what Sync has to know of a server.
type capabilities struct {
	openClose   bool
	change      int
	save        bool
	includeText bool
	encoding    text.Encoding
}

func parseCapabilities(result json.RawMessage) (capabilities, error) {
	c := capabilities{encoding: text.UTF16}
	var r struct {
		Capabilities struct {
			PositionEncoding string          `json:"positionEncoding"`
			TextDocumentSync json.RawMessage `json:"textDocumentSync"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return c, err
	}
	if name := r.Capabilities.PositionEncoding; name != "" {
		var ok bool
		if c.encoding, ok = text.ParseEncoding(name); !ok {
			return c, fmt.Errorf("unknown position encoding %q", name)
		}
	}
	sync := r.Capabilities.TextDocumentSync
	if len(sync) == 0 || string(sync) == "null" {
		return c, nil
	}
	if sync[0] != '{' {
		// The old form, a number, means all notifications, save without text.
		if err := json.Unmarshal(sync, &c.change); err != nil {
			return c, fmt.Errorf("textDocumentSync: %w", err)
		}
		c.openClose, c.save = c.change != syncNone, c.change != syncNone
		return c, nil
	}
	var o struct {
		OpenClose bool            `json:"openClose"`
		Change    int             `json:"change"`
		Save      json.RawMessage `json:"save"`
	}
	if err := json.Unmarshal(sync, &o); err != nil {
		return c, fmt.Errorf("textDocumentSync: %w", err)
	}
	c.openClose, c.change = o.OpenClose, o.Change
	c.save, c.includeText = parseSave(o.Save)
	return c, nil
}

// parseSave reads boolean | SaveOptions.
func parseSave(save json.RawMessage) (wanted, includeText bool) {
	if len(save) == 0 || string(save) == "null" || string(save) == "false" {
		return false, false
	}
	text, _ := barrier.Lookup(save, "includeText")
	return true, string(text) == "true"
}

// folder is a workspace folder.
type folder struct {
	URI  string `json:"uri"`
	Name string `json:"name"`
}

// foldersOf reads the workspace folders of initialize params, or what stood for
// them before there were any.
func foldersOf(params json.RawMessage) []folder {
	var p struct {
		WorkspaceFolders []folder `json:"workspaceFolders"`
		RootURI          string   `json:"rootUri"`
	}
	_ = json.Unmarshal(params, &p) // the server will say what is wrong with it
	if len(p.WorkspaceFolders) == 0 && p.RootURI != "" {
		return []folder{{URI: p.RootURI, Name: baseOf(p.RootURI)}}
	}
	return p.WorkspaceFolders
}
