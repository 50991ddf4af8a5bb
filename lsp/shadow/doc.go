// Package shadow answers: how is one hidden language server instance kept in
// exactly the state that a turn wants, and asked in it?
//
// Model: an [Instance] owns one server connection: its ids, its request table,
// the open documents with their texts, the server's registrations, what it
// published last, and the barrier that knows when that is final. Start speaks
// initialize with the person's own parameters, adjusted by the table in
// initialize.go. [Instance.Sync] brings the server from whatever it has to a
// [Target]; [Instance.Diagnose] returns diagnostics that are proven final, or an
// error; [Instance.Forward] passes a request on with another id and other
// progress tokens and every other byte as it was. Requests of the server are
// answered by the table in answers.go.
//
// Invariants: messages leave in the order in which Sync, Forward and the barrier
// sent them. A document's version never repeats in an instance. A document that
// did not change gets no message. Every request is answered once, by the server
// or here; an answer that comes after it was answered here is dropped. The
// reader never waits for the writer: a server that does not read cannot stop us
// from reading, and is given up when the queue overflows.
//
// Absent on purpose: processes (the caller starts one and hands over its stdio),
// views of the files, turns, retries after a crash, what to open for which
// question.
//
// Goroutines of an Instance: reader, writer, one per request of the server that
// has to ask someone. Close ends and waits for all of them.
//
// Locks: Instance.turn (one Sync at a time) → Instance.sending (the order of
// what leaves; the barrier's Observe is called under it, because a barrier must
// not see an answer before its question) → the barrier's mutex → Instance.mu.
// The outbox has a mutex of its own below all of them.
package shadow
