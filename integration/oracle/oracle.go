package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"shadowlsp/integration/client"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/docuri"
)

// run is one server and one seed.
type run struct {
	cfg    config
	server Server
	seed   uint64
	out    io.Writer

	random   *rand.Rand // of edits; each step's questions have their own
	asking   *rand.Rand
	choosing *rand.Rand        // and so have those beside lints
	texts    map[string]string // the project's files
	names    []string          // those that the grammar edits, sorted
	mention  map[string][]string
	stage    *stage.Stage
	source   string // the project, to be copied
	env      []string

	bare     *bare // nil without -bare
	branches []*branch
	made     int             // branches so far
	shown    map[string]bool // documents that shadowlsp's server has seen
	verdicts *verdicts
}

// config is what the command line says.
type config struct {
	shadowlsp       string
	steps, branches int
	from            int           // the step before which edits are made, but nothing asked
	lasts           time.Duration // after which no further step begins; 0 is never
	jobs            int
	dependents      int
	questions       int     // besides lints, in each step
	whole           float64 // how often the whole workspace is asked about
	withhold        int     // the step whose edit shadowlsp is not told; 0 is none
	bare            bool    // a dedicated server beside, for its times
	trace           string
	verbose         bool
}

// program is the command of shadowlsp, with the flags of a daemon that it starts.
func (c config) program() []string {
	// An editor that is attached would have it starve on a busy machine.
	command := []string{c.shadowlsp, "--priority", "normal"}
	if c.trace == "" {
		return command
	}
	return append(command, "--trace-dump", c.trace)
}

// limits of what a branch holds before a fresh one takes its place.
const maxOverrides = 12

// play makes the steps of one run and returns what was found.
func play(ctx context.Context, cfg config, s Server, seed uint64, out io.Writer) (_ *verdicts, err error) {
	r := &run{cfg: cfg, server: s, seed: seed, out: out, shown: map[string]bool{}, random: rand.New(rand.NewPCG(seed, 1))}
	if r.source, err = os.MkdirTemp("", "oracle-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.source)) }()
	if r.texts, err = s.Project.make(r.source); err != nil {
		return nil, err
	}
	r.index()
	programs, err := os.MkdirTemp("", "oracle-bin-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(programs)) }()
	if r.server, err = s.disguise(programs); err != nil {
		return nil, err
	}
	if r.stage, err = stage.New(ctx, r.source); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stage.Close()) }()
	r.env = s.env(r.stage.Env, filepath.Join(filepath.Dir(r.stage.Dir), "cache-shadow"))
	if s.Settings != nil {
		editor, err := r.editor(ctx)
		if err != nil {
			return nil, fmt.Errorf("the editor: %w", err)
		}
		defer editor.Close()
	}
	if cfg.bare {
		if r.bare, err = r.startBare(ctx); err != nil {
			return nil, fmt.Errorf("the bare server: %w", err)
		}
		defer r.bare.close()
	}
	if err := r.build(ctx, nil, ""); err != nil {
		return nil, err
	}
	r.verdicts = newVerdicts(r)
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	// Few wait: what is measured of lints must not all be measured under load.
	questions := make(chan question, cfg.jobs)
	var workers sync.WaitGroup
	for n := range cfg.jobs {
		workers.Go(func() {
			for q := range questions {
				r.verdicts.judge(work, q, n)
			}
		})
	}
	err = r.steps(work, questions)
	close(questions)
	if err != nil {
		cancel()
	}
	workers.Wait()
	for _, b := range r.branches {
		b.conn.Close()
	}
	if err == nil {
		err = ctx.Err() // what was cut short proves nothing
	}
	return r.verdicts, err
}

// index finds the files to edit and where each word stands.
func (r *run) index() {
	r.mention = map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(r.texts)) {
		if !matches(r.server.Grammar.Edit, path) {
			continue
		}
		r.names = append(r.names, path)
		seen := map[string]bool{}
		for _, w := range words(r.texts[path]) {
			if !seen[w] {
				seen[w] = true
				r.mention[w] = append(r.mention[w], path)
			}
		}
	}
}

// editor is the person's, so that there are settings.
func (r *run) editor(ctx context.Context) (*client.Client, error) {
	command, err := r.server.command()
	if err != nil {
		return nil, err
	}
	c, err := client.Start(client.Config{
		Command: append(append(r.cfg.program(), "--"), command...),
		Dir:     r.stage.Dir, Env: r.env, Stderr: logWriter("editor"), Settings: r.server.Settings,
	})
	if err != nil {
		return nil, err
	}
	_, err = c.Initialize(ctx, docuri.FromPath(r.stage.Dir), r.server.capabilities(true), r.server.options())
	return c, err
}

// branch returns one at random, a new one while there are too few.
func (r *run) branch(ctx context.Context) (*branch, error) {
	if len(r.branches) >= r.cfg.branches {
		at := r.random.IntN(len(r.branches))
		b := r.branches[at]
		if len(b.state.files) <= maxOverrides && r.random.IntN(30) > 0 {
			return b, nil
		}
		r.branches = slices.Delete(r.branches, at, at+1)
		if err := b.close(ctx); err != nil {
			return nil, err
		}
	}
	r.made++
	b, err := connect(ctx, r.server, r.cfg.program(), fmt.Sprintf("seed%d-%d", r.seed, r.made), r.stage.Dir, r.env)
	if err == nil {
		r.branches = append(r.branches, b)
	}
	return b, err
}

