// Package text answers: what is a document's text after these edits, and which
// edit leads from one text to another?
//
// Model: a text is a Go string; a [Position] names a place in it as LSP does, by
// line and by code units of an [Encoding] (UTF-16 unless one is named). Lines
// end in \n, \r\n or \r. Everything is a pure function of its arguments.
//
// Invariants: a position resolves to the beginning of a character, never into
// one: a position inside a surrogate pair (or, in UTF-8, inside a character)
// means the beginning of that character, as gopls takes it. A position past the
// end of its line means the end of that line, before its terminator, so nothing
// points between \r and \n. A line past the last means the end of the text.
// Bytes that are not UTF-8 count as one unit each, since U+FFFD is what JSON
// makes of each. What is not touched by an edit keeps its bytes, whatever they
// are. No function's cost depends on the numbers in a position.
//
// Absent on purpose: documents, versions, URIs, who may edit what, limits on the
// size of a text (whoever takes text from outside has them).
//
// Locks and goroutines: none.
package text
