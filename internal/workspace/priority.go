package workspace

import (
	"fmt"

	"shadowlsp/internal/sandbox"
)

// Priority says how much room instances leave to everything else.
type Priority string

const (
	PriorityAuto   Priority = "auto"   // idle while an editor is attached
	PriorityIdle   Priority = "idle"   // they starve and die first
	PriorityNormal Priority = "normal" // as any program
)

// validate returns an error that names what is allowed.
func (p Priority) validate() error {
	switch p {
	case "", PriorityAuto, PriorityIdle, PriorityNormal:
		return nil
	}
	return fmt.Errorf("priority %q is not known: it is auto, idle or normal", string(p))
}

// priority is that of an instance or a command that is started now.
func (d *daemon) priority() sandbox.Priority {
	d.mu.Lock()
	attached := len(d.editors) > 0
	d.mu.Unlock()
	if d.cfg.Priority == PriorityIdle || d.cfg.Priority != PriorityNormal && attached {
		return sandbox.Background
	}
	return sandbox.Priority{}
}

// reprioritise gives what runs already the priority of what is started now. It
// raises only where the system lets it: for an ordinary user what was lowered
// stays so until it is replaced.
func (d *daemon) reprioritise() {
	d.lowering.Lock()
	defer d.lowering.Unlock()
	sandbox.ReprioritiseBelow(d.priority())
}

// pauseInstances stops all instances until resume is called: their processes as
// they were seen last. At a keystroke there is no time to look.
func (d *daemon) pauseInstances() (resume func()) {
	instances := d.running()
	for _, i := range instances {
		i.family.Stop()
	}
	return func() {
		for _, i := range instances {
			i.family.Continue()
		}
	}
}

// lookAtFamilies learns which processes instances have, unless they stand still.
func (d *daemon) lookAtFamilies(still bool) {
	if still {
		return
	}
	for _, i := range d.running() {
		i.family.Look(i.proc)
	}
}
