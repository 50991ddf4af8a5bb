package workspace

import (
	"fmt"
	"path/filepath"
	"sync"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
)

// openBranches takes up the branches that were kept.
func (d *daemon) openBranches() error {
	for _, info := range d.store.List() {
		over, err := d.store.Branch(info.Name)
		if err != nil {
			return err
		}
		if err := d.adopt(over, true); err != nil {
			return err
		}
	}
	return nil
}

// adopt puts a branch of the store into the table.
func (d *daemon) adopt(over *overlay.Branch, keep bool) error {
	b := newBranch(over, keep)
	over.Subscribe(b.wrote) // until the branch is dropped
	d.mu.Lock()
	defer d.mu.Unlock()
	d.branches[b.name] = b
	return nil
}

// branchOrNil returns a branch by name, nil for "" or an unknown one.
func (d *daemon) branchOrNil(name string) *branch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.branches[name]
}

// attachBranch gives an agent its branch, making it where it does not exist.
func (d *daemon) attachBranch(o agent.Options) (*branch, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return nil, errEnded
	}
	b := d.branches[o.Branch]
	if b == nil {
		var err error
		if b, err = d.makeLocked(o); err != nil {
			return nil, err
		}
	}
	b.attach()
	return b, nil
}

// makeLocked makes a branch, which nobody holds yet, of a name that is free.
func (d *daemon) makeLocked(o agent.Options) (*branch, error) {
	if o.From != "" && d.branches[o.From] == nil {
		return nil, noBranch(o.From)
	}
	if err := d.roomForBranchLocked(); err != nil {
		return nil, err
	}
	name := o.Branch
	for name == "" {
		d.nextAgent++
		if fresh := fmt.Sprintf("agent-%d", d.nextAgent); d.branches[fresh] == nil {
			name = fresh
		}
	}
	// A named branch is meant to be come back to; a fresh one only if asked for.
	keep := o.Keep || o.Branch != ""
	from := o.From
	if o.Base == agent.BaseEditor {
		if from != "" {
			return nil, wire.Errorf(wire.CodeInvalidParams, `"from" and "base": "editor" exclude each other: the branch %q stands on its own base`, from)
		}
		temp, err := d.editorBranchLocked(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = d.store.Drop(temp) }() // its layer stays under the branch
		from = temp
	}
	over, err := d.store.Create(name, overlay.CreateOptions{From: from, Keep: keep})
	if err != nil {
		return nil, err
	}
	b := newBranch(over, keep)
	over.Subscribe(b.wrote)
	d.branches[name] = b
	return b, nil
}

// editorBranchLocked makes a branch that holds the person's unsaved text.
func (d *daemon) editorBranchLocked(name string) (temp string, err error) {
	if len(d.editors) == 0 {
		return "", wire.Errorf(wire.CodeRequestFailed, `no editor is attached to %s: use "base": "disk"`, d.root)
	}
	temp = scratchPrefix + "editor of " + name
	over, err := d.store.Create(temp, overlay.CreateOptions{})
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = d.store.Drop(temp)
		}
	}()
	for e := range d.editors {
		texts, complete := e.unsaved(func(path string) ([]byte, error) {
			rel, err := relative(d.root, path)
			if err != nil {
				return nil, err
			}
			return over.ReadFile(rel)
		})
		if !complete {
			return temp, wire.Errorf(wire.CodeRequestFailed, `the editor's unsaved text is not known for sure (it was opened before this daemon ran): close and open the files there, or use "base": "disk"`)
		}
		for path, text := range texts {
			rel, err := relative(d.root, path)
			if err != nil {
				continue // a file elsewhere is none of a branch's
			}
			if err := over.WriteFile(rel, []byte(text), 0); err != nil {
				return temp, err
			}
		}
	}
	return temp, nil
}

func (b *branch) attach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions++
}

// drop makes the end of the last session that of the branch.
func (b *branch) drop() BranchStatus {
	b.mu.Lock()
	b.keep = false
	b.mu.Unlock()
	return b.status()
}

// detachBranch ends one session's hold; the last hold's end drops a branch that
// is not kept.
func (d *daemon) detachBranch(b *branch) { d.letGo(b, &b.sessions) }

// letGo takes one from a count of holds (branch.sessions, branch.commands).
func (d *daemon) letGo(b *branch, holds *int) {
	d.mu.Lock()
	b.mu.Lock()
	*holds--
	last := b.sessions == 0 && b.commands == 0 && !b.keep
	b.mu.Unlock()
	if last {
		delete(d.branches, b.name)
	}
	d.mu.Unlock()
	if last {
		d.release(b)
	}
}

// release makes all instances let go of a branch that is out of the table, then
// deletes it.
func (d *daemon) release(b *branch) {
	d.mu.Lock()
	pools := make([]*pool, 0, len(d.pools))
	for _, p := range d.pools {
		pools = append(pools, p)
	}
	d.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range pools {
		wg.Go(func() { p.drop(b.name) })
	}
	if d.commands != nil {
		d.commands.Drop(b.name)
	}
	wg.Wait()
	if err := d.store.Drop(b.name); err != nil {
		d.cfg.Log.Warn().Err(err).Str("branch", b.name).Msg("dropping a branch")
	}
	close(b.gone)
}

// uriPath is where a path of a branch is on disk, for people and URIs.
func (d *daemon) uriPath(rel string) string { return filepath.Join(d.root, rel) }
