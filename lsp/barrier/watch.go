package barrier

import (
	"context"
	"errors"
	"sync"
)

// watch is a mutex whose holders can wait for a condition on what it guards.
// A condition is met, not met yet, or never to be met (an error): then the
// waiter learns it at once instead of at its time-out.
type watch struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next update; nil while nobody waits
}

// update changes what is guarded and wakes the waiters.
func (w *watch) update(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// view looks at what is guarded.
func (w *watch) view(look func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	look()
}

// errGone is what await returns when the instance ends.
var errGone = errors.New("the server has ended")

// await returns when met, called under the mutex, says so.
func (w *watch) await(ctx context.Context, gone <-chan struct{}, met func() (bool, error)) error {
	for {
		var (
			ok      bool
			err     error
			changed chan struct{}
		)
		w.view(func() {
			if ok, err = met(); ok || err != nil {
				return
			}
			if w.changed == nil {
				w.changed = make(chan struct{})
			}
			changed = w.changed
		})
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-gone:
			return errGone
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
