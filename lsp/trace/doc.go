// Package trace answers: what passed on every lane, and what happened between?
//
// Model: a trace is a file of lines, each one JSON object, an [Event]. A message
// is {"ts","lane","branch","instance","dir","msg"}, anything else (a turn, a
// switch, a barrier) {"ts","lane","event",…fields}. A [Sink] appends to the file
// from a goroutine of its own; several processes may append to one file, since
// each line is one write to a descriptor opened with O_APPEND. So lines of one
// Sink stand in order, lines of several are to be ordered by "ts".
//
// Invariants: no call on a Sink blocks on the file, whatever it is (a full disk,
// a pipe that nobody reads): what does not fit the queue is dropped, counted,
// and the count written as {"event":"dropped","count":n} where it is missing. A
// message is the bytes that passed, less the white space between its tokens (a
// line must be a line); what is not JSON stands as a string in "raw". A nil
// *Sink is valid, does nothing and allocates nothing. A [Tap] is for who may be
// asked for a trace, for another or for none while it runs.
//
// Absent on purpose: rotation, size limits of the file (whoever asks for a dump
// owns it), filters, other formats. Reading a trace back and turning it into
// what viewers open starts from [Event], which decodes what it encodes.
//
// Locks and goroutines: one goroutine per Sink, from [Open] to [Sink.Close]. One
// mutex, held to append to the queue or to take it; never while encoding,
// copying or writing. A Tap's mutex is held while its Sink is exchanged, by those
// alone who exchange it, and before the Sink's.
package trace
