package scheduler

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

var hour = flag.Bool("hour", false, "let every simulation last the whole hour (about a minute in all)")

// simLength is d, less with -short, an hour with -hour.
func simLength(d time.Duration) time.Duration {
	switch {
	case *hour:
		return time.Hour
	case testing.Short():
		return min(d, 3*time.Minute)
	}
	return d
}

const ms = time.Millisecond

// mixed is 1,000 branches of mixed habits. They ask for more than two instances
// can do: the greedy ones take whatever is left.
func mixed() []habit {
	return []habit{
		{name: "chatty", agents: 600, think: time.Minute, rounds: 6, width: 1, gap: ms, run: 15 * ms, drain: 2 * ms},
		{name: "batch", agents: 200, think: 2 * time.Minute, rounds: 2, width: 12, gap: 200 * ms, run: 20 * ms, background: 5, drain: 2 * ms},
		{name: "slow", agents: 40, think: 10 * time.Minute, rounds: 1, width: 1, gap: ms, run: 3 * time.Second, drain: 100 * ms},
		{name: "lint", agents: 140, think: 90 * time.Second, rounds: 1, width: 3, gap: ms, run: 30 * ms, background: 10, drain: 2 * ms},
		{name: "greedy", agents: 10, rounds: 1, width: 1, gap: ms, run: 20 * ms, drain: 2 * ms},
		{name: "greedier", agents: 10, rounds: 1, width: 8, gap: ms, run: 40 * ms, drain: 2 * ms},
	}
}

// insatiable is 1,000 branches that always want more, in four ways. The last
// has checks that run on after its turns.
func insatiable() []habit {
	return []habit{
		{name: "one", agents: 250, rounds: 1, width: 1, gap: ms, run: 20 * ms, drain: 2 * ms},
		{name: "many", agents: 250, rounds: 1, width: 8, gap: ms, run: 40 * ms, drain: 2 * ms},
		{name: "long", agents: 250, rounds: 1, width: 1, gap: ms, run: 300 * ms, drain: 20 * ms},
		{name: "background", agents: 250, rounds: 1, width: 4, gap: ms, run: 5 * ms, background: 10, drain: 100 * ms},
	}
}

var twoInstances = Config{Min: 2, Max: 2}

func heldOf(a *simAgent) float64 { return a.held.Seconds() }

