package overlay

import (
	"hash/maphash"
	"sync"
)

// apart keeps the seconds of one path's versions apart between branches: a server
// that is shown one branch after the other, and compares whole seconds and sizes
// (clang does, for what a precompiled preamble was made of), must not take one
// branch's version for another's.
type apart struct {
	mu sync.Mutex
	// given is by hash of the path. Two paths of one hash would at worst show a
	// second later than needed.
	given map[uint64]givenSecond
}

// givenSecond is the latest second that any branch was given for a path.
type givenSecond struct {
	branch string
	sec    int64
}

const (
	// maxApart bounds the table: some ten megabytes. Beyond it, it starts anew,
	// which only matters to programs that have looked at another branch within
	// the same second.
	maxApart = 1 << 18
	// maxApartAhead is how many seconds branches that edit one file by turns
	// without pause may run ahead of the clock for it. Build tools take what is
	// in the future for changed, every time; so there is an end to it.
	maxApartAhead = 60
)

// apartAt returns t, or the first second behind it that no other branch was given
// for path, and that is not the base file's.
func (b *Branch) apartAt(path string, t, base Time) Time {
	s := b.store
	h := maphash.String(s.seen.seed, path)
	s.apart.mu.Lock()
	defer s.apart.mu.Unlock()
	last, known := s.apart.given[h]
	if known && last.branch != b.name && t.Sec <= last.sec && last.sec-t.Sec < maxApartAhead {
		if t.Sec = last.sec + 1; t.Sec == base.Sec {
			t.Sec++
		}
	}
	if s.apart.given == nil || !known && len(s.apart.given) >= maxApart {
		s.apart.given = make(map[uint64]givenSecond)
	}
	if last.sec <= t.Sec {
		s.apart.given[h] = givenSecond{b.name, t.Sec}
	}
	return t
}
