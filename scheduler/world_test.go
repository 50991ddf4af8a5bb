package scheduler

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// world is a shell without a server. It keeps its own books of what each
// action means, refuses actions that break a promise, and decides by dice what
// happens next: everything late, lost, crashed, cancelled or dropped.
type world struct {
	s    *Scheduler
	cfg  Config
	dice func(n int) int // in [0, n)
	now  time.Duration
	wake time.Duration

	nextID   RequestID
	requests map[RequestID]*wRequest
	alive    []RequestID // in order of submission
	inst     []*wInstance
	dropping map[string]bool
	log      []string
}

type wRequest struct {
	id                RequestID
	branch            string
	on                *wInstance
	runs              int
	cancelled, ending bool
}

type wInstance struct {
	id                  InstanceID
	up, stopping        bool
	shows, to           string
	turn                TurnID
	switching, draining bool
	used                bool // since the last Drained
	running             []RequestID
}

func newWorld(cfg Config, dice func(int) int) *world {
	return &world{s: New(cfg), cfg: cfg.withDefaults(), dice: dice, wake: never,
		requests: map[RequestID]*wRequest{}, dropping: map[string]bool{}}
}

func (w *world) find(id InstanceID) *wInstance {
	for _, in := range w.inst {
		if in.id == id {
			return in
		}
	}
	return nil
}

// step gives an event to the scheduler and performs the answer.
func (w *world) step(e Event) error {
	w.log = append(w.log, fmt.Sprintf("%T%+v", e, e))
	var mustStop []*wInstance
	for _, a := range w.s.Step(e) {
		w.log = append(w.log, "    "+describe(a))
		lost, err := w.perform(a)
		if err != nil {
			return fmt.Errorf("%s: %w", describe(a), err)
		}
		if lost != nil {
			mustStop = append(mustStop, lost)
		}
	}
	for _, in := range mustStop {
		if !in.stopping && w.find(in.id) == in {
			return fmt.Errorf("a running request of instance %d failed, but the instance goes on", in.id)
		}
	}
	return w.s.check()
}

// perform does what the action says, if it may. It returns the instance that a
// failed request was running on.
func (w *world) perform(a Action) (*wInstance, error) {
	switch a := a.(type) {
	case StartInstance:
		if w.find(a.Instance) != nil || len(w.inst) > 0 && w.inst[len(w.inst)-1].id >= a.Instance {
			return nil, fmt.Errorf("used before")
		}
		if len(w.inst) >= w.s.cfg.Max {
			return nil, fmt.Errorf("more than Max")
		}
		w.inst = append(w.inst, &wInstance{id: a.Instance})
	case StopInstance:
		in := w.find(a.Instance)
		if in == nil || in.stopping {
			return nil, fmt.Errorf("nothing to stop")
		}
		for _, id := range in.running {
			if r := w.requests[id]; r != nil && r.on == in {
				r.on = nil // tried again, or failed
			}
		}
		in.stopping, in.running = true, nil
	case Switch:
		in := w.find(a.Instance)
		switch {
		case in == nil || !in.up || in.stopping || in.switching || in.draining || len(in.running) > 0 || in.used:
			return nil, fmt.Errorf("not free: %+v", in)
		case in.shows != a.From || a.From == a.To:
			return nil, fmt.Errorf("shows %q", in.shows)
		case w.dropping[a.To]:
			return nil, fmt.Errorf("dropped")
		}
		for _, other := range w.inst {
			if a.To != "" && (other.shows == a.To || other.switching && other.to == a.To) {
				return nil, fmt.Errorf("shown on %d", other.id)
			}
		}
		in.switching, in.to, in.turn = true, a.To, a.Turn
	case Run:
		in, r := w.find(a.Instance), w.requests[a.Request]
		switch {
		case in == nil || !in.up || in.stopping || in.switching:
			return nil, fmt.Errorf("not serving: %+v", in)
		case r == nil || r.on != nil || r.cancelled:
			return nil, fmt.Errorf("not queued: %+v", r)
		case in.shows != r.branch:
			return nil, fmt.Errorf("shows %q instead of %q", in.shows, r.branch)
		case r.runs > Retries:
			return nil, fmt.Errorf("ran %d times", r.runs)
		case in.draining && in.turn == a.Turn:
			return nil, fmt.Errorf("the turn was ended")
		case len(in.running) >= w.cfg.MaxConcurrent:
			return nil, fmt.Errorf("more than MaxConcurrent")
		}
		r.on, in.draining, in.turn, in.used = in, false, a.Turn, true
		r.runs++
		in.running = append(in.running, r.id)
	case CancelRunning:
		r := w.requests[a.Request]
		if r == nil || r.on == nil || r.on.id != a.Instance || r.ending {
			return nil, fmt.Errorf("not running: %+v", r)
		}
		r.ending = true
	case Fail:
		r := w.requests[a.Request]
		if r == nil {
			return nil, fmt.Errorf("has ended before")
		}
		if a.Err == nil || a.Err.Err == nil || a.Err.Error() == "" {
			return nil, fmt.Errorf("no reason")
		}
		w.end(r)
		if r.on != nil {
			r.on.running = slices.DeleteFunc(r.on.running, func(id RequestID) bool { return id == r.id })
		}
		return r.on, nil
	case EndTurn:
		in := w.find(a.Instance)
		if in == nil || in.shows != a.Branch || in.draining || in.switching || len(in.running) > 0 || in.turn != a.Turn {
			return nil, fmt.Errorf("no such turn: %+v", in)
		}
		in.draining = true
	case Release:
		if !w.dropping[a.Branch] {
			return nil, fmt.Errorf("not asked for")
		}
		delete(w.dropping, a.Branch)
		for _, in := range w.inst {
			if in.shows == a.Branch || in.switching && in.to == a.Branch {
				return nil, fmt.Errorf("still shown on %d", in.id)
			}
		}
		for _, id := range w.alive {
			if w.requests[id].branch == a.Branch {
				return nil, fmt.Errorf("request %d is alive", id)
			}
		}
	case WakeAt:
		if a.At <= w.now {
			return nil, fmt.Errorf("not in the future")
		}
		w.wake = a.At
	}
	return nil, nil
}

