package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// typescript7 is the profile of TypeScript 7's own server (tsc --lsp --stdio).
func typescript7() Profile {
	return Profile{
		Name:        "typescript7",
		Commands:    []string{"tsc", "tsc7", "tsgo"},
		ServerNames: []string{"typescript-go"},
		Languages:   tsLanguages,
		Initialize: []Edit{
			pulled,
			// What it publishes about tsconfig.json has no end that could be
			// seen, and an order of its own.
			{Path: []string{"initializationOptions", "disablePushDiagnostics"}, Value: Raw(true)},
		},
		AllFiles: true,
		// It can be asked about any file. But one that is not open it looks up in
		// the project that some earlier question has had it load, where there is
		// one, and not in that of the nearest tsconfig.json: what it says would
		// depend on what was asked before.
		OpenOnly: true,
		New:      func(h Host) Barrier { return typescript7Barrier{host: h} },
	}
}

// typescript7Barrier pulls. Read in microsoft/typescript-go (internal/lsp/
// server.go, internal/project/session.go), tried with typescript 7.0.2:
//
//   - Messages are taken one at a time. Those that change something are handled
//     before the next is looked at (dispatchLoop, isBlockingMethod): an edit or
//     the news of a file is put on a list.
//   - A pull is answered from a snapshot into which that list has gone first
//     (GetLanguageService), for whatever file, open or not: the project that it
//     belongs to is loaded if need be, within the request. So there is nothing
//     to wait for before, and nothing comes later.
//   - News of files count whatever was registered. They are all told, because
//     what is to be watched is registered in the background, behind the answer
//     from which it follows.
//
// It would publish for tsconfig.json alone, when it likes: it is told not to, so
// errors of options are not handed out. Without uris the answer is about the open documents: it does not tell which
// other files its projects have.
type typescript7Barrier struct{ host Host }

// Observe implements Barrier.
func (typescript7Barrier) Observe(Event) {}

// Ready implements Barrier: projects are loaded by the question.
func (t typescript7Barrier) Ready(context.Context) error { return nil }

// Idle implements Barrier.
func (typescript7Barrier) Idle(context.Context) error { return nil }

// Final implements Barrier.
func (t typescript7Barrier) Final(ctx context.Context, uris []string) (Result, error) {
	r := Result{Barrier: rungPull, Items: make(map[string]Item)}
	return r, wrap("typescript7", "final", t.final(ctx, uris, r.Items))
}

func (t typescript7Barrier) final(ctx context.Context, uris []string, items map[string]Item) error {
	open := make(map[string]string)
	for _, d := range t.host.Documents() {
		open[docuri.Canonical(d.URI)] = d.URI
	}
	if len(uris) == 0 {
		for uri := range open {
			uris = append(uris, uri)
		}
		slices.Sort(uris)
	}
	var missing error
	for _, uri := range uris {
		sent, ok := open[uri]
		file, isFile := docuri.Path(uri)
		if _, takes := (Profile{Languages: tsLanguages}).Language(file); !ok && (!isFile || !takes) {
			// It does not answer at all about what it does not know.
			missing = kinded(Unsupported, fmt.Errorf("%s is no document of this server", uri))
			continue
		}
		if !ok {
			sent = uri
		}
		found, err := pull(ctx, t.host, sent, Raw("typescript"))
		if e := (*wire.Error)(nil); errors.As(err, &e) && strings.Contains(e.Message, "no project found") {
			missing = kinded(Unsupported, fmt.Errorf("%s is in no project: it has to be opened", uri))
			continue
		}
		if err != nil {
			return err
		}
		items[uri] = Item{Diagnostics: found}
	}
	return missing
}
