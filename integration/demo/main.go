// Command demo shows what shadowlsp promises, on a real module with a real
// editor: a person in Neovim, and two agents that change the same exported
// function in conflicting ways, each on a branch of its own. Commands run in the
// branches, a second language is linted in them, and one becomes a commit.
//
// It prints step by step what each of the three saw, checks every promise as it
// is shown, and ends with status 1 when one does not hold.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"shadowlsp/integration/need"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p := play{out: os.Stdout}
	flag.StringVar(&p.shadowlsp, "shadowlsp", "bin/shadowlsp", "the program to show")
	flag.IntVar(&p.rounds, "rounds", 10, "how often each agent changes its edit and lints")
	flag.Parse()
	if err := prepare(&p); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	if err := p.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// prepare finds what the play needs.
func prepare(p *play) (err error) {
	for name, path := range map[string]*string{"gopls": &p.gopls, "nvim": &p.nvim} {
		if *path, err = need.FindTool(name); err != nil {
			return err
		}
	}
	p.typescript, _ = need.FindTool("typescript-language-server") // part of it is left out where that is not
	p.source, err = need.FindSource("xmod")
	return err
}
