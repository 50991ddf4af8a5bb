package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"shadowlsp/integration/conflict"
	"shadowlsp/integration/stage"
	"shadowlsp/internal/workspace"
)

// crowd is many agents, each with its branch and its file, and what they were
// answered: the same work for each way to serve them.
type crowd struct {
	setting
	subjects         []subject
	agents, rounds   int
	truths           [][][2]string // by agent, round; of the edited and the dependent file
	verifiers, alone int
	stopped          []int // processes, by pause
}

// subject is the file that an agent edits; several agents share one.
func (c *crowd) subject(agent int) subject { return c.subjects[agent%len(c.subjects)] }

func (c *crowd) target(agent int) conflict.Target {
	s := c.subject(agent)
	return conflict.Target{Edited: s.path, Dependent: s.dependent}
}

// text is what an agent's file holds in a round. Agents that share a file are
// never at the same kind of edit.
func (c *crowd) text(agent, round int) string {
	kind := agent + agent/len(c.subjects) + round
	return c.subject(agent).edited(kind, fmt.Sprintf("A%dR%d", agent, round))
}

// play has an agent make its edits, and lint both files after each.
func (c *crowd) play(ctx context.Context, agent int, a *conflict.Agent, rounds int, each func(round int, answers [2]string, took time.Duration)) error {
	for round := range rounds {
		began := time.Now()
		if err := a.Put(c.text(agent, round)); err != nil {
			return err
		}
		answers, err := c.lint(ctx, agent, a)
		if err != nil {
			return fmt.Errorf("agent %d, round %d: %w", agent, round, err)
		}
		each(round, answers, time.Since(began))
	}
	return nil
}

// lint asks about both files at once, as an agent does that needs both.
func (c *crowd) lint(ctx context.Context, agent int, a *conflict.Agent) (answers [2]string, err error) {
	s := c.subject(agent)
	var errs [2]error
	var wg sync.WaitGroup
	for i, path := range []string{s.path, s.dependent} {
		wg.Go(func() {
			var found conflict.Lint
			if found, errs[i] = a.Lint(ctx, path); errs[i] == nil {
				answers[i], errs[i] = canonical(json.RawMessage(found.Items), "\x00")
			}
		})
	}
	wg.Wait()
	return answers, errors.Join(errs[:]...)
}

// branches has hundreds of agents work at once on one shadow of gopls, then
// compares every answer with that of a fresh gopls on a real copy; beside it, a
// worktree and a gopls for each of a few agents, and one gopls that all share.
func branches(ctx context.Context, s setting, args []string) (err error) {
	flags := flag.NewFlagSet("branches", flag.ContinueOnError)
	c := &crowd{setting: s}
	flags.IntVar(&c.agents, "branches", 200, "agents, each on a branch of its own")
	flags.IntVar(&c.rounds, "rounds", 10, "edits of each, both files linted after each")
	flags.IntVar(&c.verifiers, "verifiers", 2, "fresh servers at once that the answers are compared with; 0 does not compare")
	flags.IntVar(&c.alone, "alone", 8, "agents that are given a worktree and a gopls of their own; 0 leaves that out")
	subjects := flags.Int("files", 40, "files that are edited")
	instances := flags.Int("instances", 1, "instances that shadowlsp may start")
	together := flags.Bool("shared", true, "also let all agents share one gopls")
	profile := flags.String("daemon-flags", "", "more flags for the daemon, separated by spaces")
	if err := flags.Parse(args); err != nil {
		return err
	}
	st, err := toolsStage(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if c.subjects, err = findSubjects(st.Dir, *subjects); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "branches: golang.org/x/tools; %d agents edit %d files; after each edit the file and an unopened dependent are linted\n", c.agents, len(c.subjects))
	found, err := c.shadowed(ctx, st, *instances, strings.Fields(*profile))
	if err != nil {
		return err
	}
	wrong := 0
	if c.verifiers > 0 {
		if wrong, err = c.verify(ctx, found); err != nil {
			return err
		}
	}
	if c.alone > 0 {
		if err := c.apart(ctx); err != nil {
			return err
		}
	}
	if *together && c.verifiers > 0 {
		if err := c.together(ctx); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d answers differ from a fresh server's", wrong)
	}
	return nil
}

// toolsStage is a stage with x/tools whose gopls keeps nothing on disk that
// another lane could use.
func toolsStage(ctx context.Context) (*stage.Stage, error) {
	st, err := newStage(ctx, "xtools")
	if err == nil {
		st.Env = append(st.Env, "GOPLSCACHE="+st.Dir+"-cache")
	}
	return st, err
}

