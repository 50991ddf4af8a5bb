// Package union answers: how do several language servers look like one?
//
// Model: functions on raw JSON. [Initialize] makes one answer to initialize of
// several; [Answers] makes one answer of those to one request that all were
// asked; [Tag] and [Untag] mark what comes back with a later request (an item to
// be resolved), so that it reaches the server it is from; a [Mapping] puts the
// numbers of one server's semantic tokens into those of the common legend. One
// table, [Methods], says which capability stands for which method.
//
// Invariants: what is not named keeps its bytes; Untag gives back what Tag was
// given, byte by byte; of one server alone nothing is changed. An answer that is
// not understood is passed on as it is.
//
// Absent on purpose: connections, documents, which server takes which document.
//
// Locks and goroutines: no goroutines, no locks.
package union
