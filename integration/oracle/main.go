package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var (
		cfg         config
		names       string
		timed       bool
		seeds, seed uint64
	)
	flag.StringVar(&cfg.shadowlsp, "shadowlsp", "bin/shadowlsp", "the program to examine")
	flag.StringVar(&names, "server", "", "the servers, separated by commas; all without it")
	flag.IntVar(&cfg.steps, "steps", 200, "edits in each run")
	flag.IntVar(&cfg.from, "from", 1, "the step to begin at: the edits before it are made, nothing is asked")
	flag.DurationVar(&cfg.lasts, "for", 0, "begin no further step after this time, and say where to go on")
	flag.Uint64Var(&seeds, "seeds", 1, "runs of each server")
	flag.Uint64Var(&seed, "seed", 1, "the first run's")
	flag.IntVar(&cfg.branches, "branches", 4, "branches at a time")
	flag.IntVar(&cfg.jobs, "jobs", 1, "fresh servers at a time")
	flag.IntVar(&cfg.dependents, "dependents", 2, "files asked about beside the edited one")
	flag.IntVar(&cfg.questions, "questions", 3, "requests beside lints in each step: hover, definition, references, rename, symbols and their like")
	flag.Float64Var(&cfg.whole, "whole", 0.2, "part of the steps that ask for the whole workspace")
	flag.IntVar(&cfg.withhold, "withhold", 0, "a step whose edit shadowlsp is not told, to see the oracle fail")
	flag.BoolVar(&cfg.bare, "bare", false, "measure a dedicated server on a real copy beside")
	flag.BoolVar(&timed, "times", false, "measure only, -for (15 s) with edits on one branch and as long on two in turn: a row of docs/servers.md for each server")
	flag.StringVar(&cfg.trace, "trace", "", "a file that the daemon appends its trace dump to")
	flag.BoolVar(&cfg.verbose, "v", false, "print every step")
	flag.BoolVar(&showLogs, "logs", false, "print what servers say on stderr")
	flag.Parse()
	play := consult
	if timed {
		cfg.lasts, play = cmp.Or(cfg.lasts, 15*time.Second), clock
	}
	if err := play(ctx, cfg, names, seed, seeds, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// consult runs the named servers and prints what was found.
func consult(ctx context.Context, cfg config, names string, seed, seeds uint64, out io.Writer) (err error) {
	if cfg.shadowlsp, err = filepath.Abs(cfg.shadowlsp); err != nil {
		return err
	}
	chosen, err := find(names)
	if err != nil {
		return err
	}
	failed := 0
	for _, s := range chosen {
		for n := range seeds {
			fmt.Fprintf(out, "%s, seed %d:\n", s.Name, seed+n)
			v, err := play(ctx, cfg, s, seed+n, out)
			if v != nil {
				fmt.Fprintf(out, "%s, seed %d: %s\n", s.Name, seed+n, v.summary())
			}
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", s.Name, seed+n, err)
			}
			if err := v.err(); err != nil {
				fmt.Fprintf(out, "%s, seed %d: FAILED: %v\n", s.Name, seed+n, err)
				failed++
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d runs of %d failed", failed, len(chosen)*int(seeds))
	}
	return nil
}

// showLogs has the servers' stderr printed.
var showLogs bool

// logWriter is where a program's stderr goes.
func logWriter(string) io.Writer {
	if showLogs {
		return os.Stderr
	}
	return nil
}
