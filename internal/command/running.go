package command

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"shadowlsp/internal/sandbox"
	"shadowlsp/overlay"
)

// Running is a command that runs.
type Running struct {
	// Terminal is the other side of its terminal, where it has one; whoever
	// started it closes it.
	Terminal *os.File
	// Lacks is what the machine cannot give, and what is lost by it.
	Lacks []string

	proc     *sandbox.Process
	done     func()
	timer    *time.Timer
	timedOut atomic.Bool
	killed   atomic.Bool
}

// grace is how long a command whose time is over may take to end after SIGTERM.
const grace = 2 * time.Second

// streams are a command's; nil is /dev/null.
type Streams struct{ In, Out, Err *os.File }

// Start runs a command in a branch; the caller closes its copies of the streams
// and calls Wait. ctx bounds the start only.
func (h *Host) Start(ctx context.Context, over *overlay.Branch, c Command, s Streams) (*Running, error) {
	if c.Net == "" {
		c.Net = sandbox.NetPrivate
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	k, done, err := h.use(ctx, over, c.Net)
	if err != nil {
		return nil, err
	}
	r, err := k.begin(ctx, c, s)
	if err != nil {
		done()
		return nil, asError("running "+c.Argv[0], err)
	}
	r.done = done
	if c.Timeout > 0 {
		r.timer = time.AfterFunc(c.Timeout, r.timeOut)
	}
	return r, nil
}

func (c Command) check() error {
	const op = "running a command"
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return fail(op, Invalid, "no command is given")
	case !filepath.IsAbs(c.Dir):
		return fail(op, Invalid, "the working directory %q is not an absolute path", c.Dir)
	case !slices.Contains([]sandbox.Net{sandbox.NetPrivate, sandbox.NetNone, sandbox.NetHost}, c.Net):
		return fail(op, Invalid, "there is no network %q: it is private, none or host", c.Net)
	case c.Timeout < 0:
		return fail(op, Invalid, "the time-out is negative")
	}
	for _, path := range c.Write {
		if !filepath.IsAbs(path) {
			return fail(op, Invalid, "%q, to be written to, is not an absolute path", path)
		}
		if _, err := os.Stat(path); err != nil {
			return fail(op, Invalid, "%s, to be written to, must exist: %w", path, err)
		}
	}
	return nil
}

// begin starts the command in its keeper.
func (k *keeper) begin(ctx context.Context, c Command, s Streams) (*Running, error) {
	h := k.host
	if c.Strict && len(k.box.Lacks) > 0 {
		return nil, fail("running "+c.Argv[0], Unable, "refused, because it was asked to be strict: %s", strings.Join(k.box.Lacks, "; "))
	}
	// The command sees what was there when it was asked for.
	if err := h.cfg.Base.Sync(ctx); err != nil {
		return nil, err
	}
	if err := k.view.Settled(ctx); err != nil {
		return nil, err
	}
	priority := h.cfg.Priority()
	p, err := k.box.Start(ctx, sandbox.Spec{
		Argv: c.Argv, Env: k.environment(c), Dir: c.Dir, Umask: c.Umask, Terminal: c.Terminal, Writable: c.Write,
		Stdin: s.In, Stdout: s.Out, Stderr: s.Err,
		Priority: priority,
		Confine: &sandbox.Confine{
			Write:     slices.Concat([]string{h.cfg.Caches}, h.home(), h.shared(), c.Write),
			SharedNet: c.Net == sandbox.NetHost, Strict: c.Strict,
			Memory: limit(c.Limits.Memory, 0), FileSize: limit(c.Limits.FileSize, 0), Processes: limit(c.Limits.Processes, DefaultProcesses),
		},
	})
	if err != nil {
		return nil, err
	}
	if err := p.Exec(); err != nil {
		if p.Terminal != nil {
			p.Terminal.Close()
		}
		p.Wait()
		return nil, err
	}
	if now := h.cfg.Priority(); now != priority { // it has changed for all that run
		p.Reprioritise(now)
	}
	return &Running{proc: p, Terminal: p.Terminal, Lacks: slices.Concat(k.box.Lacks, p.Lacks)}, nil
}

