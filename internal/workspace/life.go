package workspace

import (
	"context"
	"fmt"
	"time"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
)

const (
	// maxCheckpoints bounds the checkpoints of one branch: each may hold a layer.
	maxCheckpoints = 1_000
	// dropLimit bounds the wait for what uses a branch that is dropped by force.
	dropLimit = 10 * time.Second
)

// find returns a branch by name.
func (d *daemon) find(name string) (*branch, error) {
	if b := d.branchOrNil(name); b != nil {
		return b, nil
	}
	return nil, noBranch(name)
}

// describe tells of all branches.
func (d *daemon) describe() []agent.BranchInfo {
	out := []agent.BranchInfo{}
	for _, info := range d.store.List() {
		b := d.branchOrNil(info.Name)
		if b == nil {
			continue // an instance's own
		}
		st := b.status()
		agents, commands := b.inUse()
		i := agent.BranchInfo{
			Name: info.Name, From: info.From, Created: info.Created.Format(time.RFC3339), Keep: st.Keep, Rev: st.Rev,
			Overrides: st.Overrides, Git: st.Git, Bytes: info.Bytes, Agents: agents, Commands: commands, Checkpoints: []agent.CheckpointInfo{},
		}
		for _, cp := range b.over.Checkpoints() {
			i.Checkpoints = append(i.Checkpoints, agent.CheckpointInfo{ID: cp.ID, Created: cp.Created.Format(time.RFC3339)})
		}
		out = append(out, i)
	}
	return out
}

// fork makes a kept branch that nobody is attached to; from "" is the base.
func (d *daemon) fork(name, from string) (*branch, error) {
	if name != "" {
		if wrong := agent.ValidBranch(name); wrong != "" {
			return nil, wire.Errorf(wire.CodeInvalidParams, "%q cannot name a branch: %s", name, wrong)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return nil, errEnded
	}
	if d.branches[name] != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "there is a branch %q already", name)
	}
	b, err := d.makeLocked(agent.Options{Branch: name, From: from, Keep: true})
	return b, d.explain(err)
}

func (d *daemon) checkpoint(b *branch, id string) (overlay.Checkpoint, error) {
	if id != "" {
		if wrong := agent.ValidBranch(id); wrong != "" {
			return overlay.Checkpoint{}, wire.Errorf(wire.CodeInvalidParams, "%q cannot name a checkpoint: %s", id, wrong)
		}
	}
	if len(b.over.Checkpoints()) >= maxCheckpoints {
		return overlay.Checkpoint{}, wire.Errorf(wire.CodeRequestFailed, "branch %s has %d checkpoints, which is the limit: fork it and go on there", b.name, maxCheckpoints)
	}
	b.editing.Lock()
	defer b.editing.Unlock()
	cp, err := b.over.Checkpoint(id)
	if overlay.KindOf(err) == overlay.Exist {
		return cp, wire.Errorf(wire.CodeInvalidParams, "branch %s has a checkpoint %q already", b.name, id)
	}
	return cp, d.explain(err)
}

// rollback makes b show a checkpoint again; by (may be nil) is the session that
// asks, which knows.
func (d *daemon) rollback(b *branch, id string, force bool, by *session) error {
	agents, commands := b.inUse()
	if by != nil && by.branch == b {
		agents--
	}
	switch {
	case commands > 0 && !force:
		return wire.Errorf(wire.CodeRequestFailed, "%s in branch %s: rolling back would take its files away: end it first, or force it", runs(commands), b.name)
	case agents > 0 && !force:
		return wire.Errorf(wire.CodeRequestFailed, "%s attached to branch %s, whose files would change under it: force it if that is what you want", are(agents, "other agent"), b.name)
	}
	b.editing.Lock()
	defer b.editing.Unlock()
	// What the servers were told of is known to a branch that stays as this one was.
	temp := fmt.Sprintf("%srollback of %s %p", scratchPrefix, b.name, b)
	was, err := b.over.Fork(temp, false)
	if err != nil {
		return d.explain(err)
	}
	defer func() { _ = d.store.Drop(temp) }()
	err = b.over.Rollback(id)
	if overlay.KindOf(err) == overlay.NotExist {
		return wire.Errorf(wire.CodeInvalidParams, "branch %s has no checkpoint %q: `shadowlsp branch list` shows those that there are", b.name, id)
	}
	if err != nil {
		return d.explain(err)
	}
	b.becameAnother(was)
	d.branchChanged(b, nil)
	return nil
}

// becameAnother notes that the branch shows something else than was does: for the
// servers, and for the documents that agents hold open, which show the files again.
func (b *branch) becameAnother(was *overlay.Branch) {
	changed := news{}
	for _, path := range overlay.Differ(was, b.over) {
		changed.differs(path, was, b.over)
	}
	texts := map[string]string{}
	for _, path := range b.held() {
		if _, err := b.over.Lookup(path); overlay.KindOf(err) == overlay.NotExist || overlay.KindOf(err) == overlay.NotDir {
			continue
		}
		if data, err := b.over.ReadFile(path); err == nil {
			texts[path] = string(data)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rev++
	for _, n := range b.dirty {
		for path, created := range changed {
			n[path] = n[path] || created
		}
	}
	for path, doc := range b.documents {
		if text, ok := texts[path]; ok {
			doc.text = text
		} else {
			delete(b.documents, path)
		}
	}
}

// dropBranch ends a branch.
func (d *daemon) dropBranch(ctx context.Context, b *branch, force bool) error {
	agents, commands := b.inUse()
	if !force && commands > 0 {
		return wire.Errorf(wire.CodeRequestFailed, "%s in branch %s: end it first, or force the drop, which ends it", runs(commands), b.name)
	}
	if !force && agents > 0 {
		return wire.Errorf(wire.CodeRequestFailed, "%s attached to branch %s: let it leave first, or force the drop, which ends its connection", are(agents, "agent"), b.name)
	}
	d.mu.Lock()
	there := d.branches[b.name] == b
	b.mu.Lock()
	b.keep = false
	b.commands++ // our hold, so that the end is in one place
	b.mu.Unlock()
	d.mu.Unlock()
	if !there {
		return noBranch(b.name)
	}
	if err := b.over.Keep(false); err != nil {
		d.cfg.Log.Warn().Err(err).Str("branch", b.name).Msg("forgetting a branch")
	}
	if force {
		d.mu.Lock()
		var on []*session
		for s := range d.sessions {
			if s.branch == b {
				on = append(on, s)
			}
		}
		d.mu.Unlock()
		for _, s := range on {
			s.peer.Close(wire.Errorf(wire.CodeRequestFailed, "branch %s was dropped", b.name))
		}
		if d.commands != nil {
			d.commands.Drop(b.name)
		}
	}
	d.letGo(b, &b.commands)
	ctx, cancel := context.WithTimeout(ctx, dropLimit)
	defer cancel()
	select {
	case <-b.gone:
		return nil
	case <-ctx.Done():
		return wire.Errorf(wire.CodeRequestFailed, "branch %s is dropped when what uses it has ended, which it has not yet", b.name)
	}
}

func runs(n int) string {
	if n == 1 {
		return "a command runs"
	}
	return fmt.Sprintf("%d commands run", n)
}

func are(n int, what string) string {
	if n == 1 {
		return "one " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}
