package overlay

import (
	"slices"
	"sync"
)

// Op says what happened to a path.
type Op uint8

const (
	OpCreate  Op = iota + 1 // the path exists now and did not before
	OpReplace               // another version (an agent's write, a rename onto it, a rollback)
	OpRemove
	OpWrite  // bytes changed in place: same Version, other Stamp
	OpAttr   // mode, owner, times, size or xattrs changed in place
	OpCopyUp // other Version with the same content: the top layer has its own copy now
)

var opNames = [...]string{OpCreate: "create", OpReplace: "replace", OpRemove: "remove", OpWrite: "write", OpAttr: "attr", OpCopyUp: "copyup"}

func (o Op) String() string {
	if int(o) < len(opNames) && opNames[o] != "" {
		return opNames[o]
	}
	return "invalid"
}

// Change is one change of one path. A rename is an OpRemove of the old path and
// an OpCreate or OpReplace of the new (two OpReplace for an exchange); below a
// moved directory nothing is listed. With OpCreate, OpReplace and OpRemove the
// times of the parent directory change too.
type Change struct {
	Path   string
	Op     Op
	Rev    uint64 // of the branch after the change
	Origin any    // Origin.View of the mutator
}

// feed counts the changes of a branch and tells its subscribers.
type feed struct {
	// deliver is held while subscribers are called: who has taken it has
	// delivered all earlier changes when it lets go.
	deliver sync.Mutex

	mu sync.Mutex
	// guarded by mu:
	rev     uint64
	subs    []*func(Change)
	pending []Change
}

// Rev counts the changes of the branch, from 1.
func (b *Branch) Rev() uint64 {
	b.feed.mu.Lock()
	defer b.feed.mu.Unlock()
	return b.feed.rev
}

// Subscribe calls f after each change, in order, outside all locks that reading
// takes, before the mutator returns. f must not change the branch. After cancel
// returned, f is not called any more (so cancel must not be called by f).
func (b *Branch) Subscribe(f func(Change)) (cancel func()) {
	sub := &f
	b.feed.mu.Lock()
	b.feed.subs = append(slices.Clip(b.feed.subs), sub)
	b.feed.mu.Unlock()
	return func() {
		b.feed.deliver.Lock()
		defer b.feed.deliver.Unlock()
		b.feed.mu.Lock()
		defer b.feed.mu.Unlock()
		b.feed.subs = slices.DeleteFunc(slices.Clone(b.feed.subs), func(s *func(Change)) bool { return s == sub })
	}
}

// changed counts a change. Whoever calls it calls flush once it holds no lock.
func (b *Branch) changed(path string, op Op, by Origin) {
	b.feed.mu.Lock()
	b.feed.rev++
	if len(b.feed.subs) > 0 {
		b.feed.pending = append(b.feed.pending, Change{Path: path, Op: op, Rev: b.feed.rev, Origin: by.View})
	}
	b.feed.mu.Unlock()
}

// announce is changed for all names of a file, if l is what the branch shows.
func (b *Branch) announce(l *layer, f *file, op Op, by Origin) {
	if c := b.chain.Load(); c == nil || c.layers[0] != l {
		return
	}
	for _, e := range f.names {
		b.changed(e.path(), op, by)
	}
}

// flush delivers what is pending, or waits for who is delivering it.
func (b *Branch) flush() {
	b.feed.mu.Lock()
	idle := len(b.feed.subs) == 0
	b.feed.mu.Unlock()
	if idle {
		return
	}
	b.feed.deliver.Lock()
	defer b.feed.deliver.Unlock()
	for {
		b.feed.mu.Lock()
		pending, subs := b.feed.pending, b.feed.subs
		b.feed.pending = nil
		b.feed.mu.Unlock()
		if len(pending) == 0 {
			return
		}
		for _, c := range pending {
			for _, f := range subs {
				(*f)(c)
			}
		}
	}
}
