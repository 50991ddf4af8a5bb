// Package barrier answers: what proves, for this language server, that it has
// loaded, and that the diagnostics it has sent are final?
//
// Model: a [Profile] is what is known about one server: how to recognise it,
// which settings and arguments a shadow of it needs, which languages it takes,
// and how to make its [Barrier]. A Barrier sees every message of one instance in
// wire order ([Barrier.Observe]) and blocks its callers until what they ask for
// is proven. It talks to the instance through the small [Host]. What a server does
// not take in by its messages alone a Barrier may ask to hear ([Toucher]) and to do
// something about ([Settler]). One file per
// server; the file's comment on the barrier says what proves finality, and where
// in the server's source that is to be read. For a server without a file there
// is the ladder (ladder.go), which names the rung it stood on, so that a reader
// knows how strong the proof is.
//
// Invariants: silence is never proof: Final returns nil only after a signal that
// the server sends behind the diagnostics for our last modification, or, on the
// ladder's last rung, after a stated time without messages that followed such a
// signal, and then says "quiet". A time-out is an error. A barrier that has
// proven a state answers again at once until something is modified.
//
// Absent on purpose: connections, documents and the published table (package
// shadow has them), retries of a whole turn, time-outs of callers (they have a
// ctx), and what to open for which question (the workspace knows the files).
//
// Locks: each Barrier has one mutex (in [watch]). Observe is called while the
// host holds the lock that orders its sends, so the order is: the host's send
// lock, the barrier's mutex, the host's table lock. A Barrier calls
// [Host.Documents], [Host.Published] and [Host.Table] whenever it likes, but
// [Host.Call] and [Host.Notify] never under its own mutex. No goroutines.
package barrier