func (w *world) end(r *wRequest) {
	delete(w.requests, r.id)
	w.alive = slices.DeleteFunc(w.alive, func(id RequestID) bool { return id == r.id })
}

func (w *world) gone(in *wInstance) {
	for _, id := range in.running {
		w.requests[id].on = nil
	}
	w.inst = slices.DeleteFunc(w.inst, func(other *wInstance) bool { return other == in })
}

// answer lets the shell report on one thing that it owes, if there is any on
// this instance. well says that all goes as it should.
func (w *world) answer(in *wInstance, well bool) (Event, bool) {
	bad := !well && w.dice(8) == 0
	switch {
	case in.stopping:
		w.gone(in)
		return InstanceDown{w.now, in.id, "stopped", false}, true
	case !in.up && bad:
		w.gone(in)
		return InstanceDown{w.now, in.id, "did not start", false}, true
	case !in.up:
		in.up = true
		return InstanceUp{w.now, in.id}, true
	case in.switching:
		in.switching, in.used = false, true
		if bad {
			in.shows, in.used = "", false
			return SwitchFailed{w.now, in.id, in.turn, "refused"}, true
		}
		in.shows = in.to
		if in.to == "" {
			in.used = false
		}
		return Switched{w.now, in.id, in.turn}, true
	case in.draining:
		in.draining, in.used = false, false
		return Drained{w.now, in.id, in.turn}, true
	case len(in.running) > 0:
		id := in.running[w.dice(len(in.running))]
		in.running = slices.DeleteFunc(in.running, func(other RequestID) bool { return other == id })
		w.end(w.requests[id])
		return Finished{w.now, in.id, id}, true
	}
	return nil, false
}

func (w *world) pass(d time.Duration) { w.now += d }

// random makes one thing happen.
func (w *world) random(branches int) error {
	name := fmt.Sprintf("b%d", w.dice(branches))
	switch w.dice(24) {
	case 0, 1, 2, 3, 4:
		w.nextID++
		w.requests[w.nextID] = &wRequest{id: w.nextID, branch: name}
		w.alive = append(w.alive, w.nextID)
		return w.step(Submit{w.now, w.nextID, name, Class(w.dice(2))})
	case 5:
		if len(w.alive) == 0 {
			return nil
		}
		r := w.requests[w.alive[w.dice(len(w.alive))]]
		queued := r.on == nil
		r.cancelled = true
		if err := w.step(Cancel{w.now, r.id}); err != nil {
			return err
		}
		if queued && w.requests[r.id] != nil {
			return fmt.Errorf("request %d was queued, cancelled and lives", r.id)
		}
		return nil
	case 6:
		if w.dice(6) == 0 {
			w.dropping[name] = true
			return w.step(DropBranch{w.now, name})
		}
	case 7:
		if len(w.inst) > 0 && w.dice(6) == 0 {
			in := w.inst[w.dice(len(w.inst))]
			w.gone(in)
			return w.step(InstanceDown{w.now, in.id, "killed", false})
		}
	case 8:
		if w.dice(10) == 0 {
			return w.step(Resize{w.now, 1, 1 + w.dice(3)})
		}
	case 9:
		if w.dice(10) == 0 {
			w.pass(time.Duration(w.dice(200)) * time.Second)
		}
	case 10: // what comes late, or never was
		id := InstanceID(w.dice(5))
		if in := w.find(id); in != nil {
			return w.step(Settled{w.now, id, in.turn})
		} else {
			return w.step([]Event{InstanceUp{w.now, id}, InstanceDown{w.now, id, "?", false}, Switched{w.now, id, 1},
				SwitchFailed{w.now, id, 1, "?"}, Drained{w.now, id, 1}, Finished{w.now, id, w.nextID}}[w.dice(6)])
		}
	case 11, 12:
		w.pass(time.Duration(w.dice(50)) * time.Millisecond)
	case 13, 14:
		if w.now < w.wake && w.wake != never && w.dice(3) > 0 {
			w.now = w.wake
		}
		if w.now >= w.wake {
			w.wake = never
		}
		return w.step(Tick{w.now})
	default:
		if len(w.inst) > 0 {
			if e, ok := w.answer(w.inst[w.dice(len(w.inst))], false); ok {
				return w.step(e)
			}
		}
	}
	return nil
}

