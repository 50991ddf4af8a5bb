package workspace

import (
	"sync"

	"shadowlsp/lsp/wire"
)

// commandStarts notes that a command is about to run in the branch of that name,
// and holds the branch until done is called, which may be called again. While it
// runs, rollback and drop are refused unless they are forced.
func (d *daemon) commandStarts(name string) (b *branch, done func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return nil, nil, errEnded
	}
	if b = d.branches[name]; b == nil {
		return nil, nil, noBranch(name)
	}
	b.mu.Lock()
	b.commands++
	b.mu.Unlock()
	return b, sync.OnceFunc(func() {
		// It may have written outside the workspace, where it was allowed to
		// ([run] write), to what servers read.
		d.generation.Add(1)
		d.letGo(b, &b.commands)
	}), nil
}

// noBranch is the error for a name that no branch has.
func noBranch(name string) error {
	return wire.Errorf(wire.CodeInvalidParams, "there is no branch %q: `shadowlsp branch list` shows those that there are", name)
}

// inUse counts who would notice that a branch goes or changes as a whole.
func (b *branch) inUse() (agents, commands int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions, b.commands
}
