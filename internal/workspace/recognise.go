package workspace

import (
	"errors"
	"slices"

	"shadowlsp/lsp/barrier"
	"shadowlsp/scheduler"
)

// recognised looks what the server of inst says that it is. Where that is another
// than it was started as, it is started once more: a server's profile counts from
// the first message on. inst is of no use then.
func (p *pool) recognised(inst *instance, id scheduler.InstanceID) (*instance, error) {
	p.mu.Lock()
	c := p.asked
	p.mu.Unlock()
	k := &p.d.servers // what the server has answered is there already
	if k.is(c.Command).Unknown() {
		p.unveil(inst, c.Command)
	}
	is := newCandidate(c.learnt, c.source, p.d.table, k)
	if is.profile.Name == p.profile().Name {
		return inst, nil
	}
	p.log.Info().Str("is", is.profile.Name).Msg("the server is another than its command says")
	inst.stop(errors.New("it is started anew, as what it is"))
	<-inst.ended
	is.found = c.found
	l := p.d.complete(is, p.params)
	p.known.Store(&is.profile)
	p.mu.Lock()
	p.learnt = l
	p.mu.Unlock()
	return startInstance(p, id, l)
}

// unveil looks for a server that is known among the processes of one that is not:
// behind a script there is mostly one that says nothing by its answer, either. It
// looks below scripts and launchers only: some servers run others for themselves.
func (p *pool) unveil(inst *instance, command []string) {
	lines := inst.proc.Commands(barrier.Launches)
	n := slices.IndexFunc(lines, func(line []string) bool {
		return !slices.Equal(line, command) && !barrier.For(line, inst.server.InitializeResult()).Unknown()
	})
	if n >= 0 {
		p.d.offers(p.key, func(o *offered) { o.Process = lines[n] })
	}
}
