package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"shadowlsp/integration/stage"
)

// Times are measured in the same projects with the same edits, beside the bare server
// of -bare: a dedicated process on a real copy, which is asked in the best way known
// for it (its barrier, in lsp/barrier) and is made into one branch's state after the
// other. The two are asked in turn, so that a busy machine disturbs both.

// clock measures the named servers.
func clock(ctx context.Context, cfg config, names string, seed, _ uint64, out io.Writer) (err error) {
	if cfg.shadowlsp, err = filepath.Abs(cfg.shadowlsp); err != nil {
		return err
	}
	chosen, err := find(names)
	if err != nil {
		return err
	}
	for _, s := range chosen {
		if err := times(ctx, cfg, s, seed, out); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// pair is one thing measured on both sides.
type pair struct{ shadow, bare []time.Duration }

// times measures one server and prints a row of docs/servers.md for it.
func times(ctx context.Context, cfg config, s Server, seed uint64, out io.Writer) (err error) {
	r := &run{cfg: cfg, server: s, seed: seed, out: out, random: rand.New(rand.NewPCG(seed, 1))}
	if r.source, err = os.MkdirTemp("", "oracle-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.source)) }()
	if r.texts, err = s.Project.make(r.source); err != nil {
		return err
	}
	r.index()
	if r.stage, err = stage.New(ctx, r.source); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stage.Close()) }()
	r.env = s.env(r.stage.Env, filepath.Join(filepath.Dir(r.stage.Dir), "cache-shadow"))
	files := len(r.names)
	r.few()
	path := r.pick(r.names)
	edited, err := r.edited(path)
	if err != nil {
		return err
	}
	var first pair
	began := time.Now()
	if r.bare, err = r.startBare(ctx); err != nil {
		return fmt.Errorf("the bare server: %w", err)
	}
	defer r.bare.close()
	if err = r.bare.instance.Ready(ctx); err == nil {
		_, _, err = r.bare.lint(ctx, state{files: map[string]*string{path: &edited}}, path)
	}
	if err != nil {
		return fmt.Errorf("the bare server: %w", err)
	}
	first.bare = append(first.bare, time.Since(began))
	began = time.Now()
	if s.Settings != nil {
		editor, err := r.editor(ctx)
		if err != nil {
			return fmt.Errorf("the editor: %w", err)
		}
		defer editor.Close()
	}
	var branches [2]*branch
	for n := range branches {
		if branches[n], err = connect(ctx, s, cfg.program(), fmt.Sprintf("times-%d", n), r.stage.Dir, r.env); err != nil {
			return err
		}
		defer branches[n].conn.Close()
		if err = branches[n].put(ctx, path, edited, true); err != nil {
			return err
		}
		if _, _, _, err = branches[n].lint(ctx, path); err != nil {
			return fmt.Errorf("the first lint: %w", err)
		}
		first.shadow = append(first.shadow, time.Since(began))
		began = time.Now()
	}
	fmt.Fprintf(out, "    %s: the first lint of a second branch: %.1f s\n", s.Name, first.shadow[1].Seconds())
	edits, err := r.measure(ctx, branches[:1])
	if err != nil {
		return err
	}
	switches, err := r.measure(ctx, branches[:])
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "| %s | %d | %.1f s | %.1f s | %s | %s | %s | %s | %d |\n", s.Name, files,
		first.shadow[0].Seconds(), first.bare[0].Seconds(), figures(edits.shadow), figures(edits.bare), figures(switches.shadow), figures(switches.bare), len(edits.bare)+len(switches.bare))
	return nil
}

// figures are a median and a 99th percentile, in milliseconds.
func figures(took []time.Duration) string {
	return fmt.Sprintf("%d / %d", stage.Quantile(took, 0.5).Milliseconds(), stage.Quantile(took, 0.99).Milliseconds())
}

// maxTimed is how many files are edited, so that what a branch holds stays bounded.
const maxTimed = 8

// few leaves some files of those that the grammar edits and the server takes.
func (r *run) few() {
	r.names = slices.DeleteFunc(r.names, func(path string) bool {
		_, takes := r.server.language(path)
		return !takes
	})
	r.random.Shuffle(len(r.names), func(i, j int) { r.names[i], r.names[j] = r.names[j], r.names[i] })
	r.names = r.names[:min(maxTimed, len(r.names))]
}

// edited is a file's text with one edit.
func (r *run) edited(path string) (string, error) {
	for range 100 {
		if text, _, ok := r.server.Grammar.rewrite(r.random, r.texts[path]); ok {
			return text, nil
		}
	}
	return "", fmt.Errorf("no rule fits %s", path)
}

// measure makes edits on the branches in turn and lints the edited file after each,
// for -for's time. What the two sides do not both answer does not count.
func (r *run) measure(ctx context.Context, branches []*branch) (p pair, err error) {
	for until, n := time.Now().Add(r.cfg.lasts), 0; time.Now().Before(until); n++ {
		b, path := branches[n%len(branches)], r.pick(r.names)
		text, err := r.edited(path)
		if err != nil {
			return p, err
		}
		if err := b.put(ctx, path, text, true); err != nil {
			return p, err
		}
		_, _, took, err := b.lint(ctx, path)
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		_, bare, bareErr := r.bare.lint(ctx, b.state, path)
		if err != nil || bareErr != nil {
			fmt.Fprintf(r.out, "    not counted: %v; the bare server: %v\n", err, bareErr)
			continue
		}
		p.shadow, p.bare = append(p.shadow, took), append(p.bare, bare)
	}
	return p, nil
}
