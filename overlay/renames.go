package overlay

import (
	"bytes"
	"hash/maphash"
)

const (
	// minSimilar is what two files must have in common to be one that was renamed,
	// in percent: what git takes.
	minSimilar = 50
	// maxRenamePairs bounds how many pairs of a deleted and a new file are compared.
	maxRenamePairs = 2_500
	// maxRenamed bounds the size of files that are compared, in bytes.
	maxRenamed = 1 << 20
)

// pairRenames makes one change of a deleted and a new file where the overlay
// knows that one came from the other, where the content is the same, or where
// most of it is.
func (p *patch) pairRenames() {
	byPath, byID := map[string]*patched{}, map[string][]*patched{}
	for _, f := range p.deleted {
		byPath[f.from] = f
		if len(f.old.data) > 0 {
			byID[f.old.id] = append(byID[f.old.id], f)
		}
	}
	taken := map[*patched]bool{}
	pair := func(old, now *patched, similarity int) {
		taken[old] = true
		now.from, now.old, now.similarity = old.from, old.old, similarity
	}
	var made []*patched
	for _, f := range p.others {
		if f.old.mode != "" {
			continue
		}
		if old := byPath[f.source]; old != nil && !taken[old] && f.mayBe(old) {
			if s := similarity(old.old, f.now); s >= minSimilar {
				pair(old, f, s)
				continue
			}
		}
		made = append(made, f)
	}
	left := made[:0]
	for _, f := range made {
		found := false
		for _, old := range byID[f.now.id] {
			if found = !taken[old] && f.mayBe(old); found {
				pair(old, f, 100)
				break
			}
		}
		if !found {
			left = append(left, f)
		}
	}
	if len(left)*(len(p.deleted)-len(taken)) <= maxRenamePairs {
		for _, f := range left {
			var best *patched
			most := minSimilar - 1
			for _, old := range p.deleted {
				if taken[old] || !f.mayBe(old) || len(old.old.data) == 0 { // empty files are all alike
					continue
				}
				if s := similarity(old.old, f.now); s > most {
					best, most = old, s
				}
			}
			if best != nil {
				pair(best, f, most)
			}
		}
	}
	kept := p.deleted[:0]
	for _, f := range p.deleted {
		if !taken[f] {
			kept = append(kept, f)
		}
	}
	p.deleted = kept
}

// mayBe says that f may be told as a renamed old: not where one path lies in the
// other, which not every program that reads patches understands, and no link,
// since a rename does not say that it was one, and git apply refuses to make a
// directory where it does not know that a link has gone.
func (f *patched) mayBe(old *patched) bool {
	return old.old.mode != linkMode && f.now.mode != linkMode && !below(f.path, old.from) && !below(old.from, f.path)
}

var lineSeed = maphash.MakeSeed()

// similarity is how much of the larger of two contents is in the other as well,
// by lines, in percent. 100 only for the same content.
func similarity(a, b blob) int {
	if a.id == b.id {
		return 100
	}
	most := max(len(a.data), len(b.data))
	if most > maxRenamed || isBinary(a.data) || isBinary(b.data) {
		return 0
	}
	lines := map[uint64]int{}
	for line := range bytes.Lines(a.data) {
		lines[maphash.Bytes(lineSeed, line)]++
	}
	common := 0
	for line := range bytes.Lines(b.data) {
		if h := maphash.Bytes(lineSeed, line); lines[h] > 0 {
			lines[h]--
			common += len(line)
		}
	}
	return min(common*100/most, 99)
}
