package main

import (
	"context"
	"maps"
	"slices"
)

// edit is what a step did.
type edit struct {
	path, what string
	touched    []string // words of the changed lines
}

// edit makes one edit of a branch; withheld ones the agent is not told.
func (r *run) edit(ctx context.Context, b *branch, withheld bool) (edit, error) {
	own := slices.Sorted(maps.Keys(b.state.files))
	roll := r.random.IntN(100)
	switch {
	case withheld:
		roll = 99
	case roll < 15 && b.last != "":
		return r.undo(ctx, b)
	case roll < 22:
		beside := r.pick(r.names)
		if name, text, ok := r.server.Grammar.add(r.random, beside, r.texts[beside]); ok {
			return r.put(ctx, b, name, text, "added")
		}
	case roll < 27:
		path := r.pick(r.names)
		if _, there := r.text(b, path); there {
			return r.remove(ctx, b, path)
		}
	case roll < 32 && len(own) > 0:
		path := r.pick(own)
		if text, there := r.text(b, path); !there || r.texts[path] != "" && text != r.texts[path] {
			return r.put(ctx, b, path, r.texts[path], "as it was")
		}
		return r.remove(ctx, b, path)
	}
	for range 1000 {
		path := r.pick(r.names)
		if len(own) > 0 && r.random.IntN(100) < 60 {
			path = r.pick(own)
		}
		text, there := r.text(b, path)
		if !there {
			continue
		}
		edited, what, ok := r.server.Grammar.rewrite(r.random, text)
		if !ok {
			continue
		}
		if withheld {
			b.state.files[path] = &edited
			return edit{path, what + " (withheld)", touched(text, edited)}, nil
		}
		return r.put(ctx, b, path, edited, what)
	}
	// Nothing is left of a small project.
	path := r.pick(r.names)
	return r.put(ctx, b, path, r.texts[path], "as it was")
}

func (r *run) pick(from []string) string { return from[r.random.IntN(len(from))] }

// put writes a file, in one of the two ways that an agent has.
func (r *run) put(ctx context.Context, b *branch, path, text, what string) (edit, error) {
	e := edit{path: path, what: what}
	before, there := r.text(b, path)
	e.touched = touched(before, text)
	b.last, b.before = path, nil
	if there {
		b.before = &before
	}
	return e, b.put(ctx, path, text, r.random.IntN(2) == 0)
}

func (r *run) remove(ctx context.Context, b *branch, path string) (edit, error) {
	text, _ := r.text(b, path)
	b.last, b.before = path, &text
	_, inBase := r.texts[path]
	return edit{path, "deleted", words(text)}, b.remove(ctx, path, inBase)
}

// undo takes the branch's last edit back.
func (r *run) undo(ctx context.Context, b *branch) (edit, error) {
	path, before := b.last, b.before
	if before != nil {
		return r.put(ctx, b, path, *before, "undone")
	}
	e, err := r.remove(ctx, b, path)
	e.what = "undone: deleted again"
	return e, err
}
