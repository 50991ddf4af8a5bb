package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"shadowlsp/integration/client"
	"shadowlsp/integration/conflict"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/docuri"
)

// person measures what the person notices of agents: how long a completion takes
// right after typing, in golang.org/x/tools. First on the bare server and through
// shadowlsp with a daemon that does nothing, in turn; then through shadowlsp with
// all agents at work, and on the bare server in slices between, in which daemon and
// instances are stopped.
func person(ctx context.Context, s setting, args []string) (err error) {
	flags := flag.NewFlagSet("person", flag.ContinueOnError)
	c := &crowd{setting: s}
	flags.IntVar(&c.agents, "branches", 200, "agents at work")
	n := flags.Int("n", 100, "completions of each kind")
	slice := flags.Int("slice", 10, "completions in a slice")
	pace := flags.Duration("pace", 100*time.Millisecond, "between an answer and the next keystroke")
	priority := flags.String("priority", "auto", "of the instances, as shadowlsp's flag")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var stages [2]*stage.Stage
	var typists [2]*typist // bare, through shadowlsp
	for i := range stages {
		if stages[i], err = toolsStage(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stages[i].Close()) }()
	}
	st := stages[1]
	if err := s.run(ctx, st, "serve", "--detach", "--workspace", st.Dir, "--priority", *priority); err != nil {
		return err
	}
	for i, command := range [][]string{{s.gopls}, {s.shadowlsp, "--", s.gopls}} {
		if typists[i], err = newTypist(ctx, stages[i], command); err != nil {
			return err
		}
		typists[i].pace = *pace
		defer typists[i].conn.Close()
	}
	fmt.Fprintf(s.out, "person: golang.org/x/tools; a completion right after typing, ms\n  %-44s %9s %9s %9s\n", "", "median", "p95", "max")
	var quiet [2][]time.Duration
	for range *n {
		for i, t := range typists {
			took, err := t.complete(ctx)
			if err != nil {
				return err
			}
			quiet[i] = append(quiet[i], took)
		}
	}
	show(s, "bare", quiet[0], nil)
	show(s, "shadowlsp, the daemon idle", quiet[1], quiet[0])

	if c.subjects, err = findSubjects(st.Dir, 40); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	var agents sync.WaitGroup
	defer agents.Wait()
	defer stop()
	if err := c.work(working, st, &agents); err != nil {
		return err
	}
	var busy [2][]time.Duration
	for len(busy[1]) < *n {
		if err := c.pause(ctx, st, syscall.SIGSTOP); err != nil {
			return err
		}
		for range *slice {
			took, err := typists[0].complete(ctx)
			if err != nil {
				return errors.Join(err, c.pause(ctx, st, syscall.SIGCONT))
			}
			busy[0] = append(busy[0], took)
		}
		if err := c.pause(ctx, st, syscall.SIGCONT); err != nil {
			return err
		}
		for range *slice {
			took, err := typists[1].complete(ctx)
			if err != nil {
				return err
			}
			busy[1] = append(busy[1], took)
		}
	}
	show(s, "bare, between", busy[0], nil)
	show(s, fmt.Sprintf("shadowlsp, %d branches at work (%s)", c.agents, *priority), busy[1], busy[0])
	return nil
}

// show prints one row, and what it is of another.
func show(s setting, name string, took, base []time.Duration) {
	fmt.Fprintf(s.out, "  %-44s", name)
	for _, q := range []float64{0.5, 0.95, 1} {
		v := stage.Quantile(took, q)
		fmt.Fprintf(s.out, " %9.1f", float64(v.Microseconds())/1e3)
		if base != nil && q < 1 {
			fmt.Fprintf(s.out, " (%+.0f %%)", 100*(v.Seconds()/stage.Quantile(base, q).Seconds()-1))
		}
	}
	fmt.Fprintln(s.out)
}

// work has every agent edit and lint until ctx ends; it returns when all are
// connected and the first has an answer.
func (c *crowd) work(ctx context.Context, st *stage.Stage, wg *sync.WaitGroup) error {
	status, err := c.status(ctx, st)
	if err != nil {
		return err
	}
	first := make(chan error, 1)
	tell := func(err error) {
		select {
		case first <- err:
		default: // somebody was first
		}
	}
	for i := range c.agents {
		a, err := conflict.Connect(ctx, conflict.Config{
			Socket: status.Agent.Unix, Dir: st.Dir, Target: c.target(i),
			Options: map[string]any{"shadowlsp": map[string]any{"branch": fmt.Sprintf("b%d", i)}},
		})
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer a.Close()
			tell(c.play(ctx, i, a, 1<<30, func(int, [2]string, time.Duration) { tell(nil) }))
		})
	}
	return <-first
}

// pause sends a signal to the daemon and its instances.
func (c *crowd) pause(ctx context.Context, st *stage.Stage, sig syscall.Signal) error {
	if sig == syscall.SIGSTOP {
		status, err := c.status(ctx, st)
		if err != nil {
			return err
		}
		c.stopped = []int{status.PID}
		for _, server := range status.Servers {
			for _, i := range server.Instances {
				c.stopped = append(c.stopped, stage.Descendants(i.PID)...)
			}
		}
	}
	for _, pid := range c.stopped {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// typist is a person in an editor.
type typist struct {
	conn    *client.Client
	uri     string
	text    string
	line    int
	version int
	pace    time.Duration
}

// newTypist opens a file and waits for a first completion.
func newTypist(ctx context.Context, st *stage.Stage, command []string) (*typist, error) {
	file := filepath.Join(st.Dir, conflict.CoreType.Edited)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t := &typist{uri: docuri.FromPath(file), text: string(text), line: strings.Count(string(text), "\n") + 2, version: 1}
	if t.conn, err = client.Start(client.Config{Command: command, Dir: st.Dir, Env: st.Env, Stderr: os.Stderr}); err != nil {
		return nil, err
	}
	if _, err = t.conn.Initialize(ctx, docuri.FromPath(st.Dir), struct{}{}, nil); err == nil {
		err = t.conn.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
			"uri": t.uri, "languageId": "go", "version": 1, "text": t.text,
		}})
	}
	if err == nil {
		_, err = t.complete(ctx)
	}
	if err != nil {
		t.conn.Close()
		return nil, err
	}
	return t, nil
}

// complete types a qualifier at the end of the file and asks what may follow.
func (t *typist) complete(ctx context.Context) (time.Duration, error) {
	pause := time.NewTimer(t.pace)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	t.version++
	line := "\t_ = types."
	if err := t.conn.Notify("textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": t.uri, "version": t.version},
		"contentChanges": []map[string]string{{"text": fmt.Sprintf("%s\nfunc typed%d() {\n%s\n}\n", t.text, t.version, line)}},
	}); err != nil {
		return 0, err
	}
	began := time.Now()
	answer, err := t.conn.Call(ctx, "textDocument/completion", map[string]any{
		"textDocument": map[string]string{"uri": t.uri}, "position": map[string]int{"line": t.line, "character": len(line)},
	})
	if err == nil && !strings.Contains(string(answer), "Underlying") && !strings.Contains(string(answer), "NewSignature") {
		err = fmt.Errorf("an odd completion: %.200s", answer)
	}
	return time.Since(began), err
}
