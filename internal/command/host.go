package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shadowlsp/fusefs"
	"shadowlsp/internal/sandbox"
	"shadowlsp/overlay"
)

// Config is what a Host is made of.
type Config struct {
	Root           string // the folder, by its real path
	Base           *fusefs.Base
	UserNS         bool
	NoPIDNamespace bool
	// Hide is out of reach of commands: directories with the daemon's files, and
	// those in which other programs of the person listen.
	Hide []string
	// Keep stays visible where something hidden or private covers it.
	Keep []string
	// Home is the person's home, a real path: what commands write there is in
	// memory, and their branch's.
	Home string
	// Sockets is the directory for the branches' own sockets of the agent port.
	Sockets string
	// Agent serves a connection to the socket of a branch; it returns when ctx
	// ends.
	Agent func(ctx context.Context, branch string, c net.Conn)
	// Caches is the directory that takes the place of the tools' caches in the
	// person's home, and Layers that for branches' own changes of those that show
	// the person's; they are made, and Layers is emptied.
	Caches, Layers string
	// Env is the person's environment, which says where his caches are.
	Env []string
	// Write are paths that every command may change: the tool caches that the
	// person shares with his agents.
	Write []string
	// Priority of a command that starts now.
	Priority func() sandbox.Priority
	// Idle is how long a keeper without commands stays; 0 is [DefaultIdle].
	Idle time.Duration
	Log  zerolog.Logger
}

// DefaultIdle: an agent that thinks finds its view warm, and its /tmp as it left
// it.
const DefaultIdle = 5 * time.Minute

// Host runs commands in branches. All methods may be called from any goroutine.
type Host struct {
	cfg Config

	mu      sync.Mutex // guards the fields below
	keepers map[key]*keeper
	sockets int // how many there have been
	closed  bool
	running sync.WaitGroup // of keepers
}

type key struct {
	branch string
	net    sandbox.Net
}

// New makes a host without keepers.
func New(cfg Config) (*Host, error) {
	if cfg.Idle <= 0 {
		cfg.Idle = DefaultIdle
	}
	_ = os.RemoveAll(cfg.Sockets) // a killed daemon's
	removeLayers(cfg.Layers)
	for _, dir := range []string{cfg.Caches, cfg.Layers, cfg.Sockets} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fail("preparing to run commands", Unable, "%w", err)
		}
	}
	return &Host{cfg: cfg, keepers: map[key]*keeper{}}, nil
}

// keeper is one sandbox.Keeper with its view.
type keeper struct {
	host   *Host
	key    key
	made   chan struct{} // closed when the fields below are set
	gone   chan struct{} // closed when its processes and its view have ended
	err    error
	box    *sandbox.Keeper
	view   *fusefs.View
	socket string // "" where there is none

	// users and idle are guarded by Host.mu.
	users int
	idle  *time.Timer
}

// use returns the keeper of a branch, made where there is none; it stays until
// done is called.
func (h *Host) use(ctx context.Context, over *overlay.Branch, net sandbox.Net) (k *keeper, done func(), err error) {
	at := key{over.Name(), net}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, nil, fail("running a command", Ended, "the daemon is ending")
	}
	k = h.keepers[at]
	if k == nil {
		k = &keeper{host: h, key: at, made: make(chan struct{}), gone: make(chan struct{})}
		h.keepers[at] = k
		h.running.Add(1)
		h.sockets++
		number := h.sockets
		go func() { // ends with the keeper; Close waits for it
			defer h.running.Done()
			k.run(over, number)
		}()
	}
	k.users++
	if k.idle != nil {
		k.idle.Stop()
		k.idle = nil
	}
	h.mu.Unlock()
	done = sync.OnceFunc(func() { h.leave(k) })
	select {
	case <-k.made:
		err = k.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return k, done, nil
}

