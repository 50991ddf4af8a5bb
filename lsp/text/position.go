package text

import (
	"strings"
	"unicode/utf8"
)

// Encoding says what a Position's Character counts. The zero value is UTF16,
// which LSP means where nothing was negotiated.
type Encoding uint8

const (
	// UTF16 counts UTF-16 code units.
	UTF16 Encoding = iota
	// UTF8 counts bytes.
	UTF8
	// UTF32 counts Unicode code points.
	UTF32
)

// ParseEncoding returns the encoding that LSP calls name ("utf-8", "utf-16",
// "utf-32"; "" is utf-16), and whether there is one.
func ParseEncoding(name string) (Encoding, bool) {
	switch name {
	case "", "utf-16":
		return UTF16, true
	case "utf-8":
		return UTF8, true
	case "utf-32":
		return UTF32, true
	}
	return UTF16, false
}

// String returns LSP's name.
func (e Encoding) String() string {
	switch e {
	case UTF8:
		return "utf-8"
	case UTF32:
		return "utf-32"
	}
	return "utf-16"
}

// units returns how many units a character counts that takes size bytes here.
func (e Encoding) units(r rune, size int) uint32 {
	switch {
	case e == UTF8:
		return uint32(size)
	case e == UTF16 && r > 0xffff:
		return 2
	}
	return 1
}

// Position is a place in a text, both numbers counted from 0.
type Position struct {
	Line      uint32 `json:"line"`
	Character uint32 `json:"character"`
}

// Compare returns -1, 0 or 1 as p stands before, at or after q.
func (p Position) Compare(q Position) int {
	switch {
	case p.Line < q.Line || p.Line == q.Line && p.Character < q.Character:
		return -1
	case p == q:
		return 0
	}
	return 1
}

// Range is a part of a text; End is behind its last character.
type Range struct {
	Start Position `json:"start"`
	End   Position `json:"end"`
}

// Offset returns the byte offset of p in text, by the rules of the package doc.
func (e Encoding) Offset(text string, p Position) int {
	l := newLines(text)
	start := 0
	for range p.Line {
		_, next := l.at(start)
		if next < 0 {
			return len(text)
		}
		start = next
	}
	end, _ := l.at(start)
	return start + e.column(text[start:end], p.Character)
}

// Position returns the place of a byte offset in text. An offset inside a
// character means its beginning; one between \r and \n means the \r.
func (e Encoding) Position(text string, offset int) Position {
	var p Position
	l := newLines(text)
	start := 0
	for {
		end, next := l.at(start)
		if next < 0 || offset < next {
			p.Character = e.count(text[start:end], offset-start)
			return p
		}
		start = next
		p.Line++
	}
}

// column returns the byte offset in line of the character that holds unit n.
func (e Encoding) column(line string, n uint32) int {
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		u := e.units(r, size)
		if n < u {
			return i
		}
		n -= u
		i += size
	}
	return len(line)
}

// count returns the units of the whole characters in line's first n bytes.
func (e Encoding) count(line string, n int) uint32 {
	var units uint32
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		if i+size > n {
			break
		}
		units += e.units(r, size)
		i += size
	}
	return units
}

// lines finds line ends from left to right. The next \n and \r are remembered,
// so that a text full of one of them is not searched for the other at each line.
type lines struct {
	text   string
	lf, cr int // the next of each at or behind the last start asked for, else len(text)
}

func newLines(text string) *lines { return &lines{text: text, lf: -1, cr: -1} }

// at returns where the line that begins at start ends (before its terminator)
// and where the next one begins, -1 if it is the last. Starts must not decrease.
func (l *lines) at(start int) (end, next int) {
	if l.lf < start {
		l.lf = l.index(start, '\n')
	}
	if l.cr < start {
		l.cr = l.index(start, '\r')
	}
	switch end = min(l.lf, l.cr); {
	case end == len(l.text):
		return end, -1
	case l.lf == end+1 && l.lf < len(l.text): // \r\n
		return end, end + 2
	}
	return end, end + 1
}

func (l *lines) index(from int, b byte) int {
	if i := strings.IndexByte(l.text[from:], b); i >= 0 {
		return from + i
	}
	return len(l.text)
}
