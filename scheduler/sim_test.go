package scheduler

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// stepper is what the simulation drives: a Scheduler or the naive queue.
type stepper interface{ Step(Event) []Action }

// habit is how a kind of agents asks. An agent thinks, then has a conversation:
// rounds of width requests at once, each round after gap from the last answer.
type habit struct {
	name          string
	agents        int
	think         time.Duration // mean; 0: always one more round, never a pause
	rounds, width int           // at most; at least 1
	gap           time.Duration // mean, within a conversation
	run           time.Duration // mean duration of a request
	background    int           // of 10 requests
	drain         time.Duration // mean background work after a turn
}

// sim is a shell over simulated servers, in virtual time. Its dice depend on
// the agent and the count of its requests only, so that every policy meets the
// same agents.
type sim struct {
	s                        stepper
	now                      time.Duration
	queue                    simHeap
	serial                   uint64
	wake                     time.Duration
	switchMean, switchSpread time.Duration

	agents   []*simAgent
	byName   map[string]*simAgent
	requests map[RequestID]*simRequest
	nextID   RequestID
	inst     map[InstanceID]*simInstance

	steps, switches, finished int
	hash                      uint64
	waits                     []simWait
	turns                     []simTurn // in order of their beginnings
	events                    []Event   // all, if record
	record                    bool
	longestTurn               time.Duration
}

type simAgent struct {
	name    string
	habit   *habit
	dice    *rand.Rand
	rounds  int // left of the conversation
	open    int // requests of the round that have not ended
	held    time.Duration
	longest time.Duration // turn
	done    int
}

type simRequest struct {
	agent     *simAgent
	class     Class
	submitted time.Duration
	running   bool
}

type simInstance struct {
	holder   *simAgent
	shows    string
	turn     TurnID
	began    time.Duration
	lastDone time.Duration
	running  int
}

type simWait struct {
	agent    *simAgent
	class    Class
	from, to time.Duration
}

type simTurn struct {
	agent *simAgent
	at    time.Duration
}

type simItem struct {
	at     time.Duration
	serial uint64
	do     func()
}

type simHeap []simItem

