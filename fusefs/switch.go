package fusefs

import (
	"context"
	"errors"
	"slices"
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
// and mappings keep what they have. What is written through them goes where
// home says. Call it when nothing runs that must not see both.
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
	v.shown = append(v.shown, old)
	if len(v.shown) > maxShown {
		v.shown = slices.Clone(v.shown[1:])
	}
	v.table.enterEpoch()
	v.moving.Unlock()
	v.unsubscribe()
	v.unsubscribe = subscribed

	stats := SwitchStats{}
	finished := make(chan struct{})
	queued := v.tell.call(func() {
		defer close(finished)
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

// enterEpoch begins the time of another branch.
func (t *table) enterEpoch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch++
	t.moves++
}

// Quiesce returns when what programs have written into the view so far is in
// the layer, mappings included: the kernel keeps what is written through those
// until it finds time. (What is written through descriptors is in the layer
// when the write returns.)
func (v *View) Quiesce(ctx context.Context) error {
	for n := range v.table.written() {
		// Dropping pages writes them first.
		if !v.tell.call(func() { v.content(n) }) {
			return &Error{Op: "quiesce", Kind: Closed}
		}
	}
	return v.Settled(ctx)
}
