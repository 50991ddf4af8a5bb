package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
)

// diff writes a branch as a patch for git apply. text: it must be valid UTF-8.
func (d *daemon) diff(ctx context.Context, b *branch, p agent.DiffParams, text bool) (patch []byte, r agent.DiffResult, skipped []string, err error) {
	r = agent.DiffResult{Paths: []string{}, Rev: b.revision()}
	include, of, err := d.selection(ctx, b, p.Paths, p.Ignored)
	if err != nil {
		return nil, r, nil, err
	}
	for _, diff := range of {
		if (diff.Old|diff.New)&unix.S_IFMT != unix.S_IFDIR {
			r.Paths = append(r.Paths, diff.Path)
		}
	}
	var out bytes.Buffer
	stats, err := b.over.Diff(&out, overlay.DiffOptions{Include: include, UTF8: text})
	if err != nil {
		return nil, r, nil, invalid(err)
	}
	return out.Bytes(), r, stats.Skipped, nil
}

// diff returns the session's branch as a patch.
func (s *session) diff(ctx context.Context, p agent.DiffParams) agent.Pending[any] {
	return func() (any, error) {
		patch, r, _, err := s.d.diff(ctx, s.branch, p, true)
		r.Patch = string(patch)
		return r, err
	}
}

// apply brings a branch to the person's folder, or to a git branch. A result with an
// error has the conflicts.
func (d *daemon) apply(ctx context.Context, b *branch, p agent.ApplyParams) (r agent.ApplyResult, err error) {
	include, _, err := d.selection(ctx, b, p.Paths, p.Ignored)
	if err != nil {
		return r, err
	}
	b.editing.Lock()
	defer b.editing.Unlock()
	if p.Git != "" {
		r, err = d.commit(ctx, b, p, include)
		r.Rev = b.revision()
		return r, err
	}
	o := overlay.ApplyOptions{Include: include, Force: p.Force, DryRun: p.DryRun}
	if !p.Force {
		editors := d.attached() // before the branch is locked: who forks it holds the daemon's lock
		o.Before = func(paths []string) error { return d.inTheWay(editors, paths) }
	}
	a, err := b.over.Apply(o)
	r = agent.ApplyResult{Paths: a.Paths, Same: a.Same, Skipped: a.Skipped, Rev: b.revision()}
	if r.Paths == nil {
		r.Paths = []string{}
	}
	for _, c := range a.Conflicts {
		r.Conflicts = append(r.Conflicts, agent.Conflict{
			Path: c.Path, Since: c.Since, Then: sideOf(c.Then), Now: sideOf(c.Now), Branch: sideOf(c.Branch),
		})
	}
	if err == nil {
		if !p.DryRun {
			d.branchChanged(b, nil)
			d.cfg.Log.Info().Str("branch", b.name).Int("paths", len(r.Paths)).Msg("applied to the folder")
		}
		return r, nil
	}
	return r, d.whyNotApplied(b, r, err)
}

// whyNotApplied makes an error for people of one of the overlay.
func (d *daemon) whyNotApplied(b *branch, r agent.ApplyResult, err error) error {
	var refused *wire.Error
	var e *overlay.Error
	if errors.As(err, &refused) {
		return refused
	}
	if overlay.KindOf(err) == overlay.Conflicting {
		var list strings.Builder
		for i, c := range r.Conflicts {
			if i == 10 {
				fmt.Fprintf(&list, ", and %d more", len(r.Conflicts)-i)
				break
			}
			fmt.Fprintf(&list, "%s %s was %s", strings.Repeat(",", min(i, 1)), c.Path, c.Since)
		}
		type mark struct {
			Conflicts []agent.Conflict `json:"conflicts"`
		}
		return wire.Errorf(wire.CodeRequestFailed, "nothing was applied, because the folder has changed since branch %s first did:%s. Take those changes into the branch, or force it, which loses them", b.name, list.String()).
			WithData(map[string]mark{"shadowlsp": {r.Conflicts}})
	}
	if errors.As(err, &e) && e.Kind == overlay.Stale {
		return wire.Errorf(wire.CodeRequestFailed, "nothing was applied: %s was changed just now: try again", e.Path)
	}
	if errors.As(err, &e) && e.Kind == overlay.Exist {
		return wire.Errorf(wire.CodeRequestFailed, "nothing was applied: something that is not applied is in the place of %s", e.Path)
	}
	return wire.Errorf(wire.CodeRequestFailed, "nothing was applied: %v", d.explain(err))
}

// sideOf is a side of a conflict for agents.
func sideOf(s overlay.Side) (out agent.Side) {
	if s.Mode != 0 {
		out.Mode = fmt.Sprintf("%06o", s.Mode)
		if text := string(s.Data); s.Known && utf8.ValidString(text) {
			out.Text = &text
		}
	}
	return out
}