// settle answers everything that is owed until nothing is asked any more.
func (w *world) settle() error {
	for i := 0; ; i++ {
		if i > 50_000 {
			return fmt.Errorf("requests %v do not end", w.alive)
		}
		var e Event
		for _, in := range w.inst {
			if owed, ok := w.answer(in, true); ok {
				e = owed
				break
			}
		}
		if e == nil {
			if len(w.alive) == 0 && len(w.dropping) == 0 {
				return nil
			}
			if w.wake == never {
				return fmt.Errorf("requests %v wait for nothing", w.alive)
			}
			w.now = max(w.now, w.wake)
			w.wake = never
			e = Tick{w.now}
		}
		if err := w.step(e); err != nil {
			return err
		}
	}
}

func (w *world) report(t *testing.T, err error) {
	t.Helper()
	t.Fatalf("%v\nlast steps:\n%s", err, joinLast(w.log, 60))
}

func joinLast(lines []string, n int) string {
	out := ""
	for _, l := range lines[max(0, len(lines)-n):] {
		out += l + "\n"
	}
	return out
}

var worldConfigs = []Config{
	{},
	{Min: 2, Max: 3, MaxConcurrent: 2, MaxQueued: 4, IdleStop: time.Minute},
	{Max: 2, Anticipation: -1, Quantum: 20 * time.Millisecond, CancelGrace: 100 * time.Millisecond, RunLimit: time.Second,
		SwitchLimit: time.Second, DrainLimit: time.Second, GrowAfter: 50 * time.Millisecond, ShrinkAfter: time.Second, MaxCrashes: 2},
}

// TestRandomEvents is the property test: whatever happens, in whatever order,
// the world finds no broken promise, and every request ends.
func TestRandomEvents(t *testing.T) {
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, 1)).IntN
		w := newWorld(worldConfigs[seed%3], dice)
		for range 800 {
			if err := w.random(2 + int(seed%7)); err != nil {
				t.Logf("seed %d", seed)
				w.report(t, err)
			}
		}
		if err := w.settle(); err != nil {
			t.Logf("seed %d, settling", seed)
			w.report(t, err)
		}
	}
}

// FuzzStep lets the fuzzer throw the dice.
func FuzzStep(f *testing.F) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := make([]byte, 600)
		for i := 0; i+8 <= len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:], r.Uint64())
		}
		f.Add(uint8(seed), b)
	}
	f.Fuzz(func(t *testing.T, config uint8, thrown []byte) {
		thrown = thrown[:min(len(thrown), 4096)]
		w := newWorld(worldConfigs[int(config)%len(worldConfigs)], func(n int) int {
			if len(thrown) == 0 {
				return 0
			}
			v := int(thrown[0])
			thrown = thrown[1:]
			return v % n
		})
		for len(thrown) > 0 {
			if err := w.random(4); err != nil {
				w.report(t, err)
			}
		}
		if err := w.settle(); err != nil {
			w.report(t, err)
		}
	})
}

// TestDroppedBranchesLeaveNothing: neither do requests that have ended.
func TestDroppedBranchesLeaveNothing(t *testing.T) {
	w := newWorld(Config{Min: 2, Max: 2}, rand.New(rand.NewPCG(1, 3)).IntN)
	for i := range 400 {
		name := fmt.Sprintf("b%d", i)
		for range 3 {
			w.nextID++
			w.requests[w.nextID] = &wRequest{id: w.nextID, branch: name}
			w.alive = append(w.alive, w.nextID)
			if err := w.step(Submit{w.now, w.nextID, name, Interactive}); err != nil {
				w.report(t, err)
			}
		}
		if i%2 == 0 {
			w.dropping[name] = true
			if err := w.step(DropBranch{w.now, name}); err != nil {
				w.report(t, err)
			}
		}
	}
	if err := w.settle(); err != nil {
		w.report(t, err)
	}
	for i := 1; i < 400; i += 2 {
		name := fmt.Sprintf("b%d", i)
		w.dropping[name] = true
		if err := w.step(DropBranch{w.now, name}); err != nil {
			w.report(t, err)
		}
	}
	if err := w.settle(); err != nil {
		w.report(t, err)
	}
	if s := w.s; len(s.branches)+len(s.requests)+len(s.waiting) != 0 {
		t.Errorf("left: %d branches, %d requests, %d waiting", len(s.branches), len(s.requests), len(s.waiting))
	}
}

func BenchmarkIdleBranches(b *testing.B) {
	for b.Loop() {
		w := newWorld(Config{}, func(int) int { return 0 })
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		const n = 1000
		for i := range n {
			w.s.Step(Submit{0, RequestID(i), fmt.Sprintf("branch-%d", i), Interactive})
			w.s.Step(Cancel{0, RequestID(i)})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/branch")
		runtime.KeepAlive(w)
	}
}
