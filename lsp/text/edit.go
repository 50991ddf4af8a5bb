package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind says what is wrong with an edit.
type Kind uint8

const (
	// Reversed: a range ends before it begins. The sender is wrong; tell it.
	Reversed Kind = iota + 1
	// Overlap: two edits of one set touch the same text. The sender is wrong;
	// tell it, apply none.
	Overlap
)

func (k Kind) String() string {
	switch k {
	case Reversed:
		return "its range ends before it begins"
	case Overlap:
		return "it overlaps another edit"
	}
	return "invalid"
}

// Error is what this package returns.
type Error struct {
	Op    string // "apply" or "apply edits"
	Index int    // which change or edit, counted from 0 as given
	Range Range  // its range
	Kind  Kind
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: number %d (%d:%d-%d:%d): %v", e.Op, e.Index,
		e.Range.Start.Line, e.Range.Start.Character, e.Range.End.Line, e.Range.End.Character, e.Kind)
}

// Change is an LSP TextDocumentContentChangeEvent; without a range Text is the
// whole new text. (LSP's rangeLength is deprecated and not looked at.)
type Change struct {
	Range *Range `json:"range,omitempty"`
	Text  string `json:"text"`
}

// Edit is an LSP TextEdit.
type Edit struct {
	Range   Range  `json:"range"`
	NewText string `json:"newText"`
}

// Apply makes the changes in order, each on the result of the one before.
// Positions are UTF-16. On an error the text is unchanged.
func Apply(text string, changes []Change) (string, error) { return UTF16.Apply(text, changes) }

// ApplyEdits makes all edits against the text as given: their order does not
// matter, except that insertions at one place come out in the order given. An
// insertion where a replacement begins stands before it. Overlapping edits are
// an error. Positions are UTF-16. On an error the text is unchanged.
func ApplyEdits(text string, edits []Edit) (string, error) { return UTF16.ApplyEdits(text, edits) }

// Apply is the function [Apply] with positions in e.
func (e Encoding) Apply(text string, changes []Change) (string, error) {
	result := text
	for i, c := range changes {
		if c.Range == nil {
			result = c.Text
			continue
		}
		start, end := e.Offset(result, c.Range.Start), e.Offset(result, c.Range.End)
		if start > end {
			return text, &Error{Op: "apply", Index: i, Range: *c.Range, Kind: Reversed}
		}
		result = result[:start] + c.Text + result[end:]
	}
	return result, nil
}

// ApplyEdits is the function [ApplyEdits] with positions in e.
func (e Encoding) ApplyEdits(text string, edits []Edit) (string, error) {
	type span struct{ start, end, index int }
	starts := lineStarts(text)
	offset := func(p Position) int {
		if int64(p.Line) >= int64(len(starts)-1) {
			return len(text)
		}
		end, _ := newLines(text[:starts[p.Line+1]]).at(starts[p.Line])
		return starts[p.Line] + e.column(text[starts[p.Line]:end], p.Character)
	}
	fail := func(i int, k Kind) (string, error) {
		return text, &Error{Op: "apply edits", Index: i, Range: edits[i].Range, Kind: k}
	}
	spans := make([]span, len(edits))
	grown := len(text)
	for i, edit := range edits {
		spans[i] = span{offset(edit.Range.Start), offset(edit.Range.End), i}
		if spans[i].start > spans[i].end {
			return fail(i, Reversed)
		}
		grown += len(edit.NewText)
	}
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	var out strings.Builder
	out.Grow(grown)
	done := 0
	for _, s := range spans {
		if s.start < done {
			return fail(s.index, Overlap)
		}
		out.WriteString(text[done:s.start])
		out.WriteString(edits[s.index].NewText)
		done = s.end
	}
	out.WriteString(text[done:])
	return out.String(), nil
}

// lineStarts returns where each line begins, and len(text) at its end.
func lineStarts(text string) []int {
	l := newLines(text)
	starts := []int{0}
	for {
		_, next := l.at(starts[len(starts)-1])
		if next < 0 {
			return append(starts, len(text))
		}
		starts = append(starts, next)
	}
}