// leave ends one use of k.
func (h *Host) leave(k *keeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k.users--; k.users > 0 || h.keepers[k.key] != k {
		return
	}
	k.idle = time.AfterFunc(h.cfg.Idle, func() {
		h.mu.Lock()
		unused := k.users == 0 && h.keepers[k.key] == k
		if unused {
			delete(h.keepers, k.key) // the next command gets another one
		}
		h.mu.Unlock()
		if unused {
			k.end()
		}
	})
}

// Drop ends the commands and keepers of a branch and waits until they are gone.
func (h *Host) Drop(branch string) {
	h.end(func(at key) bool { return at.branch == branch })
	for _, net := range []sandbox.Net{sandbox.NetPrivate, sandbox.NetNone, sandbox.NetHost} {
		removeLayers(h.layers(key{branch, net}))
	}
}

// Close ends all commands and keepers, and starts no more.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end(func(key) bool { return true })
	h.running.Wait()
}

func (h *Host) end(which func(key) bool) {
	h.mu.Lock()
	var list []*keeper
	for at, k := range h.keepers {
		if which(at) {
			list = append(list, k)
			delete(h.keepers, at)
			if k.idle != nil {
				k.idle.Stop()
			}
		}
	}
	h.mu.Unlock()
	for _, k := range list {
		k.end()
	}
	for _, k := range list {
		<-k.gone
	}
}

// end ends a keeper that is out of the table.
func (k *keeper) end() {
	<-k.made
	if k.box != nil {
		k.box.Kill()
	}
}

// run is a keeper's life.
func (k *keeper) run(over *overlay.Branch, number int) {
	h := k.host
	ctx, cancel := context.WithCancel(context.Background())
	var ports sync.WaitGroup
	listener, err := k.listen(number)
	if err == nil {
		err = k.start(over)
	}
	if err == nil {
		ports.Go(func() { k.accept(ctx, listener, &ports) })
	} else {
		k.err = asError("preparing the branch for commands", err)
	}
	close(k.made)
	if err == nil {
		h.cfg.Log.Info().Str("branch", k.key.branch).Str("net", string(k.key.net)).Strs("lacks", k.box.Lacks).Msg("branch is ready for commands")
		<-k.box.Done()
		if err := k.view.Close(); err != nil {
			h.cfg.Log.Warn().Err(err).Str("branch", k.key.branch).Msg("closing the view of commands")
		}
	}
	h.mu.Lock()
	if h.keepers[k.key] == k {
		delete(h.keepers, k.key)
	}
	if k.idle != nil {
		k.idle.Stop()
	}
	h.mu.Unlock()
	// The end of a connection may be that of its branch, and wait for this.
	close(k.gone)
	cancel()
	if listener != nil {
		listener.Close()
	}
	ports.Wait()
}

// listen opens the branch's own socket of the agent port.
func (k *keeper) listen(number int) (net.Listener, error) {
	k.socket = filepath.Join(k.host.cfg.Sockets, number36(number))
	l, err := net.Listen("unix", k.socket)
	if err != nil {
		return nil, err // not l: a nil pointer in an interface is not nil
	}
	return l, os.Chmod(k.socket, 0o600)
}

// accept serves the branch's socket until the listener is closed.
func (k *keeper) accept(ctx context.Context, l net.Listener, all *sync.WaitGroup) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		all.Go(func() { k.host.cfg.Agent(ctx, k.key.branch, c) })
	}
}

