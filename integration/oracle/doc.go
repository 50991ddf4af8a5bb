// Command oracle answers: are the lints that shadowlsp hands out, and its answers to
// other questions, those of a fresh server on a real copy?
//
//	oracle [-shadowlsp FILE] [-server NAME,…] [-steps N] [-seeds N] [FLAGS]
//
// Model: a [Server] is data: a language server, a real project, and a [Grammar]
// of small random edits. A run (oracle.go) has several branches, each with an
// agent of its own at the port of a real daemon with real mounts. Each step makes
// one edit on one branch and asks for the lints of the edited file, of files that
// mention what was edited, and at times of the whole workspace, and some other
// questions about these files: hover, references, a rename ([feature]). For servers that
// believe what is built (build.go) the person builds in the folder meanwhile. The state that
// was asked about goes to a [reference]: a new process of the bare server on a
// new copy of the project with the same files changed, and the same open. What
// the two say is compared document by document and diagnostic by diagnostic, other
// answers item by item.
//
// The reference knows nothing of barriers. It opens the documents as an editor
// does and then waits until the server has nothing more to do: no thread of it
// or of its children runs, no progress is open, nothing has come for a while
// (sandbox.Busy). That is slow and works for every server alike.
//
// Where the two differ, bare servers are started again on the same state, each in
// another [Way]: the documents opened in another order, and what is known of the
// server to decide (its caches, the texts before), as data. A difference is
// explained if one of them says what shadowlsp said, or, in parts, if each
// diagnostic in which the two differ is said by one bare server and not by
// another; then it is the server that disagrees with itself. Any other is not, and
// the exit status says so.
//
// Invariants: normalising sorts, takes the folder's name out of messages and
// drops the server's own note to itself ("data"); nothing else of a diagnostic is
// changed. Of other answers versions of documents are left out, too, and of symbols
// those that only resemble the word. A lint that was refused is counted and listed, never taken for
// equal. The same seed makes the same edits, whatever is asked, so a long run can
// be made in pieces (-for, -from).
//
// Absent on purpose: barriers, mounts, policy; anything that is known of one
// server in code.
//
// Goroutines: one worker per -jobs, ended when the run returns; locks: that of
// [verdicts], and that of each reference's table.
package main
