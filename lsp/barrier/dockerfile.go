package barrier

import (
	"context"
	"fmt"

	"shadowlsp/lsp/docuri"
)

// dockerfile is the profile of dockerfile-language-server-nodejs.
func dockerfile() Profile {
	return Profile{
		Name:      "dockerfile",
		Commands:  []string{"docker-langserver", "dockerfile-language-server-nodejs"},
		Languages: []Language{{"Dockerfile", "dockerfile"}, {"Containerfile", "dockerfile"}, {".dockerfile", "dockerfile"}},
		OpenOnly:  true,
		New: func(h Host) Barrier {
			return &promptBarrier{host: h, server: "dockerfile", published: map[string]bool{}}
		},
	}
}

// promptBarrier is for servers that publish a document's diagnostics while they
// handle its opening or change, each time, or, where they have to ask for the
// configuration first, while they handle the answer to that. What such a server
// publishes stands before its answer to a request that came later. So it is
// final when a request was answered since the last modification, between whose
// sending and answer the server has not asked for its configuration, and each
// document was published since it was opened.
//
// dockerfile-language-server-nodejs 0.15.0 does so (lib/server.js,
// validateTextDocument): a document stands for itself, there is no delay, and
// nothing is read from the disk.
type promptBarrier struct {
	host   Host
	server string

	watch     watch           // guards the fields below
	published map[string]bool // documents that were published since they were opened
	asked     int             // requests for the configuration
}

// Observe implements Barrier.
func (p *promptBarrier) Observe(e Event) {
	p.watch.update(func() {
		switch {
		case e.Sent && e.Msg.Method == "textDocument/didOpen":
			delete(p.published, uriOf(e.Msg.Params, "textDocument", "uri"))
		case e.Sent:
		case e.Msg.Method == "textDocument/publishDiagnostics":
			p.published[uriOf(e.Msg.Params, "uri")] = true
		case e.Msg.Method == "workspace/configuration":
			p.asked++
		}
	})
}

// Ready implements Barrier: there is nothing to load.
func (p *promptBarrier) Ready(context.Context) error { return nil }

// Idle implements Barrier.
func (p *promptBarrier) Idle(context.Context) error { return nil }

// maxAsked bounds how often the configuration may be asked for in a row. One
// modification is answered by one question.
const maxAsked = 10

// Final implements Barrier.
func (p *promptBarrier) Final(ctx context.Context, uris []string) (Result, error) {
	r := Result{Barrier: "round trip", Items: map[string]Item{}}
	return r, wrap(p.server, "final", p.final(ctx, uris, r.Items))
}

func (p *promptBarrier) final(ctx context.Context, uris []string, items map[string]Item) error {
	quiet := false
	for range maxAsked {
		var before, after int
		p.watch.view(func() { before = p.asked })
		if err := roundTrip(ctx, p.host); err != nil {
			return err
		}
		p.watch.view(func() { after = p.asked })
		if quiet = before == after; quiet {
			break
		}
	}
	if !quiet {
		return fmt.Errorf("it asks for its configuration again and again")
	}
	open := map[string]bool{}
	for _, d := range p.host.Documents() {
		open[docuri.Canonical(d.URI)] = true
	}
	if len(uris) == 0 {
		for uri := range open {
			uris = append(uris, uri)
		}
	}
	var missing error
	for _, uri := range uris {
		var published bool
		p.watch.view(func() { published = p.published[uri] })
		found, ok := p.host.Published(uri)
		switch {
		case !open[uri]:
			missing = kinded(Unsupported, fmt.Errorf("%s is not open", uri))
		case !ok || !published:
			missing = kinded(Partial, fmt.Errorf("it has published nothing about %s", uri))
		default:
			items[uri] = Item{Diagnostics: found.Diagnostics}
		}
	}
	return missing
}
