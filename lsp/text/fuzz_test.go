package text

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

// The reference works as LSP is written: on a slice of UTF-16 code units, one
// step at a time, with no care for cost.

func units(s string) []uint16     { return utf16.Encode([]rune(s)) }
func fromUnits(u []uint16) string { return string(utf16.Decode(u)) }

// refOffset walks from the first unit to p.
func refOffset(u []uint16, p Position) int {
	i := 0
	for line := uint32(0); line < p.Line; line++ {
		for i < len(u) && u[i] != '\n' && u[i] != '\r' {
			i++
		}
		if i == len(u) {
			return i
		}
		if u[i] == '\r' && i+1 < len(u) && u[i+1] == '\n' {
			i++
		}
		i++
	}
	for c := uint32(0); c < p.Character && i < len(u) && u[i] != '\n' && u[i] != '\r'; c++ {
		i++
	}
	if refCuts(u, i) {
		i--
	}
	return i
}

// refCuts says whether i is inside a pair or between \r and \n.
func refCuts(u []uint16, i int) bool {
	if i <= 0 || i >= len(u) {
		return false
	}
	high := u[i-1] >= 0xd800 && u[i-1] < 0xdc00
	low := u[i] >= 0xdc00 && u[i] < 0xe000
	return high && low || u[i-1] == '\r' && u[i] == '\n'
}

func refReplace(u []uint16, from, to int, text string) []uint16 {
	return slices.Concat(u[:from], units(text), u[to:])
}

func refApply(text string, changes []Change) (string, bool) {
	u := units(text)
	for _, c := range changes {
		if c.Range == nil {
			u = units(c.Text)
			continue
		}
		from, to := refOffset(u, c.Range.Start), refOffset(u, c.Range.End)
		if from > to {
			return "", false
		}
		u = refReplace(u, from, to, c.Text)
	}
	return fromUnits(u), true
}

// refApplyEdits makes the edits from the last to the first, so that each finds
// the text before it as it was.
func refApplyEdits(text string, edits []Edit) (string, bool) {
	u := units(text)
	type span struct{ from, to, n int }
	var todo []span
	for n, e := range edits {
		todo = append(todo, span{refOffset(u, e.Range.Start), refOffset(u, e.Range.End), n})
	}
	for i, a := range todo {
		if a.from > a.to {
			return "", false
		}
		for _, b := range todo[:i] {
			if a.from < b.to && b.from < a.to { // they share text, or one stands inside the other
				return "", false
			}
		}
	}
	for len(todo) > 0 {
		last := 0
		for i, s := range todo {
			l := todo[last]
			if s.from > l.from || s.from == l.from && (s.to > l.to || s.to == l.to && s.n > l.n) {
				last = i
			}
		}
		s := todo[last]
		// What stands before s.to is still as it was.
		u = refReplace(u, s.from, s.to, edits[s.n].NewText)
		todo = slices.Delete(todo, last, last+1)
	}
	return fromUnits(u), true
}

// refDiff returns the smallest change as unit offsets.
func refDiff(old, new []uint16) (from, to int, text []uint16) {
	p := 0
	for p < len(old) && p < len(new) && old[p] == new[p] {
		p++
	}
	for refCuts(old, p) || refCuts(new, p) {
		p--
	}
	s := 0
	for p+s < len(old) && p+s < len(new) && old[len(old)-1-s] == new[len(new)-1-s] {
		s++
	}
	for s > 0 && (refCuts(old, len(old)-s) || refCuts(new, len(new)-s)) {
		s--
	}
	return p, len(old) - s, new[p : len(new)-s]
}

// script turns fuzz bytes into ranges and texts that hit the short texts under
// test: numbers are small, texts are cut out of a pool.
type script struct{ b []byte }

func (s *script) next(n int) int {
	if len(s.b) == 0 {
		return 0
	}
	v := int(s.b[0])
	s.b = s.b[1:]
	return v % n
}

func (s *script) position() Position {
	return Position{uint32(s.next(6)), uint32(s.next(9))}
}

func (s *script) text(pool string) string {
	runes := []rune(pool)
	i := s.next(len(runes) + 1)
	return string(runes[i:min(len(runes), i+s.next(4))])
}

