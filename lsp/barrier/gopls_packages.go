package barrier

import (
	"encoding/json"
	"math"
	"path"
	"slices"
	"strings"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// goPackages knows for which folders gopls has packages loaded.
//
// gopls diagnoses the packages that it has loaded, and a modified file reloads
// those of its folder. But the first file of a folder without any (a package
// that is new, or was all ignored) loads nothing: with diagnosticsDelay 0 such a
// file is loaded when its diagnosis is over (by the search for orphans, if it is
// open) or never, and has no diagnostics until something else comes along. (With
// a delay the first phase loads it, if it is open and nothing follows.) So such
// files are loaded by a command, and diagnosed once more.
//
// It is pure, but for its caller's lock.
type goPackages struct {
	loaded map[string]bool // folders, when last asked for
	// touched are files that were modified since they were last settled, by
	// folder; true if the folder had no package.
	touched map[string]map[string]bool
	// lost are folders that may have lost their packages since loaded was
	// asked for; stale says that loaded has to be asked for again.
	lost  map[string]bool
	stale bool
	// shifted: something happened since the last reload that decides about
	// packages, not only about their types.
	shifted bool
	// header is the number of the first line behind the imports of each open
	// document: what stands before decides about packages.
	header map[string]uint32
}

func newGoPackages() *goPackages {
	return &goPackages{
		loaded: make(map[string]bool), touched: make(map[string]map[string]bool),
		lost: make(map[string]bool), header: make(map[string]uint32), stale: true,
	}
}

// observe takes a notification that is sent.
func (p *goPackages) observe(m wire.Message) {
	switch m.Method {
	case "workspace/didChangeWatchedFiles":
		var params struct {
			Changes []struct {
				URI  string `json:"uri"`
				Type int    `json:"type"`
			} `json:"changes"`
		}
		if json.Unmarshal(m.Params, &params) != nil {
			return
		}
		for _, c := range params.Changes {
			if c.Type == 3 {
				p.lose(c.URI)
				p.forget(c.URI)
			}
		}
		for _, c := range params.Changes {
			if c.Type != 3 {
				p.touch(c.URI)
				if _, open := p.header[docuri.Canonical(c.URI)]; !open {
					p.shift(c.URI) // its imports may be others
				}
			}
		}
	case "textDocument/didOpen", "textDocument/didChange", "textDocument/didClose":
		var params struct {
			TextDocument struct {
				URI  string `json:"uri"`
				Text string `json:"text"`
			} `json:"textDocument"`
			ContentChanges []struct {
				Range *struct {
					Start struct {
						Line uint32 `json:"line"`
					} `json:"start"`
				} `json:"range"`
			} `json:"contentChanges"`
		}
		if json.Unmarshal(m.Params, &params) != nil {
			return
		}
		uri := params.TextDocument.URI
		switch m.Method {
		case "textDocument/didOpen":
			p.header[docuri.Canonical(uri)] = headerLines(params.TextDocument.Text)
			p.shift(uri) // its imports may be others than on the disk
		case "textDocument/didClose":
			// What is on the disk counts from now on, if anything is there.
			delete(p.header, docuri.Canonical(uri))
			p.touch(uri)
			p.lose(uri)
			return
		default:
			for _, c := range params.ContentChanges {
				if c.Range == nil || c.Range.Start.Line <= p.header[docuri.Canonical(uri)] {
					p.header[docuri.Canonical(uri)] = math.MaxUint32 // until settled
					p.touch(uri)
					p.lose(uri)
					return
				}
			}
		}
		p.touch(uri)
	case "workspace/didChangeConfiguration", "workspace/didChangeWorkspaceFolders":
		p.reset()
	}
}

// reset forgets what is loaded: the views may be others now.
func (p *goPackages) reset() {
	clear(p.loaded)
	p.stale = true
}

// shift notes that packages of a file's folder may be others.
func (p *goPackages) shift(uri string) {
	if _, ok := p.folder(uri); ok {
		p.shifted = true
	}
}

// reloading notes that everything is about to be loaded anew.
func (p *goPackages) reloading() {
	p.shifted = false
	clear(p.touched)
}

// lose notes that a folder may have no package any more.
func (p *goPackages) lose(uri string) {
	folder, ok := p.folder(uri)
	if !ok {
		return
	}
	p.shifted = true
	p.lost[folder], p.stale = true, true
}

// forget notes that a file is gone.
func (p *goPackages) forget(uri string) {
	if folder, ok := p.folder(uri); ok {
		delete(p.touched[folder], docuri.Canonical(uri))
	}
}

// touch notes that a file was modified.
func (p *goPackages) touch(uri string) {
	folder, ok := p.folder(uri)
	if !ok {
		return
	}
	if p.lost[folder] {
		// Its last package may have gone before this file came.
		delete(p.loaded, folder)
	}
	if p.touched[folder] == nil {
		p.touched[folder] = make(map[string]bool)
	}
	p.touched[folder][docuri.Canonical(uri)] = true
}

// folder returns the folder of a Go file. Another file that gopls hears about
// decides about modules, so what is loaded may change as a whole.
func (p *goPackages) folder(uri string) (string, bool) {
	file, ok := docuri.Path(uri)
	if !ok || path.Base(file) == goplsProbe {
		return "", false
	}
	switch path.Ext(file) {
	case ".go":
		return path.Dir(file), true
	case ".mod", ".work", ".sum":
		p.reset()
	}
	return "", false
}

// unsure returns the modified files in folders without a loaded package, sorted.
func (p *goPackages) unsure() []string {
	var files []string
	for folder, uris := range p.touched {
		if p.loaded[folder] {
			continue
		}
		for uri := range uris {
			files = append(files, uri)
		}
	}
	slices.Sort(files)
	return files
}

// settled notes that all modified files have been diagnosed. texts are those of
// the open documents.
func (p *goPackages) settled(documents []Document) {
	clear(p.touched)
	for _, d := range documents {
		uri := docuri.Canonical(d.URI)
		if p.header[uri] == math.MaxUint32 {
			p.header[uri] = headerLines(d.Text)
		}
	}
}

// goplsPackages is the answer to the command gopls.packages.
type goplsPackages struct {
	Packages []struct{ Path, ForTest, ModulePath string }
	Module   map[string]struct{ GoMod string }
}

// answered takes what is loaded now.
func (p *goPackages) answered(all goplsPackages) {
	clear(p.loaded)
	clear(p.lost)
	p.stale = false
	for _, k := range all.Packages {
		name := k.Path
		if k.ForTest != "" {
			name = k.ForTest // its external test lies in the same folder
		}
		top, ok := docuri.Path(all.Module[k.ModulePath].GoMod)
		below, inside := strings.CutPrefix(name+"/", k.ModulePath+"/")
		if ok && inside && k.ModulePath != "" {
			p.loaded[path.Join(path.Dir(top), below)] = true
		}
	}
}

// goplsProbe is the name of the document that the barrier opens for a moment. It
// is never on a disk.
const goplsProbe = "shadowlsp_probe.go"

// headerLines returns the number of the first line of a Go file that begins a
// declaration other than an import.
func headerLines(text string) uint32 {
	var line uint32
	for rest := text; rest != ""; line++ {
		var this string
		this, rest, _ = strings.Cut(rest, "\n")
		for _, word := range []string{"func", "type", "var", "const"} {
			after, ok := strings.CutPrefix(this, word)
			if ok && after != "" && strings.ContainsAny(after[:1], " \t(") {
				return line
			}
		}
	}
	return math.MaxUint32 - 1 // an edit anywhere may be one of the imports
}
