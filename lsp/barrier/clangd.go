package barrier

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// clangd is the profile of clangd.
func clangd() Profile {
	return Profile{
		Name:        "clangd",
		Commands:    []string{"clangd"},
		ServerNames: []string{"clangd"},
		Languages: []Language{
			{".c", "c"}, {".h", "cpp"}, {".cc", "cpp"}, {".cpp", "cpp"}, {".cxx", "cpp"}, {".c++", "cpp"}, {".C", "cpp"},
			{".hh", "cpp"}, {".hpp", "cpp"}, {".hxx", "cpp"}, {".h++", "cpp"}, {".inl", "cpp"}, {".ipp", "cpp"}, {".tpp", "cpp"},
			{".m", "objective-c"}, {".mm", "objective-cpp"}, {".cu", "cuda-cpp"}, {".cuh", "cuda-cpp"},
		},
		Drop: []Flag{
			// Files that the person's own server writes to.
			{"input-mirror-file", true}, {"log-file", true},
			// All agents are spoken to in UTF-16.
			{"offset-encoding", true},
		},
		// Its own way of negotiating that, older than LSP's, counts more than LSP's.
		Initialize: []Edit{{Path: []string{"capabilities", "offsetEncoding"}, Value: Raw([]string{"utf-16"}), Existing: true}},
		// Without it a change that is followed by another within the debouncing
		// time is not diagnosed, and neither is a text that is the same as before.
		Change:   []Edit{{Path: []string{"wantDiagnostics"}, Value: Raw(true)}},
		OpenOnly: true,
		// Its index holds what it has seen of a file until it sees another text
		// as a document's.
		Lingers: true,
		LoadFirst: []string{
			"textDocument/references", "textDocument/rename", "textDocument/implementation", "textDocument/definition",
			"textDocument/declaration", "textDocument/typeDefinition", "textDocument/completion", "workspace/symbol",
			"callHierarchy/incomingCalls", "callHierarchy/outgoingCalls", "typeHierarchy/subtypes", "typeHierarchy/supertypes",
		},
		New: func(h Host) Barrier { return newClangd(h) },
	}
}

const (
	// clangdFresh is how long clangd trusts what it has read of a file that
	// decides about flags (GlobalCompilationDatabase.h, RevalidateAfter;
	// ClangdServer.cpp, createConfiguredContextProvider; TidyProvider.cpp), and
	// clangdMissing how long that a compilation database is not there
	// (RevalidateMissingAfter). Its clocks and ours may differ by rounding.
	clangdFresh   = 5*time.Second + clangdSlack
	clangdMissing = 30*time.Second + clangdSlack
	clangdSlack   = 50 * time.Millisecond
)

// clangdFlags are the files that decide about flags. True: clangd looks for a
// missing one more seldom than for a changed one.
var clangdFlags = map[string]bool{
	"compile_commands.json": true, "compile_flags.txt": true, ".clangd": false, ".clang-tidy": false,
}

// clangdOwn is the folder that clangd writes its index to, in the workspace.
const clangdOwn = "/.cache/clangd/"

