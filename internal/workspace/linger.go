package workspace

import (
	"maps"
	"slices"
	"unicode/utf8"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/shadow"
	"shadowlsp/overlay"
)

// maxLingering bounds the documents that stay open in a server for what it has
// indexed of them. One that is closed had the present text before, so what is left
// of it in an index is that, until the file changes again.
const maxLingering = 64

// lingering are documents that a server which keeps what it has read of them
// (barrier.Profile.Lingers) has been shown in some turn. They stay open in every
// other turn with what that turn's branch holds, or empty where it holds nothing:
// so no branch's names are found in another's turn.
type lingering map[string]lingerer // by canonical URI

type lingerer struct {
	uri, language, path string
	text                string // that the server was shown last
	shown               bool   // ever
}

// saw has a file linger that has changed behind the server's back
// (barrier.Profile.Scans).
func (l lingering) saw(uri, language, path string) {
	key := docuri.Canonical(uri)
	if _, known := l[key]; !known {
		l[key] = lingerer{uri: uri, language: language, path: path}
	}
}

// with returns the documents of a turn, and those that linger. root is the
// daemon's, over what the server's disk shows.
func (l lingering) with(documents []shadow.Document, root string, over *overlay.Branch) []shadow.Document {
	open := make(map[string]bool, len(documents))
	for _, d := range documents {
		key := docuri.Canonical(d.URI)
		open[key] = true
		if path, err := relativeURI(root, d.URI); err == nil {
			l[key] = lingerer{d.URI, d.LanguageID, path, d.Text, true}
		}
	}
	all := slices.Clone(documents)
	for _, key := range slices.Sorted(maps.Keys(l)) {
		d := l[key]
		if open[key] {
			continue
		}
		text := ""
		if data, err := over.ReadFile(d.path); err == nil && len(data) <= maxTurnDocument && utf8.Valid(data) {
			text = string(data)
		}
		if d.shown && text == d.text && len(l) > maxLingering {
			delete(l, key)
			continue
		}
		d.text, d.shown = text, true
		l[key] = d
		all = append(all, shadow.Document{URI: d.uri, LanguageID: d.language, Text: text, Quiet: true})
	}
	return all
}

// lingers says whether a document is open for no other reason.
func (i *instance) lingers(uri string, st state) bool {
	if !i.p.profile().Lingers {
		return false
	}
	uri = docuri.Canonical(uri)
	return !slices.ContainsFunc(st.documents, func(d shadow.Document) bool { return docuri.Canonical(d.URI) == uri })
}
