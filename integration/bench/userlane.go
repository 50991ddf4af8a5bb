package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"shadowlsp/integration/client"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/docuri"
)

// question is one request that is asked again and again.
type question struct {
	name   string
	server []string // command; the same for both lanes
	open   string   // a file to open first, "" for none
	method string
	params any
}

// lane is one way to reach a server.
type lane struct {
	name string
	conn *client.Client
	took []time.Duration
}

// userLane measures the round-trip of a person's request: to the bare server,
// and through `shadowlsp -- SERVER`, alternating; then again with the daemon
// stopped by SIGSTOP, which the person must not notice.
func userLane(ctx context.Context, s setting, args []string) (err error) {
	flags := flag.NewFlagSet("userlane", flag.ContinueOnError)
	n := flags.Int("n", 2000, "requests on each lane")
	if err := flags.Parse(args); err != nil {
		return err
	}
	st, err := newStage(ctx, "xmod")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	file := filepath.Join(st.Dir, "semver", "semver.go")
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, _, found := strings.Cut(string(source), "func Compare(")
	if !found {
		return fmt.Errorf("%s has no func Compare to hover over", file)
	}
	hover := map[string]any{
		"textDocument": map[string]string{"uri": docuri.FromPath(file)},
		"position":     map[string]int{"line": strings.Count(before, "\n"), "character": len("func C")},
	}
	text := func(bytes int) any { return map[string]string{"text": strings.Repeat("x", bytes)} }
	fmt.Fprintf(s.out, "user lane: a request and its answer, %d times on each lane in turn, µs\n", *n)
	fmt.Fprintf(s.out, "%-22s %-26s %9s %9s %9s\n", "", "", "median", "p99", "max")
	for _, q := range []question{
		{"echo of 200 B", []string{self, echoArgument}, "", "test/echo", text(200)},
		{"echo of 64 KB", []string{self, echoArgument}, "", "test/echo", text(64 << 10)},
		{"gopls hover", []string{s.gopls}, file, "textDocument/hover", hover},
	} {
		if err := q.measure(ctx, s, st, *n); err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
	}
	return nil
}

// measure runs one question on both lanes, with the daemon running and stopped.
func (q question) measure(ctx context.Context, s setting, st *stage.Stage, n int) error {
	// The daemon runs from the beginning: its start is not the lane's cost.
	serve := exec.CommandContext(ctx, s.shadowlsp, "serve", "--detach", "--workspace", st.Dir)
	serve.Env = append(os.Environ(), st.Env...)
	if out, err := serve.CombinedOutput(); err != nil {
		return fmt.Errorf("starting the daemon: %w\n%s", err, out)
	}
	lanes := []*lane{{name: "bare"}, {name: "shadowlsp"}}
	for _, l := range lanes {
		command := q.server
		if l.name == "shadowlsp" {
			command = append([]string{s.shadowlsp, "--"}, q.server...)
		}
		var err error
		if l.conn, err = q.start(ctx, st, command); err != nil {
			return err
		}
		defer l.conn.Close()
	}
	if err := q.alternate(ctx, lanes, n); err != nil {
		return err
	}
	q.print(s, "", lanes)

	daemon := st.Daemon()
	if daemon == 0 {
		return errors.New("the daemon has gone")
	}
	if err := syscall.Kill(daemon, syscall.SIGSTOP); err != nil {
		return err
	}
	defer syscall.Kill(daemon, syscall.SIGCONT)
	if err := q.alternate(ctx, lanes, n); err != nil {
		return err
	}
	q.print(s, ", daemon stopped", lanes)
	return nil
}

// start runs a server and brings it to where the question can be asked.
func (q question) start(ctx context.Context, st *stage.Stage, command []string) (*client.Client, error) {
	c, err := client.Start(client.Config{Command: command, Dir: st.Dir, Env: st.Env, Stderr: os.Stderr})
	if err != nil {
		return nil, err
	}
	if _, err = c.Initialize(ctx, docuri.FromPath(st.Dir), struct{}{}, nil); err == nil && q.open != "" {
		var text []byte
		if text, err = os.ReadFile(q.open); err == nil {
			err = c.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
				"uri": docuri.FromPath(q.open), "languageId": "go", "version": 1, "text": string(text),
			}})
		}
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// alternate asks the question n times on each lane, after some that do not
// count, and in changing order.
func (q question) alternate(ctx context.Context, lanes []*lane, n int) error {
	for _, l := range lanes {
		l.took = l.took[:0]
	}
	warm := min(n/10, 100)
	for i := -warm; i < n; i++ {
		for k := range lanes {
			l := lanes[(i+warm+k)%len(lanes)]
			began := time.Now()
			answer, err := l.conn.Call(ctx, q.method, q.params)
			took := time.Since(began)
			if err != nil {
				return err
			}
			if len(answer) < 20 {
				return fmt.Errorf("an empty answer to %s: %s", q.method, answer)
			}
			if i >= 0 {
				l.took = append(l.took, took)
			}
		}
	}
	return nil
}

func (q question) print(s setting, when string, lanes []*lane) {
	var base [3]time.Duration
	row := func(name string, v [3]time.Duration) {
		micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
		fmt.Fprintf(s.out, "%-22s %-26s %9.1f %9.1f %9.1f\n", q.name, name+when, micros(v[0]), micros(v[1]), micros(v[2]))
	}
	for i, l := range lanes {
		v := [3]time.Duration{stage.Quantile(l.took, 0.5), stage.Quantile(l.took, 0.99), stage.Quantile(l.took, 1)}
		row(l.name, v)
		if i == 0 {
			base = v
			continue
		}
		row("  added", [3]time.Duration{v[0] - base[0], v[1] - base[1], v[2] - base[2]})
	}
}
