package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/union"
	"shadowlsp/lsp/wire"
	"shadowlsp/scheduler"
)

// knowledge is what has been learnt of servers, newest first, kept in a file so
// that agents can work while no editor is attached.
type knowledge struct {
	dir string // the state directory

	mu      sync.Mutex // guards the fields below
	servers []learnt
	results map[string]offered // by serverKey
	// agent are the first agent's initialize params, for a server that no editor
	// has ever started.
	agent json.RawMessage
}

// load reads the files; missing ones are empty ones.
func (k *knowledge) load(dir string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dir = dir
	for name, into := range map[string]any{serversFile: &k.servers, resultsFile: &k.results} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return nil
}

// What is kept in the state directory: what editors have told, and what servers
// answered to initialize.
const (
	serversFile = "servers.json"
	resultsFile = "results.json"
)

// put takes newer knowledge of one server and says whether it was news.
func (k *knowledge) put(l learnt) (news bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := serverKey(l.Command)
	kept := []learnt{l}
	for n, old := range k.servers {
		if serverKey(old.Command) != key {
			kept = append(kept, old)
			continue
		}
		if n == 0 && old.Env != nil && sameJSON(old, l) {
			return false, nil
		}
	}
	k.servers = kept
	file := slices.Clone(kept)
	for n := range file {
		file[n].Env = nil // it may hold secrets
	}
	return true, k.write(serversFile, file)
}

func sameJSON(a, b learnt) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// all returns what was learnt of editors' servers, newest first.
func (k *knowledge) all() []learnt {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.servers)
}

// offered is what a server offers: its answer to initialize, and what it
// registered since.
type offered struct {
	Result     json.RawMessage      `json:"result"`
	Registered []union.Registration `json:"registered,omitempty"`
	// Process is the command line by which it was recognised, where neither its own
	// command nor its answer say what it is: that of a process behind a script.
	Process []string        `json:"process,omitempty"`
	all     json.RawMessage // both as one; nil until needed
}

// offers returns what a server offers as one InitializeResult: that of an
// instance, or of the editor's own server, now or in an earlier run; nil if
// nothing is known.
func (k *knowledge) offers(key string) json.RawMessage {
	k.mu.Lock()
	defer k.mu.Unlock()
	o := k.results[key]
	if o.Result == nil {
		return nil
	}
	if o.all == nil {
		o.all = union.With(o.Result, o.Registered)
		k.results[key] = o
	}
	return o.all
}

// offersTo is offers without what the server has registered of late and the client
// of an initialize takes by registration: that can be taken back.
func (k *knowledge) offersTo(key string, client json.RawMessage) json.RawMessage {
	k.mu.Lock()
	defer k.mu.Unlock()
	o := k.results[key]
	if o.Result == nil {
		return nil
	}
	return union.With(o.Result, slices.DeleteFunc(slices.Clone(o.Registered), func(r union.Registration) bool {
		return union.Takes(client, r.Method)
	}))
}

// is returns what a server is, by all that is known.
func (k *knowledge) is(command []string) barrier.Profile {
	k.mu.Lock()
	defer k.mu.Unlock()
	o := k.results[serverKey(command)]
	if p := barrier.For(command, o.Result); !p.Unknown() {
		return p
	}
	return barrier.For(o.Process, o.Result)
}

// offer changes what is known of a server's offers, and says whether it was news.
func (k *knowledge) offer(key string, change func(*offered)) (news bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o := k.results[key]
	before := string(barrier.Raw(o))
	o.Registered = slices.Clone(o.Registered)
	change(&o)
	o.all = nil
	if o.Result == nil || string(barrier.Raw(o)) == before {
		return false, nil
	}
	if k.results == nil {
		k.results = map[string]offered{}
	}
	k.results[key] = o
	return true, k.write(resultsFile, k.results)
}

// write puts a file of the state directory in place.
func (k *knowledge) write(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "\t")
	if err == nil {
		file := filepath.Join(k.dir, name)
		if err = os.WriteFile(file+".new", data, 0o600); err == nil {
			err = os.Rename(file+".new", file)
		}
	}
	if err != nil {
		return fmt.Errorf("keeping what is known of the servers: %w", err)
	}
	return nil
}

