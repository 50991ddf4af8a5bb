package workspace

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"shadowlsp/fusefs"
	"shadowlsp/internal/mode"
	"shadowlsp/internal/sandbox"
	"shadowlsp/lsp/remap"
)

// way carries the daemon's mode out: what differs by mode is behind it and
// nowhere else.
type way interface {
	folder
	// start runs a server that shows the branch over, which is its own; on an
	// error nothing of it is left.
	start(ctx context.Context, spec sandbox.Spec, p *pool, scratch *branch, log zerolog.Logger) (*sandbox.Process, sight, error)
}

// folder is the person's folder as it changes.
type folder interface {
	// Sync returns when every change made before the call has been told to the
	// subscribers.
	Sync(ctx context.Context) error
	// Subscribe calls f with changes; f must not block.
	Subscribe(f func([]fusefs.BaseChange)) (cancel func())
	// Blind says that something may change without anybody being told.
	Blind() bool
	Close() error
}

// sight is how one instance sees branches. Its methods are called by one
// goroutine at a time.
type sight interface {
	// disk is the branch whose files the server finds on its disk while b's turn
	// is.
	disk(b *branch) *branch
	// look makes the server's disk that of disk, an answer of disk().
	look(disk *branch) error
	// settled returns when all changes so far are on the server's disk.
	settled(ctx context.Context) error
	// lacks says why the server cannot know the truth about these documents (nil:
	// about any) in this state, or nil.
	lacks(st state, uris []string) error
	// hazy says why the server cannot know the truth about one document among
	// all, though it can about others; "" if it can.
	hazy(st state, uri string) string
	// paths are where the server finds the folder, or nil: where it is.
	paths() *remap.Map
	// asked says whether the server may have come to know what is at a path of its
	// disk, or that nothing is; comes: there was nothing before, or is nothing now.
	asked(path string, comes bool) bool
	// close is called when the process has ended.
	close() error
}

// newWay makes the way of a decided mode.
func newWay(d *daemon) (way, error) {
	if d.mode.Mode == mode.Documents {
		w, err := newDocumentsWay(d)
		if err != nil {
			return nil, err // not w: a nil pointer in an interface is not nil
		}
		return w, nil
	}
	base, err := fusefs.NewBase(d.root, d.cfg.Log)
	if err != nil {
		return nil, err
	}
	if d.mode.Mode == mode.Elsewhere {
		w, err := newElsewhereWay(d, base)
		if err != nil {
			return nil, errors.Join(err, base.Close())
		}
		return w, nil
	}
	return &fullWay{Base: base, decision: d.mode}, nil
}

// fullWay is mode.Full: the disk that a server sees is a view of its branch.
type fullWay struct {
	*fusefs.Base
	decision mode.Decision
}

func (w *fullWay) start(ctx context.Context, spec sandbox.Spec, p *pool, scratch *branch, log zerolog.Logger) (*sandbox.Process, sight, error) {
	spec.UserNS, spec.NoPIDNamespace = w.decision.UserNS, w.decision.NoPIDNamespace
	proc, err := sandbox.Start(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	view, err := fusefs.Serve(proc.Fuse, fusefs.Config{Branch: scratch.over, Base: w.Base, Log: log, UserNS: spec.UserNS, Asks: p.profile().Remembers})
	if err == nil {
		if err = proc.Exec(); err == nil {
			view.SetPoker(fusefs.Poker{Thread: proc.Poker, Wake: proc.Poke})
			return proc, viewSight{view}, nil
		}
	}
	proc.Kill()
	proc.Wait()
	if view != nil {
		_ = view.Close() // the cause is what counts
	}
	return nil, nil, err
}

type viewSight struct{ view *fusefs.View }

func (s viewSight) disk(b *branch) *branch { return b }

func (s viewSight) look(disk *branch) error {
	_, err := s.view.Switch(disk.over)
	return err
}

func (s viewSight) settled(ctx context.Context) error { return s.view.Settled(ctx) }
func (s viewSight) lacks(state, []string) error       { return nil }
func (s viewSight) hazy(state, string) string         { return "" }
func (s viewSight) close() error                      { return s.view.Close() }
func (s viewSight) paths() *remap.Map                 { return nil }
func (s viewSight) asked(path string, comes bool) bool {
	return s.view.Asked(path, comes)
}

var (
	_ way   = (*fullWay)(nil)
	_ way   = (*elsewhereWay)(nil)
	_ way   = (*documentsWay)(nil)
	_ sight = viewSight{}
	_ sight = elsewhereSight{}
	_ sight = documentsSight{}
)
