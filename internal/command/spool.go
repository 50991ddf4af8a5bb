package command

import "unicode/utf8"

// spool tells one stream: three quarters of what may be told at once, the last
// quarter is kept for the stream's end, which is where commands say what went
// wrong. Pieces are cut between characters where the stream is UTF-8.
type spool struct {
	most   int
	stream string
	tell   func(Output)

	total   int64
	told    int
	omitted int64
	// rest is what has not been told: the beginning of a character, or, once the
	// first three quarters are full, the stream's end.
	rest []byte
	full bool
}

func (s *spool) end() {
	if keep := s.last(); len(s.rest) > keep {
		s.drop(len(s.rest) - keep)
	}
	if len(s.rest) > 0 || s.omitted > 0 {
		s.tell(Output{s.stream, s.omitted, s.rest})
	}
}

// last is how many bytes of the end are kept.
func (s *spool) last() int { return s.most - s.most*3/4 }

func (s *spool) write(p []byte) {
	s.total += int64(len(p))
	s.rest = append(s.rest, p...)
	if !s.full {
		n := whole(s.rest)
		if room := s.most*3/4 - s.told; n > room {
			n, s.full = whole(s.rest[:room]), true
		}
		if n > 0 {
			s.tell(Output{Stream: s.stream, Data: s.rest[:n:n]})
			s.told += n
			s.rest = append([]byte(nil), s.rest[n:]...)
		}
	}
	// Not at each write: dropping moves what is kept.
	if keep := s.last(); s.full && len(s.rest) > 2*keep+64<<10 {
		s.drop(len(s.rest) - keep)
	}
}

// drop leaves out the first n bytes of the rest, and the rest of a character.
func (s *spool) drop(n int) {
	for end := min(n+utf8.UTFMax-1, len(s.rest)); n < end && !utf8.RuneStart(s.rest[n]); {
		n++
	}
	s.omitted += int64(n)
	s.rest = append([]byte(nil), s.rest[n:]...)
}

// whole is the length of p without the beginning of a character at its end.
func whole(p []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if at := len(p) - i; utf8.RuneStart(p[at]) {
			if !utf8.FullRune(p[at:]) {
				return at
			}
			break
		}
	}
	return len(p)
}
