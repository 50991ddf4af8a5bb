package fusefs

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Two things that the kernel may be let keep are only right if it does its part,
// and not every kernel does: 6.19 to 7.1 go on believing that a name does not
// exist when they are told that it does, and since 6.19 a notification about a
// name that the kernel does not know goes another way, which has changed twice
// and in its newest form does not wait for those who read the directory (dir.go
// says why it must). So it is tried, by the first view, before anything else looks
// into it; until it is proven, neither is kept. Versions would not do: fixes are
// carried back and forth.
//
// Who makes the mount looks into it for this:
//
//	while getxattr(root, TryAttr) gives a value:
//	        lstat(root/TryName)
//	        open root, and read names from it once
//
// The first time around the kernel is let keep that TryName does not exist. Then
// it is told that it may. The second time it must ask again; and as it waits for
// the names in root, it is told about TryName once more, by a thread that must
// hang in that until the names have been given.

// TryAttr is the extended attribute by which who looks asks whether to go on, and
// TryName what is looked for.
const (
	TryAttr = "user.shadowlsp.try"
	TryName = ".shadowlsp-try"
)

// traits is what was found about the kernel, by whichever view was first; nil:
// nothing yet.
var traits atomic.Pointer[trait]

type trait struct {
	// forgets: that a name does not exist, when told so.
	forgets bool
	// waits: a notification of a name, for those who read the directory.
	waits bool
}

// trial is a view's part in finding it out. The zero value is ready.
type trial struct {
	on atomic.Bool

	mu     sync.Mutex // guards the fields below; innermost
	turn   int
	looked int
	waits  bool
}

// forgetsAbsence says that the kernel may keep that a name does not exist.
func (v *View) forgetsAbsence() bool {
	k := traits.Load()
	return k != nil && k.forgets
}

// keepsListings says that the kernel may; see dir.go.
func (v *View) keepsListings() bool {
	k := traits.Load()
	return v.noOpenDir && k != nil && k.waits
}

// next is TryAttr's value: whether to look once more.
func (v *View) next() bool {
	t := &v.trial
	t.mu.Lock()
	t.turn++
	turn, found := t.turn, trait{forgets: t.looked == 2, waits: t.waits}
	t.mu.Unlock()
	switch {
	case traits.Load() != nil:
	case turn == 1:
		t.on.Store(true)
		return true
	case turn == 2:
		done := make(chan struct{})
		if v.tell.call(func() { v.entryGone(v.table.root, TryName); close(done) }) {
			select {
			case <-done:
				return true
			case <-v.tell.done:
			}
		}
	case turn == 3:
		if traits.CompareAndSwap(nil, &found) {
			v.log.Info().Bool("forgetsAbsence", found.forgets).Bool("waitsForListings", found.waits).Msg("the kernel's caches were tried")
		}
	}
	t.on.Store(false)
	return false
}

// look counts that the kernel has asked for TryName, and says for how long it may
// keep that there is none.
func (t *trial) look() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looked++
	if t.looked > 1 {
		return noAbsence
	}
	return cached
}

const (
	// hangLimit is how long the thread is waited for that must come to hang, and
	// hangs how often in a row it must be found to.
	hangLimit = 50 * time.Millisecond
	hangs     = 3
)

// listing is called while the kernel waits for the names in root.
func (v *View) listing() {
	t := &v.trial
	t.mu.Lock()
	turn := t.turn
	t.mu.Unlock()
	if turn != 2 {
		return
	}
	thread, done := make(chan int, 1), make(chan struct{})
	v.tell.call(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		v.entryGone(v.table.root, TryName)
		close(done)
	})
	limit := time.NewTimer(hangLimit)
	defer limit.Stop()
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	tid := 0
	for seen := 0; seen < hangs; {
		select {
		case tid = <-thread:
		case <-done: // it does not wait
			return
		case <-limit.C:
			return
		case <-tick.C:
			if tid != 0 && hanging(tid) {
				seen++
			} else {
				seen = 0
			}
		}
	}
	select {
	case <-done:
	default:
		t.mu.Lock()
		t.waits = true
		t.mu.Unlock()
	}
}

// hanging says that a thread of ours waits for a lock of the kernel's.
func hanging(tid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", tid))
	if err != nil {
		return false
	}
	// Behind the name, which may hold anything.
	_, state, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	return strings.HasPrefix(state, "D")
}
