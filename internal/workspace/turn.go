package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"time"

	"shadowlsp/fusefs"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/shadow"
	"shadowlsp/overlay"
)

// idle returns when nothing of the turn is in flight any more.
func (i *instance) idle(ctx context.Context) error { return i.server.Idle(ctx) }

// show switches the instance to b, nil for no branch: the view first, then the
// server is told of every file that differs, then its documents become b's.
func (i *instance) show(ctx context.Context, b *branch) error {
	i.turn.Lock()
	defer i.turn.Unlock()
	if b == nil {
		b = i.scratch
	}
	began := time.Now()
	if err := i.server.Idle(ctx); err != nil {
		return err
	}
	if err := i.seeBase(ctx); err != nil {
		return err
	}
	i.mu.Lock()
	old := i.branch
	i.mu.Unlock()
	changed := news{}
	if was, is := i.sight.disk(old), i.sight.disk(b); was != is {
		dirty := was.takeDirty(i)
		was.unwatch(i)
		is.watch(i)
		if err := i.sight.look(is); err != nil {
			return err
		}
		for path, created := range dirty {
			changed.add(path, created)
		}
		for _, path := range overlay.Differ(was.over, is.over) {
			changed.differs(path, was.over, is.over)
		}
	}
	i.mu.Lock()
	i.branch = b
	i.mu.Unlock()
	stats, err := i.tell(ctx, b, changed)
	i.p.d.trace.Event("switch", map[string]any{
		"instance": i.name, "from": old.name, "branch": b.name, "differ": len(changed),
		"documents": stats.Opened + stats.Changed + stats.Closed, "events": stats.Events, "us": time.Since(began).Microseconds(),
	})
	return err
}

// baseLimit bounds the proof that all earlier changes of the base were seen. It
// takes microseconds; what takes longer is a fault, to be named and not waited for.
const baseLimit = 10 * time.Second

// seeBase returns when all earlier changes of the person's folder were seen.
func (i *instance) seeBase(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, baseLimit, fmt.Errorf("changes of the folder are not known after %v", baseLimit))
	defer cancel()
	err := i.p.d.way.Sync(ctx)
	if err != nil && i.p.ctx.Err() == nil {
		i.log.Warn().Err(err).Msg("looking for changes of the folder")
	}
	return err
}

// sync brings the server up to the newest revision of the branch it shows.
func (i *instance) sync(ctx context.Context) error {
	i.turn.Lock()
	defer i.turn.Unlock()
	if err := i.seeBase(ctx); err != nil {
		return err
	}
	i.mu.Lock()
	b, told, pending := i.branch, i.told, len(i.base) > 0 || i.overflow
	i.mu.Unlock()
	if told.exact && b.current(told) && !pending {
		return nil
	}
	// Half of the news told would be lost news: who asked may go away, this goes on.
	ctx, cancel := context.WithTimeout(i.p.ctx, switchLimit)
	defer cancel()
	_, err := i.tell(ctx, b, news{})
	if err != nil {
		i.stop(err)
	}
	return err
}

// tell makes the server's documents those of b, after the news of files: changed
// and all that was written in b or in the base since the last time. After an
// error the instance is of no use any more.
func (i *instance) tell(ctx context.Context, b *branch, changed news) (shadow.SyncStats, error) {
	disk := i.sight.disk(b)
	for path, created := range disk.takeDirty(i) {
		changed.add(path, created)
	}
	i.mu.Lock()
	overflow, base := i.overflow, i.base
	i.base = news{}
	i.mu.Unlock()
	for path, created := range base {
		changed.add(path, created)
		if n, err := disk.over.Lookup(path); err == nil && n.IsDir() && !created && path != "" {
			// Another directory may have taken its place, as after two renames:
			// what is in it was never told of.
			changed.files(path, disk.over, false)
		}
	}
	if overflow {
		// What changed is not known, and no server has a message for that.
		return shadow.SyncStats{}, errors.New("too many files of the folder changed at once: the server starts anew")
	}
	if err := i.sight.settled(ctx); err != nil {
		return shadow.SyncStats{}, err
	}
	st, err := b.state(i.p)
	if err != nil {
		return shadow.SyncStats{}, err
	}
	for path, created := range disk.takeDirty(i) {
		changed.add(path, created) // its revision may be st's
	}
	target := shadow.Target{Branch: b.name, Documents: st.documents}
	changed.below(disk.over)
	if i.p.profile().Scans {
		for path := range changed {
			if language, takes := i.server.Language(path); takes {
				i.lingering.saw(docuri.FromPath(filepath.Join(i.p.d.root, path)), language, path)
			}
		}
	}
	if i.p.profile().Lingers {
		target.Documents = i.lingering.with(st.documents, i.p.d.root, disk.over)
	}
	for path, created := range changed {
		if path == "" {
			continue
		}
		event := shadow.FileEvent{URI: docuri.FromPath(filepath.Join(i.p.d.root, path)), Type: shadow.Changed}
		switch n, err := disk.over.Lookup(path); {
		case overlay.KindOf(err) == overlay.NotExist || overlay.KindOf(err) == overlay.NotDir:
			event.Type = shadow.Deleted
		case err != nil:
			return shadow.SyncStats{}, err
		case n.IsDir() && !created:
			continue // its entries are news of their own
		case created:
			event.Type = shadow.Created
		}
		if err := i.outdated(path, event.Type != shadow.Changed); err != nil {
			return shadow.SyncStats{}, err
		}
		target.Files = append(target.Files, event)
	}
	sort.Slice(target.Files, func(a, b int) bool { return target.Files[a].URI < target.Files[b].URI })
	if i.server.Profile().CheckOnSave {
		for _, d := range st.documents {
			target.Saved = append(target.Saved, d.URI)
		}
	}
	stats, err := i.server.Sync(ctx, target)
	if err != nil {
		return stats, err
	}
	i.mu.Lock()
	i.told = st
	i.tells++
	i.mu.Unlock()
	return stats, nil
}

// errOutdated is why a server is replaced that may go by what files were.
var errOutdated = errors.New("it has read what has changed since")

// outdated is errOutdated where the server may remember what was at a path. Until it is
// first shown a branch it has read its own program at most, which is the person's.
func (i *instance) outdated(path string, comes bool) error {
	i.mu.Lock()
	tells := i.tells
	i.mu.Unlock()
	if tells == 0 || !i.p.profile().Remembers || !i.sight.asked(path, comes) {
		return nil
	}
	return fmt.Errorf("%w: %s", errOutdated, path)
}

// baseChanged notes changes of the person's folder; the next sync tells them.
func (i *instance) baseChanged(changes []fusefs.BaseChange) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range changes {
		if c.Everything {
			i.overflow = true
			continue
		}
		i.base.add(c.Path, c.Kind == fusefs.Created)
	}
}
