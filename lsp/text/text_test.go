package text

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func rng(a, b, c, d uint32) Range { return Range{Position{a, b}, Position{c, d}} }

func TestApplyResolvesPositionsAsLSPDoes(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		r        Range
		text     string
		want     string
	}{
		{"surrogate pair is two units", "a😀b", rng(0, 1, 0, 3), "x", "axb"},
		{"inside a pair is its beginning", "a😀b", rng(0, 2, 0, 2), "x", "ax😀b"},
		{"crlf", "a\r\nb\r\nc", rng(1, 0, 2, 0), "", "a\r\nc"},
		{"past the end of a crlf line", "a\r\nb", rng(0, 99, 0, 99), "x", "ax\r\nb"},
		{"past the end of a line swallows no terminator", "a\nb", rng(0, 0, 0, 99), "", "\nb"},
		{"lone cr ends a line", "a\rb\rc", rng(1, 0, 1, 1), "x", "a\rx\rc"},
		{"mixed terminators", "a\n\r\r\nb", rng(3, 0, 3, 0), "x", "a\n\r\r\nxb"},
		{"line past the end", "a\nb", rng(7, 0, 9, 3), "x", "a\nbx"},
		{"largest numbers", "a\nb", rng(0, 0, 1<<32-1, 1<<32-1), "x", "x"},
		{"empty text", "", rng(0, 0, 0, 0), "x", "x"},
		{"empty last line", "a\n", rng(1, 5, 1, 5), "x", "a\nx"},
		{"not UTF-8", "\xff\xfe=", rng(0, 1, 0, 2), "", "\xff="},
	} {
		got, err := Apply(tc.in, []Change{{Range: &tc.r, Text: tc.text}})
		if err != nil || got != tc.want {
			t.Errorf("%s: got %q, %v; want %q", tc.name, got, err, tc.want)
		}
	}
}

func TestApplyInOrder(t *testing.T) {
	var changes []Change
	err := json.Unmarshal([]byte(`[
		{"text":"one\ntwo"},
		{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":3}},"rangeLength":3,"text":"1\n"},
		{"range":{"start":{"line":1,"character":0},"end":{"line":2,"character":0}},"text":""}]`), &changes)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Apply("gone", changes); err != nil || got != "1\ntwo" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestApplyEdits(t *testing.T) {
	for _, tc := range []struct {
		name  string
		edits []Edit
		want  string
	}{
		{"against the original, any order", []Edit{{rng(1, 0, 1, 3), "2"}, {rng(0, 0, 0, 3), "1"}}, "1\n2"},
		{"insertions keep their order", []Edit{{rng(0, 1, 0, 1), "x"}, {rng(0, 1, 0, 1), "y"}}, "oxyne\ntwo"},
		{"insertion before the replacement", []Edit{{rng(0, 0, 0, 3), "1"}, {rng(0, 0, 0, 0), "x"}}, "x1\ntwo"},
		{"insertion behind the replacement", []Edit{{rng(0, 3, 0, 3), "x"}, {rng(0, 0, 0, 3), "1"}}, "1x\ntwo"},
		{"touching", []Edit{{rng(0, 0, 0, 1), "a"}, {rng(0, 1, 0, 2), "b"}}, "abe\ntwo"},
		{"none", nil, "one\ntwo"},
	} {
		if got, err := ApplyEdits("one\ntwo", tc.edits); err != nil || got != tc.want {
			t.Errorf("%s: got %q, %v; want %q", tc.name, got, err, tc.want)
		}
	}
}

func TestErrorsNameTheEdit(t *testing.T) {
	var e *Error
	r := rng(0, 2, 0, 1)
	if got, err := Apply("one", []Change{{Text: "two"}, {Range: &r}}); !errors.As(err, &e) || e.Kind != Reversed || e.Index != 1 || got != "one" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := ApplyEdits("one", []Edit{{rng(0, 0, 0, 2), "a"}, {rng(0, 1, 0, 1), "b"}}); !errors.As(err, &e) || e.Kind != Overlap || e.Index != 1 || got != "one" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDiffIsSmallest(t *testing.T) {
	for _, tc := range []struct {
		name, old, new string
		r              Range
		text           string
	}{
		{"insert", "abc", "abxc", rng(0, 2, 0, 2), "x"},
		{"repeated", "aaa", "aaaa", rng(0, 3, 0, 3), "a"},
		{"pairs that share a half", "😀", "😁", rng(0, 0, 0, 2), "😁"},
		{"characters that share a byte", "é", "è", rng(0, 0, 0, 1), "è"},
		{"crlf is not cut", "a\r\nb", "a\n\nb", rng(0, 1, 1, 0), "\n\n"},
		{"crlf of the new text is not cut", "a\nb", "a\r\nb", rng(0, 1, 1, 0), "\r\n"},
		{"all gone", "a\nb", "", rng(0, 0, 1, 1), ""},
	} {
		got := Diff(tc.old, tc.new)
		if len(got) != 1 || got[0].Range == nil || *got[0].Range != tc.r || got[0].Text != tc.text {
			t.Errorf("%s: got %+v", tc.name, got)
		}
	}
	if got := Diff("same", "same"); got != nil {
		t.Errorf("equal texts: got %+v", got)
	}
}

func TestDiffSendsAllWherePositionsAreAmbiguous(t *testing.T) {
	for _, old := range []string{"a\rb\nc", "\xff\nc", "a\n\rc"} {
		new := old[:len(old)-1] + "d"
		if got := Diff(old, new); len(got) != 1 || got[0].Range != nil || got[0].Text != new {
			t.Errorf("%q: got %+v", old, got)
		}
	}
	// What lies behind the change does not matter.
	if got := Diff("a\nb\r", "x\nb\r"); len(got) != 1 || got[0].Range == nil {
		t.Errorf("got %+v", got)
	}
}

func TestEncodings(t *testing.T) {
	const s = "aé😀b\nx"
	for name, want := range map[string]uint32{"utf-8": 7, "utf-16": 4, "utf-32": 3, "": 4} {
		e, ok := ParseEncoding(name)
		if !ok || name != "" && e.String() != name {
			t.Fatalf("%q: %v, %v", name, e, ok)
		}
		at := strings.IndexByte(s, 'b')
		if got := e.Position(s, at); got != (Position{0, want}) {
			t.Errorf("%v: %v, want character %d", e, got, want)
		}
		if got := e.Offset(s, Position{0, want}); got != at {
			t.Errorf("%v: offset %d, want %d", e, got, at)
		}
	}
	if _, ok := ParseEncoding("utf-7"); ok {
		t.Error("utf-7 taken")
	}
}

// A text of line ends only must not cost the square of its length.
func BenchmarkOffsetInManyLines(b *testing.B) {
	s := strings.Repeat("\r", 1<<20)
	for b.Loop() {
		UTF16.Offset(s, Position{1 << 20, 0})
	}
}

func BenchmarkDiff(b *testing.B) {
	old := strings.Repeat("some line of code\n", 60000)
	new := old[:len(old)/2] + "x" + old[len(old)/2:]
	for b.Loop() {
		Diff(old, new)
	}
}
