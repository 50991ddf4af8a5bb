package workspace

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"shadowlsp/internal/root"
	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
	"shadowlsp/scheduler"
)

// knowledge is what has been learnt of servers, newest first, kept in a file so
// that agents can work while no editor is attached.
type knowledge struct {
	mu      sync.Mutex // guards the fields below
	file    string
	servers []learnt
	// agent are the first agent's initialize params, for a server that no editor
	// has ever started.
	agent json.RawMessage
}

// load reads the file; a missing one is an empty one.
func (k *knowledge) load(file string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file = file
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &k.servers)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	return nil
}

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
	data, err := json.MarshalIndent(file, "", "\t")
	if err == nil {
		temp := k.file + ".new"
		if err = os.WriteFile(temp, data, 0o600); err == nil {
			err = os.Rename(temp, k.file)
		}
	}
	if err != nil {
		return true, fmt.Errorf("keeping what is known of %s: %w", key, err)
	}
	return true, nil
}

func sameJSON(a, b learnt) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// newest returns the server that was seen last, if any.
func (k *knowledge) newest() (learnt, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.servers) == 0 {
		return learnt{}, false
	}
	return k.servers[0], true
}

// learnFrom takes what an editor has told.
func (d *daemon) learnFrom(e *editor) {
	l, ok := e.learnt()
	if !ok {
		return
	}
	news, err := d.servers.put(l)
	if err != nil {
		d.cfg.Log.Warn().Err(err).Msg("what is known of the server will be lost at the daemon's end")
	}
	if !news {
		return
	}
	d.mu.Lock()
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

// poolFor returns the pool of the server that an agent is to be given: the one
// that the person's editor runs, else the one that was named for agents, else the
// one that an editor ran last, else one that is found. params are the agent's initialize params.
func (d *daemon) poolFor(params json.RawMessage) (*pool, error) {
	l, known := d.servers.newest()
	d.mu.Lock()
	named := d.named
	d.mu.Unlock()
	if named != nil && (!known || serverKey(l.Command) != serverKey(named.Command) && !d.attached(l)) {
		l, known = *named, true
	}
	if !known {
		command, err := detect(d.root, d.cfg.Env)
		if err != nil {
			return nil, err
		}
		l = learnt{Command: command}
	}
	if l.Dir == "" {
		l.Dir = d.root
	}
	if l.Env == nil {
		l.Env = d.cfg.Env
	}
	if l.Initialize == nil {
		l.Initialize = d.headless(params)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return nil, errEnded
	}
	key := serverKey(l.Command)
	p := d.pools[key]
	if p == nil {
		p = newPool(d, l, barrier.For(l.Command, nil), scheduler.Config{Max: d.cfg.Instances, IdleStop: d.cfg.IdleStop})
		d.pools[key] = p
	}
	return p, nil
}

// attached says whether an editor that runs this server is there now.
func (d *daemon) attached(l learnt) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := range d.editors {
		if other, ok := e.learnt(); ok && serverKey(other.Command) == serverKey(l.Command) {
			return true
		}
	}
	return false
}

// detectable are servers that are recognised by the files of a workspace.
var detectable = []struct {
	command []string
	files   []string
}{
	{[]string{"gopls"}, []string{"go.work", "go.mod", "*/go.mod", "*.go"}},
}

// FindServer returns the server that an agent would be given at p while no
// editor is attached, and how it is known; or what to do.
func FindServer(p root.Place, env []string) (command []string, how string, err error) {
	var k knowledge
	if err := k.load(filepath.Join(p.State, serversFile)); err != nil {
		return nil, "", err
	}
	if l, known := k.newest(); known {
		name := l.Command[0]
		if _, err := exec.LookPath(name); filepath.IsAbs(name) && err != nil || !strings.Contains(name, "/") && !onPath(name, searchPath(env)) {
			return nil, "", fmt.Errorf("an editor last ran %v, which cannot be found now: install it, or put its folder on the PATH", l.Command)
		}
		return l.Command, "an editor ran it here", nil
	}
	command, err = detect(p.Root, env)
	return command, "recognised by the files of the workspace", err
}

// serversFile holds what was learnt, in the state directory.
const serversFile = "servers.json"

// searchPath is the PATH of an environment.
func searchPath(env []string) (path string) {
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	return path
}

// detect finds a server for a workspace that no editor has opened yet.
func detect(root string, env []string) ([]string, error) {
	path := searchPath(env)
	missing := ""
	for _, s := range detectable {
		for _, pattern := range s.files {
			if found, err := filepath.Glob(filepath.Join(root, pattern)); err != nil || len(found) == 0 {
				continue
			}
			if onPath(s.command[0], path) {
				return s.command, nil
			}
			missing = s.command[0]
			break
		}
	}
	if missing != "" {
		return nil, wire.Errorf(wire.CodeRequestFailed, "the workspace %s wants %s, which is not on the PATH: install it, or name a server with `shadowlsp connect -- SERVER`", root, missing)
	}
	return nil, wire.Errorf(wire.CodeRequestFailed, "no language server is known for %s: open it in an editor that runs `shadowlsp -- SERVER`, or name one with `shadowlsp connect -- SERVER`", root)
}

func onPath(name, path string) bool {
	for _, dir := range filepath.SplitList(path) {
		if full, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(full) {
			return true
		}
	}
	return false
}

// headless are the initialize params for a server without an editor: those of
// the first agent, in the root.
func (d *daemon) headless(params json.RawMessage) json.RawMessage {
	k := &d.servers
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.agent == nil {
		uri := docuri.FromPath(d.root)
		k.agent = barrier.Apply(params, []barrier.Edit{
			{Path: []string{"rootUri"}, Value: barrier.Raw(uri)},
			{Path: []string{"rootPath"}, Value: barrier.Raw(d.root)},
			{Path: []string{"workspaceFolders"}, Value: barrier.Raw([]map[string]string{{"uri": uri, "name": filepath.Base(d.root)}})},
			{Path: []string{"clientInfo"}},
		})
	}
	return k.agent
}

// route returns the pool for a request: that of the document it names, else own.
func (d *daemon) route(own *pool, params json.RawMessage) *pool {
	raw, ok := barrier.Lookup(params, "textDocument", "uri")
	if !ok {
		return own
	}
	var uri string
	if json.Unmarshal(raw, &uri) != nil {
		return own
	}
	return d.routeURI(own, uri)
}

// routeURI returns the pool whose server takes a document: own if it does, else
// another that does, else own.
func (d *daemon) routeURI(own *pool, uri string) *pool {
	path, ok := docuri.Path(uri)
	if !ok {
		return own
	}
	if _, ok := own.profile.Language(path); ok {
		return own
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pools {
		if _, ok := p.profile.Language(path); ok {
			return p
		}
	}
	return own
}
