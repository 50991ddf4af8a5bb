package workspace

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/shadow"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
)

const (
	// maxTurnDocuments bounds how many overridden files are opened in the server
	// for a turn. Beyond it the rest is on disk only, and the server is told by
	// file events: right as well, but not ordered with requests.
	maxTurnDocuments = 200
	// maxTurnDocument bounds the size of a file that is opened for a turn, in
	// bytes: servers treat larger ones specially (or refuse them).
	maxTurnDocument = 4 << 20
)

// branch is one branch as the daemon knows it: its layers, and the text that
// agents hold open on it.
type branch struct {
	name string
	over *overlay.Branch
	gone chan struct{} // closed when it is dropped
	// editing makes reading, computing and writing of an edit one step.
	editing sync.Mutex

	mu sync.Mutex // guards the fields below; overlay is never called under it
	// rev counts everything that can change an answer on this branch: edits of
	// open text, writes into the layer, changes of the person's folder. It only
	// grows.
	rev       uint64
	documents map[string]*document // open in some connection, by path below the root
	sessions  int
	commands  int  // that run in it
	keep      bool // it stays when nobody holds it
	// dirty are the paths that were written since an instance that shows this
	// branch was last told, by instance.
	dirty map[*instance]news
	// lent are files that are open in servers to be linted only, by path, with the
	// lending that named them last; lends counts those that added any.
	lent  map[string]uint64
	lends uint64
	// texts caches what was read of overridden files, by path.
	texts map[string]cachedText
}

// document is a file that some connection holds open.
type document struct {
	uri      string // as the agent that opened it spells it
	language string
	text     string
	// holders are the sessions that hold it open, with their own version numbers.
	holders map[*session]int32
}

// state is what a server was told of a branch's documents.
type state struct {
	rev   uint64
	lends uint64
	// exact: the rest is of this revision, not partly of a later one.
	exact     bool
	content   content
	documents []shadow.Document
	overrides []overlay.Override
	// versions are the documents' versions as each session numbers them, by
	// canonical URI.
	versions map[*session]map[string]int32
}

type cachedText struct {
	stamp uint64 // the override's
	text  string
	ok    bool // it is text that may be opened
}

func newBranch(over *overlay.Branch, keep bool) *branch {
	return &branch{
		name:      over.Name(),
		over:      over,
		keep:      keep,
		gone:      make(chan struct{}),
		documents: map[string]*document{},
		dirty:     map[*instance]news{},
		lent:      map[string]uint64{},
		texts:     map[string]cachedText{},
	}
}

// revision returns the current revision.
func (b *branch) revision() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rev
}

// wrote notes that path changed in the layer; it is the overlay's subscriber.
func (b *branch) wrote(c overlay.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rev++
	for _, n := range b.dirty {
		n.add(c.Path, c.Op == overlay.OpCreate)
	}
}

// newBase notes that the person's folder has changed below the branch.
func (b *branch) newBase() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rev++
}

// watch makes inst hear of writes from now on; unwatch ends it.
func (b *branch) watch(inst *instance) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dirty[inst] = news{}
}

func (b *branch) unwatch(inst *instance) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.dirty, inst)
}

// peekDirty returns what takeDirty would.
func (b *branch) peekDirty(inst *instance) news {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.dirty[inst])
}

// takeDirty returns what was written since the last call.
func (b *branch) takeDirty(inst *instance) news {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.dirty[inst]
	if len(n) > 0 {
		b.dirty[inst] = news{}
	}
	return n
}

// open makes a document of path for one session; others share it.
func (b *branch) open(s *session, path string, d agent.Document) {
	b.mu.Lock()
	defer b.mu.Unlock()
	doc := b.documents[path]
	if doc == nil {
		doc = &document{holders: map[*session]int32{}}
		b.documents[path] = doc
	}
	doc.uri, doc.language, doc.text = d.URI, d.LanguageID, d.Text
	doc.holders[s] = d.Version
	b.rev++
}

// change replaces the text of an open document; s is nil for an edit that is no
// session's own document change.
func (b *branch) change(s *session, path, text string, version int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	doc := b.documents[path]
	if doc == nil {
		return
	}
	if s != nil {
		doc.holders[s] = version
	}
	doc.text = text
	b.rev++
}

// close ends one session's interest in path.
func (b *branch) close(s *session, path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	doc := b.documents[path]
	if doc == nil {
		return
	}
	if delete(doc.holders, s); len(doc.holders) == 0 {
		delete(b.documents, path)
	}
	b.rev++
}

// text returns what the branch shows at path: the open document's text, else the
// file's.
func (b *branch) text(path string) (string, error) {
	b.mu.Lock()
	d := b.documents[path]
	var open string
	if d != nil {
		open = d.text
	}
	b.mu.Unlock()
	if d != nil {
		return open, nil
	}
	data, err := b.over.ReadFile(path)
	return string(data), err
}

// languageOf is what agents that hold a file open call its language, or "".
func (b *branch) languageOf(path string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := b.documents[path]; d != nil {
		return d.language
	}
	return ""
}

// maxLent bounds how many files stay open in servers for lints of them.
const maxLent = 200

// lend has files be open in the servers that diagnose open documents only, from
// the next sync on, until many others have been lent.
func (b *branch) lend(paths []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range paths[:min(len(paths), maxLent)] {
		if _, there := b.lent[p]; !there {
			b.lends++
		}
		b.lent[p] = b.lends
	}
	for len(b.lent) > maxLent {
		oldest := ""
		for p, at := range b.lent {
			if oldest == "" || at < b.lent[oldest] {
				oldest = p
			}
		}
		delete(b.lent, oldest)
	}
}

