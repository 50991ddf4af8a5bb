// Package wire answers: where does one LSP message begin and end, and what is it?
//
// Model: a stream is a sequence of frames (a header block with Content-Length,
// then one JSON value). [Reader] and [Writer] move whole frames; [Parse] looks
// at the envelope of a frame without decoding the payload. Everything that is
// passed on stays the bytes that came: unknown members, spelling of numbers and
// order of keys survive. Where an id must change, [Message.WithID] replaces
// just the bytes of that id.
//
// Invariants: a frame handed out by [Reader] is owned by the caller; a frame
// larger than the limit is refused before memory is taken for it; a [Message]
// aliases the frame it was parsed from and is valid as long as that is not
// changed.
//
// Absent on purpose: connections, request tables, typed LSP structures, any
// opinion about methods. The user lane does not use this package to forward: it
// copies bytes.
//
// Locks: Writer has one mutex, held for one write. Nothing else is shared.
package wire