var seeds = []string{
	"", "a", "a\nb\r\nc\rd", "😀é\r\n😁", "\r\r\n\n\r", "x😀", "aaaa\naaaa", "\u2028a\u0085b",
	"func f() {\r\n\treturn \"𝒳\"\r\n}\r\n",
}

func FuzzApply(f *testing.F) {
	for i, s := range seeds {
		f.Add(s, []byte{1, 0, 1, 0, 2, 3, 2, 1, 1, 1, 0, 4, byte(i), 2})
	}
	f.Fuzz(func(t *testing.T, text string, b []byte) {
		text = strings.ToValidUTF8(text, "\ufffd")
		s := script{b}
		var changes []Change
		for range 1 + s.next(5) {
			c := Change{Text: s.text(text + "\r\n😀")}
			if s.next(8) > 0 {
				c.Range = &Range{s.position(), s.position()}
			}
			changes = append(changes, c)
		}
		got, err := Apply(text, changes)
		want, ok := refApply(text, changes)
		if ok != (err == nil) || ok && got != want {
			t.Fatalf("%q %v\n got %q, %v\nwant %q, %v", text, changes, got, err, want, ok)
		}
	})
}

func FuzzApplyEdits(f *testing.F) {
	for i, s := range seeds {
		f.Add(s, []byte{2, 0, 1, 0, 2, 3, 2, 1, 1, 1, 0, 4, byte(i), 2})
	}
	f.Fuzz(func(t *testing.T, text string, b []byte) {
		text = strings.ToValidUTF8(text, "\ufffd")
		s := script{b}
		var edits []Edit
		for range s.next(6) {
			edits = append(edits, Edit{Range{s.position(), s.position()}, s.text(text + "\r\n😀")})
		}
		got, err := ApplyEdits(text, edits)
		want, ok := refApplyEdits(text, edits)
		if ok != (err == nil) || ok && got != want {
			t.Fatalf("%q %v\n got %q, %v\nwant %q, %v", text, edits, got, err, want, ok)
		}
	})
}

func FuzzDiff(f *testing.F) {
	for i, s := range seeds {
		f.Add(s, seeds[(i+1)%len(seeds)])
		f.Add(s, s+"\n")
		f.Add("\r"+s, "\n"+s)
	}
	f.Fuzz(func(t *testing.T, old, new string) {
		for _, e := range []Encoding{UTF16, UTF8, UTF32} {
			if got, err := e.Apply(old, e.Diff(old, new)); err != nil || got != new {
				t.Fatalf("%v: %q -> %q gave %q, %v by %+v", e, old, new, got, err, e.Diff(old, new))
			}
		}
		old, new = strings.ToValidUTF8(old, "\ufffd"), strings.ToValidUTF8(new, "\ufffd")
		changes := Diff(old, new)
		if got, ok := refApply(old, changes); !ok || got != new {
			t.Fatalf("%q -> %q: the reference makes %q of %+v", old, new, got, changes)
		}
		if len(changes) == 0 || changes[0].Range == nil {
			return
		}
		u := units(old)
		from, to, text := refDiff(u, units(new))
		r := changes[0].Range
		if refOffset(u, r.Start) != from || refOffset(u, r.End) != to || changes[0].Text != fromUnits(text) {
			t.Fatalf("%q -> %q: %+v, want [%d,%d) %q", old, new, changes, from, to, fromUnits(text))
		}
	})
}

func FuzzPosition(f *testing.F) {
	for i, s := range seeds {
		f.Add(s, uint8(i))
	}
	f.Fuzz(func(t *testing.T, text string, at uint8) {
		for _, e := range []Encoding{UTF16, UTF8, UTF32} {
			offset := int(at)
			p := e.Position(text, offset)
			back := e.Offset(text, p)
			if offset <= len(text) && !cuts(text, offset) && back != offset {
				t.Fatalf("%v: %q: offset %d is %v is offset %d", e, text, offset, p, back)
			}
			if again := e.Position(text, back); again != p {
				t.Fatalf("%v: %q: %v is offset %d is %v", e, text, p, back, again)
			}
		}
	})
}
