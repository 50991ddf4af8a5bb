// Package coverage answers: does an agent get the same answers as a client of the
// bare server, for everything that a server can be asked?
//
// Model: tests only. For each server there is a small project. A plain client asks
// the bare server in a copy of it, an agent asks through shadowlsp on a branch
// without edits; both have the same documents open and the same capabilities. They
// are asked the same questions: per document (symbols, tokens and their delta,
// hints, formatting, links, lenses, folding), per position (hover, all kinds of
// definitions, references, highlights, completion, signatures, renames, code
// actions, hierarchies), and what follows from the answers (resolving items, calls
// of a hierarchy), each side with the items that it was given. The answers are
// compared as JSON, with the folder's name put in one form.
//
// Invariants: what is left out of the comparison is a table beside the code that
// does it. Where answers have no order, both are sorted. A question is asked anew
// while the answers differ and the bare server may be loading, a few times. A second
// bare server is asked as well: what the two of them do not agree upon is counted
// and listed, and says nothing about the agent.
//
// Commands of code actions are executed, and what they have each side edit is
// compared; code actions are also asked for at each diagnostic. Semantic tokens are
// compared by what their numbers stand for, and at the end once more after edits, as
// deltas.
//
// Several servers behind one connection are asked the same (TestMergedAnswers);
// symbols of the workspace come from all of them. And commands are executed in several
// servers at once, by several agents, to whom the edits come back that belong to them.
//
// Absent on purpose: diagnostics (integration/oracle), figures.
//
// `go test` asks at some positions of each file; SHADOWLSP_COVERAGE=full (make
// coverage) at every one.
//
// Locks and goroutines: none of its own.
package coverage