// timeOut asks the command to end, and does not wait long.
func (r *Running) timeOut() {
	r.timedOut.Store(true)
	if r.proc.SignalGroup(syscall.SIGTERM) == nil {
		select {
		case <-r.proc.Done():
		case <-time.After(grace):
		}
	}
	r.proc.Kill()
}

// Signal passes a signal to the command, or to its process group.
func (r *Running) Signal(sig syscall.Signal, group bool) {
	if group {
		_ = r.proc.SignalGroup(sig) // one that has ended needs none
		return
	}
	_ = r.proc.Signal(sig)
}

// Kill ends the command and all that it started.
func (r *Running) Kill() {
	r.killed.Store(true)
	r.proc.Kill()
}

// Wait waits until the command has ended and all that it started is gone. Call it
// once.
func (r *Running) Wait() Exit {
	status, err := r.proc.Wait()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.done()
	e := Exit{Code: status.Code, Signal: status.Signal, TimedOut: r.timedOut.Load()}
	e.Killed = err != nil && !e.TimedOut
	return e
}

// AgentVariable is what tells `shadowlsp connect` in a branch its socket, and
// BranchVariable the branch's name.
const (
	AgentVariable  = "SHADOWLSP_AGENT"
	BranchVariable = "SHADOWLSP_BRANCH"
)

// QuietGit, in an environment, keeps git from refreshing .git/index as it looks:
// the refreshed copy would be the branch's, and hide the person's later ones.
const QuietGit = "GIT_OPTIONAL_LOCKS=0"

// environment is the caller's but for what would lead out of the branch: where
// temporary files are made, and where tools keep their caches.
func (k *keeper) environment(c Command) []string {
	set := map[string]string{AgentVariable: k.socket, BranchVariable: k.key.branch}
	if name, quiet, _ := strings.Cut(QuietGit, "="); value(c.Env, name) == "" {
		set[name] = quiet
	}
	shared, home := slices.Concat(k.host.shared(), c.Write), value(c.Env, "HOME")
	for _, cache := range caches {
		at := value(c.Env, cache.variable)
		if at == "" {
			at = filepath.Join(home, cache.home)
		}
		if !named(at, shared) { // else the person shares it
			set[cache.variable] = filepath.Join(k.host.cfg.Caches, cache.dir)
		}
	}
	env := make([]string, 0, len(c.Env)+len(set))
	for _, pair := range c.Env {
		name, _, _ := strings.Cut(pair, "=")
		if _, ours := set[name]; !ours && !slices.Contains(temporary, name) {
			env = append(env, pair)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		env = append(env, name+"="+set[name])
	}
	return env
}

// value is that of a variable; the last one counts, as for exec.Cmd.
func value(env []string, name string) (value string) {
	for _, pair := range env {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			value = v
		}
	}
	return value
}

// named says whether a path is below one of these.
func named(path string, dirs []string) bool {
	return path != "" && slices.ContainsFunc(dirs, func(dir string) bool { return within(path, dir) })
}

// temporary name directories that are not the command's own /tmp.
var temporary = []string{"TMPDIR", "TMP", "TEMP", "TEMPDIR", "GOTMPDIR"}

// caches are where tools keep what they can make again: the variable that says
// where, the place below the home where there is none, and ours. What they only
// read in the home (module caches, registries) stays where it is.
var caches = []struct{ variable, home, dir string }{
	{"XDG_CACHE_HOME", ".cache", "xdg"},
	{goCache, ".cache/go-build", "go-build"},
	{"npm_config_cache", ".npm", "npm"},
	{"PIP_CACHE_DIR", ".cache/pip", "pip"},
	{"YARN_CACHE_FOLDER", ".cache/yarn", "yarn"},
	{"CCACHE_DIR", ".cache/ccache", "ccache"},
}

const goCache = "GOCACHE"

func number36(n int) string { return strconv.FormatInt(int64(n), 36) }