// shadowed runs the crowd on branches. It returns the answers by agent and round.
func (c *crowd) shadowed(ctx context.Context, st *stage.Stage, instances int, more []string) (found [][][2]string, err error) {
	args := append([]string{"serve", "--detach", "--workspace", st.Dir, "--instances", fmt.Sprint(instances)}, more...)
	if err := c.run(ctx, st, append(args, "--", c.gopls)...); err != nil {
		return nil, err
	}
	status, err := c.status(ctx, st)
	if err != nil {
		return nil, err
	}
	agents := make([]*conflict.Agent, c.agents)
	defer func() {
		for _, a := range agents {
			if a != nil {
				a.Close()
			}
		}
	}()
	connect := func(i int) (*conflict.Agent, error) {
		return conflict.Connect(ctx, conflict.Config{
			Socket: status.Agent.Unix, Dir: st.Dir, Target: c.target(i),
			Options: map[string]any{"shadowlsp": map[string]any{"branch": fmt.Sprintf("b%d", i)}},
		})
	}
	began := time.Now()
	if agents[0], err = connect(0); err != nil {
		return nil, err
	}
	if _, err := c.lint(ctx, 0, agents[0]); err != nil { // the server has loaded then
		return nil, err
	}
	fmt.Fprintf(c.out, "  shadowlsp: %.1f s from nothing running to the first lint", time.Since(began).Seconds())
	before := memoryOf(status.PID)
	began = time.Now()
	for i := 1; i < c.agents; i++ {
		if agents[i], err = connect(i); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(c.out, ", %.2f s to connect the others\n", time.Since(began).Seconds())
	connected := memoryOf(status.PID)

	spent := func(s workspace.Status) (cpu time.Duration) {
		for _, server := range s.Servers {
			for _, i := range server.Instances {
				cpu += familyMemory(i.PID).cpu
			}
		}
		return cpu
	}
	if status, err = c.status(ctx, st); err != nil {
		return nil, err
	}
	used, own := spent(status), connected.cpu
	found = make([][][2]string, c.agents)
	var took tally
	began = time.Now()
	err = together(c.agents, func(i int) error {
		found[i] = make([][2]string, c.rounds)
		return c.play(ctx, i, agents[i], c.rounds, func(round int, answers [2]string, t time.Duration) {
			found[i][round] = answers
			took.add(t)
		})
	})
	if err != nil {
		return nil, err
	}
	all := time.Since(began)
	if status, err = c.status(ctx, st); err != nil {
		return nil, err
	}
	c.rate("shadowlsp", all, &took)
	edits := c.agents * c.rounds
	fmt.Fprintf(c.out, "  processor time per edit: %d ms of the instances, %.1f ms of the daemon\n",
		(spent(status)-used).Milliseconds()/int64(edits), float64((memoryOf(status.PID).cpu-own).Milliseconds())/float64(edits))
	var peaks []string
	for _, server := range status.Servers {
		for _, i := range server.Instances {
			peaks = append(peaks, familyMemory(i.PID).String())
		}
		fmt.Fprintf(c.out, "  %d switches\n", server.Switches)
	}
	after := memoryOf(status.PID)
	fmt.Fprintf(c.out, "  memory: the daemon %d MB at first, %d MB with %d branches connected, peak %d MB; instances: %s\n",
		before.now>>20, connected.now>>20, c.agents, after.peak>>20, strings.Join(peaks, ", "))
	return found, nil
}

// rate prints how fast a lane was.
func (c *crowd) rate(lane string, all time.Duration, t *tally) {
	n := len(t.took)
	fmt.Fprintf(c.out, "  %s: %d edits, %d lints in %.1f s: %.1f lints/s, %.0f ms of the lane's time per edit; edit to both answers: p50 %.2f s, p99 %.2f s\n",
		lane, n, 2*n, all.Seconds(), float64(2*n)/all.Seconds(), float64(all.Milliseconds())/float64(n),
		stage.Quantile(t.took, 0.5).Seconds(), stage.Quantile(t.took, 0.99).Seconds())
}

// tally collects durations from several goroutines.
type tally struct {
	mu   sync.Mutex // guards the field below
	took []time.Duration
}

func (t *tally) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, d)
}

// together runs f for 0 … n-1 at once and returns their errors.
func together(n int, f func(int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// run runs a command of shadowlsp's on a stage.
func (s setting) run(ctx context.Context, st *stage.Stage, args ...string) error {
	_, err := s.output(ctx, st, args...)
	return err
}

func (s setting) output(ctx context.Context, st *stage.Stage, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.shadowlsp, args...)
	cmd.Dir, cmd.Env = st.Dir, append(os.Environ(), st.Env...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("shadowlsp %s: %w\n%s", strings.Join(args, " "), err, complaint.Bytes())
	}
	return out, nil
}

func (s setting) status(ctx context.Context, st *stage.Stage) (v workspace.Status, err error) {
	out, err := s.output(ctx, st, "status", "--json", "--workspace", st.Dir)
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	return v, err
}
