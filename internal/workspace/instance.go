package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shadowlsp/fusefs"
	"shadowlsp/internal/sandbox"
	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/shadow"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
	"shadowlsp/scheduler"
)

const (
	// startLimit bounds the making of namespaces and mount, and the server's
	// answer to initialize; loading the workspace comes after it.
	startLimit = 60 * time.Second
	// stopGrace is how long a server may take to leave when it is told to.
	stopGrace = 2 * time.Second
	// cancelLimit is how long a cancelled request stays with a server that does not
	// answer: longer than the scheduler's CancelGrace, which must see that it does
	// not end and give the server up.
	cancelLimit = 15 * time.Second
	// lintLimit bounds one lint: it is far above what a reload of a large
	// repository takes, and below the scheduler's own limit for a request.
	lintLimit = 3 * time.Minute
	// maxSuperseded bounds how often one lint starts over because its branch was
	// edited meanwhile: then whoever edits without pause is told so.
	maxSuperseded = 100
)

// instance is one shadow server with its view: a process in its own namespaces,
// the mount that it sees, and the connection to it.
//
// Goroutine: reap, which ends when the server has.
type instance struct {
	p      *pool
	id     scheduler.InstanceID
	name   string
	log    zerolog.Logger
	proc   *sandbox.Process
	sight  sight
	server *shadow.Instance
	// scratch is the branch that the instance shows while it shows none: what it
	// writes as it loads must go somewhere, and nobody's branch is the place.
	scratch *branch
	ended   chan struct{} // closed when nothing of it is left

	stopOnce sync.Once
	started  time.Time
	lastTurn scheduler.TurnID // guarded by pool.mu

	turn sync.Mutex // one show or sync at a time

	mu       sync.Mutex // guards the fields below
	why      error      // why it ended
	branch   *branch    // what the view shows
	told     state      // of branch: what the server has last been told
	tells    uint64     // counts tellings
	base     news       // of the person's folder, not yet told
	overflow bool
	askers   []*session // whose requests run, for what the server asks meanwhile
}

// startInstance makes namespaces, mount and process, and speaks initialize.
func startInstance(p *pool, id scheduler.InstanceID, l learnt) (_ *instance, err error) {
	inst := &instance{
		p: p, id: id, name: fmt.Sprintf("%s#%d", p.profile.Name, id),
		ended: make(chan struct{}), started: time.Now(), base: news{},
	}
	inst.log = p.log.With().Str("instance", inst.name).Logger()
	ctx, cancel := context.WithTimeout(p.ctx, startLimit)
	defer cancel()

	over, err := p.d.store.Create(scratchPrefix+p.key+"#"+strconv.Itoa(int(id)), overlay.CreateOptions{})
	if err != nil {
		return nil, err
	}
	inst.scratch = newBranch(over, false)
	inst.branch = inst.scratch
	undo := []func(){func() { _ = p.d.store.Drop(over.Name()) }}
	defer func() {
		if err == nil {
			return
		}
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
		err = fmt.Errorf("starting a shadow of %s: %w", p.key, err)
	}()

	stdin, toServer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	fromServer, stdout, err := os.Pipe()
	if err != nil {
		toServer.Close()
		return nil, err
	}
	defer stdout.Close()
	conn := stdio{fromServer, toServer}
	undo = append(undo, func() { conn.Close() })

	inst.proc, inst.sight, err = p.d.way.start(ctx, sandbox.Spec{
		Argv: p.profile.Arguments(l.Command), Env: append(slices.Clip(l.Env), quietGit), Dir: l.Dir, Mount: p.d.root,
		Stdin: stdin, Stdout: stdout, Stderr: p.d.serverLog,
		Priority: p.d.priority(),
	}, p, inst.scratch, inst.log)
	// Ours must not keep the pipes open: the server's end is seen by them.
	stdin.Close()
	stdout.Close()
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { inst.proc.Kill(); inst.proc.Wait(); inst.sight.close() })
	inst.scratch.watch(inst)
	unsubscribe := over.Subscribe(inst.scratch.wrote)
	p.d.addInstance(inst)
	inst.server, err = shadow.Start(ctx, shadow.Config{
		Conn: conn, Initialize: l.Initialize, Root: p.d.root, Profile: p.profile,
		Client: client{inst}, Trace: p.d.trace, Name: inst.name, Log: inst.log,
		Limits: shadow.Limits{CancelGrace: cancelLimit},
	})
	if err != nil {
		p.d.removeInstance(inst)
		return nil, err
	}
	p.wg.Add(1)
	go inst.reap(unsubscribe)
	return inst, nil
}

