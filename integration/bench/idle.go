package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"shadowlsp/integration/client"
	"shadowlsp/lsp/docuri"
)

// idle measures what branches cost the daemon that nobody works on: each with one
// edited file, with its connection open, then without.
func idle(ctx context.Context, s setting, args []string) (err error) {
	flags := flag.NewFlagSet("idle", flag.ContinueOnError)
	n := flags.Int("branches", 500, "branches")
	if err := flags.Parse(args); err != nil {
		return err
	}
	st, err := newStage(ctx, "xmod")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := s.run(ctx, st, "serve", "--detach", "--workspace", st.Dir, "--max-connections", fmt.Sprint(*n+10), "--", s.gopls); err != nil {
		return err
	}
	subjects, err := findSubjects(st.Dir, 10)
	if err != nil {
		return err
	}
	status, err := s.status(ctx, st)
	if err != nil {
		return err
	}
	var open []*client.Client
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	connect := func(branch string, edit subject) error {
		c, err := client.Dial(status.Agent.Unix, client.Config{Dir: st.Dir})
		if err != nil {
			return err
		}
		open = append(open, c)
		options := map[string]any{"shadowlsp": map[string]string{"branch": branch}}
		pull := map[string]any{"textDocument": map[string]any{"diagnostic": map[string]any{}}}
		if _, err := c.Initialize(ctx, docuri.FromPath(st.Dir), pull, options); err != nil {
			return err
		}
		_, err = c.Call(ctx, "shadowlsp/write", map[string]any{"edits": []any{
			map[string]string{"uri": docuri.FromPath(st.Dir + "/" + edit.path), "text": edit.edited(0, branch)},
		}})
		return err
	}
	fmt.Fprintf(s.out, "idle: golang.org/x/mod; the daemon's memory with %d idle branches, one edited file each\n", *n)
	var base memory
	var heap uint64
	tell := func(what string) error {
		v, err := s.status(ctx, st)
		if err != nil {
			return err
		}
		m := memoryOf(v.PID)
		if base.now == 0 {
			base, heap = m, v.Memory
		}
		fmt.Fprintf(s.out, "  %-28s %6d KB resident, %6d KB heap and stacks, %d goroutines; per branch %.1f KB resident, %.1f KB heap and stacks\n",
			what, m.now>>10, v.Memory>>10, v.Goroutines, float64(m.now-base.now)/float64(*n)/1024, float64(int64(v.Memory)-int64(heap))/float64(*n)/1024)
		return nil
	}
	if err := connect("first", subjects[0]); err != nil {
		return err
	}
	if err := tell("with one"); err != nil {
		return err
	}
	for i := range *n {
		if err := connect(fmt.Sprintf("b%d", i), subjects[i%len(subjects)]); err != nil {
			return err
		}
	}
	if err := tell("all connected"); err != nil {
		return err
	}
	for _, c := range open {
		if err := c.Close(); err != nil {
			return err
		}
	}
	open = nil
	return tell("none connected, all kept")
}
