package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"shadowlsp/integration/conflict"
	"shadowlsp/integration/stage"
)

// bare is a gopls of its own on a real copy, asked by its own pull, which is the
// best method known for it.
func (c *crowd) bare(ctx context.Context, st *stage.Stage, dir string, agent int) (*conflict.Agent, error) {
	return conflict.Connect(ctx, conflict.Config{
		Command: []string{c.gopls}, Dir: dir, Env: st.Env, Target: c.target(agent),
		Options: map[string]any{"pullDiagnostics": true},
	})
}

// verify compares every answer with what a fresh gopls publishes on a real copy
// with the branch's edit of that round on the disk, and open. One server serves the
// rounds of one branch; where it differs, one that was started for that very
// state decides. Where that differs too, it counts as wrong, unless a bare gopls
// alone gives both answers to that state (either).
func (c *crowd) verify(ctx context.Context, found [][][2]string) (wrong int, err error) {
	c.truths = make([][][2]string, c.agents)
	var next, asked, differ, aged, fickle atomic.Int64
	began := time.Now()
	err = together(c.verifiers, func(int) (err error) {
		st, err := toolsStage(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, st.Close()) }()
		for {
			i := int(next.Add(1)) - 1
			if i >= c.agents {
				return nil
			}
			truths, err := c.truthsOf(ctx, st, i, 0, c.rounds, quiet)
			if err != nil {
				return err
			}
			for round, truth := range truths {
				asked.Add(2)
				if truth == found[i][round] {
					continue
				}
				fresh, err := c.truthsOf(ctx, st, i, round, round+1, 5*quiet)
				if err != nil {
					return err
				}
				if truth != fresh[0] {
					aged.Add(1)
					truths[round] = fresh[0]
				}
				if fresh[0] == found[i][round] {
					continue
				}
				either, err := c.either(ctx, st, i, round)
				if err != nil {
					return err
				}
				if slices.Contains(either, found[i][round]) {
					fickle.Add(1)
				} else {
					differ.Add(1)
					fmt.Fprintf(c.out, "  DIFFERENT: agent %d, round %d, %s:\n    shadowlsp %s\n    fresh     %s\n", i, round, c.subject(i).path, found[i][round], fresh[0])
				}
			}
			c.truths[i] = truths
		}
	})
	fmt.Fprintf(c.out, "  %d of %d answers differ from those of a fresh gopls on a real copy (%d servers started, %.0f s; in %d states one that had served the branch's earlier rounds was wrong itself; to %d states a bare gopls gives two answers, one of them ours)\n",
		differ.Load(), asked.Load(), c.agents, time.Since(began).Seconds(), aged.Load(), fickle.Load())
	return int(differ.Load()), err
}

// quiet is how long a fresh server must have been silent to be believed.
const quiet = 300 * time.Millisecond

// truthsOf asks a fresh server about some rounds of one agent.
func (c *crowd) truthsOf(ctx context.Context, st *stage.Stage, agent, from, to int, quiet time.Duration) (truths [][2]string, err error) {
	s := c.subject(agent)
	file := filepath.Join(st.Dir, s.path)
	defer func() { err = errors.Join(err, os.WriteFile(file, []byte(s.text), 0o644)) }()
	if err := os.WriteFile(file, []byte(c.text(agent, from)), 0o644); err != nil {
		return nil, err
	}
	f, err := newFresh(ctx, c.gopls, st.Dir, st.Env)
	if err != nil {
		return nil, err
	}
	defer f.conn.Close()
	for round := from; round < to; round++ {
		truth, err := f.told(ctx, s, s.path, c.text(agent, round), quiet)
		if err != nil {
			return nil, err
		}
		truths = append(truths, truth)
	}
	return truths, nil
}

// told is what the server says about a subject's two files after a change of one.
func (f *fresh) told(ctx context.Context, s subject, path, text string, quiet time.Duration) (told [2]string, err error) {
	if err := errors.Join(f.put(path, text), f.settled(ctx, quiet)); err != nil {
		return told, err
	}
	for i, path := range []string{s.path, s.dependent} {
		if told[i], err = f.answer(path); err != nil {
			return told, err
		}
	}
	return told, nil
}

