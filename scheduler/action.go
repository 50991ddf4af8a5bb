package scheduler

import "time"

// Action is something for the shell to do. The set is closed: the types below.
// The package doc says which event ends each.
type Action interface{ action() }

type (
	// StartInstance: start the server, wait until it has loaded.
	StartInstance struct{ Instance InstanceID }
	// StopInstance: end the server, with force where it does not listen.
	StopInstance struct{ Instance InstanceID }
	// Switch: make the instance show branch To. From is what it shows; both
	// may be empty: the base.
	Switch struct {
		Instance InstanceID
		Turn     TurnID
		From, To string
	}
	// Run: bring the instance to the newest revision of the branch it shows,
	// then put the request to it.
	Run struct {
		Instance InstanceID
		Turn     TurnID
		Request  RequestID
	}
	// CancelRunning: ask the server to give the request up, because of Why
	// (Cancelled, NoBranch or TimedOut). Its Finished is still to come, within
	// CancelGrace.
	CancelRunning struct {
		Instance InstanceID
		Request  RequestID
		Why      Kind
	}
	// Fail: answer the request with this error. It will not run, or not again,
	// and an answer that comes late is to be thrown away.
	Fail struct {
		Request RequestID
		Err     *Error
	}
	// EndTurn: all requests of the turn have ended and another branch needs
	// the instance: end or await what still works for the branch (background
	// checks), then report Drained. Should the branch be given a new turn
	// meanwhile (a Run with another Turn), Drained need not come.
	EndTurn struct {
		Instance InstanceID
		Turn     TurnID
		Branch   string
	}
	// Release: no instance shows the dropped branch and nothing of it runs or
	// waits: what holds its content may go. Its name is free again.
	Release struct{ Branch string }
	// WakeAt: send a Tick at that time, in place of any asked for before.
	WakeAt struct{ At time.Duration }
)

func (StartInstance) action() {}
func (StopInstance) action()  {}
func (Switch) action()        {}
func (Run) action()           {}
func (CancelRunning) action() {}
func (Fail) action()          {}
func (EndTurn) action()       {}
func (Release) action()       {}
func (WakeAt) action()        {}
