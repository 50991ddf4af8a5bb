// Package lsptest answers: how does our code behave with a server, or a client,
// that does what we want to see?
//
// Model: a [Server] speaks LSP for a toy language, honestly or by [Rules]: it
// crashes, stalls, lies, publishes late, sends requests. It runs in the test's
// own process over a pipe ([Start]), or as a process of its own, which is the
// test binary again ([Main], [Command]). A [Client] is a small editor or agent
// over any stream: it opens, changes, calls, and awaits expectations, each of
// which is Met, Unmet or Unmeetable, so that a test fails as soon as it is lost
// and not when its time is over. The messages of a client are printed only if
// its test fails.
//
// The toy language: a line "def NAME" defines a name, "use NAME" needs one that
// some file defines, "error TEXT" is an error. Its files end in ".toy".
//
// Invariants: nothing sleeps to make something likely; a delay is one that the
// test asked for and that a fake clock can pass. A server's answers depend only
// on what it was told and on the files of its folder when it was told of them.
//
// Absent on purpose: real servers (integration and the rooms' own tests run
// them), assertions about how our code does what it does.
//
// Goroutines: Server: one that reads and one per delayed publish, ended by
// Serve; Client: one that reads and one that writes, ended by Close. Locks: one mutex each; nothing is
// sent while it is held.
package lsptest