func (h simHeap) Len() int { return len(h) }
func (h simHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), cmp.Compare(h[i].serial, h[j].serial)) < 0
}
func (h simHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *simHeap) Push(x any)   { *h = append(*h, x.(simItem)) }
func (h *simHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func newSim(seed uint64, s stepper, habits []habit) *sim {
	m := &sim{s: s, wake: never, byName: map[string]*simAgent{}, requests: map[RequestID]*simRequest{},
		inst: map[InstanceID]*simInstance{}, switchMean: 20 * time.Millisecond, switchSpread: 20 * time.Millisecond}
	for i := range habits {
		h := &habits[i]
		for n := range h.agents {
			a := &simAgent{name: fmt.Sprintf("%s%d", h.name, n), habit: h, dice: rand.New(rand.NewPCG(seed, uint64(len(m.agents))))}
			m.agents = append(m.agents, a)
			m.byName[a.name] = a
			m.after(time.Duration(a.dice.Int64N(int64(h.think)+1)), func() { m.converse(a) })
		}
	}
	return m
}

func (m *sim) after(d time.Duration, do func()) {
	m.serial++
	heap.Push(&m.queue, simItem{m.now + d, m.serial, do})
}

// about draws a duration between half and one and a half of the mean.
func (a *simAgent) about(mean time.Duration) time.Duration {
	return mean/2 + time.Duration(a.dice.Int64N(int64(mean)+1))
}

func (m *sim) converse(a *simAgent) {
	a.rounds = 1 + a.dice.IntN(a.habit.rounds)
	m.ask(a)
}

func (m *sim) ask(a *simAgent) {
	a.rounds--
	n := 1 + a.dice.IntN(a.habit.width)
	if a.habit.think == 0 {
		n = a.habit.width
	}
	a.open = n
	for range n {
		m.submit(a)
	}
}

func (m *sim) submit(a *simAgent) {
	m.nextID++
	class := Interactive
	if a.dice.IntN(10) < a.habit.background {
		class = Background
	}
	m.requests[m.nextID] = &simRequest{agent: a, class: class, submitted: m.now}
	m.step(Submit{m.now, m.nextID, a.name, class})
}

func (m *sim) ended(a *simAgent) {
	a.done++
	if a.habit.think == 0 {
		m.after(a.habit.gap, func() { m.submit(a) })
		return
	}
	if a.open--; a.open > 0 {
		return
	}
	if a.rounds > 0 {
		m.after(a.about(a.habit.gap), func() { m.ask(a) })
		return
	}
	m.after(a.about(a.habit.think), func() { m.converse(a) })
}

// hold closes the books of the turn before and opens those of the next.
func (m *sim) hold(in *simInstance, a *simAgent, turn TurnID) {
	if in.turn == turn {
		return
	}
	m.release(in, in.lastDone)
	in.turn, in.holder, in.began = turn, a, m.now
	m.turns = append(m.turns, simTurn{a, m.now})
}

func (m *sim) release(in *simInstance, at time.Duration) {
	if in.holder != nil {
		d := max(at, in.began) - in.began
		in.holder.held += d
		in.holder.longest = max(in.holder.longest, d)
		m.longestTurn = max(m.longestTurn, d)
		in.holder = nil
	}
}

func (m *sim) step(e Event) {
	m.steps++
	if m.record {
		m.events = append(m.events, e)
	}
	for _, a := range m.s.Step(e) {
		switch a := a.(type) {
		case StartInstance:
			m.inst[a.Instance] = &simInstance{}
			m.after(time.Second, func() { m.step(InstanceUp{m.now, a.Instance}) })
		case Switch:
			in := m.inst[a.Instance]
			agent := m.byName[a.To]
			m.switches++
			m.hold(in, agent, a.Turn)
			cost := m.switchMean - m.switchSpread/2 + time.Duration(agent.dice.Int64N(int64(m.switchSpread)))
			m.after(cost, func() {
				in.shows, in.lastDone = a.To, m.now
				m.step(Switched{m.now, a.Instance, a.Turn})
			})
		case Run:
			in, r := m.inst[a.Instance], m.requests[a.Request]
			if in.shows != r.agent.name || r.running {
				panic(fmt.Sprintf("request of %s runs on %s", r.agent.name, in.shows))
			}
			r.running = true
			m.hold(in, r.agent, a.Turn)
			in.running++
			m.mix(uint64(a.Request), uint64(a.Instance), uint64(m.now))
			m.waits = append(m.waits, simWait{r.agent, r.class, r.submitted, m.now})
			m.after(r.agent.about(r.agent.habit.run), func() {
				in.running--
				in.lastDone = m.now
				m.finished++
				delete(m.requests, a.Request)
				m.step(Finished{m.now, a.Instance, a.Request})
				m.ended(r.agent)
			})
		case EndTurn:
			in := m.inst[a.Instance]
			m.after(m.byName[a.Branch].about(m.byName[a.Branch].habit.drain), func() {
				if in.turn == a.Turn {
					m.release(in, m.now)
				}
				m.step(Drained{m.now, a.Instance, a.Turn})
			})
		case StopInstance:
			m.after(time.Millisecond, func() { m.step(InstanceDown{m.now, a.Instance, "stopped", false}) })
		case WakeAt:
			m.wake = a.At
			m.after(a.At-m.now, func() {
				if m.wake == a.At {
					m.wake = never
					m.step(Tick{m.now})
				}
			})
		default:
			panic(describe(a))
		}
	}
}

// mix folds what happened into one number (FNV-1a, by words).
func (m *sim) mix(words ...uint64) {
	for _, w := range words {
		m.hash = (m.hash ^ w) * 1099511628211
	}
}

func (m *sim) run(d time.Duration) *sim {
	for len(m.queue) > 0 && m.queue[0].at <= d {
		item := heap.Pop(&m.queue).(simItem)
		m.now = item.at
		item.do()
	}
	m.now = d
	for _, in := range m.inst {
		m.release(in, m.now)
	}
	return m
}

// jain is Jain's index of fairness: 1 where all are equal, 1/n where one has all.
func jain(xs []float64) float64 {
	var sum, squares float64
	for _, x := range xs {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return math.NaN()
	}
	return sum * sum / (float64(len(xs)) * squares)
}

func (m *sim) jainOf(value func(*simAgent) float64, kinds ...string) float64 {
	var xs []float64
	for _, a := range m.agents {
		if slices.Contains(kinds, a.habit.name) {
			xs = append(xs, value(a))
		}
	}
	return jain(xs)
}

// oldestOpen is how long the oldest request that has not begun has waited.
func (m *sim) oldestOpen() (oldest time.Duration) {
	for _, r := range m.requests {
		if !r.running {
			oldest = max(oldest, m.now-r.submitted)
		}
	}
	return oldest
}

// waitsOf returns the sorted waits from Submit to Run of those that ok accepts.
func (m *sim) waitsOf(ok func(simWait) bool) []time.Duration {
	var ds []time.Duration
	for _, w := range m.waits {
		if ok(w) {
			ds = append(ds, w.to-w.from)
		}
	}
	slices.Sort(ds)
	return ds
}

func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	return ds[int(q*float64(len(ds)-1))]
}