// learnFrom takes what an editor has told.
func (d *daemon) learnFrom(e *editor) {
	l, ok := e.learnt()
	if !ok {
		return
	}
	news, err := d.servers.put(l)
	if result := e.result(); result != nil {
		// Of the editor's own server: what a shadow of it will say as well.
		d.offers(serverKey(l.Command), func(o *offered) {
			if o.Result == nil {
				o.Result = result
			}
		})
	}
	if err != nil {
		d.cfg.Log.Warn().Err(err).Msg("what is known of the server will be lost at the daemon's end")
	}
	if !news {
		return
	}
	defer d.learntMore()
	d.mu.Lock()
	d.line = nil
	p := d.pools[serverKey(l.Command)]
	branches := make([]*branch, 0, len(d.branches))
	for _, b := range d.branches {
		branches = append(branches, b)
	}
	d.mu.Unlock()
	if p == nil || !p.learn(l) {
		return
	}
	for _, b := range branches {
		b.newBase() // what servers are told of it counts as much
		d.branchChanged(b, nil)
	}
}

// lineup returns the servers of the workspace in order, looking at its files and at
// what is installed where that was longer ago than age; then it takes a moment.
func (d *daemon) lineup(ctx context.Context, age time.Duration) []candidate {
	d.mu.Lock()
	line := d.line
	if time.Since(d.looked) > age {
		line = nil
	}
	d.mu.Unlock()
	if line != nil {
		return line
	}
	d.looking.Lock()
	defer d.looking.Unlock()
	d.mu.Lock()
	found, looked := d.found, d.looked
	running := map[string]bool{}
	for e := range d.editors {
		if l, ok := e.learnt(); ok {
			running[serverKey(l.Command)] = true
		}
	}
	var all []candidate
	if d.named != nil {
		all = append(all, newCandidate(*d.named, named, d.table, &d.servers))
	}
	d.mu.Unlock()
	if time.Since(looked) > age {
		found = d.table.Find(ctx, d.root, searchPath(d.cfg.Env))
		looked = time.Now()
	}
	for _, l := range d.servers.all() {
		c := newCandidate(l, remembered, d.table, &d.servers)
		if running[c.key()] {
			c.source = attached
		} else if !program(l.Command, d.cfg.Env) {
			continue // the person has it no more
		}
		all = append(all, c)
	}
	for _, f := range found {
		if f.Installed() && f.Shadowed == "" {
			c := newCandidate(learnt{Command: f.Argv}, detected, d.table, &d.servers)
			c.found, c.known = f, f.Server
			all = append(all, c)
		}
	}
	line = lineup(all)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.line, d.found, d.looked = line, found, looked
	return line
}

// How old a look at the folder's files may be: when nobody takes a document, when an
// agent attaches, and otherwise. It costs up to a second where servers have to be
// started to know whether they are what they are called.
const (
	lookSoon  = 30 * time.Second
	lookAgain = 10 * time.Minute
	lookOnce  = 1 << 62
)

// none is the error where no server is there for agents.
func (d *daemon) none() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.found {
		if !f.Installed() && f.Shadowed == "" {
			return wire.Errorf(wire.CodeRequestFailed, "the workspace %s wants %s, which is not on the PATH: install it (%s), or name a server with `shadowlsp connect -- SERVER`", d.root, f.Name, f.Install)
		}
	}
	return wire.Errorf(wire.CodeRequestFailed, "no language server is known for %s: open it in an editor that runs `shadowlsp -- SERVER`, or name one with `shadowlsp connect -- SERVER` (`shadowlsp servers` lists those that are known)", d.root)
}

// pool returns the pool of a candidate, making it where there is none. params are
// initialize params of an agent, for a server that no editor has ever started.
func (d *daemon) pool(c candidate, params json.RawMessage) (*pool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return nil, errEnded
	}
	p := d.pools[c.key()]
	if p == nil {
		p = newPool(d, c, params, scheduler.Config{Max: d.cfg.Instances, IdleStop: d.cfg.IdleStop, MaxQueued: cmp.Or(d.cfg.Limits.Queued, defaultQueued)})
		d.pools[c.key()] = p
	}
	return p, nil
}

// complete adds to what an editor has told what it did not.
func (d *daemon) complete(c candidate, params json.RawMessage) learnt {
	l := c.learnt
	if l.Dir == "" {
		l.Dir = d.root
	}
	if l.Env == nil {
		l.Env = slices.Clip(d.cfg.Env)
		for name, value := range c.known.Env {
			l.Env = append(l.Env, name+"="+value)
		}
	}
	if c.known.Settings != nil {
		l.Defaults = barrier.Raw(c.known.Settings)
	}
	if l.Initialize == nil {
		l.Initialize = d.headless(c, params)
	}
	return l
}