// current says whether st is what a server is to be told now.
func (b *branch) current(st state) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rev == st.rev && b.lends == st.lends
}

// maxLooks bounds how often a branch that is being written to is looked at for one
// exact state; then the next sync looks again.
const maxLooks = 3

// state returns the documents that the server of p must have open for a turn on
// this branch: what agents hold open, and every overridden text file, of those that
// it takes, and what it was lent. Sorted by URI.
func (b *branch) state(p *pool) (st state, err error) {
	for range maxLooks {
		if st, err = b.look(p); err != nil {
			return state{}, err
		}
		if st.content = contentOf(b.over, st.documents); b.current(st) {
			st.exact = true
			break
		}
	}
	return st, nil
}

// look is state where nothing is written meanwhile. The revision is at most that of
// the text.
func (b *branch) look(p *pool) (state, error) {
	root := p.d.root
	b.mu.Lock()
	st := state{rev: b.rev, lends: b.lends, versions: map[*session]map[string]int32{}}
	b.mu.Unlock()
	overrides, err := b.over.Overrides()
	if err != nil {
		return state{}, err
	}
	b.mu.Lock()
	docs := make([]shadow.Document, 0, len(b.documents)+len(overrides))
	open := make(map[string]bool, len(b.documents))
	for path, d := range b.documents {
		for s, version := range d.holders {
			if st.versions[s] == nil {
				st.versions[s] = map[string]int32{}
			}
			st.versions[s][docuri.Canonical(d.uri)] = version
		}
		open[path] = true
		id, ok := p.language(path, d.language, func() string { return d.text })
		if !ok {
			continue
		}
		docs = append(docs, shadow.Document{URI: d.uri, LanguageID: id, Text: d.text})
	}
	var lent []string
	if p.profile().OpenOnly {
		lent = slices.Collect(maps.Keys(b.lent))
	}
	b.mu.Unlock()
	for _, o := range overrides {
		if o.Kind != overlay.Regular || open[o.Path] || len(docs) >= maxTurnDocuments {
			continue
		}
		id, ok := p.language(o.Path, "", func() string {
			text, _, _ := b.overrideText(o) // what cannot be read is found below
			return text
		})
		if !ok {
			continue
		}
		open[o.Path] = true
		text, ok, err := b.overrideText(o)
		if err != nil {
			return state{}, err
		}
		if ok {
			docs = append(docs, shadow.Document{URI: docuri.FromPath(filepath.Join(root, o.Path)), LanguageID: id, Text: text})
		}
	}
	for _, path := range lent {
		data, err := b.over.ReadFile(path)
		if err != nil || open[path] || len(data) > maxTurnDocument || !utf8.Valid(data) {
			continue // gone, or nothing that is diagnosed
		}
		if id, ok := p.language(path, "", func() string { return string(data) }); ok {
			docs = append(docs, shadow.Document{URI: docuri.FromPath(filepath.Join(root, path)), LanguageID: id, Text: string(data)})
		}
	}
	sort.Slice(docs, func(i, j int) bool { return docs[i].URI < docs[j].URI })
	st.documents, st.overrides = docs, overrides
	return st, nil
}

// overrideText reads an overridden file, once per content version.
func (b *branch) overrideText(o overlay.Override) (text string, ok bool, err error) {
	b.mu.Lock()
	c, cached := b.texts[o.Path]
	b.mu.Unlock()
	if cached && c.stamp == o.Stamp {
		return c.text, c.ok, nil
	}
	c = cachedText{stamp: o.Stamp}
	data, err := b.over.ReadFile(o.Path)
	switch {
	case overlay.KindOf(err) == overlay.NotExist:
		return "", false, nil // it went away meanwhile, and the change is noted
	case err != nil:
		return "", false, err
	case len(data) <= maxTurnDocument && utf8.Valid(data):
		c.text, c.ok = string(data), true
	}
	b.mu.Lock()
	b.texts[o.Path] = c
	b.mu.Unlock()
	return c.text, c.ok, nil
}

// relative returns path's place below root, for a path that an agent named. A
// path that reaches the root through a symbolic link outside it is found too.
func relative(root, path string) (string, error) {
	if path == root {
		return "", nil
	}
	if rel, ok := strings.CutPrefix(path, root+"/"); ok {
		return rel, nil
	}
	// The longest existing part decides: a new file has none of its own.
	for at, rest := path, ""; at != "/"; {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			if rel, ok := strings.CutPrefix(filepath.Join(real, rest)+"/", root+"/"); ok {
				return strings.TrimSuffix(rel, "/"), nil
			}
			break
		}
		if !errors.Is(err, os.ErrNotExist) {
			break
		}
		rest = filepath.Join(filepath.Base(at), rest)
		at = filepath.Dir(at)
	}
	return "", wire.Errorf(wire.CodeInvalidParams, "%s is outside the workspace %s: a branch holds files below it only", path, root)
}

// relativeURI is relative for a document URI.
func relativeURI(root, uri string) (string, error) {
	path, ok := docuri.Path(uri)
	if !ok {
		return "", wire.Errorf(wire.CodeInvalidParams, "%q is not the URI of a local file", uri)
	}
	return relative(root, path)
}

// holds says whether an agent holds a file open.
func (b *branch) holds(path string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.documents[path] != nil
}

// held are the files that agents hold open.
func (b *branch) held() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.documents))
}
