package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// settledBarrier is for servers that check a document for itself, a while after
// its last change, and publish exactly once for it. What proves that a publish is
// the one for the last change is the server's own: see settledProof. Such a
// server does not look at a document again because a file has changed that it
// reads for it, so it is nudged: it is sent the document's text once more.
type settledBarrier struct {
	host   Host
	server string
	proof  settledProof

	watch watch // guards the fields below
	ready bool
	docs  map[string]*settledDocument // open ones, by canonical URI
	gone  map[string]*settledDocument // closed ones that it may still publish
	// reset says that settings were sent: it may not have asked for them yet.
	reset  bool
	nudges int32 // counts them
	// failures counts them; failure is the last.
	failures int
	failure  string
}

// settledProof is what is known about one server.
type settledProof struct {
	// name is for reports.
	name string
	// versions says that a publish carries the version of the text it is about.
	versions bool
	// starts returns the document that a request of the server begins to check;
	// "" for other requests. Needed where there are no versions.
	starts func(wire.Message) string
	// fails returns what a notification says of a check that failed, "" for
	// others. It comes before the publish that then holds less than it should.
	fails func(wire.Message) string
	// reads says whether a document's diagnostics may depend on a file.
	reads func(d Document, file string) bool
}

// settledDocument is one open document.
type settledDocument struct {
	version int32 // of the text that was sent last
	done    int32 // of the last publish, with versions
	// sent, started and ended count texts that were sent, checks that began and
	// publishes. Each check is published once, and so is the closing.
	sent, started, ended int
	closings             int
	before               int  // started, when the last text was sent
	answered             int  // sent, when a request was answered before any check began
	stale                bool // something that it depends on is newer
	// mixed says that a check began while another was under way: which of the two
	// publishes came last is not known.
	mixed bool
}

func newSettled(h Host, server string, p settledProof) *settledBarrier {
	return &settledBarrier{
		host: h, server: server, proof: p,
		docs: make(map[string]*settledDocument), gone: make(map[string]*settledDocument),
	}
}

// Observe implements Barrier.
func (s *settledBarrier) Observe(e Event) {
	s.watch.update(func() {
		switch {
		case e.Sent:
			s.observeSent(e.Msg)
		case e.Msg.Method == "textDocument/publishDiagnostics":
			s.published(e.Msg)
		case e.Msg.Kind == wire.Request && s.proof.starts != nil:
			if d := s.either(docuri.Canonical(s.proof.starts(e.Msg))); d != nil {
				d.mixed = d.mixed || d.ended != d.started+d.closings
				d.started++
			}
		case s.proof.fails != nil:
			if why := s.proof.fails(e.Msg); why != "" {
				s.failures, s.failure = s.failures+1, why
			}
		}
	})
}

func (s *settledBarrier) observeSent(m wire.Message) {
	switch m.Method {
	case "textDocument/didOpen", "textDocument/didChange":
		uri := uriOf(m.Params, "textDocument", "uri")
		d := s.docs[uri]
		if d == nil {
			if d = s.gone[uri]; d == nil {
				d = &settledDocument{}
			}
			delete(s.gone, uri)
			s.docs[uri] = d
		}
		raw, _ := Lookup(m.Params, "textDocument", "version")
		d.version, d.stale = number(raw), false
		d.sent++
		d.before, d.mixed = d.started, false
	case "textDocument/didClose":
		uri := uriOf(m.Params, "textDocument", "uri")
		if d := s.docs[uri]; d != nil {
			d.closings++
			s.gone[uri] = d
			delete(s.docs, uri)
		}
	case "workspace/didChangeConfiguration":
		s.reset = true
		for _, d := range s.docs {
			d.stale = true
		}
	}
}

func (s *settledBarrier) published(m wire.Message) {
	d := s.either(uriOf(m.Params, "uri"))
	if d == nil {
		return
	}
	d.ended++
	if raw, ok := Lookup(m.Params, "version"); ok {
		d.done = number(raw)
	}
}

// either returns a document, open or closed.
func (s *settledBarrier) either(uri string) *settledDocument {
	if d := s.docs[uri]; d != nil {
		return d
	}
	return s.gone[uri]
}

// Touched implements Toucher.
func (s *settledBarrier) Touched(files []File) {
	open := s.host.Documents()
	s.watch.update(func() {
		for _, d := range open {
			known := s.docs[docuri.Canonical(d.URI)]
			if known == nil || known.stale {
				continue
			}
			own, _ := docuri.Path(d.URI)
			for _, f := range files {
				if f.Path != own && s.proof.reads(d, f.Path) {
					known.stale = true
					break
				}
			}
		}
	})
}

// Ready implements Barrier: it has its settings. It asks for them while it
// handles "initialized", so they have been asked for when one request is
// answered, and taken when another is.
func (s *settledBarrier) Ready(ctx context.Context) error {
	var ready bool
	s.watch.view(func() { ready = s.ready })
	if ready {
		return nil
	}
	if err := s.settings(ctx); err != nil {
		return wrap(s.server, "ready", err)
	}
	s.watch.update(func() { s.ready = true })
	return nil
}

