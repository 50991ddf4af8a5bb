package workspace

import (
	"cmp"

	"shadowlsp/lsp/agent"
)

// Limits bound what agents may take. A zero field means its default. What branches
// may hold is [Layers.Max]. Past each the one who asked is told which limit it is,
// and nobody else notices.
type Limits struct {
	// Branches of the workspace. An idle one costs some kilobytes; the limit
	// catches an agent that makes branches in a loop.
	Branches int // 10,000
	// Connections to the agent port: each takes a descriptor and some goroutines.
	Connections int // agent.DefaultMaxConnections
	// Queued requests of one branch that wait for one server.
	Queued int // 256
	// Documents that one connection may hold open.
	Documents int // the agent port's own, 4,096
}

const (
	defaultBranches = 10_000
	defaultQueued   = 256
)

// roomForBranchLocked returns why no more branch can be made, or nil. Daemon.mu is
// held.
func (d *daemon) roomForBranchLocked() error {
	most := cmp.Or(d.cfg.Limits.Branches, defaultBranches)
	if len(d.branches) < most {
		return nil
	}
	return agent.OverLimit("max-branches", int64(most),
		"the workspace has %d branches, which is the limit (--max-branches): drop some, or restart the daemon with a larger one", len(d.branches))
}