// start makes the namespaces and serves the view in them.
func (k *keeper) start(over *overlay.Branch) error {
	h := k.host
	keep := []sandbox.Kept{{Path: k.socket, Writable: true}, {Path: h.cfg.Caches, Writable: true}}
	for _, path := range h.cfg.Keep {
		keep = append(keep, sandbox.Kept{Path: path})
	}
	for _, path := range h.shared() {
		keep = append(keep, sandbox.Kept{Path: path, Writable: true})
	}
	box, err := sandbox.StartKeeper(context.Background(), sandbox.KeeperSpec{
		Mount: h.cfg.Root, UserNS: h.cfg.UserNS, NoPIDNamespace: h.cfg.NoPIDNamespace,
		Net: k.key.net, Home: h.cfg.Home, Layered: k.layered(), Hide: slices.Concat(h.cfg.Hide, listening(h.cfg.Root, h.cfg.Hide)), Keep: keep,
	})
	if err != nil {
		return err
	}
	view, err := fusefs.Serve(box.Fuse, fusefs.Config{Branch: over, Base: h.cfg.Base, Log: h.cfg.Log, UserNS: h.cfg.UserNS, Fixed: true})
	if err == nil {
		if err = box.Serving(); err == nil {
			view.SetPoker(fusefs.Poker{Thread: box.Poker, Wake: box.Poke})
			k.box, k.view = box, view
			return nil
		}
	}
	box.Kill()
	box.Wait()
	if view != nil {
		_ = view.Close() // the cause is what counts
	}
	return err
}

// layers is the directory of a keeper's own changes to caches.
func (h *Host) layers(at key) string {
	sum := sha256.Sum256([]byte(string(at.net) + " " + at.branch))
	return filepath.Join(h.cfg.Layers, hex.EncodeToString(sum[:8]))
}

// layered is Go's build cache: what is in it goes by the content that it was made
// of, so the person's is as good for a branch as its own, and a first build need
// not begin with the standard library. What the branch builds is its own.
func (k *keeper) layered() []sandbox.Layered {
	person := value(k.host.cfg.Env, goCache)
	if person == "" {
		dir := value(k.host.cfg.Env, "XDG_CACHE_HOME")
		if dir == "" {
			dir = filepath.Join(k.host.cfg.Home, ".cache")
		}
		person = filepath.Join(dir, "go-build")
	}
	person, err := filepath.EvalSymlinks(person)
	if err != nil || !filepath.IsAbs(person) {
		return nil // the person has none
	}
	at := k.host.layers(k.key)
	l := sandbox.Layered{
		Path: filepath.Join(k.host.cfg.Caches, "go-build"), Lower: person,
		Upper: filepath.Join(at, "upper"), Work: filepath.Join(at, "work"),
	}
	for _, dir := range []string{l.Path, l.Upper, l.Work} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			k.host.cfg.Log.Warn().Err(err).Msg("branches share a Go build cache")
			return nil
		}
	}
	return []sandbox.Layered{l}
}

// removeLayers removes a directory of layers, of whatever depth: overlayfs keeps
// one in each that only its owner may open, after a change of mode.
func removeLayers(dir string) {
	for _, pattern := range []string{"work/work", "*/work/work"} {
		locked, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, d := range locked {
			_ = os.Chmod(d, 0o700)
		}
	}
	_ = os.RemoveAll(dir)
}

// home is the home, if there is one.
func (h *Host) home() []string {
	if h.cfg.Home == "" {
		return nil
	}
	return []string{h.cfg.Home}
}

// shared are those of Config.Write that are there.
func (h *Host) shared() []string {
	return slices.DeleteFunc(slices.Clone(h.cfg.Write), func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
}

// maxListening bounds the sockets that are hidden one by one.
const maxListening = 256

// listening are the unix sockets by path on which programs of this machine listen
// now, but for those that are hidden anyway. Who reaches one of the person's
// (docker, the session bus) has the person's rights.
func listening(root string, hidden []string) []string {
	text, _ := os.ReadFile("/proc/net/unix")
	var found []string
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 8)
		path := strings.TrimSpace(fields[len(fields)-1])
		if len(fields) < 8 || !filepath.IsAbs(path) || within(path, root) || slices.ContainsFunc(hidden, func(dir string) bool { return within(path, dir) }) {
			continue
		}
		if found = append(found, path); len(found) == maxListening {
			break
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// within says whether path is dir or below it. Both are clean and absolute.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
