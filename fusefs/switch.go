package fusefs

import (
	"context"
	"errors"
	"time"

	"shadowlsp/overlay"
)

// SwitchStats say what a switch did.
type SwitchStats struct {
	Paths int // that differ
	Known int // of them, in directories that the kernel knows
	Took  time.Duration
}

// Switch makes the view show another branch. When it returns, whatever is
// looked up, opened, listed or asked for attributes is b's. Open descriptors
// and mappings stay with the branch they were opened in, and so do writes
// through them. Call it when nothing runs that must not see both.
func (v *View) Switch(b *overlay.Branch) (SwitchStats, error) {
	v.switching.Lock()
	defer v.switching.Unlock()
	start := time.Now()
	if v.closed {
		return SwitchStats{}, &Error{Op: "switch", Kind: Closed}
	}
	if v.fixed {
		return SwitchStats{}, &Error{Op: "switch", Path: b.Name(), Kind: Unavailable, Err: errors.New("the view is fixed")}
	}
	if _, err := b.Lookup(""); err != nil {
		return SwitchStats{}, &Error{Op: "switch", Path: b.Name(), Kind: Unavailable, Err: err}
	}
	// Both branches are listened to until the old one is no longer shown: a
	// change of either is either seen by Differ or told.
	subscribed := b.Subscribe(v.branchChanged)
	v.moving.Lock()
	old := v.branch
	v.branch = b
	split := v.enterEpoch()
	v.moving.Unlock()
	v.unsubscribe()
	v.unsubscribe = subscribed

	stats := SwitchStats{}
	finished := make(chan struct{})
	queued := v.tell.call(func() {
		defer close(finished)
		for _, l := range split {
			v.entryGone(l.parent, l.name)
		}
		if old != b {
			v.tellSwitch(overlay.Differ(old, b), &stats)
		}
	})
	if !queued {
		return stats, &Error{Op: "switch", Kind: Closed}
	}
	<-finished
	stats.Took = time.Since(start)
	select {
	case <-v.served:
		return stats, &Error{Op: "switch", Path: b.Name(), Kind: Gone}
	default:
		return stats, nil
	}
}

// tellSwitch tells of all paths that may differ; parents come before children.
func (v *View) tellSwitch(paths []string, stats *SwitchStats) {
	stats.Paths = len(paths)
	dir := ""
	parents := v.table.at("")
	changed := map[*node]bool{} // and whether a name in it was told of
	for _, path := range paths {
		if path == "" {
			if _, there := changed[v.table.root]; !there {
				changed[v.table.root] = false
			}
			continue
		}
		d, name := splitPath(path)
		if d != dir {
			dir, parents = d, v.table.at(d)
		}
		if len(parents) > 0 {
			stats.Known++
		}
		for _, parent := range parents {
			told := v.name(parent, name, path)
			changed[parent] = changed[parent] || told
		}
	}
	for n, told := range changed {
		v.relist(n, told)
	}
}

// enterEpoch begins the time of another branch: what the old branch's handles
// may yet write must not become the new branch's. It returns the names to look
// up again. v.moving is held exclusively.
func (v *View) enterEpoch() []link {
	v.mu.Lock()
	var writable []*node
	for _, h := range v.handles {
		if h.writes {
			writable = append(writable, h.node)
		}
	}
	v.mu.Unlock()
	var split []*node
	for _, n := range writable {
		n.open.mu.RLock()
		if n.open.writer == nil {
			split = append(split, n)
		}
		n.open.mu.RUnlock()
	}
	t := v.table
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch++
	t.moves++
	var names []link
	for _, n := range split {
		names = append(names, n.links...)
		n.parted = true
	}
	return names
}

// Quiesce returns when what programs have written into the view so far is in
// the layer, mappings included: the kernel keeps what is written through those
// until it finds time. (What is written through descriptors is in the layer
// when the write returns.)
func (v *View) Quiesce(ctx context.Context) error {
	v.mu.Lock()
	writable := map[*node]struct{}{}
	for _, h := range v.handles {
		if h.writes {
			writable[h.node] = struct{}{}
		}
	}
	v.mu.Unlock()
	if v.fixed {
		writable = v.table.written()
	}
	for n := range writable {
		// Dropping pages writes them first.
		if !v.tell.call(func() { v.content(n) }) {
			return &Error{Op: "quiesce", Kind: Closed}
		}
	}
	return v.Settled(ctx)
}
