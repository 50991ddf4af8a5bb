// Package front answers: how does a person's editor run its real language server
// while a daemon listens, and nothing of the person's session changes?
//
// Model: three parts, each of which may fail without the ones before it.
//
//	editor ── pump ── server        chunks of bytes, and nothing else
//	           │ tape (bounded; drops and counts)
//	        courier                 frames, trace, what must be remembered
//	           │ outbox (bounded; drops and counts)
//	         sender ── daemon       joins, starts, joins again
//
// The pump copies what comes in chunks, as bytes: it knows no frames. Before a
// chunk is written on, it is copied once onto a [tape] (so that a question is on
// tape before its answer can be), for which the pump takes no lock and makes no
// system call. The courier takes the tape apart into frames with a [framer],
// which after missing or malformed bytes trusts nothing until a whole frame of
// JSON has come. What must reach a daemon whenever it comes is kept in a
// [memory]. The sender finds the root, joins or starts the daemon, and joins
// again when the connection breaks; it starts one once only: a daemon that was
// stopped on purpose stays stopped.
//
// [Receive] is the other end of the sender's connection, for the daemon.
//
// Invariants:
//   - What the server reads, and what the editor reads, is what the other wrote,
//     whatever it is.
//   - The pump holds at most one chunk in each direction: who does not read makes
//     the other wait as a pipe would.
//   - Nothing in the pump waits for the courier, nothing in the courier waits for
//     the sender. Memory is bounded by the sum of maxTape (twice), maxFrame (a
//     few times), maxOutbox, maxMemory and the trace's queue, whatever the
//     daemon does.
//   - A panic in courier or sender ends those, is logged, and leaves the pump.
//   - [Run] returns when the server has ended and what it wrote is written on,
//     whatever the daemon does. Who ends the server by a signal and reads no more
//     does not wait: such a server, blocked in a write, would be gone as well.
//
// What differs from running the server directly, on purpose or because it must:
//   - The server's stdin and stdout are pipes, also where the editor's are
//     sockets, files or a terminal.
//   - Two more pipes hold up to 64 KiB each, and two chunks are on their way: a
//     writer notices one write later that the other side reads no more.
//   - A signal that the whole process group gets reaches the server twice, by the
//     group and by us, except those of a terminal's keys (see passSignals).
//   - Signals that the editor ignores, other than SIGHUP and SIGINT, have their
//     default action in the server: the Go runtime forgets what it inherits.
//   - A server that was killed by a signal reports no core dump.
//   - When the server has ended but a child of it still holds its stdout, what
//     that child writes later is lost.
//   - A front killed by SIGKILL takes the server along (PR_SET_PDEATHSIG): the
//     editor that kills a hung server must not leave it behind, spinning.
//
// The user lane of a trace is written here, not by the daemon: here nothing is
// missing. The daemon writes the other lanes, to the same file if it wants.
//
// Absent on purpose: any opinion on messages beyond the few that are remembered,
// any answer to either side, retries towards the server, flags and environment.
//
// Locks and goroutines: Run's own goroutine (it is tied to its thread) starts the
// server and waits for it. Two pumps: the one of stdout ends before Run does, the
// one of stdin may stay blocked in a read for ever, which is why the caller of
// Run ends the process. Signals, courier, sender and the sender's reader are
// owned by Run, told to end when it ends, and not waited for beyond farewell.
// Two mutexes, outbox.mu and that of the trace's sink, are never held together
// nor while waiting; the pump takes neither.
package front
