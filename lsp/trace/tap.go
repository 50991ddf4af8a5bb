package trace

import (
	"sync"
	"sync/atomic"
)

// Tap records into a [Sink] that may begin, change and end while it runs. The
// zero Tap records nothing, nor does nil. All methods may be called from any goroutine.
type Tap struct {
	sink atomic.Pointer[Sink]

	turning sync.Mutex // held while one Sink takes the place of another
}

// To has everything from now on recorded in the file path, and ends the trace
// that was before; "" only ends that. Nothing changes where the file cannot be
// opened, or is the one that is recorded into already. What is recorded while it
// changes may be lost. The error of the file that was before is left out: its
// trace has counted what it lost.
func (t *Tap) To(path string) error {
	t.turning.Lock()
	defer t.turning.Unlock()
	if path == t.Path() {
		return nil
	}
	next, err := Open(path)
	if err != nil {
		return err
	}
	_ = t.sink.Swap(next).Close()
	return nil
}

// Path is the file that is recorded into, "" for none.
func (t *Tap) Path() string {
	if s := t.now(); s != nil {
		return s.path
	}
	return ""
}

func (t *Tap) now() *Sink {
	if t == nil {
		return nil
	}
	return t.sink.Load()
}

// Message is [Sink.Message].
func (t *Tap) Message(lane, branch, instance, dir string, body []byte) {
	t.now().Message(lane, branch, instance, dir, body)
}

// Event is [Sink.Event].
func (t *Tap) Event(name string, fields map[string]any) { t.now().Event(name, fields) }

// Dropped is [Sink.Dropped].
func (t *Tap) Dropped() uint64 { return t.now().Dropped() }
