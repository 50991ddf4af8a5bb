package overlay

import (
	"strings"

	"golang.org/x/sys/unix"
)

// outputsTag marks a folder all of which can be made again
// (https://bford.info/cachedir): cargo's target has it.
const outputsTag = "CACHEDIR.TAG"

// outputs says that a path of the base is in a folder with the tag.
func (s *Store) outputs(low string) bool {
	for at := 0; ; at++ {
		n := strings.IndexByte(low[at:], '/')
		if n < 0 {
			return false
		}
		at += n
		var st unix.Stat_t
		if s.base.stat(low[:at+1]+outputsTag, &st) == nil {
			return true
		}
	}
}

// dated corrects the mtime of n, a regular file of the base at low. What the
// person has built since the branch began was made of the person's sources, and is
// newer than what the branch had edited by then: cargo would take it for made of
// that. So it is as old as the branch, and older than any version that the branch
// makes. (The sources themselves show their own times: what the person has changed
// and built since is built once more in the branch.)
func (b *Branch) dated(n *Node, low string) {
	oldest := b.store.began.Load()
	if oldest == 0 || !timeOf(oldest).Before(n.Attr.Mtime) || !b.store.outputs(low) {
		return
	}
	n.Elsewhere = true
	if b.since.Before(n.Attr.Mtime) {
		n.Attr.Mtime = b.since
		n.Stamp = mixTime(n.Stamp, b.since) | baseBit
	}
}

// begin notes when a branch began.
func (s *Store) begin(since Time) {
	for ns := since.Sec*second + int64(since.Nsec); ; {
		oldest := s.began.Load()
		if oldest != 0 && oldest <= ns || s.began.CompareAndSwap(oldest, ns) {
			return
		}
	}
}
