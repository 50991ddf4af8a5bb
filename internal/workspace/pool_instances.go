package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"shadowlsp/scheduler"
)

// start brings an instance up.
func (p *pool) start(id scheduler.InstanceID, l learnt) {
	began := time.Now()
	over := p.starting(id)
	inst, err := startInstance(p, id, l)
	if err == nil {
		inst, err = p.recognised(inst, id)
	}
	if err == nil {
		p.mu.Lock()
		p.instances[id] = inst
		closed := p.closed
		p.mu.Unlock()
		if closed {
			inst.stop(errEnded)
		}
		p.offer(inst.server.InitializeResult())
		err = inst.server.Ready(p.ctx)
		if err != nil {
			inst.stop(err)
		}
	}
	over(err)
	if err != nil {
		p.log.Warn().Err(err).Int("instance", int(id)).Msg("instance did not start")
		p.down(id, err)
		return
	}
	inst.ready.Store(true)
	p.generation.Add(1)
	p.log.Info().Int("instance", int(id)).Dur("dur", time.Since(began)).Msg("instance is ready")
	p.step(func(at time.Duration) scheduler.Event { return scheduler.InstanceUp{At: at, Instance: id} })
	<-inst.ended
	p.log.Info().Err(inst.cause()).Int("instance", int(id)).Msg("instance has ended")
	p.down(id, inst.cause())
}

// offer makes an InitializeResult known to those who wait for one.
func (p *pool) offer(result json.RawMessage) {
	p.resultOnce.Do(func() {
		p.result = result
		close(p.haveResult)
	})
}

func (p *pool) down(id scheduler.InstanceID, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.instances, id)
	delete(p.turns, id)
	p.generation.Add(1)
	p.stepLocked(scheduler.InstanceDown{At: p.now(), Instance: id, Reason: err.Error(), Meant: errors.Is(err, errOutdated)})
}

// show performs a switch. Where it fails after the folder has changed, nobody
// can vouch for the instance any more, so it is ended.
func (p *pool) show(inst *instance, a scheduler.Switch) {
	ctx, cancel := context.WithTimeout(p.ctx, switchLimit)
	defer cancel()
	if err := inst.show(ctx, p.d.branchOrNil(a.To)); err != nil {
		inst.stop(err)
		return
	}
	p.step(func(at time.Duration) scheduler.Event {
		return scheduler.Switched{At: at, Instance: a.Instance, Turn: a.Turn}
	})
}

// settled tells that inst has worked off what the switch of its turn told it.
func (p *pool) settled(inst *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stepLocked(scheduler.Settled{At: p.now(), Instance: inst.id, Turn: inst.lastTurn})
}

// switchLimit bounds one switch; it is a little below the scheduler's own limit,
// so that the reason names what hung.
const switchLimit = 29 * time.Second
