// Package sandbox answers: how does a program come to run with a shadow folder
// where the person's folder is, and nothing of it survive?
//
// Model: [Start] runs this very binary again, as an init (pid 1) in namespaces
// of its own: mount and pid always, user where the caller may not mount. The
// init mounts FUSE over the root's real path, hands the device's descriptor back
// over a socket and waits. The caller begins to serve the descriptor, then calls
// [Process.Exec]: only now does anything look into the mount. The init changes
// directory, gives up its rights, starts the program and stays behind as its
// reaper.
//
//	daemon ── socket ── init (pid 1 of its own namespace) ── program ── children
//	   └── FUSE descriptor of the mount that only these see
//
// Invariants:
//   - The daemon's own namespace never sees the mount, so it cannot be left
//     behind there and the daemon cannot recurse into it.
//   - The FUSE descriptor exists in one process only, the daemon. The init
//     closes its copy before it says so, and both copies are close-on-exec: when
//     the daemon dies, the kernel ends the connection and nobody waits on it.
//   - The socket is the leash. When it ends, for whatever reason, the init exits
//     and the kernel kills every process of the namespace with it.
//   - The program can neither unmount the view nor mount over it.
//   - Nothing runs in the view before Exec, so serving never waits for a process
//     that waits to be served.
//
// As an ordinary user the program has no capabilities, and files of other
// owners show as nobody. As root it stays root, with every capability but
// CAP_SYS_ADMIN (it could unmount the view), CAP_SYS_PTRACE (it could drive the
// init, which still has it) and CAP_DAC_READ_SEARCH (open_by_handle_at reaches
// the person's file behind the view; reading any file is CAP_DAC_OVERRIDE's
// part, and stays). None of these changes what a program run by root may read
// or write in the person's folder. Both kinds run with no_new_privs.
//
// Without a pid namespace ([Spec.NoPIDNamespace], for kernels that forbid it)
// the init is a subreaper instead: it finds and kills what it can see, but a
// program that kills the init first, or forks faster than it is killed, gets
// away. [Probe] says so.
//
// Without a view ([Spec.NoView], the mode in which servers see the person's own
// files) the folder is mounted read-only where there are namespaces, else
// Landlock refuses writing to it; [Process.Guard] says which holds, or that
// nothing does.
//
// The init also has the poker, a thread that makes file events where processes
// of the namespace watch files (fusefs.SetPoker). It reads a few descriptors'
// names in /proc and opens files of the mount for writing without writing.
//
// A [Keeper] is an init without a program: it has the namespaces (network and
// IPC too), the view, and what surrounds programs in it, and starts further inits
// in pid and mount namespaces below its own, one per command, each on a leash of
// its own:
//
//	daemon ── socket ── keeper ─┬─ init ── command ── children
//	   ├────── socket ──────────┘
//	   └────── socket ───────────── init ── …
//
// Around commands ([KeeperSpec], [Confine]) everything is mounted read-only but
// the view, temporary directories in memory, the home with what is written there
// in memory too (overlayfs), and what is named; the daemon's own
// directories, and sockets on which others listen, are covered; terminals are of
// an own kind (devpts); Landlock keeps device files, mounting, and in a shared
// network abstract sockets out of reach, and is the second lock on files. What
// the machine refuses of this is told ([Process.Lacks]), or is an error
// where it is asked to be. Limits are set on a command that is stopped at its
// first instruction, so the init keeps room to breathe.
//
// Absent on purpose: what a view shows (fusefs), what a branch holds (overlay),
// which command runs when (command), cgroups (an ordinary user has them only
// where somebody has set them up).
//
// Goroutines: a Process has one, which reads the socket and collects the init;
// it ends when the init has, and Wait waits for it. The init's are its own
// process.
package sandbox
