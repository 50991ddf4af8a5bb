package fusefs

import "time"

// That a name does not exist the kernel may keep as long as everything else: it
// is told when the name appears, as for names that exist. But it never says that
// it has forgotten such a name, and when nothing is certain any more (tellAll)
// every one of them has to be told. So they are remembered, up to a limit.

const (
	// maxAbsences bounds the names of a view that are remembered as absent. A
	// compiler that looks for its modules asks for some thousands; a name takes
	// about 100 bytes.
	maxAbsences = 1 << 14
	// noAbsence is for kernels that do not forget when they are told: see trial.
	noAbsence = 0
)

// absent notes that there is no such name, and says for how long the kernel may
// keep that; it may not where its coming is not noticed.
func (v *View) absent(parent *node, name string, noticed bool) time.Duration {
	keep, full := v.table.absent(parent, name, noticed && v.forgetsAbsence())
	if full {
		// The kernel may have dropped most of them long ago: begin again.
		v.tell.add(news{what: ofAbsent})
	}
	if !keep {
		return noAbsence
	}
	return cached
}

func (t *table) absent(parent *node, name string, noticed bool) (keep, full bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range parent.names[name] {
		n.shown = false
	}
	if !noticed || parent.names == nil {
		return false, false
	}
	if _, there := parent.absent[name]; there {
		return true, false
	}
	if t.absences >= maxAbsences {
		return false, true
	}
	if parent.absent == nil {
		parent.absent = map[string]struct{}{}
	}
	parent.absent[name] = struct{}{}
	t.absences++
	return true, false
}

// isAbsent says that the kernel may know that there is no such name.
func (t *table) isAbsent(parent *node, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, there := parent.absent[name]
	return there
}

// presentLocked takes a name from those that are absent. To be called before the
// kernel is told of the name, so that an answer that overtakes it is kept here.
func (t *table) presentLocked(parent *node, name string) {
	if _, there := parent.absent[name]; there {
		delete(parent.absent, name)
		t.absences--
	}
}

// takeAbsent returns all names that the kernel may know not to exist, and forgets
// them.
func (t *table) takeAbsent() []link {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []link
	for _, n := range t.byID {
		for name := range n.absent {
			all = append(all, link{n, name})
		}
		n.absent = nil
	}
	t.absences = 0
	return all
}
