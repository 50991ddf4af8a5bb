// Command bench measures what shadowlsp costs and gives, each figure beside its
// alternative in the same run.
//
//	bench [-shadowlsp FILE] [NAME [FLAGS]]
//
// Without NAME every benchmark but the long ones runs with its defaults. Benchmarks alternate what
// they compare request by request, so that a busy machine disturbs both alike;
// quote ratios and differences, not single figures.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
)

// setting is what every benchmark is given.
type setting struct {
	shadowlsp string // the program
	gopls     string
	out       io.Writer
}

// benchmark is one that can be named on the command line.
type benchmark struct {
	name string
	run  func(ctx context.Context, s setting, args []string) error
	long bool // runs only when it is named
}

var benchmarks = []benchmark{
	{name: "userlane", run: userLane},
	{name: "lints", run: lints},
	{name: "idle", run: idle},
	{name: "branches", run: branches, long: true},
	{name: "person", run: person, long: true},
	{name: "runs", run: runs, long: true},
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == echoArgument {
		echo(os.Stdin, os.Stdout)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s := setting{out: os.Stdout}
	flag.StringVar(&s.shadowlsp, "shadowlsp", "bin/shadowlsp", "the program to measure")
	flag.StringVar(&s.gopls, "gopls", "", "the gopls to use (default: the pinned one)")
	flag.Parse()
	if err := run(ctx, s, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s setting, args []string) (err error) {
	if s.shadowlsp, err = filepath.Abs(s.shadowlsp); err != nil {
		return err
	}
	if _, err := os.Stat(s.shadowlsp); err != nil {
		return fmt.Errorf("%w: make build makes it", err)
	}
	if s.gopls == "" {
		if s.gopls, err = need.FindTool("gopls"); err != nil {
			return err
		}
	}
	chosen := benchmarks
	if len(args) > 0 {
		at := slices.IndexFunc(benchmarks, func(b benchmark) bool { return b.name == args[0] })
		if at < 0 {
			return fmt.Errorf("no benchmark is called %q", args[0])
		}
		chosen, args = benchmarks[at:at+1], args[1:]
	}
	for _, b := range chosen {
		if b.long && len(chosen) > 1 {
			continue
		}
		if err := b.run(ctx, s, args); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

// newStage sets up a stage with a copy of the named sources.
func newStage(ctx context.Context, name string) (*stage.Stage, error) {
	source, err := need.FindSource(name)
	if err != nil {
		return nil, err
	}
	return stage.New(ctx, source)
}
