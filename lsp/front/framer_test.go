package front

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shadowlsp/lsp/wire"
)

// framed is what a framer says of a stream, in order.
type framed struct {
	frames []string
	gaps   uint64
	events []string // frames, and "-" for gaps, which are merged
	took   uint64
}

// feedAll feeds pieces, nil standing for a byte that is missing, and the end.
func feedAll(pieces ...[]byte) framed {
	var r framed
	f := newFramer(
		func(body []byte) {
			r.frames = append(r.frames, string(body))
			r.events = append(r.events, string(body))
		},
		func(n uint64) {
			r.gaps += n
			if len(r.events) == 0 || r.events[len(r.events)-1] != "-" {
				r.events = append(r.events, "-")
			}
		})
	for _, p := range pieces {
		if p == nil {
			f.missing(1)
		} else {
			f.feed(p)
		}
	}
	f.end()
	r.took = f.took
	return r
}

func TestFramer(t *testing.T) {
	a, b := string(message(`{"a":1}`)), string(message(`{"b":2}`))
	for _, tc := range []struct {
		name   string
		pieces []string // "" is a missing byte
		want   []string
	}{
		{"frames", []string{a + b}, []string{`{"a":1}`, `{"b":2}`}},
		{"split anywhere", []string{a[:3], a[3:18], a[18:25], a[25:] + b[:1], b[1:]}, []string{`{"a":1}`, `{"b":2}`}},
		{"in step a body may be anything", []string{"Content-Length: 3\r\n\r\nno!" + b}, []string{"no!", `{"b":2}`}},
		{"other headers", []string{"X: y\r\ncontent-length:7\r\nZ: z\r\n\r\n{\"a\":1}" + b}, []string{`{"a":1}`, `{"b":2}`}},
		{"noise before", []string{"noise\n" + a}, []string{"-", `{"a":1}`}},
		{"noise between", []string{a + "\r\n\r\nContent-Length: x\r\n\r\n" + b}, []string{`{"a":1}`, "-", `{"b":2}`}},
		{"missing in a body", []string{a[:25], "", "}" + b}, []string{"-", `{"b":2}`}},
		{"missing in a header", []string{a + "Content-Length", "", "7\r\n\r\n{\"b\":2}" + a}, []string{`{"a":1}`, "-", `{"a":1}`}},
		{"missing between frames", []string{a, "", b}, []string{`{"a":1}`, "-", `{"b":2}`}},
		{"a length that lies, after a gap", []string{"", "Content-Length: 9\r\n\r\n{\"a\":1}" + b}, []string{"-", `{"b":2}`}},
		{"a body cut by a gap does not swallow the next", []string{"Content-Length: 400\r\n\r\n{\"a\":", "", b + a}, []string{"-", `{"b":2}`, `{"a":1}`}},
		{"a header inside of a refused body", []string{"", "Content-Length: 30\r\n\r\n{\"a\":" + b + a}, []string{"-", `{"b":2}`, `{"a":1}`}},
		{"a header of a string is none", []string{"", `{"text":"Content-Length: 7\r\n\r\n{}"}` + a}, []string{"-", `{"a":1}`}},
		{"a huge length after a gap", []string{"", "Content-Length: 2000000000\r\n\r\n" + a}, []string{"-", `{"a":1}`}},
		{"truncated", []string{a + b[:20]}, []string{`{"a":1}`, "-"}},
	} {
		var pieces [][]byte
		for _, p := range tc.pieces {
			if p == "" {
				pieces = append(pieces, nil)
			} else {
				pieces = append(pieces, []byte(p))
			}
		}
		if diff := cmp.Diff(tc.want, feedAll(pieces...).events); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// A frame that is too large to be held is passed over, without losing step.
func TestFramerPassesOverHugeFrames(t *testing.T) {
	pieces := [][]byte{fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", maxFrame+5)}
	for left := maxFrame + 5; left > 0; left -= 1 << 20 {
		pieces = append(pieces, bytes.Repeat([]byte("x"), min(left, 1<<20)))
	}
	pieces[len(pieces)-1] = append(pieces[len(pieces)-1], message("next")...) // no JSON: in step
	got := feedAll(pieces...)
	if !slices.Equal(got.events, []string{"-", "next"}) || got.gaps != uint64(len(pieces[0])+maxFrame+5) {
		t.Errorf("%d events, %d bytes in gaps", len(got.events), got.gaps)
	}
}

// Any bytes, in any pieces, with or without missing ones.
func FuzzFramer(f *testing.F) {
	a := string(message(`{"a":1}`))
	f.Add([]byte(a+a), []byte{3, 9, 0})
	f.Add([]byte("noise"+a+"Content-Length: 30\r\n\r\n{"+a), []byte{1, 1, 1, 1})
	f.Add([]byte("Content-Length: 99999999\r\n\r\n{}"), []byte{20})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		whole := feedAll(stream)
		if whole.took+whole.gaps != uint64(len(stream)) {
			t.Fatalf("%d + %d bytes of %d", whole.took, whole.gaps, len(stream))
		}
		// The pieces do not matter.
		var pieces [][]byte
		rest := stream
		for _, c := range cuts {
			n := min(int(c), len(rest))
			pieces = append(pieces, append([]byte{}, rest[:n]...))
			rest = rest[n:]
		}
		pieces = append(pieces, append([]byte{}, rest...))
		split := feedAll(pieces...)
		if !slices.Equal(split.events, whole.events) || split.gaps != whole.gaps {
			t.Fatalf("split %q, whole %q", split.events, whole.events)
		}
		// As long as nothing is malformed, it says what wire.Reader says.
		in := wire.NewReader(bytes.NewReader(stream), maxFrame)
		for i := 0; ; i++ {
			body, err := in.ReadFrame()
			if err != nil {
				if !errors.Is(err, wire.ErrNotLSP) && !errors.Is(err, wire.ErrTooLarge) && len(whole.frames) != i {
					t.Fatalf("%d frames more than wire.Reader: %q", len(whole.frames)-i, whole.frames)
				}
				break
			}
			if i >= len(whole.frames) || whole.frames[i] != string(body) {
				t.Fatalf("frame %d is %q: %q", i, body, whole.frames)
			}
		}
		// With a byte missing between the pieces nothing is counted twice.
		var holes [][]byte
		for _, p := range pieces {
			holes = append(holes, p, nil)
		}
		holed := feedAll(holes...)
		if holed.took+holed.gaps != uint64(len(stream)+len(pieces)) {
			t.Fatalf("%d + %d bytes of %d and %d missing", holed.took, holed.gaps, len(stream), len(pieces))
		}
	})
}

// Parts of a stream of good frames are missing: every frame that is told was
// sent, in that order, and none is lost that stands behind a whole one after the
// hole.
func FuzzFramerAfterGaps(f *testing.F) {
	f.Add([]byte{5, 200, 30, 4}, []byte{10, 0, 40, 0})
	f.Add([]byte{1, 2, 3}, []byte{0, 0, 1, 0, 2, 0})
	f.Fuzz(func(t *testing.T, sizes, holes []byte) {
		var stream []byte
		var bodies []string
		var starts []int
		for i, n := range sizes {
			if i == 50 {
				break
			}
			body := fmt.Sprintf(`{"n":%d,"text":"Content-Length: %d\r\n\r\n%s"}`, i, n, strings.Repeat("c", int(n)))
			starts = append(starts, len(stream))
			stream = append(stream, message(body)...)
			bodies = append(bodies, body)
		}
		starts = append(starts, len(stream))
		missing := make([]bool, len(stream)+1)
		for ; len(holes) >= 3; holes = holes[3:] {
			at := int(binary.LittleEndian.Uint16(holes))
			for i := at; i < min(at+int(holes[2]), len(stream)); i++ {
				missing[i] = true
			}
		}
		var pieces [][]byte
		var run []byte
		for i, b := range stream {
			if missing[i] {
				if len(run) > 0 {
					pieces = append(pieces, run)
				}
				pieces, run = append(pieces, nil), nil
			} else {
				run = append(run, b)
			}
		}
		if len(run) > 0 {
			pieces = append(pieces, run)
		}
		got := feedAll(pieces...).frames
		var want []string
		for i, body := range bodies {
			if !slices.Contains(missing[starts[i]:starts[i+1]], true) {
				want = append(want, body)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %q\nwant %q", got, want)
		}
	})
}