// settings returns when the server has taken its settings.
func (s *settledBarrier) settings(ctx context.Context) error {
	if err := roundTrip(ctx, s.host); err != nil {
		return err
	}
	return roundTrip(ctx, s.host)
}

// reconfigured returns when it has taken settings that were sent since.
func (s *settledBarrier) reconfigured(ctx context.Context) error {
	var reset bool
	if s.watch.view(func() { reset = s.reset }); !reset {
		return nil
	}
	if err := s.settings(ctx); err != nil {
		return err
	}
	s.watch.update(func() { s.reset = false })
	return nil
}

// Idle implements Barrier: a check that still runs is of its document alone.
func (s *settledBarrier) Idle(context.Context) error { return nil }

// Final implements Barrier.
func (s *settledBarrier) Final(ctx context.Context, uris []string) (Result, error) {
	r := Result{Barrier: s.proof.name, Items: make(map[string]Item)}
	return r, wrap(s.server, "final", s.final(ctx, uris, r.Items))
}

func (s *settledBarrier) final(ctx context.Context, uris []string, items map[string]Item) error {
	ctx, cancel := context.WithTimeoutCause(ctx, signalLimit, fmt.Errorf("it has not published what was changed last after %v", signalLimit))
	defer cancel()
	if err := s.reconfigured(ctx); err != nil {
		return err
	}
	open := make(map[string]Document)
	for _, d := range s.host.Documents() {
		open[docuri.Canonical(d.URI)] = d
	}
	if len(uris) == 0 {
		for uri := range open {
			uris = append(uris, uri)
		}
	}
	failures, _ := s.failed()
	// All are nudged before one is waited for: each waits for its own delay.
	for _, uri := range uris {
		if d, ok := open[uri]; ok {
			if err := s.refresh(ctx, uri, d); err != nil {
				return err
			}
		}
	}
	var missing error
	for _, uri := range uris {
		d, ok := open[uri]
		if !ok {
			missing = kinded(Unsupported, fmt.Errorf("%s is not open", uri))
			continue
		}
		if err := s.settle(ctx, uri, d); err != nil {
			return err
		}
		if after, why := s.failed(); after != failures {
			return fmt.Errorf("its check failed: %.300s", why)
		}
		p, _ := s.host.Published(uri)
		items[uri] = Item{Diagnostics: p.Diagnostics}
	}
	return missing
}

func (s *settledBarrier) failed() (count int, why string) {
	s.watch.view(func() { count, why = s.failures, s.failure })
	return count, why
}

// refresh nudges a document that depends on what is newer.
func (s *settledBarrier) refresh(ctx context.Context, uri string, d Document) error {
	var stale bool
	s.watch.view(func() {
		known := s.docs[uri]
		stale = known != nil && known.stale
	})
	if !stale {
		return nil
	}
	return s.nudge(ctx, d)
}

// nudge sends a document's text once more, under a version that no document has.
func (s *settledBarrier) nudge(ctx context.Context, d Document) error {
	var version int32
	s.watch.update(func() {
		s.nudges++
		version = -s.nudges - 1 // servers have uses of their own for -1
	})
	return s.host.Notify(ctx, "textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": d.URI, "version": version},
		"contentChanges": []any{map[string]any{"text": d.Text}},
	})
}

// maxNudges bounds how often a document is sent again because its check began
// before it was known to be of the last text.
const maxNudges = 3

// settle returns when the last text of a document has been published.
func (s *settledBarrier) settle(ctx context.Context, uri string, d Document) error {
	if s.proof.versions {
		return s.await(ctx, uri, func(k *settledDocument) bool { return k.done == k.version })
	}
	for range maxNudges {
		var marked bool
		if err := roundTrip(ctx, s.host); err != nil {
			return err
		}
		s.watch.update(func() {
			if k := s.docs[uri]; k != nil && k.started == k.before {
				k.answered = k.sent
			}
			marked = s.docs[uri] != nil && s.docs[uri].answered == s.docs[uri].sent
		})
		if marked {
			mixed := false
			if err := s.await(ctx, uri, func(k *settledDocument) bool {
				mixed = k.mixed
				return k.answered == k.sent && k.started > k.before && k.ended == k.started+k.closings
			}); err != nil || !mixed {
				return err
			}
		}
		if err := s.nudge(ctx, d); err != nil {
			return err
		}
	}
	return errors.New("its checks cannot be told apart: the machine is too slow")
}

func (s *settledBarrier) await(ctx context.Context, uri string, met func(*settledDocument) bool) error {
	return s.watch.await(ctx, s.host.Done(), func() (bool, error) {
		d := s.docs[uri]
		if d == nil {
			return false, fmt.Errorf("%s was closed meanwhile", uri)
		}
		return met(d), nil
	})
}

// number reads a version.
func number(raw json.RawMessage) (n int32) {
	_ = json.Unmarshal(raw, &n) // what is no number is no version
	return n
}
