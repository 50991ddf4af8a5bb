package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
)

// Report is one document's final diagnostics.
type Report struct {
	URI string
	// Version is that of the open document; 0 if it is not open.
	Version int32
	// Diagnostics is an array of Diagnostic, as the server sent it.
	Diagnostics json.RawMessage
	// Barrier names what proved it final.
	Barrier string
	// Notes are failures that the server reported beside its diagnostics.
	Notes []string
}

// Diagnose returns the final diagnostics of the given documents, by URI as
// given, for the state of the last Sync. Without uris: of all that have any, and
// of the open ones. A document without diagnostics has an empty array, never
// because time ran out: then there is an error (a *barrier.Error, mostly), and
// the map holds only what was proven nevertheless.
func (i *Instance) Diagnose(ctx context.Context, uris []string) (map[string]Report, error) {
	i.mu.Lock()
	before := i.modified
	i.mu.Unlock()
	canonical := make([]string, len(uris))
	for n, uri := range uris {
		canonical[n] = docuri.Canonical(uri)
	}
	result, err := i.barrier.Final(ctx, canonical)
	if err != nil && len(result.Items) == 0 {
		return nil, because(err, i.Err())
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.modified != before {
		return nil, i.error("diagnose", Superseded, nil)
	}
	if len(uris) == 0 {
		uris = i.allLocked(result)
	}
	reports := make(map[string]Report, len(uris))
	for _, uri := range uris {
		if r, ok := i.reportLocked(uri, result); ok {
			reports[uri] = r
		}
	}
	return reports, because(err, i.err)
}

// because adds to err why the instance is over, if that is its reason.
func because(err, over error) error {
	if e := (*barrier.Error)(nil); errors.As(err, &e) && e.Kind == barrier.Gone {
		return errors.Join(err, over)
	}
	return err
}

// allLocked lists the documents that a question without URIs is about.
func (i *Instance) allLocked(result barrier.Result) []string {
	named := make(map[string]string) // canonical to as the server or Sync spelled it
	for uri := range result.Items {
		named[uri] = uri
	}
	if result.Items == nil {
		for uri, p := range i.table {
			if !empty(p.Diagnostics) {
				named[uri] = p.URI
			}
		}
		for uri, d := range i.docs {
			named[uri] = d.URI
		}
	}
	all := make([]string, 0, len(named))
	for uri := range maps.Values(named) {
		all = append(all, uri)
	}
	return all
}

func (i *Instance) reportLocked(uri string, result barrier.Result) (Report, bool) {
	canonical := docuri.Canonical(uri)
	r := Report{
		URI: uri, Version: i.docs[canonical].Version,
		Diagnostics: noDiagnostics, Barrier: result.Barrier, Notes: result.Notes,
	}
	if result.Items == nil {
		if p, ok := i.table[canonical]; ok {
			r.Diagnostics = p.Diagnostics
		}
		return r, true
	}
	item, ok := result.Items[canonical]
	if !ok {
		return r, false
	}
	r.Diagnostics = item.Diagnostics
	if item.Barrier != "" {
		r.Barrier = item.Barrier
	}
	return r, true
}

var noDiagnostics = json.RawMessage("[]")

// empty says whether an array of diagnostics has no element.
func empty(diagnostics json.RawMessage) bool {
	for _, b := range diagnostics {
		if b != '[' && b != ']' && b > ' ' {
			return false
		}
	}
	return true
}

// published keeps a publishDiagnostics.
func (i *Instance) published(params json.RawMessage) error {
	var p struct {
		URI         string          `json:"uri"`
		Version     *int32          `json:"version"`
		Diagnostics json.RawMessage `json:"diagnostics"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return err
	}
	if len(p.Diagnostics) == 0 || p.Diagnostics[0] != '[' {
		p.Diagnostics = noDiagnostics // null, from lenient servers
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.publishes++
	kept := barrier.Published{URI: p.URI, Diagnostics: p.Diagnostics, Serial: i.publishes}
	if p.Version != nil {
		kept.Version, kept.HasVersion = *p.Version, true
	}
	i.table[docuri.Canonical(p.URI)] = kept
	return nil
}
