package scheduler_test

import (
	"fmt"
	"time"

	"shadowlsp/scheduler"
)

// The shell is one loop: it waits for what happens, steps, and performs. Here
// everything that is asked for succeeds at once.
func Example() {
	s := scheduler.New(scheduler.Config{})
	at := time.Duration(0)
	events := []scheduler.Event{
		scheduler.Submit{Request: 1, Branch: "feature"},
		scheduler.Submit{Request: 2, Branch: "feature", Class: scheduler.Background},
		scheduler.Submit{Request: 3, Branch: "fix"},
	}
	for len(events) > 0 {
		e := events[0]
		events = events[1:]
		for _, a := range s.Step(e) {
			at += time.Millisecond
			switch a := a.(type) {
			case scheduler.StartInstance:
				fmt.Println("start", a.Instance)
				events = append(events, scheduler.InstanceUp{At: at, Instance: a.Instance})
			case scheduler.Switch:
				fmt.Printf("switch %d from %q to %q\n", a.Instance, a.From, a.To)
				events = append(events, scheduler.Switched{At: at, Instance: a.Instance, Turn: a.Turn})
			case scheduler.Run:
				fmt.Println("run", a.Request)
				events = append(events, scheduler.Finished{At: at, Instance: a.Instance, Request: a.Request})
			case scheduler.EndTurn:
				fmt.Println("end turn of", a.Branch)
				events = append(events, scheduler.Drained{At: at, Instance: a.Instance, Turn: a.Turn})
			case scheduler.Fail:
				fmt.Println("fail", a.Request, a.Err)
			case scheduler.WakeAt:
				// timer.Reset(a.At - time.Since(start)); here the end comes first,
				// or the time of the wait for "feature" to ask again.
				if a.At < time.Second {
					events = append(events, scheduler.Tick(a))
				}
			}
		}
	}
	// Output:
	// start 1
	// switch 1 from "" to "feature"
	// run 1
	// run 2
	// end turn of feature
	// switch 1 from "feature" to "fix"
	// run 3
}
