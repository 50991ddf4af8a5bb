package overlay

import (
	"time"

	"golang.org/x/sys/unix"
)

const second = int64(time.Second)

// tooFarAhead: a version that replaces one with an mtime further in the future
// than this shows the present instead of something later still; somebody set
// that time on purpose and every tool sees that it changed.
const tooFarAhead = int64(time.Hour)

func timeOf(ns int64) Time {
	s, n := ns/second, ns%second
	if n < 0 {
		s, n = s-1, n+second
	}
	return Time{Sec: s, Nsec: uint32(n)}
}

func timeOfSpec(ts unix.Timespec) Time { return Time{Sec: int64(ts.Sec), Nsec: uint32(ts.Nsec)} }

func (t Time) spec() unix.Timespec {
	return unix.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)}
}

// IsZero says that t is the zero value.
func (t Time) IsZero() bool { return t == Time{} }

// Before says that t is earlier than u.
func (t Time) Before(u Time) bool { return t.Sec < u.Sec || t.Sec == u.Sec && t.Nsec < u.Nsec }

func later(t, u Time) Time {
	if t.Before(u) {
		return u
	}
	return t
}

// now is a time that was never given before: strictly increasing nanoseconds.
func (s *Store) now() Time {
	for {
		last := s.last.Load()
		t := max(s.clock().UnixNano(), last+1)
		if s.last.CompareAndSwap(last, t) {
			return timeOf(t)
		}
	}
}

// serial is a number that was never given before in this process. It stays
// below 1<<62: versions of the base live above.
func (s *Store) serial() uint64 { return s.serials.Add(1) }

// ino is an inode number that was never given before: a random start above all
// numbers that file systems use, so that those of an earlier process, which a
// program may have written down, do not come again.
func (s *Store) ino() uint64 { return s.inos.Add(1) }

// fresh is the time of a new version of a file. replaced is the mtime of the
// version that it replaces (zero: none), seen says that somebody opened that;
// base is the mtime of the base file at this path (zero: none).
//
// The seconds are kept apart because Python compares whole seconds and sizes.
// Against a replaced version that nobody opened that is not needed, and without
// this exception a burst of edits would run into the future, a second each.
func (s *Store) fresh(replaced Time, seen bool, base Time) Time {
	t := s.now()
	if !replaced.IsZero() && !replaced.Before(t) && (replaced.Sec-t.Sec)*second < tooFarAhead {
		t = Time{Sec: replaced.Sec, Nsec: replaced.Nsec}
		if t.Nsec++; int64(t.Nsec) == second {
			t = Time{Sec: t.Sec + 1}
		}
	}
	for {
		taken := !base.IsZero() && t.Sec == base.Sec ||
			seen && !replaced.IsZero() && t.Sec == replaced.Sec
		if !taken {
			return t
		}
		t.Sec++
	}
}
