package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"shadowlsp/internal/sandbox"
	"shadowlsp/scheduler"
)

const (
	// watchEvery is how often the instances' memory is looked at: a server takes
	// seconds to grow by what matters.
	watchEvery = 2 * time.Second
	// replaceEvery bounds how often one server is replaced for its memory.
	replaceEvery = time.Minute
	// stuckAfter is how long an instance may have requests in flight while nothing
	// of it runs or wants to run. One that waits for a network may be that quiet;
	// none that computes is, however starved.
	stuckAfter = time.Minute
)

// least is what the kernel allows at least beyond the budget.
const least = 1 << 30

// budget is what all instances together may have resident; none if negative.
func (d *daemon) budget() int64 {
	if d.cfg.MemoryBudget == 0 {
		return physicalMemory() / 2
	}
	return d.cfg.MemoryBudget
}

// openGroup makes the control group of the instances, where one can be had. It
// is for what grows faster than watchInstances looks, so it allows a half more.
func (d *daemon) openGroup() {
	budget := d.budget()
	if budget <= 0 {
		return
	}
	group, err := sandbox.NewGroup(filepath.Base(d.cfg.Place.State), budget+max(budget/2, least))
	if err != nil {
		d.cfg.Log.Info().Err(err).Msg("the memory of servers is watched, and not bounded by the kernel")
		return
	}
	d.group = group
}

// watched is what is remembered of an instance between two looks.
type watched struct {
	cpu   uint64    // ticks, of all its processes
	moved time.Time // when that grew last, or nothing was in flight
}

// watchInstances holds the instances to the memory budget and replaces those that
// hang, until the daemon ends.
func (d *daemon) watchInstances() {
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	budget := d.budget()
	seen := map[*instance]watched{}
	replaced := map[*pool]time.Time{}
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-look.C:
		}
		uses := map[*pool]use{}
		now := map[*instance]watched{}
		for _, i := range d.running() {
			if !i.ready.Load() {
				continue
			}
			u := i.proc.Usage()
			uses[i.p] = uses[i.p].with(i, u.Resident)
			w, again := seen[i]
			if !again || u.CPU != w.cpu || u.Wants || i.server.InFlight() == 0 || i.server.Asking() {
				w = watched{u.CPU, time.Now()}
			}
			if quiet := time.Since(w.moved); quiet > stuckAfter {
				i.stop(fmt.Errorf("nothing of it has run for %v, with %d requests in flight", quiet.Round(time.Second), i.server.InFlight()))
				continue
			}
			now[i] = w
		}
		seen = now
		d.courtesy.locked(d.lookAtFamilies)
		if budget > 0 {
			d.hold(budget, uses, replaced)
		}
	}
}

// use is what the instances of one pool take.
type use struct {
	instances int
	resident  int64 // all
	largest   *instance
	most      int64
}

func (u use) with(i *instance, resident int64) use {
	u.instances++
	u.resident += resident
	if u.largest == nil || resident > u.most {
		u.largest, u.most = i, resident
	}
	return u
}

// hold lets pools have as many instances as the budget has room for. Where even one
// of each is more than was allowed, the largest is replaced: a fresh one holds less.
func (d *daemon) hold(budget int64, uses map[*pool]use, replaced map[*pool]time.Time) {
	var all int64
	for _, u := range uses {
		all += u.resident
	}
	var worst *pool
	for p, u := range uses {
		want := max(d.cfg.Instances, 1)
		switch {
		case all > budget:
			want = min(want, max(u.instances-1, 1))
			if want < u.instances {
				all -= u.most
			} else if worst == nil || u.most > uses[worst].most {
				worst = p
			}
		case all+u.most > budget:
			want = min(want, u.instances)
		default:
			want = min(want, u.instances+1)
			all += u.most // one more may be on its way
		}
		p.resize(want)
	}
	// A server that needs more than we guessed would be replaced for ever: that is
	// for a bound that somebody has set.
	if d.cfg.MemoryBudget == 0 || all <= budget || worst == nil || time.Since(replaced[worst]) < replaceEvery {
		return
	}
	replaced[worst] = time.Now()
	u := uses[worst]
	err := fmt.Errorf("it holds %s, and all instances %s of the %s that --memory-budget allows", Size(u.most), Size(all), Size(budget))
	u.largest.log.Warn().Err(err).Msg("an instance is replaced")
	u.largest.stop(err)
}

// resize sets how many instances the pool may have.
func (p *pool) resize(most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.most == most || p.closed {
		return
	}
	p.most = most
	p.log.Info().Int("instances", most).Msg("the memory budget has room for so many instances")
	p.stepLocked(scheduler.Resize{At: p.now(), Min: 1, Max: most})
}

// physicalMemory is the machine's, in bytes; 0 if it is not known.
func physicalMemory() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if after, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(after), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}