// steps makes the steps.
func (r *run) steps(ctx context.Context, questions chan<- question) error {
	began := time.Now()
	for step := 1; step <= r.cfg.steps; step++ {
		if r.cfg.lasts > 0 && time.Since(began) > r.cfg.lasts {
			fmt.Fprintf(r.out, "    to be continued: -from %d\n", step)
			return nil
		}
		r.asking = rand.New(rand.NewPCG(r.seed, uint64(1+step)))
		r.choosing = rand.New(rand.NewPCG(uint64(1+step), r.seed))
		b, err := r.branch(ctx)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		q := question{step: step, branch: b.name, said: map[string]lints{}, torn: map[string]lints{}, answers: map[string]lints{}, began: time.Now()}
		withheld := step == r.cfg.withhold
		if q.did, err = r.edit(ctx, b, withheld); err != nil {
			return fmt.Errorf("step %d: %s: %w", step, q.did.what, err)
		}
		if step < r.cfg.from {
			continue
		}
		if r.server.Builds != nil && r.asking.IntN(everyBuild) == 0 {
			if err := r.build(ctx, b, q.did.path); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
		if err := r.ask(ctx, b, &q); err != nil {
			return fmt.Errorf("step %d: %s: %w", step, q.did.what, err)
		}
		q.state = b.state.clone()
		maps.Copy(r.shown, r.server.opened(q.state))
		q.shown = slices.Sorted(maps.Keys(r.shown))
		if r.cfg.verbose {
			fmt.Fprintf(r.out, "    %d %s: %s %s; asked %d\n", step, b.name, q.did.path, q.did.what, len(q.said))
		}
		select {
		case questions <- q:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ask asks for the lints of a step.
func (r *run) ask(ctx context.Context, b *branch, q *question) error {
	asked := r.dependents(b, q.did)
	_, there := r.text(b, q.did.path)
	if _, takes := r.server.language(q.did.path); there && takes {
		asked = slices.Insert(asked, 0, q.did.path)
	}
	if r.server.OpenAsked {
		for _, path := range asked {
			text, _ := r.text(b, path)
			if err := b.look(path, text); err != nil {
				return err
			}
		}
	}
	// Half of them right behind the edit, where nothing has settled yet.
	if err := r.askFeatures(ctx, b, q, asked, r.cfg.questions/2); err != nil {
		return err
	}
	for n, path := range asked {
		found, proof, took, err := b.lint(ctx, path)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			q.refused = append(q.refused, fmt.Sprintf("%s: %v", path, err))
			continue
		}
		q.said[path] = found
		r.verdicts.proven(proof)
		if n == 0 {
			r.verdicts.took(took)
			r.beside(ctx, b, path, found)
		}
	}
	if err := r.askFeatures(ctx, b, q, asked, r.cfg.questions-r.cfg.questions/2); err != nil {
		return err
	}
	if r.asking.Float64() >= r.cfg.whole {
		return nil
	}
	all, _, err := b.lintAll(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		q.refused = append(q.refused, fmt.Sprintf("the whole workspace: %v", err))
		return nil
	}
	q.whole = true
	for path, found := range all {
		if earlier, both := q.said[path]; both && !slices.Equal(earlier, found) {
			q.torn[path] = earlier
		}
		q.said[path] = found
	}
	return nil
}

// askFeatures asks about some of the documents, which the agent opens.
func (r *run) askFeatures(ctx context.Context, b *branch, q *question, asked []string, n int) error {
	for range n {
		if len(asked) == 0 {
			return nil
		}
		path := asked[r.choosing.IntN(len(asked))]
		text, _ := r.text(b, path)
		f, ok := chooseFeature(r.choosing, r.server.features(), path, text, q.did.touched)
		if !ok {
			continue
		}
		if err := b.look(path, text); err != nil {
			return err
		}
		found, err := f.ask(ctx, b.conn, b.dir)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			q.refused = append(q.refused, fmt.Sprintf("%s: %v", f.name(), err))
			continue
		}
		q.features = append(q.features, f)
		q.answers[f.name()] = found
	}
	return nil
}

// beside asks the dedicated server the same.
func (r *run) beside(ctx context.Context, b *branch, path string, found lints) {
	if r.bare == nil {
		return
	}
	other, took, err := r.bare.lint(ctx, b.state, path)
	if err != nil {
		fmt.Fprintf(r.out, "    the dedicated server, %s: %v\n", path, err)
		return
	}
	r.verdicts.tookBare(took, slices.Equal(found, other))
}

// text is what a file holds on a branch.
func (r *run) text(b *branch, path string) (string, bool) { return r.textOf(b.state, path) }

func (r *run) textOf(st state, path string) (string, bool) {
	if text, overridden := st.files[path]; overridden {
		if text == nil {
			return "", false
		}
		return *text, true
	}
	text, there := r.texts[path]
	return text, there
}

// dependents chooses files that mention what was edited.
func (r *run) dependents(b *branch, e edit) (paths []string) {
	near := map[string]bool{}
	for _, w := range e.touched {
		// A word that stands in half the files says nothing.
		if with := r.mention[w]; len(with) < len(r.names)/4 {
			for _, path := range with {
				near[path] = true
			}
		}
	}
	for path := range b.state.files {
		near[path] = true // what another edit of this branch has touched
	}
	delete(near, e.path)
	candidates := slices.Sorted(maps.Keys(near))
	r.asking.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
	for _, path := range candidates {
		if _, there := r.text(b, path); !there {
			continue
		}
		if _, takes := r.server.language(path); takes && len(paths) < r.cfg.dependents {
			paths = append(paths, path)
		}
	}
	return paths
}
