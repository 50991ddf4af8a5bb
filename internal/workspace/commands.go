package workspace

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"

	"shadowlsp/internal/command"
	"shadowlsp/internal/mode"
	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/wire"
)

// openCommands makes the daemon able to run commands in branches, where its mode
// is one in which they see a branch.
func (d *daemon) openCommands() (err error) {
	way, ok := d.way.(*fullWay)
	if !ok {
		return nil
	}
	p := d.cfg.Place
	hide := []string{
		// The daemon's own files, and those of this user's other daemons.
		filepath.Dir(p.Runtime), filepath.Dir(p.State), d.layers.Dir,
		// Where the person's other programs listen: the session bus, containers,
		// keys. To speak to them is to act as the person.
		"/run",
	}
	if dir := d.variable("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		hide = append(hide, filepath.Clean(dir))
	}
	keep := runKept
	if self, err := os.Executable(); err == nil {
		keep = append(keep[:len(keep):len(keep)], self)
	}
	home, err := filepath.EvalSymlinks(d.variable("HOME"))
	if err != nil || !filepath.IsAbs(home) || home == "/" {
		home = ""
	}
	d.commands, err = command.New(command.Config{
		Home: home,
		Root: d.root, Base: way.Base, UserNS: d.mode.UserNS, NoPIDNamespace: d.mode.NoPIDNamespace,
		Hide: hide, Keep: keep,
		Sockets: filepath.Join(p.Runtime, "b"), Agent: d.branchAgent,
		Caches: filepath.Join(p.State, "caches"), Layers: filepath.Join(p.State, "cache-layers"), Env: d.cfg.Env,
		Write:    d.runWrite(),
		Priority: d.priority, Log: d.cfg.Log,
	})
	return err
}

// runKept is what programs need of /run: name resolution, and on some systems
// the programs themselves.
var runKept = []string{
	"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf",
	"/run/current-system", "/run/booted-system", "/run/wrappers", "/run/opengl-driver",
}

// runWrite are the paths that the configuration lets every command write.
func (d *daemon) runWrite() (paths []string) {
	for _, path := range d.config.Run.Write {
		if rest, ok := strings.CutPrefix(path, "~"); ok {
			path = d.variable("HOME") + rest
		}
		if real, err := filepath.EvalSymlinks(path); err == nil && filepath.IsAbs(real) {
			path = real
		}
		if !filepath.IsAbs(path) {
			d.cfg.Log.Warn().Str("path", path).Msg("run.write names a path that is not absolute: it is left out")
			continue
		}
		paths = append(paths, filepath.Clean(path))
	}
	return paths
}

// variable is a variable of the daemon's environment.
func (d *daemon) variable(name string) string {
	for _, pair := range d.cfg.Env {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// branchAgent serves a connection to the socket that the commands of a branch
// reach.
func (d *daemon) branchAgent(ctx context.Context, name string, c net.Conn) {
	d.serveAgent(ctx, c, agent.Config{Trace: &d.trace, Log: d.cfg.Log}, onlyBranch{d, name})
}

// onlyBranch is the daemon for connections that may attach to one branch only.
type onlyBranch struct {
	d    *daemon
	name string
}

// Attach implements agent.Backend.
func (o onlyBranch) Attach(ctx context.Context, a agent.Attach) (agent.Attached, error) {
	if b := a.Options.Branch; b != "" && b != o.name || a.Options.From != "" || a.Options.Base == agent.BaseEditor {
		return agent.Attached{}, wire.Errorf(wire.CodeInvalidParams,
			`this is the port of the branch %q, for what runs in it: leave "branch", "from" and "base" away, or connect from outside`, o.name)
	}
	a.Options.Branch = o.name
	attached, err := o.d.Attach(ctx, a)
	if s, ok := attached.Session.(*session); ok {
		s.inside = true
	}
	return attached, err
}

// noCommands says why commands cannot run.
func (d *daemon) noCommands() error {
	return wire.Errorf(wire.CodeRequestFailed, "commands run in mode %s only, and this daemon is in mode %s: `shadowlsp doctor` says why", mode.Full, d.mode.Mode)
}

// exec serves one `shadowlsp exec`.
func (d *daemon) exec(c net.Conn) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return
	}
	r, streams, err := command.Receive(u)
	if err != nil {
		d.cfg.Log.Warn().Err(err).Msg("a command that was asked for is not understood")
		return
	}
	d.join()
	defer d.leave()
	if d.commands == nil {
		command.Refuse(u, streams, d.noCommands())
		return
	}
	if r.Branch != "" {
		if why := agent.ValidBranch(r.Branch); why != "" {
			command.Refuse(u, streams, wire.Errorf(wire.CodeInvalidParams, "branch %q: %s", r.Branch, why))
			return
		}
	}
	// A session holds the branch from its making until the command does.
	b, err := d.attachBranch(agent.Options{Branch: r.Branch, From: r.From, Keep: r.Keep})
	if err != nil {
		command.Refuse(u, streams, d.explain(err))
		return
	}
	_, done, err := d.commandStarts(b.name)
	d.detachBranch(b)
	if err != nil {
		command.Refuse(u, streams, err)
		return
	}
	defer done()
	log := d.cfg.Log.With().Str("branch", b.name).Str("command", r.Argv[0]).Logger()
	log.Info().Msg("command")
	d.commands.Serve(d.ctx, u, r, streams, b.over)
	log.Info().Msg("command has ended")
}

// join and leave count those who need the daemon.
func (d *daemon) join() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.connections++
	d.busyLocked()
}

func (d *daemon) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.connections--
	d.restLocked()
}

var _ agent.Backend = onlyBranch{}