// headless are the initialize params for a server without an editor: those of
// the first agent, in the root.
func (d *daemon) headless(c candidate, params json.RawMessage) json.RawMessage {
	k := &d.servers
	k.mu.Lock()
	if k.agent == nil {
		k.agent = params
	}
	params = k.agent
	k.mu.Unlock()
	folders := []string{d.root}
	if c.known.EachProject && c.found.Project() {
		folders = c.found.Projects
	}
	type folder struct {
		URI  string `json:"uri"`
		Name string `json:"name"`
	}
	var list []folder
	for _, f := range folders {
		list = append(list, folder{docuri.FromPath(f), filepath.Base(f)})
	}
	edits := []barrier.Edit{
		{Path: []string{"rootUri"}, Value: barrier.Raw(list[0].URI)},
		{Path: []string{"rootPath"}, Value: barrier.Raw(folders[0])},
		{Path: []string{"workspaceFolders"}, Value: barrier.Raw(list)},
		{Path: []string{"clientInfo"}},
		// What any editor can, and the daemon does in its place; some servers stop
		// in the middle of their start where it is missing.
		{Path: []string{"capabilities", "workspace", "workspaceFolders"}, Value: barrier.Raw(true)},
		{Path: []string{"capabilities", "workspace", "didChangeConfiguration", "dynamicRegistration"}, Value: barrier.Raw(true)},
	}
	switch {
	case c.known.InitializationOptions != nil:
		edits = append(edits, barrier.Edit{Path: []string{"initializationOptions"}, Value: barrier.Raw(c.known.InitializationOptions)})
	case c.source == detected && !c.found.Project():
		// The agent's options are for the server that it expects.
		edits = append(edits, barrier.Edit{Path: []string{"initializationOptions"}})
	}
	return barrier.Apply(params, edits)
}

// ready returns the pool of a candidate, and the capabilities of its server,
// starting an instance where they are not known.
func (d *daemon) ready(ctx context.Context, b *branch, c candidate, params json.RawMessage) (*pool, json.RawMessage, error) {
	p, err := d.pool(c, params)
	if err != nil {
		return nil, nil, err
	}
	result, err := p.initializeResult(ctx, b)
	if err != nil {
		return nil, nil, err
	}
	d.offers(c.key(), func(o *offered) { o.Result = result })
	return p, d.servers.offers(c.key()), nil
}

// offers changes what is known of a server's offers, and tells agents what is new.
func (d *daemon) offers(key string, change func(*offered)) {
	news, err := d.servers.offer(key, change)
	if err != nil {
		d.cfg.Log.Warn().Err(err).Msg("a server's capabilities will be lost at the daemon's end")
	}
	if !news {
		return
	}
	d.mu.Lock()
	d.line = nil // the server may be recognised by them
	p := d.pools[key]
	var all []*session
	for s := range d.sessions {
		all = append(all, s)
	}
	d.mu.Unlock()
	if len(all) == 0 {
		return
	}
	if p == nil { // one that an editor has started now
		line := d.lineup(d.ctx, lookOnce)
		n := slices.IndexFunc(line, func(c candidate) bool { return c.key() == key })
		if n < 0 {
			return
		}
		if p, err = d.pool(line[n], all[0].params); err != nil {
			return // the daemon ends
		}
	}
	for _, s := range all {
		s.offer(p)
	}
}

// language returns the language id under which the server of p is given a
// document: open is what an agent that holds it open says, text its text. ok is
// false where it is none of that server's.
func (p *pool) language(path, open string, text func() string) (id string, ok bool) {
	if open != "" && (p.profile().Unknown() || p.profile().Takes(open)) {
		return open, true
	}
	if id, ok := p.profile().Language(path); ok {
		if open != "" {
			id = open
		}
		return id, true
	}
	id, ok = p.d.languageOf(path, text)
	return id, ok && p.profile().Takes(id)
}

// languageOf is the language of a file of the workspace.
func (d *daemon) languageOf(path string, text func() string) (id string, ok bool) {
	if id, ok := d.table.Language(path); ok {
		return id, true
	}
	if text == nil || strings.Contains(filepath.Base(path), ".") {
		return "", false
	}
	return barrier.LanguageOfScript(text())
}