// scratchPrefix marks branches that belong to instances, which no agent can name.
const scratchPrefix = "instance:"

// quietGit keeps git from refreshing .git/index as it looks: the refreshed copy
// would be the branch's, and hide the person's later ones.
const quietGit = "GIT_OPTIONAL_LOCKS=0"

// stdio is a server's stdin and stdout as one connection.
type stdio struct{ in, out *os.File }

func (s stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s stdio) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s stdio) Close() error                { return errors.Join(s.out.Close(), s.in.Close()) }

// reap waits for the end of the server, however it comes, and clears up.
func (i *instance) reap(unsubscribe func()) {
	defer i.p.wg.Done()
	<-i.server.Done()
	i.stop(i.server.Err())
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	_ = i.server.Close(ctx) // it has ended already: this waits for its goroutines
	i.proc.Kill()
	if status, err := i.proc.Wait(); err == nil {
		i.log.Info().Stringer("status", status).Msg("server process has ended")
	}
	if err := i.sight.close(); err != nil {
		i.log.Warn().Err(err).Msg("closing the view")
	}
	i.p.d.removeInstance(i)
	i.mu.Lock()
	b := i.branch
	i.mu.Unlock()
	i.sight.disk(b).unwatch(i)
	unsubscribe()
	if err := i.p.d.store.Drop(i.scratch.name); err != nil {
		i.log.Warn().Err(err).Msg("dropping the instance's scratch branch")
	}
	close(i.ended)
}

// stop ends the instance for the first reason given; it returns when the
// server has been told, not when all is cleared up (see ended).
func (i *instance) stop(why error) {
	i.stopOnce.Do(func() {
		i.mu.Lock()
		i.why = why
		i.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		// It need not go willingly: reap kills what is left. One that hangs keeps
		// Close waiting for longer than we like.
		unhook := context.AfterFunc(ctx, i.proc.Kill)
		_ = i.server.Close(ctx)
		unhook()
	})
}

// gone says whether the server has ended.
func (i *instance) gone() bool {
	select {
	case <-i.server.Done():
		return true
	default:
		return false
	}
}

// cause is why it ended.
func (i *instance) cause() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.why == nil {
		return errors.New("it ended")
	}
	return i.why
}

// idle returns when nothing of the turn is in flight any more.
func (i *instance) idle(ctx context.Context) error { return i.server.Idle(ctx) }

// show switches the instance to b, nil for no branch: the view first, then the
// server is told of every file that differs, then its documents become b's.
func (i *instance) show(ctx context.Context, b *branch) error {
	i.turn.Lock()
	defer i.turn.Unlock()
	if b == nil {
		b = i.scratch
	}
	began := time.Now()
	if err := i.server.Idle(ctx); err != nil {
		return err
	}
	if err := i.p.d.way.Sync(ctx); err != nil {
		return err
	}
	i.mu.Lock()
	old := i.branch
	i.mu.Unlock()
	changed := news{}
	if was, is := i.sight.disk(old), i.sight.disk(b); was != is {
		dirty := was.takeDirty(i)
		was.unwatch(i)
		is.watch(i)
		if err := i.sight.look(is); err != nil {
			return err
		}
		for path, created := range dirty {
			changed.add(path, created)
		}
		for _, path := range overlay.Differ(was.over, is.over) {
			changed.differs(path, was.over, is.over)
		}
	}
	i.mu.Lock()
	i.branch = b
	i.mu.Unlock()
	stats, err := i.tell(ctx, b, changed)
	i.p.d.trace.Event("switch", map[string]any{
		"instance": i.name, "from": old.name, "branch": b.name, "differ": len(changed),
		"documents": stats.Opened + stats.Changed + stats.Closed, "events": stats.Events, "us": time.Since(began).Microseconds(),
	})
	return err
}

// sync brings the server up to the newest revision of the branch it shows.
func (i *instance) sync(ctx context.Context) error {
	i.turn.Lock()
	defer i.turn.Unlock()
	if err := i.p.d.way.Sync(ctx); err != nil {
		return err
	}
	i.mu.Lock()
	b, told, pending := i.branch, i.told.rev, len(i.base) > 0 || i.overflow
	i.mu.Unlock()
	if b.revision() == told && !pending {
		return nil
	}
	// Half of the news told would be lost news: who asked may go away, this goes on.
	ctx, cancel := context.WithTimeout(i.p.ctx, switchLimit)
	defer cancel()
	_, err := i.tell(ctx, b, news{})
	if err != nil {
		i.stop(err)
	}
	return err
}

