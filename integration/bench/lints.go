package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"shadowlsp/integration/conflict"
	"shadowlsp/integration/stage"
)

// pair is the same agent's work done twice: on a branch, and on one dedicated
// server in a real copy that takes every branch's edit in turn.
type pair struct {
	shadow, dedicated         *conflict.Agent
	shadowTook, dedicatedTook map[string][]time.Duration // by file
	right, equal, total       int
}

// lints measures lints in golang.org/x/tools while alternating between
// branches whose edits conflict, beside the same edits on one dedicated gopls
// working on a real copy, in turn. The dedicated server is asked by its own
// pull, which is the best method known for it.
func lints(ctx context.Context, s setting, args []string) (err error) {
	flags := flag.NewFlagSet("lints", flag.ContinueOnError)
	branches := flags.Int("branches", 8, "branches to alternate between")
	rounds := flags.Int("rounds", 25, "edits on each branch")
	if err := flags.Parse(args); err != nil {
		return err
	}
	target := conflict.CoreType
	var stages [2]*stage.Stage
	for i := range stages {
		// Each starts with an empty cache of its own: the first lint is cold.
		if stages[i], err = toolsStage(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stages[i].Close()) }()
	}
	calls, err := target.Count(stages[0].Dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "lints: golang.org/x/tools, %s changed on %d branches in turn, %d rounds; the edited file and an unopened dependent\n",
		target.Function, *branches, *rounds)

	// One server that does not count brings the sources into the page cache and
	// what the go command keeps into its own: whoever came first would pay.
	bare := conflict.Config{
		Command: []string{s.gopls}, Dir: stages[1].Dir, Target: target,
		Options: map[string]any{"pullDiagnostics": true},
	}
	bare.Env = append(slices.Clip(stages[1].Env), "GOPLSCACHE="+stages[1].Dir+"-warm-up")
	first, _, err := firstLint(ctx, bare)
	if err != nil {
		return err
	}
	first.Close()

	p := pair{shadowTook: map[string][]time.Duration{}, dedicatedTook: map[string][]time.Duration{}}
	var took time.Duration
	bare.Env = stages[1].Env
	if p.dedicated, took, err = firstLint(ctx, bare); err != nil {
		return err
	}
	defer p.dedicated.Close()
	fmt.Fprintf(s.out, "  time to the first lint, from nothing running: dedicated gopls %.2f s", took.Seconds())

	agents := make([]*conflict.Agent, *branches)
	for i := range agents {
		agents[i], took, err = firstLint(ctx, conflict.Config{
			Command: []string{s.shadowlsp, "connect", "--branch", fmt.Sprintf("b%d", i), "--", s.gopls},
			Dir:     stages[0].Dir, Env: stages[0].Env, Target: target,
		})
		if err != nil {
			return fmt.Errorf("branch b%d: %w", i, err)
		}
		defer agents[i].Close()
		if i == 0 {
			fmt.Fprintf(s.out, ", shadowlsp %.2f s", took.Seconds())
		}
	}
	fmt.Fprintf(s.out, ", its %d. branch %.2f s\n", *branches, took.Seconds())

	for round := range *rounds {
		for i, a := range agents {
			p.shadow = a
			if err := p.step(ctx, s, target, calls, fmt.Sprintf("Branch%dRound%dType", i, round), i%2 == 1); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(s.out, "  %d of %d lints right; %d of %d the same as the dedicated server's, to the last field\n", p.right, p.total, p.equal, p.total)
	fmt.Fprintf(s.out, "  %-42s %9s %9s %9s\n", "ms; the edited file: right after the edit", "median", "p99", "max")
	for _, path := range []string{target.Edited, target.Dependent} {
		for _, row := range []struct {
			name string
			took []time.Duration
		}{{"dedicated", p.dedicatedTook[path]}, {"shadowlsp", p.shadowTook[path]}} {
			millis := func(q float64) float64 { return float64(stage.Quantile(row.took, q).Microseconds()) / 1e3 }
			fmt.Fprintf(s.out, "  %-32s %-9s %9.1f %9.1f %9.1f\n", path, row.name, millis(0.5), millis(0.99), millis(1))
		}
	}
	if p.right < p.total {
		return fmt.Errorf("%d wrong lints", p.total-p.right)
	}
	return nil
}

// firstLint connects and asks for a first lint; took is the time of both.
func firstLint(ctx context.Context, cfg conflict.Config) (a *conflict.Agent, took time.Duration, err error) {
	began := time.Now()
	if a, err = conflict.Connect(ctx, cfg); err != nil {
		return nil, 0, err
	}
	if _, err = a.Lint(ctx, cfg.Target.Edited); err != nil {
		a.Close()
		return nil, 0, err
	}
	return a, time.Since(began), nil
}

// step makes one edit and lints both files, first on one side, then on the
// other: two servers at once would share the processors.
func (p *pair) step(ctx context.Context, s setting, target conflict.Target, calls map[string]int, word string, odd bool) error {
	paths := []string{target.Edited, target.Dependent}
	var answers [2][]conflict.Lint
	for i, a := range []*conflict.Agent{p.dedicated, p.shadow} {
		if err := a.Edit(word, odd); err != nil {
			return err
		}
		for _, path := range paths {
			found, err := a.Lint(ctx, path)
			if err != nil {
				return fmt.Errorf("%s: %w", []string{"dedicated", "shadowlsp"}[i], err)
			}
			answers[i] = append(answers[i], found)
		}
	}
	for i, path := range paths {
		dedicated, shadow := answers[0][i], answers[1][i]
		p.dedicatedTook[path] = append(p.dedicatedTook[path], dedicated.Took)
		p.shadowTook[path] = append(p.shadowTook[path], shadow.Took)
		p.total++
		if wrong := shadow.Judge(calls[path], word); wrong != nil {
			fmt.Fprintf(s.out, "  WRONG: %s, %s: %v\n", word, path, wrong)
		} else {
			p.right++
		}
		if shadow.Items == dedicated.Items {
			p.equal++
		} else {
			fmt.Fprintf(s.out, "  DIFFERENT: %s, %s:\n    shadowlsp %s\n    dedicated %s\n", word, path, shadow.Items, dedicated.Items)
		}
	}
	return nil
}
