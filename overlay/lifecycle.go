package overlay

import (
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CreateOptions make a branch.
type CreateOptions struct {
	From string // a branch to start from; "": the base
	Keep bool   // outlives Close and kill -9
}

// maxBranchName: names stand in records, logs and errors.
const maxBranchName = 200

// Create makes a branch. The name is any text up to 200 bytes. A branch that is
// not kept costs no file until it is written to.
func (s *Store) Create(name string, o CreateOptions) (*Branch, error) {
	b, err := s.create(name, o)
	return b, wrap("create", name, "", err)
}

func (s *Store) create(name string, o CreateOptions) (*Branch, error) {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return nil, kindError(Invalid)
	}
	if len(name) > maxBranchName {
		return nil, kindError(TooLong)
	}
	b := &Branch{store: s, name: name, from: o.From, created: s.clock(), keep: o.Keep}
	b.feed.rev = 1
	b.since = s.now()
	below := &chain{}
	if o.From != "" {
		parent, err := s.Branch(o.From)
		if err != nil {
			return nil, err
		}
		if below, err = parent.freeze(); err != nil {
			return nil, err
		}
		defer s.releaseChain(below) // freeze's reference; b takes its own
		b.since = parent.since
	}
	s.begin(b.since)
	b.chain.Store(s.onTop(below))
	b.write.Lock() // before others can find it
	defer b.write.Unlock()
	if err := s.register(b); err != nil {
		s.releaseChain(b.chain.Load())
		return nil, err
	}
	if o.Keep {
		if err := b.record(); err != nil {
			s.mu.Lock()
			delete(s.branches, name)
			s.mu.Unlock()
			s.releaseChain(b.chain.Swap(nil))
			return nil, err
		}
	}
	return b, nil
}

func (s *Store) register(b *Branch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return kindError(Closed)
	}
	if s.branches[b.name] != nil {
		return kindError(Exist)
	}
	s.branches[b.name] = b
	return nil
}

// onTop is a chain of a new empty layer over those of below, with references taken.
func (s *Store) onTop(below *chain) *chain {
	c := &chain{layers: append([]*layer{s.newLayer()}, below.layers...)}
	s.retain(c)
	return c
}

func (s *Store) retain(c *chain) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range c.layers {
		l.refs++
	}
}

// releaseChain gives back one reference on each layer.
func (s *Store) releaseChain(c *chain) {
	for _, l := range c.layers {
		s.release(l)
	}
}

// release gives back one reference; the last deletes the layer. The caller
// holds no lock that look-ups need.
func (s *Store) release(l *layer) {
	s.mu.Lock()
	l.refs--
	last := l.refs == 0
	s.mu.Unlock()
	if !last {
		return
	}
	l.mu.Lock()
	made := l.fd >= 0
	l.mu.Unlock()
	l.shut()
	s.used.Add(-l.bytes.Swap(0))
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	if made && s.state.fd >= 0 {
		trash := "trash/" + l.id
		if unix.Renameat(s.state.fd, l.dirName(), s.state.fd, trash) == nil {
			removeTree(s.state.fd, trash) // what is left over goes at the next Open
		}
	}
}

// Drop deletes a branch; layers that others use stay.
func (s *Store) Drop(name string) error {
	b, err := s.Branch(name)
	if err == nil {
		_, err = b.end(true)
	}
	return wrap("drop", name, "", err)
}

// end ends the branch in this process, and for good if drop or if it is not
// kept. The layers of a kept branch are for the caller to shut.
func (b *Branch) end(drop bool) (kept []*layer, err error) {
	b.write.Lock()
	defer b.write.Unlock()
	c := b.chain.Load()
	if c == nil {
		return nil, kindError(Closed)
	}
	if drop && b.keep {
		if err := b.forget(); err != nil {
			return nil, err
		}
	}
	s := b.store
	s.mu.Lock()
	delete(s.branches, b.name)
	s.mu.Unlock()
	top := c.layers[0]
	top.mu.Lock()
	b.chain.Store(nil)
	top.mu.Unlock()
	chains := []*chain{c}
	for _, cp := range b.checkpoints {
		chains = append(chains, cp.chain)
	}
	b.checkpoints = nil
	for _, c := range chains {
		if b.keep && !drop {
			kept = append(kept, c.layers...)
		} else {
			s.releaseChain(c)
		}
	}
	return kept, nil
}

