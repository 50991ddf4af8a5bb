package shadow

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/union"
	"shadowlsp/lsp/wire"
)

// registration is one dynamic registration of the server.
type registration struct {
	id, method string
	options    json.RawMessage // may be nil
	serial     int             // order of arrival
	watchers   []watcher       // of workspace/didChangeWatchedFiles
}

// watcher is one pattern of files that the server wants to hear about.
type watcher struct {
	base    string // path of the folder that the pattern is relative to; "" for none
	pattern string
	kinds   FileKinds
}

// FileKinds is LSP's WatchKind: the sum of what is watched.
type FileKinds uint8

// What can be watched.
const (
	WatchCreate FileKinds = 1
	WatchChange FileKinds = 2
	WatchDelete FileKinds = 4
)

// FileEvent is one change on the disk that the server sees.
type FileEvent struct {
	URI  string     `json:"uri"`
	Type FileChange `json:"type"`
}

// FileChange is LSP's FileChangeType.
type FileChange uint8

// What can happen to a file.
const (
	Created FileChange = 1
	Changed FileChange = 2
	Deleted FileChange = 3
)

// kind is the WatchKind that asks for c.
func (c FileChange) kind() FileKinds {
	switch c {
	case Created:
		return WatchCreate
	case Changed:
		return WatchChange
	case Deleted:
		return WatchDelete
	}
	return 0
}

// registerCapability keeps what the server registers.
func (i *Instance) registerCapability(params json.RawMessage) (any, error) {
	var p struct {
		Registrations []struct {
			ID              string          `json:"id"`
			Method          string          `json:"method"`
			RegisterOptions json.RawMessage `json:"registerOptions"`
		} `json:"registrations"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "%v", err)
	}
	defer i.cfg.Client.Notification("client/registerCapability", params) // without the lock
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, r := range p.Registrations {
		kept := registration{id: r.ID, method: r.Method, options: r.RegisterOptions, serial: i.registrations}
		i.registrations++
		if r.Method == "workspace/didChangeWatchedFiles" {
			kept.watchers = i.watchersLocked(r.RegisterOptions)
		}
		i.dynamic[r.ID] = kept
	}
	return nil, nil
}

// unregisterCapability forgets. LSP spells the member so.
func (i *Instance) unregisterCapability(params json.RawMessage) (any, error) {
	type unregistration struct {
		ID string `json:"id"`
	}
	var p struct {
		Misspelt []unregistration `json:"unregisterations"`
		Spelt    []unregistration `json:"unregistrations"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "%v", err)
	}
	defer i.cfg.Client.Notification("client/unregisterCapability", params)
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, r := range append(p.Misspelt, p.Spelt...) {
		delete(i.dynamic, r.ID)
	}
	return nil, nil
}

// watchersLocked parses DidChangeWatchedFilesRegistrationOptions. A pattern that
// cannot be parsed is left out: the server hears nothing for it, as in editors.
func (i *Instance) watchersLocked(options json.RawMessage) []watcher {
	var o struct {
		Watchers []struct {
			GlobPattern json.RawMessage `json:"globPattern"`
			Kind        *FileKinds      `json:"kind"`
		} `json:"watchers"`
	}
	if json.Unmarshal(options, &o) != nil {
		return nil
	}
	var found []watcher
	for _, w := range o.Watchers {
		parsed, ok := parsePattern(w.GlobPattern)
		if !ok {
			continue
		}
		parsed.kinds = WatchCreate | WatchChange | WatchDelete
		if w.Kind != nil {
			parsed.kinds = *w.Kind
		}
		found = append(found, parsed)
	}
	return found
}

// parsePattern reads Pattern | RelativePattern.
func parsePattern(raw json.RawMessage) (watcher, bool) {
	var w watcher
	if json.Unmarshal(raw, &w.pattern) == nil {
		return w, doublestar.ValidatePattern(w.pattern)
	}
	var relative struct {
		BaseURI json.RawMessage `json:"baseUri"`
		Pattern string          `json:"pattern"`
	}
	if json.Unmarshal(raw, &relative) != nil {
		return w, false
	}
	w.pattern = relative.Pattern
	var base string
	if json.Unmarshal(relative.BaseURI, &base) != nil {
		var f folder
		if len(relative.BaseURI) > 0 && json.Unmarshal(relative.BaseURI, &f) != nil {
			return w, false
		}
		base = f.URI
	}
	if base != "" { // gopls leaves it empty where it has no base
		p, ok := docuri.Path(base)
		if !ok {
			return w, false
		}
		w.base = p
	}
	return w, doublestar.ValidatePattern(w.pattern)
}

// matches says whether the watcher wants to hear of a file. A pattern without a
// base is compared with the whole path and with the path below each folder, as
// editors do it.
func (w watcher) matches(file string, folders []string) bool {
	if w.base != "" {
		rest, ok := below(w.base, file)
		return ok && doublestar.MatchUnvalidated(w.pattern, rest)
	}
	if doublestar.MatchUnvalidated(w.pattern, file) ||
		doublestar.MatchUnvalidated(w.pattern, strings.TrimPrefix(file, "/")) {
		return true
	}
	return slices.ContainsFunc(folders, func(f string) bool {
		rest, ok := below(f, file)
		return ok && doublestar.MatchUnvalidated(w.pattern, rest)
	})
}

// below returns the path of file relative to base, if it is there.
func below(base, file string) (string, bool) {
	if base == file {
		return "", true
	}
	return strings.CutPrefix(file, strings.TrimRight(base, "/")+"/")
}

// Watches says whether the server asked to be told of such a change of the file
// at an absolute path.
func (i *Instance) Watches(file string, change FileChange) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.watchesLocked(file, change, i.folderPathsLocked())
}

func (i *Instance) watchesLocked(file string, change FileChange, folders []string) bool {
	for _, r := range i.dynamic {
		for _, w := range r.watchers {
			if w.kinds&change.kind() != 0 && w.matches(file, folders) {
				return true
			}
		}
	}
	return false
}

// folderPathsLocked are the folders and the root.
func (i *Instance) folderPathsLocked() []string {
	var paths []string
	for _, f := range i.folders {
		if p, ok := docuri.Path(f.URI); ok {
			paths = append(paths, p)
		}
	}
	if i.cfg.Root != "" {
		paths = append(paths, i.cfg.Root)
	}
	return paths
}

// Registered are the server's dynamic registrations, oldest first.
func (i *Instance) Registered() []union.Registration {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := slices.SortedFunc(maps.Values(i.dynamic), func(a, b registration) int { return a.serial - b.serial })
	found := make([]union.Registration, len(all))
	for n, r := range all {
		found[n] = union.Registration{ID: r.id, Method: r.method, Options: r.options}
	}
	return found
}

// registered returns the registrations of a method, oldest first.
func (i *Instance) registered(method string) []json.RawMessage {
	i.mu.Lock()
	defer i.mu.Unlock()
	var options []json.RawMessage
	for _, r := range i.registeredLocked(method) {
		options = append(options, r.options)
	}
	return options
}

func (i *Instance) registeredLocked(method string) []registration {
	var found []registration
	for r := range maps.Values(i.dynamic) {
		if r.method == method {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b registration) int { return a.serial - b.serial })
	return found
}