// checkWaits holds waits against the bound of docs/scheduling.md, each with the
// branches that it met, and with the longest turn that was: the 500 longest and
// one in a hundred of the others.
func checkWaits(t *testing.T, m *sim, cfg Config, instances int) {
	t.Helper()
	cfg = cfg.withDefaults()
	turn := m.longestTurn
	slices.SortFunc(m.waits, func(a, b simWait) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	worst, share := m.waits[0], 0.0
	for i, w := range m.waits {
		if i > 500 && i%100 > 0 {
			continue
		}
		bound := 2*turn + time.Second // for the start of the instances
		if w.class == Background {
			bound += cfg.BackgroundPatience
		}
		bound += time.Duration(m.others(w)) * (cfg.MaxDebt + turn) / time.Duration(instances)
		if i == 0 {
			share = float64(w.to-w.from) / float64(bound)
		}
		if w.to-w.from > bound {
			t.Errorf("%s waited %v from %v on, the bound is %v", w.agent.name, w.to-w.from, w.from, bound)
		}
	}
	t.Logf("longest wait %v (%s, %v), %.1f %% of its bound; longest turn %v", worst.to-worst.from, worst.agent.name, worst.class, 100*share, turn)
	for _, a := range m.agents {
		if a.done == 0 && a.habit.think < m.now/2 {
			t.Errorf("%s starved", a.name)
		}
	}
}

func TestMixedHabits(t *testing.T) {
	t.Parallel()
	s := New(twoInstances)
	m := newSim(1, s, mixed()).run(simLength(time.Hour))
	t.Logf("%v of 1,000 branches: %d requests, %d steps, %d switches, %d times asked again in a turn", m.now, m.finished, m.steps, m.switches, s.stats.Anticipated)
	for _, kind := range []string{"greedy", "greedier"} {
		j := m.jainOf(heldOf, kind)
		t.Logf("Jain's index among 10 %s: %.5f", kind, j)
		if j < 0.99 {
			t.Errorf("Jain's index among %s is %.5f", kind, j)
		}
	}
	j := m.jainOf(heldOf, "greedy", "greedier")
	t.Logf("Jain's index among all 20 insatiable ones: %.5f", j)
	if j < 0.99 {
		t.Errorf("Jain's index among the insatiable is %.5f", j)
	}
	for _, h := range mixed() {
		w := m.waitsOf(func(w simWait) bool { return w.agent.habit.name == h.name })
		t.Logf("wait of %-8s p50 %8v  p99 %8v  max %8v  of %d", h.name, quantile(w, .5).Round(ms), quantile(w, .99).Round(ms), quantile(w, 1).Round(ms), len(w))
	}
	checkWaits(t, m, twoInstances, 2)
	if oldest := m.oldestOpen(); oldest > time.Minute {
		t.Errorf("a request still waits, for %v", oldest)
	}
}

func TestEqualDemandsGetEqualShares(t *testing.T) {
	t.Parallel()
	s := New(twoInstances)
	m := newSim(1, s, insatiable()).run(simLength(20 * time.Minute))
	j := m.jainOf(heldOf, "one", "many", "long", "background")
	t.Logf("%v of 1,000 insatiable branches: %d requests, %d steps, Jain's index %.5f", m.now, m.finished, m.steps, j)
	for _, h := range insatiable() {
		held := time.Duration(0)
		for _, a := range m.agents {
			if a.habit.name == h.name {
				held += a.held / time.Duration(h.agents)
			}
		}
		t.Logf("%-10s held an instance for %v each, Jain's index %.5f", h.name, held.Round(ms), m.jainOf(heldOf, h.name))
	}
	if j < 0.99 && !testing.Short() {
		t.Errorf("Jain's index is %.5f", j)
	}
	checkWaits(t, m, twoInstances, 2)
}

// TestSwitchesSaved compares policies over the same agents.
func TestSwitchesSaved(t *testing.T) {
	t.Parallel()
	length := simLength(5 * time.Minute)
	run := func(name string, s stepper) (per1000 float64) {
		m := newSim(1, s, mixed()).run(length)
		w := m.waitsOf(func(w simWait) bool { return w.agent.habit.name == "chatty" })
		per1000 = 1000 * float64(m.switches) / float64(m.finished)
		t.Logf("%-22s %6d requests %6d switches, %5.0f per 1,000; chatty p50 %v p99 %v; Jain %.3f", name, m.finished, m.switches, per1000,
			quantile(w, .5).Round(ms), quantile(w, .99).Round(ms), m.jainOf(heldOf, "greedy", "greedier"))
		return per1000
	}
	full := run("scheduler", New(twoInstances))
	without := run("without anticipation", New(Config{Min: 2, Max: 2, Anticipation: -1}))
	naive := run("first in, first out", &fifo{n: 2})
	if full > 0.6*without || full > 0.3*naive {
		t.Errorf("switches per 1,000 requests: %.0f, without anticipation %.0f, first in, first out %.0f", full, without, naive)
	}

	// Affinity: ten branches on ten instances ask now and then.
	few := []habit{{name: "now and then", agents: 10, think: time.Second, rounds: 1, width: 1, gap: ms, run: 20 * ms, drain: 2 * ms}}
	m := newSim(1, New(Config{Min: 10, Max: 10}), few).run(length)
	n := newSim(1, &fifo{n: 10}, few).run(length)
	t.Logf("affinity: 10 branches on 10 instances: %d switches for %d requests; first in, first out %d for %d", m.switches, m.finished, n.switches, n.finished)
	if m.switches != 10 {
		t.Errorf("%d switches, though there is an instance for each", m.switches)
	}
}

// TestWaitComesCloseToBound shows that the bound is not idle talk: a branch in
// full debt among 50 that have used nothing waits for nearly as long.
func TestWaitComesCloseToBound(t *testing.T) {
	habits := []habit{
		{name: "victim", agents: 1, rounds: 1, width: 1, gap: ms, run: 5 * time.Second, drain: ms},
		{name: "other", agents: 50, rounds: 1, width: 4, gap: ms, run: 20 * ms, drain: ms},
	}
	m := newSim(1, New(Config{}), habits).run(5 * time.Minute)
	longest := time.Duration(0)
	turn := time.Duration(0)
	for _, w := range m.waits {
		if w.agent.habit.name == "victim" {
			longest = max(longest, w.to-w.from)
		}
	}
	for _, a := range m.agents[1:] { // the longest turn of others
		turn = max(turn, a.longest)
	}
	bound := 50 * (New(Config{}).cfg.MaxDebt + turn)
	t.Logf("waited %v, bound %v", longest, bound)
	if longest > bound || longest < bound/2 {
		t.Errorf("waited %v, bound %v", longest, bound)
	}
}

// TestBackgroundDoesNotStarve: an endless flood of Interactive requests.
func TestBackgroundDoesNotStarve(t *testing.T) {
	habits := []habit{
		{name: "flood", agents: 100, rounds: 1, width: 2, gap: ms, run: 20 * ms, drain: ms},
		{name: "lint", agents: 3, rounds: 1, width: 1, gap: ms, run: 20 * ms, drain: ms, background: 10},
	}
	m := newSim(1, New(Config{}), habits).run(10 * time.Minute)
	w := m.waitsOf(func(w simWait) bool { return w.class == Background })
	t.Logf("background requests under a flood: %d, p50 %v, max %v", len(w), quantile(w, .5), quantile(w, 1))
	j := m.jainOf(heldOf, "flood", "lint")
	if len(w) < 30 || j < 0.98 {
		t.Errorf("%d background requests ran, Jain's index %.4f", len(w), j)
	}
	checkWaits(t, m, Config{}, 1)
}

func TestSameSeedSameResult(t *testing.T) {
	t.Parallel()
	digest := func(seed uint64) string {
		m := newSim(seed, New(twoInstances), mixed()).run(2 * time.Minute)
		return fmt.Sprint(m.hash, m.finished, m.switches, m.steps)
	}
	if a, b := digest(7), digest(7); a != b {
		t.Errorf("same seed, other result: %s, %s", a, b)
	}
	if a, b := digest(7), digest(8); a == b {
		t.Errorf("other seed, same result: %s", a)
	}
}

// BenchmarkStep replays what 1,000 branches made happen.
func BenchmarkStep(b *testing.B) {
	for name, habits := range map[string][]habit{"mixed": mixed(), "insatiable": insatiable()} {
		b.Run(name+"/branches=1000", func(b *testing.B) {
			m := newSim(1, New(twoInstances), habits)
			m.record = true
			m.run(5 * time.Minute)
			var s *Scheduler
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				if i %= len(m.events); i == 0 {
					s = New(twoInstances)
				}
				s.Step(m.events[i])
			}
		})
	}
}