// tell makes the server's documents those of b, after the news of files: changed
// and all that was written in b or in the base since the last time. After an
// error the instance is of no use any more.
func (i *instance) tell(ctx context.Context, b *branch, changed news) (shadow.SyncStats, error) {
	disk := i.sight.disk(b)
	for path, created := range disk.takeDirty(i) {
		changed.add(path, created)
	}
	i.mu.Lock()
	overflow, base := i.overflow, i.base
	i.base = news{}
	i.mu.Unlock()
	for path, created := range base {
		changed.add(path, created)
		if n, err := disk.over.Lookup(path); err == nil && n.IsDir() && !created && path != "" {
			// Another directory may have taken its place, as after two renames:
			// what is in it was never told of.
			changed.files(path, disk.over, false)
		}
	}
	if overflow {
		// What changed is not known, and no server has a message for that.
		return shadow.SyncStats{}, errors.New("too many files of the folder changed at once: the server starts anew")
	}
	if err := i.sight.settled(ctx); err != nil {
		return shadow.SyncStats{}, err
	}
	st, err := b.state(i.p.d.root, i.server.Language)
	if err != nil {
		return shadow.SyncStats{}, err
	}
	target := shadow.Target{Branch: b.name, Documents: st.documents}
	changed.below(disk.over)
	for path, created := range changed {
		if path == "" {
			continue
		}
		event := shadow.FileEvent{URI: docuri.FromPath(filepath.Join(i.p.d.root, path)), Type: shadow.Changed}
		switch n, err := disk.over.Lookup(path); {
		case overlay.KindOf(err) == overlay.NotExist || overlay.KindOf(err) == overlay.NotDir:
			event.Type = shadow.Deleted
		case err != nil:
			return shadow.SyncStats{}, err
		case n.IsDir() && !created:
			continue // its entries are news of their own
		case created:
			event.Type = shadow.Created
		}
		target.Files = append(target.Files, event)
	}
	sort.Slice(target.Files, func(a, b int) bool { return target.Files[a].URI < target.Files[b].URI })
	if i.server.Profile().CheckOnSave {
		for _, d := range st.documents {
			target.Saved = append(target.Saved, d.URI)
		}
	}
	stats, err := i.server.Sync(ctx, target)
	if err != nil {
		return stats, err
	}
	i.mu.Lock()
	i.told = st
	i.tells++
	i.mu.Unlock()
	return stats, nil
}

// baseChanged notes changes of the person's folder; the next sync tells them.
func (i *instance) baseChanged(changes []fusefs.BaseChange) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range changes {
		if c.Everything {
			i.overflow = true
			continue
		}
		i.base.add(c.Path, c.Kind == fusefs.Created)
	}
}

// wide are the methods whose answer comes from all files, not from those that a
// document needs. A server may know of a file that is new to it only when it has
// diagnosed it (gopls loads no package for a didOpen or a file event alone).
var wide = map[string]bool{
	"textDocument/references": true, "textDocument/rename": true, "textDocument/implementation": true,
	"workspace/symbol": true, "workspace/willRenameFiles": true,
	"callHierarchy/incomingCalls": true, "typeHierarchy/subtypes": true,
}

// forward puts an agent's request to the server, in the newest state.
func (i *instance) forward(ctx context.Context, s *session, m wire.Message) (wire.Message, error) {
	if wide[m.Method] {
		// Where nothing can be proven the server's answer is as good as any.
		_, _, _ = i.diagnose(ctx, nil)
	}
	if err := i.sync(ctx); err != nil {
		return wire.Message{}, err
	}
	st, _ := i.state()
	if err := i.sight.lacks(st, documentOf(m.Params)); err != nil {
		return wire.Message{}, unproven(err)
	}
	i.ask(s, true)
	defer i.ask(s, false)
	return i.server.Forward(ctx, m, progress{s.peer})
}

// documentOf is the document that a request's params name, if they do.
func documentOf(params json.RawMessage) []string {
	raw, ok := barrier.Lookup(params, "textDocument", "uri")
	var uri string
	if !ok || json.Unmarshal(raw, &uri) != nil {
		return nil
	}
	return []string{uri}
}

