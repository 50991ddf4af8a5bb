package daemon

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"unicode/utf16"
)

// units is a text as LSP counts it: lines of UTF-16 code units, each with its
// terminator. It is slow and obvious, and has nothing in common with lsp/text.
type units [][]uint16

func unitsOf(text string) (u units) {
	line := []uint16{}
	all := utf16.Encode([]rune(text))
	for i := 0; i < len(all); i++ {
		line = append(line, all[i])
		if all[i] == '\r' && i+1 < len(all) && all[i+1] == '\n' {
			i++
			line = append(line, '\n')
		}
		if all[i] == '\n' || all[i] == '\r' {
			u, line = append(u, line), []uint16{}
		}
	}
	return append(u, line)
}

// offset is a position's place in all units together.
func (u units) offset(line, character int) int {
	before := 0
	for i, l := range u {
		if i == line {
			end := len(l)
			for end > 0 && (l[end-1] == '\n' || l[end-1] == '\r') {
				end--
			}
			return before + min(character, end)
		}
		before += len(l)
	}
	return before
}

// replace makes an edit as an editor does.
func replace(text string, fromLine, from, toLine, to int, with string) string {
	u := unitsOf(text)
	all := utf16.Encode([]rune(text))
	start, end := u.offset(fromLine, from), u.offset(toLine, to)
	return string(utf16.Decode(all[:start])) + with + string(utf16.Decode(all[end:]))
}

func ranged(fromLine, from, toLine, to int, with string) any {
	return map[string]any{"text": with, "range": map[string]any{
		"start": map[string]int{"line": fromLine, "character": from}, "end": map[string]int{"line": toLine, "character": to},
	}}
}

// within is the text of a range.
func within(text string, d diagnostic) string {
	u, all := unitsOf(text), utf16.Encode([]rune(text))
	r := d.Range
	return string(utf16.Decode(all[u.offset(r.Start.Line, r.Start.Character):u.offset(r.End.Line, r.End.Character)]))
}

// Positions go through the whole stack: an agent's UTF-16 changes, our text, the
// smallest change that goes to gopls, and the diagnostics' positions back.
func TestPositionsThroughTheWholeStack(t *testing.T) {
	w := shared(t)
	for _, newline := range []string{"\n", "\r\n"} {
		t.Run(fmt.Sprintf("%q", newline), func(t *testing.T) {
			a := w.agent(t, attach{})
			text := strings.ReplaceAll("// Package own has 😀 and é.\npackage own\n\n// A is 𝔘.\nvar A = \"😀😀é\" + undef0\n\n/* 𝔘😀 */ var B = undef1\n", "\n", newline)
			version := 1
			a.open(t, "own/own.go", text, version)
			check := func(what string, words ...string) {
				t.Helper()
				if got := a.file(t, "own/own.go"); got != text {
					t.Fatalf("%s: the branch has\n%q\nand the agent\n%q", what, got, text)
				}
				ctx := t.Context()
				r, err := a.tryLint(ctx, "own/own.go")
				must(t, err)
				seen := []string{}
				for _, d := range r.Items {
					if d.Severity == 1 {
						seen = append(seen, within(text, d))
					}
				}
				if strings.Join(seen, " ") != strings.Join(words, " ") {
					t.Fatalf("%s: the diagnostics stand at %q, want %q; the text is\n%s", what, seen, words, text)
				}
			}
			change := func(fromLine, from, toLine, to int, with string) {
				t.Helper()
				version++
				a.change(t, "own/own.go", version, ranged(fromLine, from, toLine, to, with))
				text = replace(text, fromLine, from, toLine, to, with)
			}
			check("as opened", "undef0", "undef1")
			change(4, 9, 4, 11, "𝔘") // one surrogate pair for another
			check("a pair replaced", "undef0", "undef1")
			change(6, 3, 6, 3, "é") // before a pair
			check("before a pair", "undef0", "undef1")
			change(4, 100, 4, 200, " + undef2") // past the end of the line: its end
			check("past the end of a line", "undef0", "undef2", "undef1")
			change(100, 0, 100, 7, "var C = undef3"+newline) // past the end of the text
			check("past the end of the text", "undef0", "undef2", "undef1", "undef3")
			change(4, 0, 5, 0, "") // a whole line with its terminator
			check("a line removed", "undef1", "undef3")
			change(2, 0, 2, 9, "var D = undef4 // 😀"+newline) // an empty line, and its terminator stays
			check("an empty line filled", "undef4", "undef1", "undef3")
			// Several changes in one notification, each on the result of the one before.
			version++
			a.change(t, "own/own.go", version, ranged(0, 0, 0, 0, "// 😀"+newline), ranged(0, 3, 0, 5, "𝔘𝔘"), ranged(0, 5, 0, 7, ""))
			text = replace(replace(replace(text, 0, 0, 0, 0, "// 😀"+newline), 0, 3, 0, 5, "𝔘𝔘"), 0, 5, 0, 7, "")
			check("three changes at once", "undef4", "undef1", "undef3")

			// At random, on the lines of comments, so that Go stays Go.
			random := rand.New(rand.NewSource(7))
			pieces := []string{"", "x", "😀", "é𝔘", "// ", "ab c"}
			for range 60 {
				u := unitsOf(text)
				line := u[0]
				end := len(line) - len(newline)
				from := 2 + random.Intn(end-1)
				to := min(from+random.Intn(4), end)
				// Never inside a pair: what that means is not defined.
				for from < end && utf16.IsSurrogate(rune(line[from])) && line[from] >= 0xdc00 {
					from++
				}
				for to < end && utf16.IsSurrogate(rune(line[to])) && line[to] >= 0xdc00 {
					to++
				}
				change(0, from, 0, max(from, to), pieces[random.Intn(len(pieces))])
			}
			check("after edits at random", "undef4", "undef1", "undef3")
			version++
			a.change(t, "own/own.go", version, whole("package own"+newline))
			text = "package own" + newline
			check("a whole text")
		})
	}
}

