package front

import (
	"encoding/binary"
	"sync/atomic"
)

const (
	// blockSize is what a tape takes from and gives back to the allocator.
	blockSize = 64 << 10
	// maxTape bounds the bytes of one direction that the courier has not looked
	// at yet: one of the largest messages seen, and as much again.
	maxTape = 16 << 20
	// recordHeader stands before each piece: its number, and its length or the
	// length of the gap before the next piece with the top bit set.
	recordHeader = 16
	gapBit       = 1 << 63
)

// tape carries copies of one direction from a pump to the courier. It is a queue
// of one producer and one consumer, without locks: neither ever waits for the
// other, even if one of them is stopped at the worst moment. Idle it holds one
// block.
//
// Memory: the producer fills blocks and publishes by block.written and
// block.next; the consumer gives finished blocks back through spare and inUse.
type tape struct {
	number *atomic.Uint64 // shared by both directions, so that their order is known
	limit  int64          // blocks

	// owned by the producer
	tail *block
	gap  uint64 // bytes dropped since the last record

	// owned by the consumer
	head *block
	read int64 // bytes of head that were consumed

	inUse   atomic.Int64 // blocks reachable from head
	spare   atomic.Pointer[block]
	dropped atomic.Uint64 // bytes, for the log
	ended   atomic.Bool   // the producer will add nothing more
	rest    atomic.Uint64 // the gap at the end, set before ended
	off     atomic.Bool   // the consumer is gone: nothing is copied any more
}

type block struct {
	data    [blockSize]byte
	written atomic.Int64
	next    atomic.Pointer[block]
}

// record is one piece of a chunk, or a gap.
type record struct {
	number uint64
	data   []byte // nil for a gap; valid until the next advance
	gap    uint64
}

func newTape(number *atomic.Uint64, limit int) *tape {
	b := new(block)
	t := &tape{number: number, limit: int64(limit / blockSize), tail: b, head: b}
	t.inUse.Store(1)
	return t
}

// put copies p, or counts it as dropped where it does not fit. Producer only.
func (t *tape) put(p []byte) {
	if len(p) == 0 || t.off.Load() {
		return
	}
	// Whole chunks or nothing: half a chunk would only make half a frame.
	const room = blockSize - recordHeader
	need := int64((len(p)+2*recordHeader)/room + 1)
	if t.inUse.Load()+need > t.limit {
		t.gap += uint64(len(p))
		t.dropped.Add(uint64(len(p)))
		return
	}
	if t.gap > 0 {
		t.write(nil, t.gap|gapBit)
		t.gap = 0
	}
	for len(p) > 0 {
		n := min(len(p), t.space())
		t.write(p[:n], uint64(n))
		p = p[n:]
	}
}

// end says that put is not called again.
func (t *tape) end() {
	t.rest.Store(t.gap)
	t.ended.Store(true)
}

// space returns how many bytes a record can hold now, making a new block where
// the old one is as good as full.
func (t *tape) space() int {
	const least = 512 // not worth a record of its own
	used := int(t.tail.written.Load())
	if left := blockSize - used - recordHeader; left >= least {
		return left
	}
	b := t.spare.Swap(nil)
	if b == nil {
		b = new(block)
	}
	t.inUse.Add(1)
	t.tail.next.Store(b)
	t.tail = b
	return blockSize - recordHeader
}

func (t *tape) write(p []byte, length uint64) {
	t.space()
	at := int(t.tail.written.Load())
	binary.LittleEndian.PutUint64(t.tail.data[at:], t.number.Add(1))
	binary.LittleEndian.PutUint64(t.tail.data[at+8:], length)
	copy(t.tail.data[at+recordHeader:], p)
	t.tail.written.Store(int64(at + recordHeader + len(p)))
}

// peek returns the oldest record, if there is one. Consumer only.
func (t *tape) peek() (record, bool) {
	for t.read == t.head.written.Load() {
		next := t.head.next.Load()
		if next == nil {
			return record{}, false
		}
		if t.read != t.head.written.Load() { // written before next was set
			break
		}
		old := t.head
		t.head, t.read = next, 0
		old.written.Store(0)
		old.next.Store(nil)
		t.spare.Store(old)
		t.inUse.Add(-1)
	}
	at := t.head.data[t.read:]
	r := record{number: binary.LittleEndian.Uint64(at)}
	length := binary.LittleEndian.Uint64(at[8:])
	if length&gapBit != 0 {
		r.gap = length &^ gapBit
	} else {
		r.data = at[recordHeader : recordHeader+length]
	}
	return r, true
}

// advance consumes the record that peek returned.
func (t *tape) advance(r record) { t.read += recordHeader + int64(len(r.data)) }

// finished says that everything was consumed and nothing will come, and how many
// bytes were dropped at the very end.
func (t *tape) finished() (rest uint64, ok bool) {
	if !t.ended.Load() {
		return 0, false
	}
	if _, more := t.peek(); more {
		return 0, false
	}
	return t.rest.Load(), true
}