// ask notes that a request of s begins or ends.
func (i *instance) ask(s *session, begin bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if begin {
		i.askers = append(i.askers, s)
		return
	}
	for n, other := range i.askers {
		if other == s {
			i.askers = append(i.askers[:n:n], i.askers[n+1:]...)
			return
		}
	}
}

// asker is the session whose request runs, the newest where there are several.
func (i *instance) asker() *session {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.askers) == 0 {
		return nil
	}
	return i.askers[len(i.askers)-1]
}

// report is one document's final diagnostics.
type report struct {
	uri, barrier string
	diagnostics  json.RawMessage
	hazy         string // why it is not the truth, or ""
}

// diagnose returns final diagnostics of the branch that the instance shows, and
// the state that they are of.
func (i *instance) diagnose(ctx context.Context, uris []string) (reports []report, of state, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lintLimit, fmt.Errorf("not proven within %v", lintLimit))
	defer cancel()
	for range maxSuperseded {
		if err := i.sync(ctx); err != nil {
			return nil, state{}, err
		}
		began := time.Now()
		before, tells := i.state()
		if err := i.sight.lacks(before, uris); err != nil {
			return nil, state{}, err
		}
		var got map[string]shadow.Report
		got, err = i.server.Diagnose(ctx, uris)
		i.p.d.trace.Event("barrier", map[string]any{
			"instance": i.name, "branch": i.showing().name, "rev": before.rev, "ok": err == nil, "us": time.Since(began).Microseconds(),
		})
		var (
			e *shadow.Error
			b *barrier.Error
		)
		switch {
		case errors.As(err, &e) && e.Kind == shadow.Superseded:
			continue
		case errors.As(err, &b) && b.Kind == barrier.Desync:
			i.stop(err) // its documents are not ours any more; the question is put to the next one
			return nil, state{}, err
		case err != nil:
			return nil, state{}, err
		}
		if _, after := i.state(); after != tells {
			continue // edited between our sync and the barrier: which state it is of is not known
		}
		for _, r := range got {
			reports = append(reports, report{uri: r.URI, barrier: r.Barrier, diagnostics: r.Diagnostics, hazy: i.sight.hazy(before, r.URI)})
		}
		return reports, before, nil
	}
	return nil, state{}, err
}

// state is what the server has been told last, and how often it has been told.
func (i *instance) state() (state, uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.told, i.tells
}

func (i *instance) showing() *branch {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.branch
}

// configure passes the person's new settings on.
func (i *instance) configure(settings json.RawMessage) {
	if err := i.server.Notify(i.p.ctx, "workspace/didChangeConfiguration", settings); err != nil {
		i.log.Warn().Err(err).Msg("passing on new settings")
	}
}

// client answers the server in the place of an editor.
type client struct{ i *instance }

// Configuration implements shadow.Client.
func (c client) Configuration(items json.RawMessage) (json.RawMessage, bool) {
	var asked []configItem
	if err := json.Unmarshal(items, &asked); err != nil {
		return nil, false
	}
	values := make([]json.RawMessage, len(asked))
	for n, item := range asked {
		values[n] = c.i.p.configuration(item)
	}
	out, err := json.Marshal(values)
	return out, err == nil
}

// ApplyEdit implements shadow.Client.
func (c client) ApplyEdit(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	s := c.i.asker()
	if s == nil {
		return nil, wire.Errorf(wire.CodeRequestFailed, "no request of an agent is running that an edit could belong to")
	}
	return s.applyEdit(ctx, params)
}

// Notification implements shadow.Client.
func (c client) Notification(method string, params json.RawMessage) {
	switch method {
	case "window/showMessage", "window/logMessage":
		if s := c.i.asker(); s != nil {
			s.peer.Notify("window/logMessage", params)
		}
	}
	c.i.log.Debug().Str("method", method).RawJSON("params", params).Msg("server notification")
}

// Progress implements shadow.Client.
func (c client) Progress(params json.RawMessage) {
	c.i.log.Debug().RawJSON("params", params).Msg("server progress")
}

// progress passes progress of a request on to the agent that asked.
type progress struct{ peer agent.Peer }

// Progress implements shadow.Sink.
func (p progress) Progress(params json.RawMessage) { p.peer.Notify("$/progress", params) }

var _ shadow.Client = client{}
