package agent

import (
	"encoding/json"
	"errors"
	"fmt"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
)

// document is one open document of a connection.
type document struct {
	Document        // as the agent has it; URI is canonical
	spelled  string // the URI as the agent spells it: what it is told things under
	serial   uint64 // one per text: the agent may use a version twice

	// handed: the Session has it open, in whatever text.
	handed bool
	// why is set while the branch does not hold what the agent has.
	why error
	// diverged: why may make answers about other documents wrong as well.
	diverged bool
	// lost: even Text is not what the agent has; only a whole text heals that.
	lost bool

	// What was published last; nil: nothing.
	published *publication
}

type publication struct {
	version int32
	hash    string
}

// documents are the open documents of a connection: a value without locks or
// calls, owned by the dispatcher.
type documents struct {
	maxCount, maxBytes int

	byURI  map[string]*document
	ill    map[string]*document // those with why set
	texts  int                  // documents that are not lost
	bytes  int                  // of all texts
	serial uint64
}

func newDocuments(l Limits) documents {
	return documents{maxCount: l.Documents, maxBytes: l.TextBytes, byURI: map[string]*document{}, ill: map[string]*document{}}
}

// canonical is the spelling under which documents are compared.
func canonical(uri string) string {
	if p, ok := docuri.Path(uri); ok {
		return docuri.FromPath(p)
	}
	return docuri.Canonical(uri)
}

// open enters a document, or gives an open one a whole new text. The error, if
// any, is also the document's why.
func (ds *documents) open(spelled, language string, version int32, content string) (*document, error) {
	uri := canonical(spelled)
	d := ds.byURI[uri]
	if d == nil {
		// Past the limit a document is still entered, without its text, so that
		// questions about it are refused; past twice the limit no more.
		if len(ds.byURI) >= 2*ds.maxCount {
			return nil, ds.tooMany(spelled)
		}
		d = &document{Document: Document{URI: uri}, lost: true}
		ds.byURI[uri] = d
	}
	d.spelled, d.LanguageID, d.Version = spelled, language, version
	return d, ds.setText(d, content)
}

// change applies a didChange. d is nil where no document is open; the error, if
// any, is also d's why.
func (ds *documents) change(spelled string, version *int32, changes []text.Change) (*document, error) {
	d := ds.byURI[canonical(spelled)]
	if d == nil {
		return nil, wire.Errorf(wire.CodeInvalidRequest, "didChange %s: the document is not open: send didOpen first", spelled)
	}
	if version != nil && *version < d.Version {
		return d, ds.lose(d, wire.Errorf(wire.CodeInvalidRequest, "didChange %s: version %d comes after version %d: %s", spelled, *version, d.Version, heal))
	}
	if version != nil {
		d.Version = *version
	}
	if d.lost {
		whole := -1
		for i, c := range changes {
			if c.Range == nil {
				whole = i
			}
		}
		if whole < 0 {
			return d, d.why
		}
		changes = changes[whole:]
	}
	content, err := text.Apply(d.Text, changes)
	if err != nil {
		return d, ds.lose(d, wire.Errorf(wire.CodeInvalidParams, "didChange %s: %v: %s", spelled, err, heal))
	}
	return d, ds.setText(d, content)
}

// heal says what an agent does about a lost text.
const heal = "its edits are not taken and it is not linted until a change brings the whole text, or it is closed"

// setText gives d a text within the limit on all texts.
func (ds *documents) setText(d *document, content string) error {
	if total := ds.bytes - len(d.Text) + len(content); total > ds.maxBytes {
		return ds.lose(d, OverLimit("text", int64(ds.maxBytes), "%s: the open documents would take %d bytes, %d are allowed: %s", d.spelled, total, ds.maxBytes, heal))
	}
	if d.lost {
		if ds.texts >= ds.maxCount {
			return ds.lose(d, ds.tooMany(d.spelled))
		}
		ds.texts++
	}
	ds.bytes += len(content) - len(d.Text)
	ds.serial++
	d.Text, d.serial, d.lost = content, ds.serial, false
	return nil
}

func (ds *documents) tooMany(spelled string) error {
	return OverLimit("max-documents", int64(ds.maxCount), "%s: %d documents are open in this connection, which is the limit (--max-documents): close some, then open it again", spelled, ds.maxCount)
}

// lose forgets d's text, since the agent's is another.
func (ds *documents) lose(d *document, why error) error {
	if !d.lost {
		ds.texts--
	}
	ds.bytes -= len(d.Text)
	ds.serial++
	d.Text, d.serial, d.lost = "", ds.serial, true
	ds.setWhy(d, why, true)
	return why
}

// setWhy notes why the branch does not hold d as the agent has it; nil: it does.
func (ds *documents) setWhy(d *document, why error, diverged bool) {
	d.why, d.diverged = why, diverged && why != nil
	if why == nil {
		delete(ds.ill, d.URI)
		return
	}
	ds.ill[d.URI] = d
}

// remove closes d.
func (ds *documents) remove(d *document) {
	if !d.lost {
		ds.texts--
	}
	ds.bytes -= len(d.Text)
	delete(ds.byURI, d.URI)
	delete(ds.ill, d.URI)
}

// find returns the open document of that URI in any spelling, or nil.
func (ds *documents) find(uri string) *document { return ds.byURI[canonical(uri)] }

// refuse returns why a question with these params cannot be answered, or nil:
// it names a document that the branch does not hold as the agent has it, or
// some document has diverged, which any answer may depend on.
func (ds *documents) refuse(params json.RawMessage) *wire.Error {
	if len(ds.ill) == 0 {
		return nil
	}
	for _, d := range ds.ill {
		if d.diverged {
			return refusal(d)
		}
	}
	raw, ok := lookup(params, "textDocument", "uri")
	var uri string
	if !ok || json.Unmarshal(raw, &uri) != nil {
		return nil
	}
	if d := ds.ill[canonical(uri)]; d != nil {
		return refusal(d)
	}
	return nil
}

func refusal(d *document) *wire.Error {
	e := wire.Errorf(wire.CodeRequestFailed, "the branch does not hold %s as you have it: %v", d.spelled, d.why)
	var cause *wire.Error
	if errors.As(d.why, &cause) {
		e.Data = cause.Data // which limit it is, say
	}
	return e
}

// check returns the first broken invariant. Tests call it after every message.
func (ds *documents) check() error {
	bytes, texts := 0, 0
	for uri, d := range ds.byURI {
		bytes += len(d.Text)
		if !d.lost {
			texts++
		}
		if uri != d.URI || uri != canonical(d.spelled) {
			return fmt.Errorf("%q is entered as %q", d.URI, uri)
		}
		if (d.why != nil) != (ds.ill[uri] == d) {
			return fmt.Errorf("%q: why is %v, ill says otherwise", uri, d.why)
		}
		if (d.lost || d.diverged) && d.why == nil {
			return fmt.Errorf("%q: lost or diverged for no reason", uri)
		}
	}
	if bytes != ds.bytes || texts != ds.texts || len(ds.ill) > len(ds.byURI) {
		return fmt.Errorf("%d bytes in %d texts counted, %d in %d there; %d ill of %d",
			ds.bytes, ds.texts, bytes, texts, len(ds.ill), len(ds.byURI))
	}
	return nil
}
