package workspace

import (
	"bytes"
	"encoding/json"
	"sort"

	"shadowlsp/lsp/docuri"
)

// editing are the methods whose result (or params) holds workspace edits, which
// name the versions of documents. The instance numbers versions in its own way,
// so an agent's own are put in their place: an editor refuses an edit of a
// version that it does not have.
var editing = map[string]bool{
	"textDocument/rename":       true,
	"textDocument/codeAction":   true,
	"codeAction/resolve":        true,
	"workspace/applyEdit":       true,
	"workspace/willRenameFiles": true, "workspace/willCreateFiles": true, "workspace/willDeleteFiles": true,
	"completionItem/resolve":   true,
	"workspace/executeCommand": true,
	"textDocument/codeLens":    true,
}

// ownVersions replaces the version in every {"uri", "version"} object of raw by
// the session's own number of that document, null where it is open in the server only.
// A version that the server leaves open stays so, as does every other byte.
func (s *session) ownVersions(method string, raw json.RawMessage) json.RawMessage {
	if !editing[method] || !bytes.Contains(raw, []byte(`"version"`)) {
		return raw
	}
	versions := map[string]int32{}
	s.mu.Lock()
	for uri, d := range s.documents {
		versions[uri] = d.version
	}
	s.mu.Unlock()
	out := raw
	found := versionedIdentifiers(raw)
	sort.Slice(found, func(i, j int) bool { return found[i].start > found[j].start })
	for _, v := range found {
		number := []byte("null")
		own, open := versions[docuri.Canonical(v.uri)]
		switch {
		case open:
			number, _ = json.Marshal(own)
		case string(out[v.start:v.end]) == unopened:
			continue
		}
		out = append(append(bytes.Clone(out[:v.start]), number...), out[v.end:]...)
	}
	return out
}

// unopened is the version of what the server itself has not open, in gopls; the
// instance's own begin with 1.
const unopened = "0"

// versionedIdentifier is where the version of a document identifier stands.
type versionedIdentifier struct {
	uri        string
	start, end int
}

// versionedIdentifiers finds every member "textDocument" of raw whose value is an
// object with a uri and a version.
func versionedIdentifiers(raw []byte) (found []versionedIdentifier) {
	const key = `"textDocument"`
	for at := 0; ; {
		next := bytes.Index(raw[at:], []byte(key))
		if next < 0 {
			return found
		}
		at += next + len(key)
		rest := bytes.TrimLeft(raw[at:], " \t\r\n")
		if len(rest) == 0 || rest[0] != ':' {
			continue
		}
		start := len(raw) - len(rest) + 1
		d := json.NewDecoder(bytes.NewReader(raw[start:]))
		if open, err := d.Token(); err != nil || open != json.Delim('{') {
			continue
		}
		var v versionedIdentifier
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return found
			}
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				return found
			}
			end := start + int(d.InputOffset())
			switch name {
			case "uri":
				_ = json.Unmarshal(value, &v.uri) // not a string: no identifier
			case "version":
				if string(value) != "null" {
					v.start, v.end = end-len(value), end
				}
			}
		}
		if v.uri != "" && v.end > 0 {
			found = append(found, v)
		}
	}
}
