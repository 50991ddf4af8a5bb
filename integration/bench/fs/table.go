package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one thing to do, in every lane.
type row struct {
	name   string
	target float64 // as a ratio to native; 0: none
	order  order
	clean  string // what undoes it, outside of the measured time
	cold   bool   // with empty caches
	shy    bool   // slow: fewer rounds
	needs  string // a program
}

var rows = []row{
	{name: "walk", target: 2, order: order{Do: "walk"}},
	{name: "stat", target: 1.1, order: order{Do: "stat"}},
	{name: "missing", target: 1.3, order: order{Do: "missing"}},
	{name: "read", target: 1.1, order: order{Do: "read"}},
	{name: "sequential", target: 1.2, order: order{Do: "big"}},
	{name: "create", target: 8, order: order{Do: "create", Args: []string{"2000"}}, clean: "clean"},
	{name: "git-status", target: 2, order: order{Do: "exec", Args: []string{"git", "status", "--porcelain"}}, needs: "git"},
	{name: "go-list", target: 1.3, order: order{Do: "exec", Args: []string{"go", "list", "-deps", "./..."}}, shy: true},
	{name: "go-vet", target: 1.15, order: order{Do: "exec", Args: []string{"go", "vet", "./go/..."}}, shy: true},
	{name: "go-build", target: 1.15, order: order{Do: "exec", Args: []string{"go", "build", "./..."}}, shy: true},
	{name: "tsc", order: order{Do: "exec", Args: []string{"tsc", "--noEmit", "-p", typescript + "/src/tsconfig.cjs.json"}}, shy: true, needs: "tsc"},
	{name: "walk-cold", order: order{Do: "walk"}, cold: true},
	{name: "read-cold", target: 2.3, order: order{Do: "read"}, cold: true},
}

// shyRounds is for rows that take seconds.
const shyRounds = 3

// table measures all rows and prints them.
func (s *stand) table(ctx context.Context, o options) error {
	fmt.Printf("%d files; load %s; %d rounds; medians of the ratios to the folder itself (and of the requests that we answered)\n", len(s.files), load(), o.rounds)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "row\tnative\ttarget")
	for _, l := range s.lanes[1:] {
		fmt.Fprintf(w, "\t%s", l.kind.name)
	}
	fmt.Fprintln(w, "\tload")
	for _, r := range rows {
		if !chosen(o.rows, r.name) || r.cold && o.cold == 0 {
			continue
		}
		if _, err := exec.LookPath(r.needs); r.needs != "" && err != nil {
			fmt.Fprintf(w, "%s\tnot measured: no %s here\n", r.name, r.needs)
			continue
		}
		rounds := o.rounds
		switch {
		case r.cold:
			rounds = o.cold
		case r.shy:
			rounds = min(rounds, shyRounds)
		}
		took, asked, err := s.measure(ctx, r, rounds)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", r.name, err), w.Flush())
		}
		fmt.Fprintf(w, "%s\t%v", r.name, median(took[0]).Round(10*time.Microsecond))
		if r.target > 0 {
			fmt.Fprintf(w, "\t%.2f", r.target)
		} else {
			fmt.Fprint(w, "\t-")
		}
		for i := range s.lanes[1:] {
			fmt.Fprintf(w, "\t%.2f", medianRatio(took[i+1], took[0]))
			if s.lanes[i+1].kind.ours {
				fmt.Fprintf(w, " (%d)", median(asked[i+1]))
			}
		}
		fmt.Fprintf(w, "\t%s\n", load())
	}
	for _, l := range s.lanes {
		if l.kind.ours {
			fmt.Fprintf(w, "memory of %s\t%d KiB at first, %d KiB now\n", l.kind.name, l.began, l.memory())
		}
	}
	return w.Flush()
}

// measure is how long each lane took in each round, and how many requests of the
// kernel's it answered.
func (s *stand) measure(ctx context.Context, r row, rounds int) (took [][]time.Duration, asked [][]int, err error) {
	took, asked = make([][]time.Duration, len(s.lanes)), make([][]int, len(s.lanes))
	var answers int
	one := func(i int) (time.Duration, error) {
		if r.cold {
			if err := emptyCaches(); err != nil {
				return 0, err
			}
		}
		before := s.lanes[i].answers()
		t, err := s.lanes[i].do(r.order)
		answers = s.lanes[i].answers() - before
		if err == nil && r.clean != "" {
			_, err = s.lanes[i].do(order{Do: r.clean})
		}
		return t, err
	}
	if !r.cold {
		for i := range s.lanes { // warm
			if _, err := one(i); err != nil {
				return nil, nil, err
			}
		}
	}
	for round := range rounds {
		for j := range s.lanes {
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			i := (round + j) % len(s.lanes)
			t, err := one(i)
			if err != nil {
				return nil, nil, err
			}
			took[i], asked[i] = append(took[i], t), append(asked[i], answers)
		}
	}
	return took, asked, nil
}

// emptyCaches empties the caches of the whole machine.
func emptyCaches() error {
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

func median[T cmp.Ordered](d []T) T {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// medianRatio is the median over the rounds of a to b in the same round.
func medianRatio(a, b []time.Duration) float64 {
	var ratios []float64
	for i := range a {
		ratios = append(ratios, float64(a[i])/float64(b[i]))
	}
	slices.Sort(ratios)
	if n := len(ratios); n%2 == 0 {
		return (ratios[n/2-1] + ratios[n/2]) / 2
	}
	return ratios[len(ratios)/2]
}