// either is what one bare gopls says about one state before and after a comment
// was added to the dependent and taken away again. gopls keeps what a package
// exports in a cache that two passes fill, one that type-checks the package and one
// that only looks at its declarations; where syntax is broken they see different
// declarations, and which pass was last decides what a dependent is told.
func (c *crowd) either(ctx context.Context, st *stage.Stage, agent, round int) (told [][2]string, err error) {
	s := c.subject(agent)
	edited, dependent := filepath.Join(st.Dir, s.path), filepath.Join(st.Dir, s.dependent)
	text, err := os.ReadFile(dependent)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, os.WriteFile(edited, []byte(s.text), 0o644), os.WriteFile(dependent, text, 0o644))
	}()
	if err := os.WriteFile(edited, []byte(c.text(agent, round)), 0o644); err != nil {
		return nil, err
	}
	cache, err := os.MkdirTemp("", "gopls-cache-") // what other servers have left decides as well
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	f, err := newFresh(ctx, c.gopls, st.Dir, append(slices.Clone(st.Env), "GOPLSCACHE="+cache))
	if err != nil {
		return nil, err
	}
	defer f.conn.Close()
	for _, put := range [][2]string{
		{s.path, c.text(agent, round)}, {s.dependent, string(text)},
		{s.dependent, string(text) + "\n// Once more.\n"}, {s.dependent, string(text)},
	} {
		now, err := f.told(ctx, s, put[0], put[1], 5*quiet)
		if err != nil {
			return nil, err
		}
		told = append(told, now)
	}
	return slices.Delete(told, 2, 3), nil // that was another state
}

// apart is what people do today: a git worktree and a gopls for each agent.
func (c *crowd) apart(ctx context.Context) (err error) {
	st, err := toolsStage(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	n := min(c.alone, c.agents)
	agents := make([]*conflict.Agent, n)
	defer func() {
		for _, a := range agents {
			if a != nil {
				a.Close()
			}
		}
	}()
	var first tally
	began := time.Now()
	err = together(n, func(i int) (err error) {
		began := time.Now()
		dir := fmt.Sprintf("%s-tree-%d", st.Dir, i)
		if out, err := exec.CommandContext(ctx, "git", "-C", st.Dir, "worktree", "add", "--detach", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("git worktree: %w\n%s", err, out)
		}
		if agents[i], err = c.bare(ctx, st, dir, i); err != nil {
			return err
		}
		_, err = c.lint(ctx, i, agents[i])
		first.add(time.Since(began))
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "  a worktree and a gopls each, %d agents: all ready after %.1f s (each after %.1f to %.1f s)\n", n, time.Since(began).Seconds(),
		stage.Quantile(first.took, 0).Seconds(), stage.Quantile(first.took, 1).Seconds())
	var took tally
	began = time.Now()
	err = together(n, func(i int) error {
		return c.play(ctx, i, agents[i], c.rounds, func(_ int, _ [2]string, t time.Duration) { took.add(t) })
	})
	if err != nil {
		return err
	}
	c.rate("a gopls each", time.Since(began), &took)
	var sum memory
	for _, a := range agents {
		m := familyMemory(a.Pid())
		sum.now, sum.peak = sum.now+m.now, sum.peak+m.peak
	}
	fmt.Fprintf(c.out, "  memory: %d MB each, peak %d MB: %d agents would take %.0f GB\n",
		sum.now>>20/int64(n), sum.peak>>20/int64(n), c.agents, float64(sum.peak)/float64(n)*float64(c.agents)/(1<<30))
	return nil
}

// together lets all agents use one gopls in turn: each puts its text and asks,
// and sees what the others have put.
func (c *crowd) together(ctx context.Context) (err error) {
	st, err := toolsStage(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	first, err := c.bare(ctx, st, st.Dir, 0)
	if err != nil {
		return err
	}
	defer first.Close()
	if _, err := c.lint(ctx, 0, first); err != nil {
		return err
	}
	byFile := map[string]*conflict.Agent{} // one document each: its versions are one row
	asked, wrong := 0, 0
	var took tally
	began := time.Now()
	for round := range c.rounds {
		for i := range c.agents {
			a := byFile[c.subject(i).path]
			if a == nil {
				a = first.Beside(c.target(i))
				byFile[c.subject(i).path] = a
			}
			began := time.Now()
			if err := a.Put(c.text(i, round)); err != nil {
				return err
			}
			answers, err := c.lint(ctx, i, a)
			if err != nil {
				return err
			}
			took.add(time.Since(began))
			for n := range answers {
				asked++
				// Errors alone: a pull has analysers look at files that are not open,
				// which nobody publishes.
				if !slices.Equal(errorsIn(answers[n]), errorsIn(c.truths[i][round][n])) {
					wrong++
				}
			}
		}
	}
	c.rate("one gopls for all, without isolation", time.Since(began), &took)
	fmt.Fprintf(c.out, "  of its answers %d of %d have other errors than the truth\n", wrong, asked)
	return nil
}

// errorsIn are the diagnostics of an answer that are errors.
func errorsIn(answer string) (list []string) {
	for item := range strings.SplitSeq(answer, "\n") {
		if strings.Contains(item, `"severity":1`) {
			list = append(list, item)
		}
	}
	return list
}
