// Package agent answers: what does an agent see of its branch, as an ordinary
// language server?
//
// Model. [Listen] makes the addresses, [Serve] runs one connection to its end.
// A connection is a handshake (LSP framing, initialize, token), then messages
// in order. Notifications about documents and the first halves of questions are
// handed to the [Session] one by one, in the order of arrival; the second
// halves (see [Pending]) run at once, so answers come in any order. The room
// keeps the text of every open document, applies incremental changes to it, and
// tells the Session whole texts only. Diagnostics are pulled, or pushed to
// clients that do not declare pull. One table (methods.go) names the methods
// that are interpreted; all others are forwarded raw. [Join] is the other end,
// for `shadowlsp connect`.
//
// Invariants:
//  1. Nothing is written before the peer has sent the beginning of an LSP
//     header: a web page's request finds no one to talk to.
//  2. Nothing reaches the [Backend] before the token was right.
//  3. A question sees every edit that the agent sent before it; an edit that
//     came after it is handed over after it.
//  4. Every request gets exactly one response, whatever the Session does, as
//     long as the connection can carry it.
//  5. An edit that could not be taken (malformed, over a limit, refused by the
//     branch) is told to the agent, and questions that would be answered from
//     the wrong text are refused until the agent sends the whole text or closes
//     the document. A document that can never be in a branch concerns only the
//     questions that name it.
//  6. Diagnostics are handed out under the verdict fresh only; none are
//     published for a version that the agent has replaced.
//  7. An agent that does not read costs [Limits.Outgoing] bytes and then its
//     connection, never anyone's time.
//  8. What Serve started has ended when Serve returns.
//
// Absent on purpose: branches, servers, turns, the meaning of a path; work-done
// and partial-result tokens inside forwarded requests (lsp/shadow maps them);
// dynamic registrations; flags, files and environment.
//
// Goroutines and locks. A connection has three goroutines: the reader (frames,
// cancellations, responses to our calls), the dispatcher, which owns documents
// and diagnostics and makes every call of the Session, and the writer; beside
// these one per unanswered request. Locks, never held together: the inbox's,
// the outbox's, the request table's and the call table's. Nothing is called,
// sent or logged under them.
package agent
