package command

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever the pieces, what is told and what is omitted make the whole, and both
// ends of it are there.
func TestSpool(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var text strings.Builder
		for range r.IntN(3000) {
			text.WriteString([]string{"a", "ß", "語", "🙂", "\n"}[r.IntN(5)])
		}
		whole, most := text.String(), r.IntN(2000)
		var at int64
		told := 0
		s := &spool{most: most, stream: "stdout", tell: func(o Output) {
			at += o.Omitted
			if got := whole[at : at+int64(len(o.Data))]; got != string(o.Data) {
				t.Fatalf("seed %d: at %d: %q and not %q", seed, at, o.Data, got)
			}
			if !utf8.Valid(o.Data) {
				t.Fatalf("seed %d: cut within a character: %q", seed, o.Data)
			}
			at += int64(len(o.Data))
			told += len(o.Data)
		}}
		for rest := whole; rest != ""; {
			n := 1 + r.IntN(min(len(rest), 700))
			s.write([]byte(rest[:n]))
			rest = rest[n:]
		}
		s.end()
		switch {
		case at != int64(len(whole)):
			t.Fatalf("seed %d: %d bytes accounted for, of %d", seed, at, len(whole))
		case told > most:
			t.Fatalf("seed %d: %d bytes told, over the limit of %d", seed, told, most)
		case len(whole) <= most*3/4 && s.omitted != 0:
			t.Fatalf("seed %d: %d bytes omitted without need", seed, s.omitted)
		case s.total != int64(len(whole)):
			t.Fatalf("seed %d: %d bytes counted, of %d", seed, s.total, len(whole))
		}
	}
}
