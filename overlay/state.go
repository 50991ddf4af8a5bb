package overlay

import "hash/maphash"

// StateID identifies the content that a branch shows above the base. It is
// comparable and valid in this process only.
type StateID struct{ Hi, Lo uint64 }

// plus and minus make sums of shares: the sum of a layer does not depend on the
// order of changes, and undoing a change gives the sum back.
func (a StateID) plus(b StateID) StateID  { return StateID{a.Hi + b.Hi, a.Lo + b.Lo} }
func (a StateID) minus(b StateID) StateID { return StateID{a.Hi - b.Hi, a.Lo - b.Lo} }

func (a StateID) with(v uint64) StateID { return StateID{mix(a.Hi, v), mix(a.Lo, ^v)} }

var seedHi, seedLo = maphash.MakeSeed(), maphash.MakeSeed()

func hashBytes(b []byte) StateID {
	return StateID{maphash.Bytes(seedHi, b), maphash.Bytes(seedLo, b)}
}

func hashString(s string) StateID {
	return StateID{maphash.String(seedHi, s), maphash.String(seedLo, s)}
}

// unique is the identity of content that nobody hashed.
func (s *Store) unique() StateID {
	n := s.serial()
	return StateID{1, n}.with(n)
}

// share is what an entry at path adds to the sum of its layer: who has the same
// shares shows the same names, bytes and modes. content is zero where the kind
// says it all.
func share(path string, kind entryKind, mode uint32, content StateID) StateID {
	h := hashString(path).with(uint64(kind)<<32 | uint64(mode))
	return h.with(content.Hi).with(content.Lo)
}

// State identifies what the branch overrides, by content where it was given by
// WriteFile: equal only if two branches (or one at two times) show the same
// names, bytes and modes over the same base. Times and inode numbers are no
// part of it: to switch a view, use [Differ]. Bytes written through an open
// file count once [File.Wrote] was called.
func (b *Branch) State() StateID {
	var id StateID
	c := b.enter()
	if c == nil {
		return id
	}
	defer c.leave()
	for i := len(c.layers) - 1; i >= 0; i-- {
		if sum := c.layers[i].sum; sum != (StateID{}) {
			id = id.with(sum.Hi).with(sum.Lo)
		}
	}
	return id
}
