// Package command answers: how does a command run in a branch as if it ran in the
// person's folder?
//
// Model: a [Host] is the daemon's side. For each branch in which commands run,
// and each kind of network, it has a keeper (sandbox.Keeper): namespaces with a
// fixed view of the branch, warm for the next command. [Host.Start] makes of a
// [Command] a [Running] in there. [Call] is the side of `shadowlsp exec`: it hands
// its own stdin, stdout and stderr over the control socket, so that the command
// has the caller's very descriptors and no byte passes through us, or else joins
// its terminal to one that the command gets.
//
//	shadowlsp exec ── control.sock (Order →, ← Event) ── Host ── keeper ── init ── CMD
//	      └── stdin, stdout, stderr ────────────────────────────────────────┘
//
// Invariants:
//   - When the caller, the daemon or the command ends, by kill -9 as well,
//     everything that the command started has ended: it is in a pid namespace of
//     its own, whose init is on the daemon's leash, as the command is on the
//     caller's connection.
//   - A command starts in the folder as it is when it is asked for: the person's
//     changes, and the branch's, are shown before it looks.
//   - What the machine cannot give is told to the caller with what is lost
//     ([Event].Lacks), or refused where it asks to be strict.
//   - The daemon's own files, other branches' layers and other branches' sockets
//     are out of reach. A command reaches the agent port by its branch's own
//     socket, which attaches to no other branch.
//
// Absent on purpose: what a branch is and who may drop it (workspace), what a
// view shows (fusefs), what keeps a program in (sandbox), flags and the
// environment (cmd).
//
// Goroutines: a keeper has one, which ends with it, and one per connection to
// its branch's socket; Host.Close waits for all. Host.Serve and Call end all that
// they start, but for a Call's read of the terminal, which ends with the process.
// Lock: Host.mu guards the table of keepers; nothing is called under it.
package command
