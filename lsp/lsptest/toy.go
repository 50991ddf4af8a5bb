package lsptest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shadowlsp/lsp/docuri"
)

// Diagnostic is what the toy language says about a line.
type Diagnostic struct {
	Range    Range  `json:"range"`
	Severity int    `json:"severity"`
	Source   string `json:"source"`
	Message  string `json:"message"`
}

// Range is LSP's.
type Range struct {
	Start Position `json:"start"`
	End   Position `json:"end"`
}

// Position is LSP's.
type Position struct {
	Line      uint32 `json:"line"`
	Character uint32 `json:"character"`
}

// toy is the state of the toy language: what is open hides what is on the disk.
type toy struct {
	open map[string]string // by canonical URI
	disk map[string]string
}

func newToy() *toy { return &toy{open: make(map[string]string), disk: make(map[string]string)} }

// load reads all toy files of a folder.
func (t *toy) load(folder string) {
	top, ok := docuri.Path(folder)
	if !ok {
		return
	}
	// What cannot be read is not there, for a toy.
	_ = filepath.WalkDir(top, func(name string, entry os.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".toy" {
			t.read(docuri.FromPath(name))
		}
		return nil
	})
}

// read takes one file from the disk, or notes that it is gone.
func (t *toy) read(uri string) {
	uri = docuri.Canonical(uri)
	name, ok := docuri.Path(uri)
	if !ok {
		return
	}
	text, err := os.ReadFile(name)
	if err != nil {
		delete(t.disk, uri)
		return
	}
	t.disk[uri] = string(text)
}

// files returns what counts of each file.
func (t *toy) files() map[string]string {
	all := make(map[string]string, len(t.disk)+len(t.open))
	for uri, text := range t.disk {
		all[uri] = text
	}
	for uri, text := range t.open {
		all[uri] = text
	}
	return all
}

// diagnose returns the diagnostics of every file.
func (t *toy) diagnose() map[string][]Diagnostic {
	files := t.files()
	defined := make(map[string]bool)
	for _, text := range files {
		for line := range strings.Lines(text) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "def "); ok {
				defined[name] = true
			}
		}
	}
	found := make(map[string][]Diagnostic, len(files))
	for uri, text := range files {
		found[uri] = []Diagnostic{}
		var n uint32
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			word, rest, _ := strings.Cut(line, " ")
			var message string
			switch {
			case word == "error":
				message = rest
			case word == "use" && !defined[rest]:
				message = "undefined: " + rest
			}
			if message != "" {
				found[uri] = append(found[uri], Diagnostic{
					Range:    Range{Position{n, 0}, Position{n, uint32(len(line))}},
					Severity: 1, Source: "toy", Message: message,
				})
			}
			n++
		}
	}
	return found
}

// equal compares two lists.
func equal(a, b []Diagnostic) bool { return slices.Equal(a, b) }
