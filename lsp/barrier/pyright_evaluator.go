package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// pyrightEvaluator is what is known of what pyright keeps between two checks. It is
// part of what pyrightBarrier's watch guards.
//
// What pyright infers depends on the order in which it looks at things: where
// functions without annotations go round in a circle, on which of them it comes
// upon first (typeEvaluator.ts, inferReturnTypeIfNecessary; codeFlowEngine.ts). It
// keeps two things that come of that:
//
//   - all types that it has inferred, until any document is changed (program.ts,
//     markFilesDirty, _createNewEvaluator);
//   - what it had to complain of in a document while it answered a question about
//     another: that waits with the document (typeEvaluator.ts,
//     addDiagnosticWithSuppressionCheck, into the file's diagnosticSink) and is told
//     with what its check finds (sourceFile.ts, check, fetchAndClear), until the
//     document itself is changed (bind).
//
// So a document's diagnostics depend on what was asked before, by whomever, unless it
// was changed, or sent again, right before it was checked. Then they are what a fresh
// server says that has been shown this document first.
type pyrightEvaluator struct {
	// unasked are the documents that were changed since anything was asked.
	unasked map[string]bool
	// fresh are those of which the last check was one of an unasked document.
	fresh map[string]bool
}

func newPyrightEvaluator() pyrightEvaluator {
	return pyrightEvaluator{unasked: map[string]bool{}, fresh: map[string]bool{}}
}

// sentLocked takes a message to the server into the books.
func (e *pyrightEvaluator) sentLocked(m wire.Message) {
	switch {
	case m.Method == "textDocument/didChange":
		e.unasked[uriOf(m.Params, "textDocument", "uri")] = true
	case m.Method == "textDocument/didClose":
		uri := uriOf(m.Params, "textDocument", "uri")
		delete(e.unasked, uri)
		delete(e.fresh, uri)
	case m.Kind == wire.Request && asksPyright(m):
		if m.Method == "textDocument/diagnostic" {
			uri := uriOf(m.Params, "textDocument", "uri")
			e.fresh[uri] = e.unasked[uri]
		}
		clear(e.unasked)
	}
}

// asksPyright says whether a request has it look at any document.
func asksPyright(m wire.Message) bool {
	return !strings.HasPrefix(m.Method, "shadowlsp/") &&
		!strings.HasSuffix(uriOf(m.Params, "textDocument", "uri"), "/"+pyrightNowhere)
}

// pyrightTries bounds how often a document is checked again because something
// else was asked at the same time.
const pyrightTries = 5

// check pulls a document that was changed, or sent again, since anything was asked.
func (p *pyrightBarrier) check(ctx context.Context, uri string, identifier json.RawMessage) (json.RawMessage, error) {
	of := docuri.Canonical(uri)
	for range pyrightTries {
		var unasked, fresh bool
		if p.watch.view(func() { unasked = p.evaluator.unasked[of] }); !unasked {
			if err := p.host.Resend(ctx, uri, nil); err != nil {
				return nil, err
			}
		}
		found, err := pull(ctx, p.host, uri, identifier)
		if err != nil {
			return nil, err
		}
		if p.watch.view(func() { fresh = p.evaluator.fresh[of] }); fresh {
			return found, nil
		}
	}
	return nil, kinded(Partial, errors.New("other requests kept coming in between"))
}