// Edits of shadowlsp/write and shadowlsp/lint are in UTF-16 positions as well,
// all against the text before.
func TestEditsOfOurOwnRequests(t *testing.T) {
	w := shared(t)
	a := w.agent(t, attach{})
	text := "package own\r\n\r\nvar S, T = \"😀é\", undefA\r\n"
	a.edit(t, w.text("own/own.go", text))
	edits := []any{
		map[string]any{"newText": "undefB", "range": map[string]any{"start": map[string]int{"line": 2, "character": 18}, "end": map[string]int{"line": 2, "character": 99}}},
		map[string]any{"newText": "𝔘", "range": map[string]any{"start": map[string]int{"line": 2, "character": 12}, "end": map[string]int{"line": 2, "character": 14}}},
	}
	found := a.editAndLint(t, []fileEdit{{"uri": w.uri("own/own.go"), "edits": edits}}, "own/own.go")
	want := "package own\r\n\r\nvar S, T = \"𝔘é\", undefB\r\n"
	if got := a.file(t, "own/own.go"); got != want {
		t.Errorf("the branch has %q, want %q", got, want)
	}
	if why := judge(errorsIn(found["own/own.go"]), "undefB"); why != "" {
		t.Error(why)
	}
	for _, d := range found["own/own.go"] {
		if d.Severity == 1 && within(want, d) != "undefB" {
			t.Errorf("the diagnostic stands at %q", within(want, d))
		}
	}
	// Overlapping ones are refused, and nothing is changed by the good one beside.
	bad := []any{edits[0], edits[0]}
	a.refused(t, "shadowlsp/write", map[string]any{"edits": []fileEdit{w.text("lib/lib.go", "x"), {"uri": w.uri("own/own.go"), "edits": bad}}})
	if got := a.file(t, "own/own.go"); got != want {
		t.Errorf("after a refused edit the branch has %q", got)
	}
	if got := a.file(t, "lib/lib.go"); got != module["lib/lib.go"] {
		t.Errorf("the edit beside a refused one was made: %q", got)
	}
}
