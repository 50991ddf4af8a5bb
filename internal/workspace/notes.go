package workspace

import (
	"encoding/json"
	"strings"

	"shadowlsp/lsp/barrier"
)

// note is something that a server says to its client.
type note struct {
	method string
	params json.RawMessage
}

// kept are notes of an instance.
type kept struct {
	// notes and status are what it said while it loaded: they are about the folder
	// itself, and agents hear them that come later. status is none where all is well.
	notes  []note
	status note
	// pending is its newest status, which may still be about the branch before.
	pending note
	last    string // the status that was shown as a message, and whose
}

// maxNotes bounds the messages that are kept of one instance: whoever comes later
// wants the first, which say what is wrong.
const maxNotes = 16

func (k kept) all() []note {
	if k.status.method == "" {
		return k.notes
	}
	return append(k.notes[:len(k.notes):len(k.notes)], k.status)
}

// note passes a message of the server on, as it is: to the agent whose request runs;
// while it loads, to all; else to those on the branch that it shows. Right after a
// switch a message may be about the branch before: it is for nobody then.
func (i *instance) note(method string, params json.RawMessage) {
	n := note{method, params}
	if s := i.asker(); s != nil {
		s.hear(n)
		return
	}
	i.p.d.mu.Lock()
	if !i.ready.Load() && method == "window/showMessage" && len(i.kept.notes) < maxNotes {
		i.kept.notes = append(i.kept.notes, n)
	}
	all := i.audienceLocked()
	i.p.d.mu.Unlock()
	for _, s := range all {
		s.hear(n)
	}
}

// audienceLocked are those to whom a note that comes now is of use.
func (i *instance) audienceLocked() (all []*session) {
	about, known := i.proven()
	for s := range i.p.d.sessions {
		if !i.ready.Load() || known && s.branch == about {
			all = append(all, s)
		}
	}
	return all
}

// proven is the branch that the instance shows; ok says that the server is known to
// have worked off all that it was told of it.
func (i *instance) proven() (b *branch, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.branch, i.final == i.tells
}

// finished notes that the server has worked off what it was told by the tells'th
// telling: what it says of itself now is about the branch that it shows.
func (i *instance) finished(tells uint64) {
	i.mu.Lock()
	i.final = tells
	i.mu.Unlock()
	i.p.d.mu.Lock()
	n := i.kept.pending
	i.kept.pending = note{}
	i.p.d.mu.Unlock()
	if n.method != "" {
		i.tellStatus(n)
	}
}

// status takes a server's experimental/serverStatus. It is told when it is known what
// it is about.
func (i *instance) status(params json.RawMessage) {
	n := note{serverStatus, params}
	if !i.ready.Load() {
		i.tellStatus(n)
		return
	}
	i.p.d.mu.Lock()
	defer i.p.d.mu.Unlock()
	i.kept.pending = n
}

// serverStatus is rust-analyzer's notification about itself, which others have taken
// over.
const serverStatus = "experimental/serverStatus"

// tellStatus passes a status on to agents that take it. To others it is a message,
// where all is not well, as rust-analyzer has it for its own clients (main_loop.rs).
func (i *instance) tellStatus(n note) {
	i.p.d.mu.Lock()
	message, shown := n.message()
	last := i.showing().name + "\n" + string(message)
	news := shown && i.kept.last != last
	i.kept.last = last
	if !shown {
		i.kept.status = note{}
	} else if !i.ready.Load() {
		i.kept.status = n
	}
	all := i.audienceLocked()
	i.p.d.mu.Unlock()
	for _, s := range all {
		if s.statuses || news {
			s.hear(n)
		}
	}
}

// message is what a status is as the params of window/showMessage; ok is false where
// all is well.
func (n note) message() (params json.RawMessage, ok bool) {
	var status struct{ Health, Message string }
	if json.Unmarshal(n.params, &status) != nil || strings.TrimSpace(status.Message) == "" {
		return nil, false
	}
	kind, ok := map[string]int{"error": 1, "warning": 2}[status.Health] // LSP's MessageType
	return barrier.Raw(map[string]any{"type": kind, "message": status.Message}), ok
}

// hear tells the agent.
func (s *session) hear(n note) {
	if n.method == serverStatus && !s.statuses {
		if message, ok := n.message(); ok {
			s.peer.Notify("window/showMessage", message)
		}
		return
	}
	s.peer.Notify(n.method, n.params)
}
