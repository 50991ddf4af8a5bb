package text

import (
	"strings"
	"unicode/utf8"
)

// Diff returns the smallest change of one range that leads from old to new, in
// UTF-16 positions; nil when they are equal. It never cuts a character or a
// \r\n of either text in two.
//
// Where a server might count otherwise than we do up to the end of that range,
// the change carries the whole new text instead: servers disagree on whether a
// lone \r ends a line (LSP says so; gopls counts \n only) and on how long bytes
// are that are not UTF-8. A whole text cannot be misunderstood.
func Diff(old, new string) []Change { return UTF16.Diff(old, new) }

// Diff is the function [Diff] with positions in e.
func (e Encoding) Diff(old, new string) []Change {
	if old == new {
		return nil
	}
	p := commonPrefix(old, new)
	for p > 0 && (cuts(old, p) || cuts(new, p)) {
		p--
	}
	s := commonSuffix(old[p:], new[p:])
	for s > 0 && (cuts(old, len(old)-s) || cuts(new, len(new)-s)) {
		s--
	}
	end := len(old) - s
	if ambiguous(old[:end]) {
		return []Change{{Text: new}}
	}
	r := Range{Start: e.Position(old, p), End: e.Position(old, end)}
	return []Change{{Range: &r, Text: new[p : len(new)-s]}}
}

// cuts says whether i lies inside a character of s or between its \r and \n.
// Every byte that can begin a character is a boundary for the decoder, in text
// that is not UTF-8 as well.
func cuts(s string, i int) bool {
	if i <= 0 || i >= len(s) {
		return false
	}
	return !utf8.RuneStart(s[i]) || s[i-1] == '\r' && s[i] == '\n'
}

// ambiguous says whether positions behind s are counted differently by servers.
func ambiguous(s string) bool {
	if !utf8.ValidString(s) {
		return true
	}
	for {
		i := strings.IndexByte(s, '\r')
		if i < 0 {
			return false
		}
		if i+1 == len(s) || s[i+1] != '\n' {
			return true
		}
		s = s[i+2:]
	}
}

// stride is how many bytes are compared at once: == on strings compares whole
// registers, a loop over bytes does not.
const stride = 256

func commonPrefix(a, b string) int {
	n, i := min(len(a), len(b)), 0
	for i+stride <= n && a[i:i+stride] == b[i:i+stride] {
		i += stride
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

func commonSuffix(a, b string) int {
	n, i := min(len(a), len(b)), 0
	for i+stride <= n && a[len(a)-i-stride:len(a)-i] == b[len(b)-i-stride:len(b)-i] {
		i += stride
	}
	for i < n && a[len(a)-1-i] == b[len(b)-1-i] {
		i++
	}
	return i
}
