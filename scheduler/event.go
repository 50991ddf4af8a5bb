package scheduler

import "time"

// RequestID names a request. The shell chooses it and never uses one twice.
type RequestID uint64

// InstanceID names one run of the server, from 1. It is never used twice, so
// that what comes late about a dead instance cannot be taken for its successor.
type InstanceID int

// TurnID names one turn, or one switch to no branch. It is never used twice.
type TurnID uint64

// Class says who waits for a request.
type Class uint8

const (
	// Interactive: someone waits for the answer now.
	Interactive Class = iota
	// Background: a check that can give way, for BackgroundPatience.
	Background
)

func (c Class) String() string {
	if c == Background {
		return "background"
	}
	return "interactive"
}

// Event is something that happened. The set is closed: the types below.
// At is the time since a moment that the shell chose (time.Since of its start:
// monotonic). An At before that of an earlier event counts as that one's.
type Event interface{ at() time.Duration }

type (
	// Submit brings a request of a branch (a name that is not empty) into the
	// queue. One that is known already is ignored.
	Submit struct {
		At      time.Duration
		Request RequestID
		Branch  string
		Class   Class
	}
	// Cancel says that nobody wants the answer any more.
	Cancel struct {
		At      time.Duration
		Request RequestID
	}
	// InstanceUp says that a started instance has loaded and can serve. It
	// shows the base, no branch.
	InstanceUp struct {
		At       time.Duration
		Instance InstanceID
	}
	// InstanceDown says that an instance is gone, with its view, or could not
	// be started. Nothing of it writes any more. Reason is told to those whose
	// requests fail because of it. Meant: the shell has ended it so that another
	// process answers; that is no crash, and no failure of what ran or waited.
	InstanceDown struct {
		At       time.Duration
		Instance InstanceID
		Reason   string
		Meant    bool
	}
	// Switched says that the instance shows the branch of Switch, and only it.
	Switched struct {
		At       time.Duration
		Instance InstanceID
		Turn     TurnID
	}
	// Settled says that the server has worked off what the switch of that turn
	// told it. It may come while the turn lasts, and need not: then the switch
	// counts for no more than what it took until Switched.
	Settled struct {
		At       time.Duration
		Instance InstanceID
		Turn     TurnID
	}
	// SwitchFailed says that the branch could not be shown, and that the
	// instance shows the base now and is sound. Where the shell cannot vouch
	// for that, it kills the instance and reports InstanceDown.
	SwitchFailed struct {
		At       time.Duration
		Instance InstanceID
		Turn     TurnID
		Reason   string
	}
	// Finished says that the instance has answered a request, be it with an
	// error or because it was cancelled: nothing of it runs any more.
	Finished struct {
		At       time.Duration
		Instance InstanceID
		Request  RequestID
	}
	// Drained answers EndTurn: background work of the turn has ended too.
	Drained struct {
		At       time.Duration
		Instance InstanceID
		Turn     TurnID
	}
	// DropBranch asks to let go of a branch. Release answers it.
	DropBranch struct {
		At     time.Duration
		Branch string
	}
	// Prewarm starts Min instances before anything is asked.
	Prewarm struct{ At time.Duration }
	// Resize sets new bounds, for example as memory gets scarce. Max is at
	// least 1. Instances above Max are stopped as soon as their turns end.
	Resize struct {
		At       time.Duration
		Min, Max int
	}
	// Tick says that time has passed. It may come at any time.
	Tick struct{ At time.Duration }
)

func (e Submit) at() time.Duration       { return e.At }
func (e Cancel) at() time.Duration       { return e.At }
func (e InstanceUp) at() time.Duration   { return e.At }
func (e InstanceDown) at() time.Duration { return e.At }
func (e Switched) at() time.Duration     { return e.At }
func (e Settled) at() time.Duration      { return e.At }
func (e SwitchFailed) at() time.Duration { return e.At }
func (e Finished) at() time.Duration     { return e.At }
func (e Drained) at() time.Duration      { return e.At }
func (e DropBranch) at() time.Duration   { return e.At }
func (e Prewarm) at() time.Duration      { return e.At }
func (e Resize) at() time.Duration       { return e.At }
func (e Tick) at() time.Duration         { return e.At }
