package fusefs

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel is tried once, quickly, and what is found is what the listings and
// the names that do not exist then show (TestWarmAsksNothing, the hammers).
func TestKernelIsTried(t *testing.T) {
	found := traits.Swap(nil)
	t.Cleanup(func() { traits.Store(found) })
	s := newStage(t, someFiles)
	if s.view.keepsListings() || s.view.forgetsAbsence() {
		t.Error("trusted before it was tried")
	}
	start := time.Now()
	s.eye.do("list", "")
	took := time.Since(start)
	k := traits.Load()
	if k == nil {
		t.Fatal("not tried")
	}
	t.Logf("%+v, in %v", *k, took)
	var u unix.Utsname
	must(t, unix.Uname(&u))
	t.Logf("kernel %s", unix.ByteSliceToString(u.Release[:]))
	if found != nil && *k != *found {
		t.Errorf("found %+v, and %+v at first", *k, *found)
	}
	if _, err := s.eye.try("stat", TryName); err == nil {
		t.Error("what was looked for is there")
	}
}

// A thread that hangs in a notification is told from one that does not.
func TestNotHanging(t *testing.T) {
	if hanging(unix.Gettid()) {
		t.Error("this thread hangs")
	}
	if hanging(1 << 30) {
		t.Error("a thread that there is not hangs")
	}
}
