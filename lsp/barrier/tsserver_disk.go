package barrier

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// tsDisk is the news of files that tsserver may not have taken in yet. It is
// pure, but for its caller's lock.
type tsDisk struct {
	serial  uint64            // counts news
	news    map[string]tsNews // by path
	shifted map[string]bool   // paths whose news decide about projects
}

// tsNews is what happened to one file.
type tsNews struct {
	appeared bool // or went: whether it is there decides about resolution
	closed   bool // its document was closed behind the news
}

// Kinds of FileEvent.
const (
	fileCreated = 1
	fileChanged = 2
	fileDeleted = 3
)

// maxTSReloads is how many files are read anew one by one; beyond it the
// projects are loaded anew, which asks for the times of all their files.
const maxTSReloads = 100

// tsConfig are files whose existence decides which project a file belongs to.
var tsConfig = regexp.MustCompile(`^[jt]sconfig(\..*)?\.json$`)

func newTSDisk() tsDisk { return tsDisk{news: make(map[string]tsNews), shifted: make(map[string]bool)} }

// observe takes a notification that is sent.
func (d *tsDisk) observe(m wire.Message) {
	switch m.Method {
	case "workspace/didChangeWatchedFiles":
		var p struct {
			Changes []struct {
				URI  string `json:"uri"`
				Type int    `json:"type"`
			} `json:"changes"`
		}
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		for _, c := range p.Changes {
			if file, ok := docuri.Path(c.URI); ok {
				d.happened(file, c.Type)
			}
		}
	case "textDocument/didClose":
		if file, ok := docuri.Path(uriOf(m.Params, "textDocument", "uri")); ok {
			if n, known := d.news[file]; known {
				n.closed = true
				d.news[file] = n
			}
		}
	}
}

func (d *tsDisk) happened(file string, kind int) {
	n := d.news[file]
	n.appeared = n.appeared || kind != fileChanged
	n.closed = false
	d.news[file] = n
	d.serial++
	if decides(file, kind) {
		d.shifted[file] = true
	}
}

// decides says whether news of a file is about more than its text: about where
// modules are found, or, for a directory that went, about all that was in it.
func decides(file string, kind int) bool {
	base := path.Base(file)
	return base == "package.json" || tsConfig.MatchString(base) || path.Ext(file) == "" && kind != fileChanged ||
		strings.Contains(file, "/node_modules/") || base == "node_modules" ||
		path.Ext(file) == ".json" // it may be what a tsconfig.json extends
}

// tsRepair is what has to be done so that tsserver has taken in the news.
type tsRepair struct {
	serial   uint64
	restart  bool
	projects bool     // load them anew
	files    []string // read them anew, sorted
}

// configures says whether news may be of what tsserver asks the disk about only
// once: whether there is a tsconfig.json (configFileExistenceInfoCache), and what
// stands in a file that one extends, whatever its name.
func configures(file string, n tsNews) bool {
	if strings.Contains(file, "/node_modules/") {
		return false
	}
	base := path.Base(file)
	return path.Ext(file) == "" && n.appeared && base != "node_modules" ||
		tsConfig.MatchString(base) && n.appeared ||
		path.Ext(file) == ".json" && !tsConfig.MatchString(base) && base != "package.json"
}

// repair says what has to be done. watched: the server hands file events to
// tsserver, in order. open are the paths of open documents.
//
// A watched file's text is read anew by the event alone; but one that was open at
// the time of the event is not watched, and closing its document does not read
// the file if tsserver takes its text for the file's (ScriptInfo.close,
// TextStorage.ownFileText). Without events: a changed file is read anew by name,
// what came or went needs the projects to be resolved anew, and what configures
// projects needs a new tsserver.
func (d *tsDisk) repair(watched bool, open map[string]bool) tsRepair {
	r := tsRepair{serial: d.serial}
	for file, n := range d.news {
		switch {
		case d.shifted[file]:
			r.projects = true
			r.restart = r.restart || !watched && configures(file, n)
		case n.appeared && !watched:
			r.projects = true
		case open[file]:
		case watched && !n.closed:
		default:
			r.files = append(r.files, file)
		}
	}
	if len(r.files) > maxTSReloads {
		r.projects = true
	}
	if r.restart || r.projects {
		r.files = nil
	}
	slices.Sort(r.files)
	return r
}

// settled forgets the news that a repair was about, if none came since. What
// changed below an open document is news again when it is closed.
func (d *tsDisk) settled(r tsRepair, open map[string]bool) {
	if d.serial != r.serial {
		return
	}
	clear(d.shifted)
	for file := range d.news {
		if open[file] {
			d.news[file] = tsNews{}
		} else {
			delete(d.news, file)
		}
	}
}
