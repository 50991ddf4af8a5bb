// Package remap answers: what does a message say to a server that finds the
// person's folder at another path?
//
// Model: a [Map] knows one folder by two paths: outside, where everybody else
// finds it, and inside, where the server does. [Map.ToServer] and
// [Map.FromServer] put one for the other in the strings of a raw message, names
// of members included, and leave every other byte as it is. A file URI is
// understood in whatever spelling; in other strings the path itself counts,
// where it stands as a whole.
//
// Invariants: valid JSON stays valid, and what names nothing below the folder
// stays the same to the byte. Texts of documents are not rewritten on the way to
// the server: they are the branch's. On the way back everything is: inside is a
// path that nobody else's text holds.
//
// Absent on purpose: the disk, symbolic links, and what a server writes into
// files about its own path.
//
// A Map does not change; all methods may be called from any goroutine.
package remap

import (
	"bytes"
	"encoding/json"
	"strings"

	"shadowlsp/lsp/docuri"
)

// Map is one folder under two paths. A nil Map rewrites nothing.
type Map struct{ outside, inside place }

// place is a path, and how it is spelled in a file URI.
type place struct{ path, encoded string }

func at(path string) place {
	return place{path, strings.TrimPrefix(docuri.FromPath(path), "file://")}
}

// New makes the Map of a folder that is at outside for everybody, and at inside
// for the server; both absolute and clean.
func New(outside, inside string) *Map { return &Map{at(outside), at(inside)} }

// ToServer returns body with inside for outside, but not in texts of documents.
func (m *Map) ToServer(body []byte) []byte {
	if m == nil {
		return body
	}
	return rewrite(body, func(key, s string) string {
		switch key {
		case "text", "newText", "insertText":
			return s
		}
		return move(s, m.outside, m.inside)
	})
}

// FromServer returns body with outside for inside.
func (m *Map) FromServer(body []byte) []byte {
	if m == nil {
		return body
	}
	return rewrite(body, func(_, s string) string { return move(s, m.inside, m.outside) })
}

// Inside returns a path, an argument, or the value of an environment variable as
// the server is to have it.
func (m *Map) Inside(s string) string {
	if m == nil {
		return s
	}
	return move(s, m.outside, m.inside)
}

// rewrite calls f with every string of a JSON text, and the name of the member
// that it is the value of, or "".
func rewrite(body []byte, f func(key, s string) string) []byte {
	var (
		out   []byte
		done  int    // body up to here is in out
		last  string // the last string
		key   string
		colon bool // between a name and its value
	)
	for at := 0; at < len(body); {
		switch c := body[at]; c {
		case '"':
			end := at + stringEnd(body[at:])
			raw := body[at:end]
			name := key
			if !colon {
				name = ""
			}
			s, ok := unquote(raw)
			if ok {
				last = s
				if to := f(name, s); to != s {
					out = append(append(out, body[done:at]...), quote(to)...)
					done = end
				}
			}
			colon, at = false, end
			continue
		case ':':
			key, colon = last, true
		case ' ', '\t', '\r', '\n':
		default:
			colon = false
		}
		at++
	}
	if done == 0 {
		return body
	}
	return append(out, body[done:]...)
}

// stringEnd returns the length of the JSON string that b begins with.
func stringEnd(b []byte) int {
	for at := 1; at < len(b); at++ {
		switch b[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(b)
}

func unquote(raw []byte) (s string, ok bool) {
	if len(raw) < 2 || raw[len(raw)-1] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	return s, json.Unmarshal(raw, &s) == nil
}

func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// move puts to for every from in s that stands as a whole.
func move(s string, from, to place) string {
	if strings.HasPrefix(s, "file:") {
		if moved, ok := moveURI(s, from, to); ok {
			return moved
		}
	}
	s = moveText(s, from.path, to)
	if from.encoded != from.path {
		s = moveText(s, from.encoded, to)
	}
	return s
}

// moveURI moves a string that is a file URI and nothing else.
func moveURI(s string, from, to place) (string, bool) {
	name, rest := s, ""
	if end := strings.IndexAny(s, "#?"); end >= 0 {
		name, rest = s[:end], s[end:]
	}
	if strings.ContainsAny(name, " \n`)") {
		return "", false // a text that begins with one
	}
	path, ok := docuri.Path(name)
	if !ok {
		return "", false
	}
	below, ok := strings.CutPrefix(path, from.path)
	if !ok || below != "" && below[0] != '/' {
		return s, true
	}
	if strings.HasSuffix(name, "/") {
		below += "/"
	}
	moved := docuri.FromPath(to.path + below)
	if strings.HasSuffix(below, "/") && !strings.HasSuffix(moved, "/") {
		moved += "/"
	}
	return moved + rest, true
}

// moveText moves what stands within a text.
func moveText(s, from string, to place) string {
	var out strings.Builder
	for done := 0; ; {
		at := strings.Index(s[done:], from)
		if at < 0 {
			if done == 0 {
				return s
			}
			out.WriteString(s[done:])
			return out.String()
		}
		at += done
		end := at + len(from)
		before := s[:at]
		uri := strings.HasSuffix(before, "://")
		out.WriteString(s[done:at])
		switch {
		case !uri && before != "" && named(before[len(before)-1]), !ends(s[end:]):
			out.WriteString(from)
		case uri:
			out.WriteString(to.encoded)
		default:
			out.WriteString(to.path)
		}
		done = end
	}
}

// named says whether a byte before a path makes it the rest of a longer one.
func named(c byte) bool {
	return c == '/' || c == '_' || c == '-' || c == '.' || c == '~' || c >= 0x80 ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// ends says whether a path ends before rest: at its end, at a slash, or where no
// name goes on. A full stop ends it if nothing of a name follows.
func ends(rest string) bool {
	rest = strings.TrimLeft(rest, ".")
	return rest == "" || rest[0] == '/' || !named(rest[0])
}
