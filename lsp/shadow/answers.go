package shadow

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// answers says who answers which request of the server: this package, at once.
// What is not here, and not in asked, is MethodNotFound, which is what a client
// says that does not know a method. The barrier has seen the request before.
var answers = map[string]func(*Instance, json.RawMessage) (any, error){
	"client/registerCapability":      (*Instance).registerCapability,
	"client/unregisterCapability":    (*Instance).unregisterCapability,
	"window/workDoneProgress/create": null, // progress is passed on under any token
	"workspace/configuration":        (*Instance).configuration,
	"workspace/workspaceFolders":     (*Instance).workspaceFolders,
	// Nobody sits before a shadow: no button is pressed, nothing is opened. What the
	// server has to say is said all the same.
	"window/showMessageRequest": func(i *Instance, params json.RawMessage) (any, error) {
		i.cfg.Client.Notification("window/showMessage", barrier.Apply(params, []barrier.Edit{{Path: at("actions")}}))
		return nil, nil
	},
	"window/showDocument": func(*Instance, json.RawMessage) (any, error) {
		return map[string]bool{"success": false}, nil
	},
	// An answer to what we hold has become old: we hold none.
	"workspace/codeLens/refresh":            null,
	"workspace/semanticTokens/refresh":      null,
	"workspace/inlayHint/refresh":           null,
	"workspace/inlineValue/refresh":         null,
	"workspace/foldingRange/refresh":        null,
	"workspace/diagnostic/refresh":          null,
	"workspace/textDocumentContent/refresh": null,
}

// asked are the requests that the Client answers, each in a goroutine, since it
// may have to ask an agent.
var asked = map[string]func(*Instance, json.RawMessage) (json.RawMessage, error){
	"workspace/applyEdit": func(i *Instance, params json.RawMessage) (json.RawMessage, error) {
		return i.cfg.Client.ApplyEdit(i.life, params)
	},
}

func null(*Instance, json.RawMessage) (any, error) { return nil, nil }

// answer answers a request of the server.
func (i *Instance) answer(m wire.Message) {
	if ask := asked[m.Method]; ask != nil {
		if !i.beginAsking() {
			i.reply(m, nil, wire.Errorf(wire.CodeInternalError, "too many requests are waiting for an answer"))
			return
		}
		i.wg.Go(func() {
			defer i.endAsking()
			result, err := ask(i, m.Params)
			i.reply(m, result, err)
		})
		return
	}
	known := answers[m.Method]
	if known == nil {
		i.reply(m, nil, wire.Errorf(wire.CodeMethodNotFound, "%s: not known", m.Method))
		return
	}
	result, err := known(i, m.Params)
	i.reply(m, result, err)
}

func (i *Instance) reply(m wire.Message, result any, err error) {
	if err != nil {
		i.sendNow(wire.NewError(m.ID, err))
		return
	}
	if raw, ok := result.(json.RawMessage); ok && raw == nil {
		result = nil
	}
	i.sendNow(wire.NewResult(m.ID, result))
}

// Asking says whether a request of the server waits for the Client.
func (i *Instance) Asking() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.clientCalls > 0
}

func (i *Instance) beginAsking() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.clientCalls >= i.cfg.Limits.Requests {
		return false
	}
	i.clientCalls++
	return true
}

func (i *Instance) endAsking() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.clientCalls--
}

// configuration answers with exactly one value per item, completed by the
// profile's settings.
func (i *Instance) configuration(params json.RawMessage) (any, error) {
	var p struct {
		Items []struct {
			Section string `json:"section"`
		} `json:"items"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "%v", err)
	}
	items, _ := barrier.Lookup(params, "items")
	var values []json.RawMessage
	if raw, ok := i.cfg.Client.Configuration(items); ok {
		if err := json.Unmarshal(raw, &values); err != nil {
			i.cfg.Log.Warn().Str("instance", i.cfg.Name).Err(err).Msg("configuration is no array")
		}
	}
	settings := i.currentSettings()
	result := make([]json.RawMessage, len(p.Items))
	for n, item := range p.Items {
		result[n] = json.RawMessage("null")
		if n < len(values) && values[n] != nil {
			result[n] = values[n]
		}
		if settings.Holds(item.Section) {
			i.own(result[n])
			if settings.Nested && !barrier.Said(result[n]) {
				// It would have been ignored, but ours replaces what the person
				// gave with initialize.
				result[n] = i.ownSettings()
			}
			result[n] = settings.Apply(result[n])
		}
		if unset := i.cfg.Profile.Unset[item.Section]; unset != nil && string(result[n]) == "null" {
			result[n] = unset
		}
	}
	return result, nil
}

// own notes the person's own settings; null says nothing about them, and to a
// server that nests them {} neither.
func (i *Instance) own(section json.RawMessage) {
	if len(section) == 0 || string(section) == "null" || i.cfg.Profile.Settings.Nested && !barrier.Said(section) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.personal = section
}

func (i *Instance) ownSettings() json.RawMessage {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.personal
}

// configured completes the params of didChangeConfiguration. Clients that are
// asked for configuration send null there, and that stays.
func (i *Instance) configured(params json.RawMessage) json.RawMessage {
	s := i.currentSettings()
	if !s.Holds(s.Section) {
		return params
	}
	path := []string{"settings"}
	if s.Section != "" {
		path = append(path, s.Section)
	}
	section, ok := barrier.Lookup(params, path...)
	if !ok || string(section) == "null" && s.Everything {
		return params
	}
	return barrier.Apply(params, []barrier.Edit{{Path: path, Value: s.Apply(section)}})
}

// currentSettings are those that must hold now.
func (i *Instance) currentSettings() barrier.Settings {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.settings
}

func (i *Instance) workspaceFolders(json.RawMessage) (any, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.folders) == 0 {
		return nil, nil // a single file is open, LSP says
	}
	return slices.Clone(i.folders), nil
}

// foldersChanged keeps our folders in step with a didChangeWorkspaceFolders.
func (i *Instance) foldersChanged(params json.RawMessage) {
	var p struct {
		Event struct{ Added, Removed []folder } `json:"event"`
	}
	if json.Unmarshal(params, &p) != nil {
		return // the server will not understand it either
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.folders = slices.DeleteFunc(i.folders, func(f folder) bool {
		return slices.ContainsFunc(p.Event.Removed, func(r folder) bool {
			return docuri.Canonical(r.URI) == docuri.Canonical(f.URI)
		})
	})
	i.folders = append(i.folders, p.Event.Added...)
}

// baseOf names the folder of a URI.
func baseOf(uri string) string {
	if p, ok := docuri.Path(uri); ok {
		return path.Base(p)
	}
	return path.Base(strings.TrimRight(uri, "/"))
}
