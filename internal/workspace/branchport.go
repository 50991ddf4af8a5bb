package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/wire"
)

// BranchRequest is what `shadowlsp branch …` asks of the daemon.
type BranchRequest struct {
	Do     string            `json:"do"` // list, new, checkpoint, uncheckpoint, rollback, diff, apply, drop
	Branch string            `json:"branch,omitempty"`
	From   string            `json:"from,omitempty"` // new: what it is forked from; "": the folder
	ID     string            `json:"id,omitempty"`   // of a checkpoint
	Force  bool              `json:"force,omitempty"`
	Diff   agent.DiffParams  `json:"diff"`
	Apply  agent.ApplyParams `json:"apply"`
}

// BranchAnswer answers a BranchRequest. Error is "" where it was done.
type BranchAnswer struct {
	Error string `json:"error,omitempty"`
	// Refused says that nothing is wrong but the state of things: the same can be
	// asked again, with force where that is allowed.
	Refused  bool               `json:"refused,omitempty"`
	Branches []agent.BranchInfo `json:"branches,omitempty"`
	Branch   string             `json:"branch,omitempty"`
	ID       string             `json:"id,omitempty"`
	Patch    []byte             `json:"patch,omitempty"` // any bytes
	Skipped  []string           `json:"skipped,omitempty"`
	Applied  *agent.ApplyResult `json:"applied,omitempty"`
}

// maxBranchRequest bounds a BranchRequest, in bytes: it may name many paths.
const maxBranchRequest = 16 << 20

// branchPort serves one BranchRequest.
func (d *daemon) branchPort(c net.Conn) {
	var r BranchRequest
	if err := json.NewDecoder(io.LimitReader(c, maxBranchRequest)).Decode(&r); err != nil {
		d.cfg.Log.Warn().Err(err).Msg("a request about branches is not understood")
		return
	}
	d.join()
	defer d.leave()
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	a, err := d.answerBranch(ctx, r)
	if err != nil {
		a.Error = err.Error()
		var w *wire.Error
		if errors.As(err, &w) {
			a.Error, a.Refused = w.Message, w.Code == wire.CodeRequestFailed
		}
	}
	if err := json.NewEncoder(c).Encode(a); err != nil {
		d.cfg.Log.Debug().Err(err).Msg("answering a request about branches")
	}
}

func (d *daemon) answerBranch(ctx context.Context, r BranchRequest) (a BranchAnswer, err error) {
	switch r.Do {
	case "list":
		a.Branches = d.describe()
		return a, nil
	case "new":
		b, err := d.fork(r.Branch, r.From)
		if err == nil {
			a.Branch = b.name
		}
		return a, err
	}
	b, err := d.find(r.Branch)
	if err != nil {
		return a, err
	}
	a.Branch = b.name
	switch r.Do {
	case "checkpoint":
		cp, err := d.checkpoint(b, r.ID)
		a.ID = cp.ID
		return a, err
	case "uncheckpoint":
		return a, invalidOrNil(b.over.DropCheckpoint(r.ID))
	case "rollback":
		return a, d.rollback(b, r.ID, r.Force, nil)
	case "drop":
		return a, d.dropBranch(ctx, b, r.Force)
	case "diff":
		a.Patch, _, a.Skipped, err = d.diff(ctx, b, r.Diff, false)
		return a, err
	case "apply":
		applied, err := d.apply(ctx, b, r.Apply)
		a.Applied = &applied
		return a, err
	}
	return a, wire.Errorf(wire.CodeInvalidParams, "%q is nothing that can be done to a branch", r.Do)
}

func invalidOrNil(err error) error {
	if err == nil {
		return nil
	}
	return invalid(err)
}

// lifeExtension answers the agent port's requests about branches; ok is false for
// others.
func (s *session) lifeExtension(ctx context.Context, method string, params json.RawMessage) (p agent.Pending[json.RawMessage], ok bool) {
	later := func(f func() (any, error)) agent.Pending[any] { return f }
	switch method {
	case agent.MethodBranches:
		p = answer(params, method, func(agent.BranchesParams) agent.Pending[any] {
			return later(func() (any, error) { return agent.BranchesResult{Branches: s.d.describe()}, nil })
		})
	case agent.MethodFork:
		p = answer(params, method, func(q agent.ForkParams) agent.Pending[any] {
			if err := s.reaches(method); err != nil {
				return agent.Now[any](nil, err)
			}
			b, err := s.d.fork(q.Name, s.branch.name) // at once: it is of what was edited before
			if err != nil {
				return agent.Now[any](nil, err)
			}
			return agent.Now[any](agent.ForkResult{Branch: b.name}, nil)
		})
	case agent.MethodCheckpoint:
		p = answer(params, method, func(q agent.CheckpointParams) agent.Pending[any] {
			cp, err := s.d.checkpoint(s.branch, q.ID)
			return agent.Now[any](agent.CheckpointResult{ID: cp.ID, Rev: s.branch.revision()}, err)
		})
	case agent.MethodRollback:
		p = answer(params, method, func(q agent.RollbackParams) agent.Pending[any] {
			err := s.d.rollback(s.branch, q.ID, q.Force, s)
			return agent.Now[any](agent.RollbackResult{Rev: s.branch.revision()}, err)
		})
	case agent.MethodApply:
		p = answer(params, method, func(q agent.ApplyParams) agent.Pending[any] {
			return later(func() (any, error) {
				if err := s.reaches(method); err != nil {
					return nil, err
				}
				return s.d.apply(ctx, s.branch, q)
			})
		})
	case agent.MethodDrop:
		p = answer(params, method, func(q agent.DropParams) agent.Pending[any] {
			return later(func() (any, error) { return s.drop(ctx, q) })
		})
	default:
		return nil, false
	}
	return p, true
}

// drop drops the session's own branch when the last that holds it has left, or
// another one at once.
func (s *session) drop(ctx context.Context, q agent.DropParams) (any, error) {
	if q.Branch == "" || q.Branch == s.branch.name {
		b := s.branch.drop()
		return agent.DropResult{Branch: b.Name, Agents: b.Agents}, s.branch.over.Keep(false)
	}
	if err := s.reaches(agent.MethodDrop); err != nil {
		return nil, err
	}
	b, err := s.d.find(q.Branch)
	if err != nil {
		return nil, err
	}
	return agent.DropResult{Branch: b.name}, s.d.dropBranch(ctx, b, q.Force)
}

// reaches refuses what would reach out of a branch to those that run in it.
func (s *session) reaches(method string) error {
	if s.inside {
		return wire.Errorf(wire.CodeRequestFailed, "%s reaches out of the branch, and this connection comes from a command that runs in it: ask from outside", method)
	}
	return nil
}
