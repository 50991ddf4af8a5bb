// Package mode answers: how does a server come to see a branch on this machine?
//
// Model: [Decide] takes what the kernel and the machine give
// ([sandbox.Abilities]) and what the person asked for, and returns a [Decision].
// Everything that depends on the mode is made from that one value: the daemon's
// way of starting instances, and what agents, `status` and `doctor` say.
//
//	full       a view of the branch over the root's real path
//	elsewhere  a view at another path, paths mapped both ways
//	documents  no view: a branch reaches a server by open documents alone
//
// Invariants: a mode is decided once, when a daemon starts, and never changes
// under it. A lesser mode never gives a wrong answer, it gives fewer: what it
// cannot know is an error that says so.
//
// Absent on purpose: trying anything (sandbox), doing anything (workspace).
//
// Locks and goroutines: none.
package mode

import (
	"fmt"
	"strings"

	"shadowlsp/internal/sandbox"
)

// Mode is how servers see branches.
type Mode string

const (
	// Auto is the best that the machine gives; it is asked for, never decided.
	Auto Mode = "auto"
	// Full: the server sees the branch as its disk, at the person's own path.
	Full Mode = "full"
	// Elsewhere: the server sees the branch as its disk, at another path. Where a
	// mount is possible but not over the person's folder (fusermount, no user
	// namespaces).
	Elsewhere Mode = "elsewhere"
	// Documents: the server sees the person's disk, and of a branch what is open.
	Documents Mode = "documents"
)

// Parse reads what a person asked for; "" is Auto.
func Parse(text string) (Mode, error) {
	switch m := Mode(text); m {
	case "":
		return Auto, nil
	case Auto, Full, Elsewhere, Documents:
		return m, nil
	}
	return "", fmt.Errorf("there is no mode %q: it is auto, full, elsewhere or documents", text)
}

// Decision is a mode with its reasons. It is shown as it is by `status --json`.
type Decision struct {
	Mode Mode `json:"mode"`
	// Why says why it is not full, Lost what does not work therefore, Remedy how
	// to get the better one; all "" for full.
	Why    string `json:"why,omitempty"`
	Lost   string `json:"lost,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// Guard says what keeps servers from writing the person's folder.
	Guard sandbox.Guard `json:"guard"`

	// What instances are started with.
	UserNS         bool `json:"-"`
	NoPIDNamespace bool `json:"-"`
	NoNamespaces   bool `json:"-"` // not in full
}

// lostInDocuments is what an agent is told.
const lostInDocuments = "servers see the person's files on disk, and of a branch only the open documents: a lint of a branch that deletes or moves files, or changes files that the server does not take as documents, is refused (verdict unsupported); programs cannot run in a branch"

// lostElsewhere is what an agent is told.
const lostElsewhere = "servers see a branch at another path than your folder's: what holds the path itself (virtual environments, absolute symbolic links, build caches) points out of the branch or is built anew; programs cannot run in a branch"

// Decide returns the mode for want, or why want cannot be had.
func Decide(want Mode, a sandbox.Abilities) (Decision, error) {
	var why, remedy []string
	for _, needed := range []sandbox.Ability{a.Device, a.UserNS, a.Mount} {
		if !needed.OK {
			why = append(why, needed.Name+": "+needed.Detail)
			remedy = append(remedy, needed.Remedy)
		}
	}
	full := len(why) == 0
	var d Decision
	switch {
	case want == Full && !full:
		return d, fmt.Errorf("mode full cannot be had (%s): %s; or use --mode auto", strings.Join(why, "; "), remedy[0])
	case want == Auto && full || want == Full:
		return Decision{Mode: Full, Guard: sandbox.GuardView, UserNS: sandbox.NeedsUserNS(), NoPIDNamespace: !a.PIDNS.OK}, nil
	case want == Elsewhere && !a.Fusermount.OK:
		return d, fmt.Errorf("mode elsewhere cannot be had (%s: %s): %s; or use --mode auto", a.Fusermount.Name, a.Fusermount.Detail, a.Fusermount.Remedy)
	case want == Auto && a.Fusermount.OK || want == Elsewhere:
		d = Decision{Mode: Elsewhere, Lost: lostElsewhere}
	default:
		d = Decision{Mode: Documents, Lost: lostInDocuments}
	}
	d.UserNS, d.Guard = sandbox.NeedsUserNS(), sandbox.GuardMount
	d.Why, d.Remedy = "it was asked for by --mode "+string(d.Mode), "leave --mode away"
	if !full {
		d.Why, d.Remedy = strings.Join(why, "; "), remedy[0]
	}
	if !a.UserNS.OK || !a.PIDNS.OK {
		// A half of the namespaces protects from nothing that matters here.
		d.NoNamespaces, d.UserNS, d.NoPIDNamespace = true, false, true
		d.Guard = sandbox.GuardLandlock
		if !a.Landlock.OK {
			d.Guard = sandbox.GuardNone
			d.Lost += "; nothing but its own good manners keeps a server from writing the person's folder (" + a.Landlock.Detail + ")"
		}
	}
	return d, nil
}
