package workspace

import (
	"errors"
	"os"
	"time"

	"shadowlsp/internal/launch"
	"shadowlsp/internal/root"
)

// endingLimit bounds how long a daemon waits for one that is ending: it closes
// its ports first and lets go of the lock when its instances are gone.
const (
	endingLimit = 15 * time.Second
	endingPause = 20 * time.Millisecond
)

// lock makes this process the daemon of p. One that serves is an error at once,
// one that is ending is waited for.
func lock(p root.Place) (*os.File, error) {
	f, err := p.Lock("lock", false)
	if !errors.Is(err, root.ErrLocked) || launch.Serves(p) {
		return f, err
	}
	// flock cannot wait for a limited time, so it is asked again and again.
	for deadline := time.Now().Add(endingLimit); time.Now().Before(deadline); time.Sleep(endingPause) {
		if f, err = p.Lock("lock", false); !errors.Is(err, root.ErrLocked) {
			return f, err
		}
	}
	return nil, err
}
