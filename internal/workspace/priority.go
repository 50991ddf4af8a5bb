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

// priority is that of an instance that is started now.
func (d *daemon) priority() sandbox.Priority {
	d.mu.Lock()
	attached := len(d.editors) > 0
	d.mu.Unlock()
	if d.cfg.Priority == PriorityIdle || d.cfg.Priority != PriorityNormal && attached {
		return sandbox.Background
	}
	return sandbox.Priority{}
}