// others counts the branches that began a turn, or were in one, while w waited.
func (m *sim) others(w simWait) int {
	from, _ := slices.BinarySearchFunc(m.turns, w.from-m.longestTurn, func(t simTurn, at time.Duration) int { return cmp.Compare(t.at, at) })
	seen := map[*simAgent]bool{}
	for _, t := range m.turns[from:] {
		if t.at > w.to {
			break
		}
		if t.agent != w.agent {
			seen[t.agent] = true
		}
	}
	return len(seen)
}

// fifo is what the scheduler is compared with: one queue for all, in order of
// arrival; neighbours in it of the same branch run side by side.
type fifo struct {
	queue []Submit
	inst  []*fifoInstance
	n     int
	turns TurnID
}

type fifoInstance struct {
	id      InstanceID
	up      bool
	branch  string
	turn    TurnID
	running int
	next    []RequestID // run when switched
}

func (f *fifo) Step(e Event) (out []Action) {
	for len(f.inst) < f.n {
		f.inst = append(f.inst, &fifoInstance{id: InstanceID(len(f.inst) + 1)})
		out = append(out, StartInstance{InstanceID(len(f.inst))})
	}
	switch e := e.(type) {
	case Submit:
		f.queue = append(f.queue, e)
	case InstanceUp:
		f.inst[e.Instance-1].up = true
	case Switched:
		in := f.inst[e.Instance-1]
		for _, id := range in.next {
			out = append(out, Run{in.id, in.turn, id})
		}
		in.next = nil
	case Finished:
		f.inst[e.Instance-1].running--
	}
	for _, in := range f.inst {
		if !in.up || in.running > 0 || len(f.queue) == 0 {
			continue
		}
		f.turns++
		in.turn = f.turns
		head := f.queue[0].Branch
		for len(f.queue) > 0 && f.queue[0].Branch == head && in.running < 16 {
			in.next = append(in.next, f.queue[0].Request)
			in.running++
			f.queue = f.queue[1:]
		}
		if in.branch != head {
			out = append(out, Switch{in.id, in.turn, in.branch, head})
			in.branch = head
			continue
		}
		for _, id := range in.next {
			out = append(out, Run{in.id, in.turn, id})
		}
		in.next = nil
	}
	return out
}
