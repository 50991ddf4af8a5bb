package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"path"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// pyrightEvaluator is what is known of the types that pyright has in its cache. It
// is part of what pyrightBarrier's watch guards.
//
// What pyright infers depends on the order in which it looks at things: where
// functions without annotations go round in a circle, on which of them it comes
// upon first (typeEvaluator.ts, inferReturnTypeIfNecessary; codeFlowEngine.ts). All
// that it has inferred stays until any document is changed, which makes it begin with
// an empty cache (program.ts, markFilesDirty, _createNewEvaluator); what it has found
// in a document stays until that one, or one that it imports, is changed. So a
// document's diagnostics depend on what was asked before, by whomever, unless the
// cache was empty when it was checked. Then they are what a fresh server says that has
// been shown this document first.
type pyrightEvaluator struct {
	// used says that something was asked since the cache was empty, and changed
	// is the document whose change emptied it.
	used    bool
	changed string
	// tainted are documents that were checked with a cache that was in use.
	tainted map[string]bool
}

// sentLocked takes a message to the server into the books.
func (p *pyrightBarrier) sentLocked(m wire.Message) {
	uri := func() string { return uriOf(m.Params, "textDocument", "uri") }
	switch {
	case m.Method == "textDocument/didChange":
		p.evaluator.used, p.evaluator.changed = false, uri()
		delete(p.evaluator.tainted, p.evaluator.changed)
	case m.Kind != wire.Request:
	case m.Method == "textDocument/diagnostic":
		if of := uri(); !p.emptyLocked(of) {
			p.evaluator.tainted[of] = true
		}
		p.evaluator.used = true
	default:
		p.evaluator.used = true
	}
}

// emptyLocked says whether a document would be checked with an empty cache. Each
// workspace folder has one of its own: of several only those of the changed
// document's are known to be empty.
func (p *pyrightBarrier) emptyLocked(uri string) bool {
	return !p.evaluator.used && (len(p.host.Folders()) < 2 || p.evaluator.changed == uri)
}

// pyrightTries bounds how often a document is checked again because something
// else was asked at the same time.
const pyrightTries = 5

// check pulls a document that it has checked with an empty cache.
func (p *pyrightBarrier) check(ctx context.Context, uri string, identifier json.RawMessage) (json.RawMessage, error) {
	for range pyrightTries {
		if err := p.empty(ctx, uri); err != nil {
			return nil, err
		}
		found, err := pull(ctx, p.host, uri, identifier)
		if err != nil {
			return nil, err
		}
		tainted := false
		p.watch.view(func() { tainted = p.evaluator.tainted[docuri.Canonical(uri)] })
		if !tainted {
			return found, nil
		}
	}
	return nil, kinded(Partial, errors.New("other requests kept coming in between"))
}

// empty has it drop the types that it has inferred, and with them what it has
// found in the document where that was found with others in the cache.
//
// A document of no consequence is enough to drop types: it is no Python file by
// its name and nobody imports it, so that everything else that is known stays. To
// send the document itself again drops what was found in it, too, and in all that
// imports it.
func (p *pyrightBarrier) empty(ctx context.Context, uri string) error {
	var empty, again bool
	p.watch.view(func() {
		of := docuri.Canonical(uri)
		empty = p.emptyLocked(of)
		again = p.evaluator.tainted[of] || len(p.host.Folders()) > 1
	})
	switch {
	case again:
		return p.host.Resend(ctx, uri, nil)
	case empty:
		return nil
	}
	nothing := map[string]any{"uri": path.Dir(uri) + "/.shadowlsp", "languageId": "python", "version": 1, "text": ""}
	return errors.Join(
		p.host.Notify(ctx, "textDocument/didOpen", map[string]any{"textDocument": nothing}),
		p.host.Notify(ctx, "textDocument/didChange", map[string]any{
			"textDocument": nothing, "contentChanges": []map[string]string{{"text": "\n"}},
		}),
		p.host.Notify(ctx, "textDocument/didClose", map[string]any{"textDocument": nothing}),
	)
}
