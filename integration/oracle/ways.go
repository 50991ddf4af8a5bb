package main

import (
	"context"
	"os"
	"slices"
)

// Way is something besides the state that decides what a server says. Where
// shadowlsp differs from a fresh server, bare servers are started each Way: if
// one of them says what shadowlsp said, both answers are the server's own.
type Way struct {
	// Name is what the verdict calls it.
	Name string
	// Order arranges the documents for opening; those it leaves out are not
	// opened. nil opens all.
	Order func(s scene, paths []string) []string
	// Forget has the server's caches emptied first.
	Forget bool
	// Before has another process of the server, which ends before, open these
	// documents in the same folder with the same caches.
	Before func(s scene, paths []string) []string
	// Past has the documents opened in the project as it was, and then changes it.
	Past bool
	// Company has every document open that the run has shown to the server.
	Company bool
	// All has every document of the project open whose path matches.
	All string
	// Again has the documents changed and changed back that often.
	Again int
	// Alone has each document about which the two sides differ in a server of its
	// own, where no other is open.
	Alone bool
}

// orders are the ways of every server: documents opened in the opposite order,
// then what differs first, then that in the opposite order.
var orders = []Way{
	{Name: "the opposite order", Order: backwards},
	{Name: "what differs first", Order: differingFirst},
	{Name: "what differs first, the opposite order", Order: func(s scene, paths []string) []string {
		return differingFirst(s, backwards(s, paths))
	}},
}

func backwards(_ scene, paths []string) []string {
	paths = slices.Clone(paths)
	slices.Reverse(paths)
	return paths
}

func differingFirst(s scene, paths []string) []string {
	return append(differing(s, paths), others(s, paths)...)
}

func differing(s scene, paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !differs(s, path) })
}

func others(s scene, paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return differs(s, path) })
}

// differs says whether the two sides differ about a document, or in an answer to a
// question about it.
func differs(s scene, path string) bool {
	return slices.ContainsFunc(s.differ, func(name string) bool { return documentOf(name) == path })
}

// edited is the document that was edited last.
func edited(s scene, paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path != s.edited })
}

// run is what a bare server says this way.
func (w Way) run(ctx context.Context, s scene) (map[string]lints, error) {
	if w.Alone {
		return w.alone(ctx, s)
	}
	if w.Forget {
		if err := os.RemoveAll(s.caches); err != nil {
			return nil, err
		}
	}
	if w.Before != nil {
		first := w
		first.Order, first.Before, first.Forget = w.Before, nil, false
		if _, err := first.run(ctx, s); err != nil {
			return nil, err
		}
	}
	if w.Order != nil {
		s.order = func(paths []string) []string { return w.Order(s, paths) }
	}
	s.again = w.Again
	switch s.past = w.Past; {
	case w.All != "":
		s.company = s.all(w.All)
	case !w.Company:
		s.company = nil
	}
	found, _, err := fresh(ctx, s)
	return found, err
}

// alone is what bare servers say of one document each.
func (w Way) alone(ctx context.Context, s scene) (map[string]lints, error) {
	w.Alone, w.Order = false, differing
	all := map[string]lints{}
	for _, path := range s.differ {
		s.differ = []string{path}
		found, err := w.run(ctx, s)
		if err != nil {
			return nil, err
		}
		all[path] = found[path]
	}
	return all, nil
}

// accounts says whether runs of bare servers, of which first is the reference,
// account for what shadowlsp said of a document, and how: one of them (its number)
// said just that, or (in parts, -1) each diagnostic in which the two differ is
// said by one run and not by another.
func accounts(said, first lints, runs []lints) (which int, ok bool) {
	if which = slices.IndexFunc(runs, func(run lints) bool { return slices.Equal(said, run) }); which >= 0 {
		return which, true
	}
	missing, extra := said.compare(first)
	for _, one := range missing {
		if !slices.ContainsFunc(runs, func(run lints) bool { return run.count(one) <= said.count(one) }) {
			return -1, false
		}
	}
	for _, one := range extra {
		if !slices.ContainsFunc(runs, func(run lints) bool { return run.count(one) >= said.count(one) }) {
			return -1, false
		}
	}
	return -1, true
}
