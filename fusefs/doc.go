// Package fusefs answers: how does a branch look to a program, and when does it
// see a change?
//
// # Model
//
// A [View] serves one FUSE mount and shows one branch at a time; the mount
// itself is made elsewhere, in the namespace of the programs that look at it.
// What the kernel calls an inode is a node here: one content version of one
// path. A name that shows other content gets another node, with the same
// st_ino, so a switch changes which node a name resolves to, and what is open
// or mapped keeps what it had. A node is written in place only by those who see
// the same file: the descriptors of its own branch.
//
// The kernel may keep names, attributes and pages for an hour, and is told when
// they change:
//
//	the view's own writes       the kernel knows, it asked for them
//	others' changes of the      by the overlay's subscription, when the change
//	branch (agents, other       is made; [View.Settled] waits until the kernel
//	views)                      has taken it
//	changes of the base         by a watch on each directory that was looked
//	                            into; [Base.Sync] waits likewise
//	another branch              [View.Switch], which returns when all is told
//
// Programs that watch files in the view hear of others' changes by a poker
// ([View.SetPoker]), a thread beside them that does, and is told it did, what
// makes the events.
//
// A directory that cannot be watched gets no time-outs: slower, never stale.
//
// The kernel opens and closes files and directories by itself, without a round
// trip. A file is therefore treated as open from its first look-up until the
// kernel forgets it (noopen.go), and a directory is read by position alone
// (dir.go). What is written to a node that is in a branch's own layer goes there,
// whatever is shown. A node that several branches show (a file of the base, or
// one that was forked) becomes that of the branch that is shown at the first
// write, which is when it is copied; the others find their version as another
// node.
//
// # Invariants
//
//   - No node id is given twice, and none to another path's content.
//   - A node answers a look-up only if what the kernel has cached for it is
//     right: it was seen under the present branch, or has not changed since.
//   - State is changed first and the kernel told after; it is told by one
//     goroutine, which holds no lock of ours meanwhile, and never by one that
//     answers it (but for one case, in which nobody can wait: dir.go). The
//     kernel holds a directory's lock during a look-up and a page's during a
//     read, and takes the same for a notification: the answer computed before a
//     change is therefore in the kernel's caches before the notification empties
//     them.
//   - Nothing here touches a path inside a view: the base is read relative to a
//     descriptor, by a process that does not see the mount.
//   - A name that the kernel may know not to exist is in its directory's absent.
//   - A directory is watched before it is looked at.
//
// # What is not promised
//
// A file of the base that is written in place while a program in a view has it
// open shows the new bytes there, as it does outside. A write through mmap
// outside is noticed when its descriptor is closed, and a write through another
// hard link not at all unless that link's directory is watched too. A listing
// that takes several calls is, at each, of that moment. A switch makes no events
// for watchers in the view, and neither do lost events of the base.
//
// A descriptor that a program keeps over turns sees what is later written in
// place, without truncating, into a file that both branches showed, and so does a
// mapping: they are one node. What was written into a shared mapping of such a
// file in one turn, and is handed over by the kernel in the next only, belongs to
// the next (unless the file was handed over before): call Quiesce, where it
// matters, for files that were written through before.
//
// A file of the base that the person replaces or removes is read on by those who
// have it open only while our descriptor of it lasts (those of the files read
// last are kept); after that, where the kernel has no page, reading fails with
// ESTALE. And what was written into a mapping, and nowhere else in that file, is
// in the layer when the mapping or its process ends, not when Quiesce returns.
//
// # Absent on purpose
//
// Namespaces and mounting (internal/sandbox), layers (overlay), file locks (the
// kernel's own: they hold between the processes of one mount and do not reach
// the person's folder), readdirplus (slower), the write-back cache (other views
// would not see what is written), passthrough (it needs an open).
//
// # Locks and goroutines
//
//	View.switching   one Switch or Close at a time
//	View.moving      shared: an operation that resolves paths; exclusive: a
//	                 rename, or the moment of a switch
//	openFile.mu      one per node; held while its file is read, copied, opened
//	overlay's own
//	Base.mu, watcher.mu, teller.mu, pokes.mu, table.mu, fileCache.mu, listings.mu,
//	trial.mu
//	                 innermost, each alone
//
// A View owns two goroutines (go-fuse's readers, and the teller that notifies)
// and a Base one (the reader of events); Close waits for them.
package fusefs
