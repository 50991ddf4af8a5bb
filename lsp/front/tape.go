package front

import (
	"encoding/binary"
	"sync/atomic"
)

const (
	// blockSize is what a tape takes from and gives back to the allocator.
	blockSize = 64 << 10
	// maxTape bounds the bytes of one direction that the courier has not looked
	// at yet: one of the largest messages seen, and half of it again.
	maxTape = 12 << 20
	// recordHeader stands before each piece: its number, how many bytes had been
	// dropped by then, and its length.
	recordHeader = 24
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

	tail *block // owned by the producer

	// owned by the consumer
	head   *block
	read   int64  // bytes of head that were consumed
	missed uint64 // of the dropped bytes, how many were returned as gaps

	inUse   atomic.Int64 // blocks reachable from head
	spare   atomic.Pointer[block]
	dropped atomic.Uint64 // bytes, in all; written by the producer
	off     atomic.Bool   // the consumer is gone: nothing is copied any more
}

type block struct {
	data    [blockSize]byte
	written atomic.Int64
	next    atomic.Pointer[block]
}

// record is one piece of a chunk.
type record struct {
	number uint64
	gap    uint64 // bytes that are missing before it
	data   []byte // valid until advance
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
	need := int64(len(p)/room + 2)
	if t.inUse.Load()+need > t.limit {
		t.dropped.Add(uint64(len(p)))
		return
	}
	for len(p) > 0 {
		n := min(len(p), t.space())
		t.write(p[:n])
		p = p[n:]
	}
}

// space returns how many bytes a record can hold now, making a new block where
// the old one is as good as full.
func (t *tape) space() int {
	const least = 512 // less is not worth a record of its own
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

// write publishes one record, for which there is space.
func (t *tape) write(p []byte) {
	at := int(t.tail.written.Load())
	head := t.tail.data[at:]
	binary.LittleEndian.PutUint64(head, t.number.Add(1))
	binary.LittleEndian.PutUint64(head[8:], t.dropped.Load())
	binary.LittleEndian.PutUint64(head[16:], uint64(len(p)))
	copy(head[recordHeader:], p)
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
	length := binary.LittleEndian.Uint64(at[16:])
	return record{
		number: binary.LittleEndian.Uint64(at),
		gap:    binary.LittleEndian.Uint64(at[8:]) - t.missed,
		data:   at[recordHeader : recordHeader+length],
	}, true
}

// advance consumes the record that peek returned.
func (t *tape) advance(r record) {
	t.missed += r.gap
	t.read += recordHeader + int64(len(r.data))
}

// dry returns how many bytes are missing behind everything that was consumed. It
// returns 0 as long as there is a record: the gap may stand behind that.
func (t *tape) dry() uint64 {
	dropped := t.dropped.Load() // first: what was put before is seen by peek
	if _, more := t.peek(); more {
		return 0
	}
	gap := dropped - t.missed
	t.missed = dropped
	return gap
}
