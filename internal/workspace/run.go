package workspace

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"shadowlsp/internal/command"
	"shadowlsp/internal/sandbox"
	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// runUmask is that of commands that agents run.
const runUmask = 0o022

// run runs a command in the session's branch.
func (s *session) run(ctx context.Context, p agent.RunParams) agent.Pending[any] {
	c, err := s.d.commandOf(p)
	if err == nil && s.d.commands == nil {
		err = s.d.noCommands()
	}
	if err != nil {
		return agent.Now[any](nil, err)
	}
	most := p.MaxOutput
	if most == 0 {
		most = agent.DefaultOutput
	}
	_, done, err := s.d.commandStarts(s.branch.name)
	if err != nil {
		return agent.Now[any](nil, err)
	}
	id := agent.RequestID(ctx)
	return func() (any, error) {
		defer done()
		captured, err := s.d.commands.Capture(ctx, s.branch.over, c, p.Stdin, most, func(o command.Output) {
			piece := agent.OutputParams{ID: id, Stream: o.Stream, Omitted: o.Omitted}
			if utf8.Valid(o.Data) {
				piece.Data = string(o.Data)
			} else {
				piece.Base64 = o.Data
			}
			s.peer.Notify(agent.NotifyOutput, piece)
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, wire.Errorf(wire.CodeRequestFailed, "%v", err)
		}
		r := agent.RunResult{
			ExitCode: captured.Code, TimedOut: captured.TimedOut, Lacks: captured.Lacks, Rev: s.branch.revision(),
			Stdout: captured.Stdout, Stderr: captured.Stderr, Omitted: captured.Omitted, Truncated: captured.Omitted > 0,
		}
		if captured.Signal != 0 {
			r.ExitCode, r.Signal = 128+int(captured.Signal), unix.SignalName(captured.Signal)
		}
		if captured.Killed {
			return nil, wire.Errorf(wire.CodeRequestFailed, "the command was ended, because its branch was dropped or the daemon ends")
		}
		return r, nil
	}
}

// commandOf is the command that an agent asks for.
func (d *daemon) commandOf(p agent.RunParams) (command.Command, error) {
	bad := func(format string, args ...any) (command.Command, error) {
		return command.Command{}, wire.Errorf(wire.CodeInvalidParams, agent.MethodRun+": "+format, args...)
	}
	c := command.Command{
		Argv: p.Argv, Dir: d.root, Umask: runUmask, Net: sandbox.Net(p.Net), Strict: p.Strict,
		Timeout: time.Duration(p.Timeout * float64(time.Second)),
	}
	switch {
	case (len(p.Argv) == 0) == (p.Command == ""):
		return bad(`it has both or neither of "argv" and "command": it must have one`)
	case p.Command != "":
		c.Argv = []string{"/bin/sh", "-c", p.Command}
	}
	switch {
	case !(p.Timeout >= 0 && p.Timeout < math.MaxInt32):
		return bad("the timeout %v is no number of seconds", p.Timeout)
	case p.MaxOutput < 0 || p.MaxOutput > agent.MaxOutput:
		return bad("maxOutput is %d: it must be from 0 to %d", p.MaxOutput, agent.MaxOutput)
	}
	if p.Cwd != "" {
		c.Dir = p.Cwd
		if path, ok := docuri.Path(p.Cwd); ok {
			c.Dir = path
		} else if !filepath.IsAbs(p.Cwd) {
			c.Dir = filepath.Join(d.root, p.Cwd)
		}
	}
	for _, pair := range d.cfg.Env {
		if name, _, _ := strings.Cut(pair, "="); !has(p.Env, name) {
			c.Env = append(c.Env, pair)
		}
	}
	for name, value := range p.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return bad("%q is no variable's name, or its value holds a zero byte", name)
		}
		c.Env = append(c.Env, name+"="+value)
	}
	return c, nil
}

func has(m map[string]string, name string) bool { _, ok := m[name]; return ok }