// clangdBarrier proves finality of clangd's published table. Read in
// llvm-project, clang-tools-extra/clangd:
//
//  1. The request "sync" (ClangdLSPServer.cpp, onSync) is answered when every
//     file's worker and preamble thread have nothing to do, and background
//     indexing neither (ClangdServer.cpp, blockUntilIdleForTest). Messages are
//     handled in order, and none while it waits; publishes are written by the
//     workers before they are idle. So behind its answer the table is that of
//     all that was sent before. After a minute it is an error; then it is sent
//     again.
//  2. A didChange with wantDiagnostics is built in any case (TUScheduler.cpp,
//     ASTWorker::update), first with the preamble that is there, wrongly if a
//     header has changed, and again when the preamble thread has compared the
//     sizes and times of all headers (PreambleThread::build). "sync" waits for
//     both, so what stays is the second.
//  3. Other files are read from the disk, and what clangd is told of their
//     changes it ignores (onFileEvent). So when any has changed, every open
//     document that was not sent since is sent again with its own text. A text
//     that is the same, with the same preamble, is not built again
//     (generateDiagnostics, RanASTCallback) though a file that it includes
//     behind its first declaration may be another: such a document, and all of
//     them where a file is new (it may stand before the one that was found),
//     are sent with forceRebuild.
//  4. What decides about flags (compile_commands.json and its kin) is read
//     again only when what is known is 5 seconds old, or 30 where a database
//     was missing. Nothing makes it do so earlier, so Final waits for that.
//
// Times that do not change with the content would defeat 2: clang compares whole
// seconds (PrecompiledPreamble.cpp). The shadow folder gives every content its
// own second.
type clangdBarrier struct {
	host Host

	watch watch // guards the fields below
	// modified counts what can change an answer; proven is it when "sync" was
	// last answered.
	modified, proven uint64
	// sent is modified when a document was last sent; resending is one that is
	// sent again, which modifies nothing.
	sent      map[string]uint64
	whole     map[string]uint64 // modified when it was last built from nothing
	resending string
	// touched is modified when a file last changed, other than by its document;
	// created when one came.
	touched, created uint64
	flagged          uint64    // modified when a file that decides about flags changed
	trusted          time.Time // until when it may not have looked at that
	// heard is when it last did anything: it looks at files when it builds, and
	// not before there is a document. Once it is idle it sleeps.
	heard time.Time
}

func newClangd(h Host) *clangdBarrier {
	return &clangdBarrier{host: h, sent: map[string]uint64{}, whole: map[string]uint64{}}
}

// Observe implements Barrier.
func (c *clangdBarrier) Observe(e Event) {
	c.watch.update(func() {
		if c.modified > 0 {
			c.heard = time.Now()
		}
		if !e.Sent {
			return
		}
		switch e.Msg.Method {
		case "textDocument/didOpen", "textDocument/didChange":
			uri := uriOf(e.Msg.Params, "textDocument", "uri")
			if uri != c.resending {
				c.modified++
			}
			if e.Msg.Method == "textDocument/didOpen" {
				c.whole[uri] = c.modified
			}
			c.sent[uri] = c.modified
		case "textDocument/didClose":
			c.modified++
			delete(c.sent, uriOf(e.Msg.Params, "textDocument", "uri"))
		case "workspace/didChangeConfiguration":
			c.modified++
		}
	})
}

// Touched implements Toucher.
func (c *clangdBarrier) Touched(files []File) {
	c.watch.update(func() {
		for _, f := range files {
			if strings.Contains(f.Path, clangdOwn) {
				continue
			}
			c.modified++
			c.touched = c.modified
			missing, flags := clangdFlags[path.Base(f.Path)]
			if flags {
				trust := clangdFresh
				if missing && f.Created {
					trust = clangdMissing
				}
				c.flagged, c.created = c.modified, c.modified
				if until := c.heard.Add(trust); until.After(c.trusted) {
					c.trusted = until
				}
			} else if f.Created && !isUnit(f.Path) {
				c.created = c.modified
			}
		}
	})
}

// isUnit says whether a file is one that is compiled, not included.
func isUnit(file string) bool {
	switch path.Ext(file) {
	case ".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".m", ".mm", ".cu":
		return true
	}
	return false
}

// Ready implements Barrier: clangd loads nothing that a modification would lose.
func (c *clangdBarrier) Ready(context.Context) error { return nil }

// Final implements Barrier.
func (c *clangdBarrier) Final(ctx context.Context, uris []string) (Result, error) {
	if err := c.settle(ctx); err != nil {
		return Result{}, c.error("final", err)
	}
	open := map[string]bool{}
	for _, d := range c.host.Documents() {
		open[docuri.Canonical(d.URI)] = true
	}
	for _, uri := range uris {
		if _, published := c.host.Published(uri); !open[uri] && !published {
			return Result{}, c.error("final", kinded(Unsupported, fmt.Errorf("%s is not open", uri)))
		}
	}
	return Result{Barrier: "sync"}, nil
}

// Settle implements Settler: what it knows of other files than the document is
// from when the document was last sent.
func (c *clangdBarrier) Settle(ctx context.Context) error {
	var known bool
	c.watch.view(func() { known = c.touched <= c.proven && c.created <= c.proven })
	if known && !c.behind() {
		return nil
	}
	return c.error("settle", c.settle(ctx))
}

