// Package docuri answers: which file does a document URI name?
//
// Model: editors and servers spell the URI of one file in several ways (percent
// encoding of ":" or "@", upper or lower case hex digits); all are turned into
// one canonical spelling before they are compared, and sent on as they came.
//
// Invariants: Canonical(FromPath(p)) == FromPath(p); Path(FromPath(p)) == p for
// every absolute clean path of valid UTF-8.
//
// Absent on purpose: looking at the disk, symbolic links, roots.
//
// No locks, no goroutines.
package docuri

import (
	"path"
	"strings"

	"go.lsp.dev/uri"
)

// Canonical returns the one spelling under which s is compared; a string that
// is no URI is returned as it is.
func Canonical(s string) string {
	u, err := uri.Parse(s)
	if err != nil {
		return s
	}
	return string(u)
}

// Path returns the clean absolute path that a file URI names. ok is false for
// every other scheme, for a host other than the local one, and for a relative
// or NUL-bearing path.
func Path(s string) (p string, ok bool) {
	u, err := uri.Parse(s)
	if err != nil || !strings.HasPrefix(s, "file:/") || !strings.HasPrefix(string(u), "file:///") {
		return "", false
	}
	p = uri.FsPathFor(u, uri.PlatformPOSIX, true)
	if !strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) {
		return "", false
	}
	return path.Clean(p), true
}

// FromPath returns the canonical URI of an absolute path.
func FromPath(p string) string { return string(uri.File(p)) }
