package workspace

import (
	"time"

	"shadowlsp/scheduler"
)

// prewarm starts the servers that editors run, or ran last, before anybody asks,
// and again whenever an editor has told of another. A server whose initialize no
// editor has shown waits for the first agent's.
func (d *daemon) prewarm() {
	for {
		for _, c := range d.lineup(d.ctx, lookAgain) {
			if c.learnt.Initialize == nil {
				continue
			}
			p, err := d.pool(c, nil)
			if err != nil {
				return // the daemon ends
			}
			p.step(func(at time.Duration) scheduler.Event { return scheduler.Prewarm{At: at} })
		}
		select {
		case <-d.warm:
		case <-d.ctx.Done():
			return
		}
	}
}

// learntMore has prewarm look again.
func (d *daemon) learntMore() {
	select {
	case d.warm <- struct{}{}:
	default:
	}
}