func BenchmarkPosition(b *testing.B) {
	m := newSim(1, New(twoInstances), insatiable()).run(time.Minute)
	s := m.s.(*Scheduler)
	last := s.waiting[len(s.waiting)-1]
	id := s.next(last).id
	for b.Loop() {
		if _, ok := s.Position(id); !ok {
			b.Fatal("unknown")
		}
	}
}

func TestPositionAgreesWithSnapshot(t *testing.T) {
	m := newSim(3, New(twoInstances), mixed()).run(time.Minute)
	s := m.s.(*Scheduler)
	snap := s.Snapshot()
	if len(snap.Waiting) < 10 {
		t.Fatalf("only %d wait", len(snap.Waiting))
	}
	for i, w := range snap.Waiting {
		p, ok := s.Position(s.next(s.branches[w.Branch]).id)
		if !ok || p.Running || p.Ahead != i {
			t.Errorf("%s is at %d, its request at %+v", w.Branch, i, p)
		}
	}
	if !slices.IsSortedFunc(snap.Instances, func(a, b InstanceStatus) int { return int(a.ID - b.ID) }) {
		t.Error("instances are out of order")
	}
	if s.Quiet() || !New(Config{}).Quiet() {
		t.Error("Quiet is wrong")
	}
}

// A crowd that always wants more on one instance with dear switches: the more
// wait, the shorter the turns, so that the last in line is not the only one who
// pays for the calm of the first.
func TestARotationHasABound(t *testing.T) {
	t.Parallel()
	crowd := []habit{{name: "crowd", agents: 200, rounds: 1, width: 2, gap: ms, run: 50 * ms, drain: 2 * ms}}
	type result struct {
		waited time.Duration // by one of a hundred, at least
		done   int
	}
	var of [2]result
	for i, rotation := range []time.Duration{20 * time.Second, time.Hour} {
		m := newSim(1, New(Config{Rotation: rotation}), crowd)
		m.switchMean, m.switchSpread = 100*ms, 20*ms
		m.run(simLength(20 * time.Minute))
		of[i] = result{quantile(m.waitsOf(func(simWait) bool { return true }), .99), m.finished}
		t.Logf("rotation %v: %d requests, %d switches, wait p99 %v", rotation, m.finished, m.switches, of[i].waited.Round(ms))
	}
	if of[0].waited > of[1].waited*2/3 {
		t.Errorf("with shorter turns one of a hundred waits %v, without %v", of[0].waited, of[1].waited)
	}
	if of[0].done < of[1].done*2/3 {
		t.Errorf("shorter turns left %d requests of %d", of[0].done, of[1].done)
	}
}
