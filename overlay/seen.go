package overlay

import (
	"hash/maphash"
	"sync"

	"golang.org/x/sys/unix"
)

// seen remembers, of every regular file of the base that was looked up, the
// mtime that it showed. When the person puts an older file in its place (a
// restored backup, cp -p, git worktrees with times kept), make and cargo would
// not notice: an mtime that goes back shows the present instead, from then on.
//
// It lasts as long as the Store is open, which is longer than any program that
// looks into a view of it runs.
type seen struct {
	seed   maphash.Seed
	shards [seenShards]seenShard
}

const (
	seenShards = 64
	// maxSeen bounds a shard: a million files in all, of some 60 bytes. Beyond it
	// the shard starts anew, which only matters to programs that remember a file
	// from longer ago.
	maxSeen = 1 << 14
)

type seenShard struct {
	mu sync.Mutex
	// files is by hash of the path. Two paths of one hash would at worst show a
	// file as changed that is not.
	files map[uint64]seenFile
}

type seenFile struct {
	mtime, ctime int64 // ns, of the file itself
	floor        int64 // ns: what it shows at least; 0: nothing
}

// floor notes the file at path of the base and says which mtime it must show at
// least; zero: any.
func (s *Store) floor(path string, st *unix.Stat_t) Time {
	h := maphash.String(s.seen.seed, path)
	shard := &s.seen.shards[h%seenShards]
	mtime, ctime := st.Mtim.Nano(), st.Ctim.Nano()
	shard.mu.Lock()
	defer shard.mu.Unlock()
	was, known := shard.files[h]
	// An earlier ctime is the answer of a slower look-up, overtaken by one that
	// saw more. The same mtime is a chmod or the like.
	if known && (ctime < was.ctime || mtime == was.mtime) {
		return floorTime(was.floor)
	}
	now := seenFile{mtime: mtime, ctime: ctime}
	if known && mtime < max(was.mtime, was.floor) {
		t := s.now()
		now.floor = t.Sec*second + int64(t.Nsec)
	}
	if shard.files == nil || !known && len(shard.files) >= maxSeen {
		shard.files = make(map[uint64]seenFile)
	}
	shard.files[h] = now
	return floorTime(now.floor)
}

func floorTime(ns int64) Time {
	if ns == 0 {
		return Time{}
	}
	return timeOf(ns)
}