func (c *clangdBarrier) settle(ctx context.Context) error {
	var (
		modified uint64
		known    bool
		trusted  time.Duration
	)
	c.watch.view(func() {
		modified, known = c.modified, c.proven == c.modified
		if c.flagged > c.proven {
			trusted = time.Until(c.trusted)
		}
	})
	if known && !c.behind() {
		return nil
	}
	if err := c.rest(ctx, trusted); err != nil {
		return err
	}
	if err := c.resend(ctx); err != nil {
		return err
	}
	if err := c.sync(ctx); err != nil {
		return err
	}
	c.watch.update(func() {
		// What came meanwhile is not proven.
		c.proven = max(c.proven, modified)
	})
	return nil
}

// behind says whether a document that is asked about was quiet when files changed.
func (c *clangdBarrier) behind() bool {
	documents := c.host.Documents()
	var found bool
	c.watch.view(func() {
		for _, d := range documents {
			uri := docuri.Canonical(d.URI)
			found = found || !d.Quiet && (c.sent[uri] < c.touched || c.whole[uri] < c.created)
		}
	})
	return found
}

// rest waits until clangd does not trust what it knows about flags any more.
func (c *clangdBarrier) rest(ctx context.Context, pause time.Duration) error {
	if pause <= 0 {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.host.Done():
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// resend sends the documents again that a changed file may matter to.
func (c *clangdBarrier) resend(ctx context.Context) error {
	for _, d := range c.host.Documents() {
		uri := docuri.Canonical(d.URI)
		var again, force bool
		c.watch.update(func() {
			if c.flagged > c.proven {
				delete(c.whole, uri) // built before the flags were read again
			}
			force = c.whole[uri] < c.created
			again = force || c.sent[uri] < c.touched
		})
		if !again || d.Quiet {
			continue
		}
		edits := []Edit{{Path: []string{"wantDiagnostics"}, Value: Raw(true)}}
		if force || includesLate(d.Text) {
			edits = append(edits, Edit{Path: []string{"forceRebuild"}, Value: Raw(true)})
		}
		c.watch.update(func() { c.resending = uri })
		err := c.host.Resend(ctx, d.URI, edits)
		c.watch.update(func() {
			if c.resending = ""; err == nil && force {
				c.whole[uri] = c.modified
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// includesLate says whether a text may include files behind its first
// declaration, where no preamble holds them.
func includesLate(text string) bool {
	comment, code := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if comment {
			_, after, closed := strings.Cut(line, "*/")
			if !closed {
				continue
			}
			comment, line = false, strings.TrimSpace(after)
		}
		switch {
		case line == "" || strings.HasPrefix(line, "//"):
		case strings.HasPrefix(line, "#"):
			directive := strings.TrimSpace(line[1:])
			if code && (strings.HasPrefix(directive, "include") || strings.HasPrefix(directive, "import") || strings.HasPrefix(directive, "embed")) {
				return true
			}
		case strings.HasPrefix(line, "/*"):
			_, after, closed := strings.Cut(line[2:], "*/")
			comment = !closed
			code = code || strings.TrimSpace(after) != ""
		default:
			code = true
		}
	}
	return false
}

// sync returns when clangd is idle.
func (c *clangdBarrier) sync(ctx context.Context) error {
	for {
		_, err := c.host.Call(ctx, "sync", nil)
		e := (*wire.Error)(nil)
		switch {
		case errors.As(err, &e) && e.Code == wire.CodeMethodNotFound:
			return kinded(Unsupported, errors.New("it does not know the request sync: it is older than clangd 10"))
		case errors.As(err, &e) && ctx.Err() == nil:
			continue // still busy after a minute
		}
		return err
	}
}

// Idle implements Barrier. What builds documents is over when "sync" is answered;
// background indexing may go on for hours in a large project, and what it finds
// is not lost by a switch.
func (c *clangdBarrier) Idle(context.Context) error { return nil }

func (c *clangdBarrier) error(op string, err error) error { return wrap("clangd", op, err) }

var (
	_ Toucher = (*clangdBarrier)(nil)
	_ Settler = (*clangdBarrier)(nil)
)