// Keep says whether the branch outlives Close (and a kill).
func (b *Branch) Keep(keep bool) error {
	err := b.locked(func() error {
		was := b.keep
		b.keep = keep
		if !keep {
			if was {
				return b.forget()
			}
			return nil
		}
		if err := b.record(); err != nil {
			b.keep = was
			return err
		}
		return nil
	})
	return b.wrap("keep", "", err)
}

// Fork makes a branch over what this one shows now.
func (b *Branch) Fork(name string, keep bool) (*Branch, error) {
	return b.store.Create(name, CreateOptions{From: b.name, Keep: keep})
}

// checkpoint is a remembered chain of frozen layers.
type checkpoint struct {
	Checkpoint
	chain *chain
}

// Checkpoint is a remembered state of a branch.
type Checkpoint struct {
	ID      string
	Created time.Time
	Rev     uint64
}

// Checkpoint remembers what the branch shows now. id may be "" for a fresh one.
func (b *Branch) Checkpoint(id string) (Checkpoint, error) {
	var cp checkpoint
	err := b.locked(func() error {
		if id == "" {
			id = newID()
		}
		if b.checkpoint(id) >= 0 {
			return kindError(Exist)
		}
		c, err := b.freezeLocked()
		if err != nil {
			return err
		}
		cp = checkpoint{Checkpoint{ID: id, Created: b.store.clock(), Rev: b.Rev()}, c}
		b.checkpoints = append(b.checkpoints, cp)
		if err := b.record(); err != nil {
			b.checkpoints = b.checkpoints[:len(b.checkpoints)-1]
			b.store.releaseChain(c)
			return err
		}
		return nil
	})
	return cp.Checkpoint, b.wrap("checkpoint", "", err)
}

// checkpoint is the index of the one of that id, -1 if there is none. Needs write.
func (b *Branch) checkpoint(id string) int {
	return slices.IndexFunc(b.checkpoints, func(c checkpoint) bool { return c.ID == id })
}

// Checkpoints are those of the branch, oldest first.
func (b *Branch) Checkpoints() []Checkpoint {
	b.write.Lock()
	defer b.write.Unlock()
	var out []Checkpoint
	for _, c := range b.checkpoints {
		out = append(out, c.Checkpoint)
	}
	return out
}

// DropCheckpoint forgets a checkpoint.
func (b *Branch) DropCheckpoint(id string) error {
	err := b.locked(func() error {
		i := b.checkpoint(id)
		if i < 0 {
			return kindError(NotExist)
		}
		cp := b.checkpoints[i]
		b.checkpoints = slices.Delete(slices.Clone(b.checkpoints), i, i+1)
		if err := b.record(); err != nil {
			b.checkpoints = slices.Insert(b.checkpoints, i, cp)
			return err
		}
		b.store.releaseChain(cp.chain)
		return nil
	})
	return b.wrap("drop checkpoint", "", err)
}

// Rollback makes the branch show the checkpoint again. Later checkpoints stay.
// Subscribers hear OpReplace for each path that [Differ] would list. Files that
// are open for writing stay behind in what is thrown away.
func (b *Branch) Rollback(id string) error {
	err := b.locked(func() error {
		i := b.checkpoint(id)
		if i < 0 {
			return kindError(NotExist)
		}
		s, old := b.store, b.chain.Load()
		next := s.onTop(b.checkpoints[i].chain)
		if err := b.recordChain(next); err != nil {
			s.releaseChain(next)
			return err
		}
		top := old.layers[0]
		top.mu.Lock()
		paths := differ(old, next)
		b.chain.Store(next)
		for _, p := range paths {
			b.changed(p, OpReplace, Origin{})
		}
		top.mu.Unlock()
		s.releaseChain(old)
		return nil
	})
	b.flush()
	return b.wrap("rollback", "", err)
}
