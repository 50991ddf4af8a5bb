package front

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// One producer, one consumer, any speeds: what is consumed is what was put, and
// every byte that is missing is in a gap at its place.
func TestTapeLosesNothingUntold(t *testing.T) {
	tape := newTape(new(atomic.Uint64), 4*blockSize)
	const total = 40000
	done := make(chan uint64)
	var stop atomic.Bool
	go func() { // the stream is of numbers, so that a place shows in the bytes
		rng := rand.New(rand.NewPCG(1, 2))
		var next uint64
		for range total {
			n := 1 + rng.IntN(100)
			if rng.IntN(100) == 0 {
				n = 10000 // larger than a block
			}
			chunk := make([]byte, 8*n)
			for i := range n {
				binary.LittleEndian.PutUint64(chunk[8*i:], next)
				next++
			}
			tape.put(chunk)
		}
		stop.Store(true)
		done <- next
	}()
	rng := rand.New(rand.NewPCG(3, 4))
	var at, gaps, number uint64
	var part []byte
	for {
		ended := stop.Load()
		r, ok := tape.peek()
		if !ok {
			gap := tape.dry()
			at, gaps = at+gap/8, gaps+gap
			if _, more := tape.peek(); ended && !more && gap == 0 {
				break
			}
			continue
		}
		if r.number <= number {
			t.Fatalf("number %d after %d", r.number, number)
		}
		number = r.number
		if r.gap%8 != 0 || r.gap > 0 && len(part) > 0 {
			t.Fatalf("a gap within a chunk: %d", r.gap)
		}
		at, gaps = at+r.gap/8, gaps+r.gap
		part = append(part, r.data...)
		for len(part) >= 8 {
			if got := binary.LittleEndian.Uint64(part); got != at {
				t.Fatalf("got %d, want %d", got, at)
			}
			part, at = part[8:], at+1
		}
		tape.advance(r)
		if rng.IntN(1000) == 0 { // fall behind
			for tape.dropped.Load() == gaps && !stop.Load() {
			}
		}
		if used := tape.inUse.Load(); used > 4 {
			t.Fatalf("%d blocks", used)
		}
	}
	if sent := <-done; at != sent || gaps != tape.dropped.Load() || gaps == 0 {
		t.Errorf("saw %d of %d, %d of %d bytes in gaps", at, sent, gaps, tape.dropped.Load())
	}
}

// What causes something is on tape before it.
func TestOldestKeepsCauseBeforeEffect(t *testing.T) {
	number := new(atomic.Uint64)
	tapes := [2]*tape{newTape(number, 1<<20), newTape(number, 1<<20)}
	const rounds = 20000
	question, answer := make(chan int), make(chan int)
	go func() { // the server
		for i := range question {
			tapes[1].put(binary.LittleEndian.AppendUint32(nil, uint32(i)))
			answer <- i
		}
		close(answer)
	}()
	go func() { // the editor
		defer close(question)
		for i := range rounds {
			tapes[0].put(binary.LittleEndian.AppendUint32(nil, uint32(i)))
			question <- i
			<-answer
		}
	}()
	for seen := 0; seen < 2*rounds; {
		from, r, ok := oldest(tapes)
		if !ok {
			if tapes[0].dropped.Load()+tapes[1].dropped.Load() > 0 {
				t.Fatal("records are dropped of a tape that has room for all: 1 MB")
			}
			continue
		}
		if got := int(binary.LittleEndian.Uint32(r.data)); from != seen%2 || got != seen/2 {
			t.Fatalf("record %d is %d of tape %d", seen, got, from)
		}
		tapes[from].advance(r)
		seen++
	}
}

func TestTapeThatNobodyReadsIsBounded(t *testing.T) {
	tape := newTape(new(atomic.Uint64), maxTape)
	chunk := make([]byte, chunk)
	for range 10 * maxTape / len(chunk) {
		tape.put(chunk)
	}
	if used := tape.inUse.Load(); used > maxTape/blockSize || tape.dropped.Load() < 8*maxTape {
		t.Errorf("%d blocks, %d bytes dropped", used, tape.dropped.Load())
	}
	tape.off.Store(true)
	before := tape.dropped.Load()
	tape.put(chunk)
	if tape.dropped.Load() != before {
		t.Error("still copying")
	}
}

func BenchmarkTape(b *testing.B) {
	for _, size := range []int{200, chunk} {
		b.Run(map[int]string{200: "200 B", chunk: "a chunk"}[size], func(b *testing.B) {
			tape := newTape(new(atomic.Uint64), maxTape)
			p := bytes.Repeat([]byte("x"), size)
			for b.Loop() {
				tape.put(p)
				for {
					r, ok := tape.peek()
					if !ok {
						break
					}
					tape.advance(r)
				}
			}
		})
	}
}
