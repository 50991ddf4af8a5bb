// Package overlay answers: what does branch B hold at path P?
//
// # Model
//
// A [Store] owns a state directory and looks at one base directory. A [Branch]
// is a chain of layers over the base: top, frozen layers, base. Reading
// resolves down the chain, writing touches only the top. Every layer is a real
// directory in the format of an overlayfs upper directory (character device
// 0/0 for a deletion, user.overlay.opaque, user.overlay.redirect,
// user.overlay.metacopy), so the directory is the truth: people and the kernel
// can read it, and it survives a kill -9. An index of names per layer, in
// memory, makes look-ups cheap; what is not overridden costs nothing.
//
// Forking freezes the parent's top; parent and child get new empty tops. A
// checkpoint is a chain that is remembered; rolling back puts a new top on it.
// Frozen layers are counted by the chains and pins that use them and deleted
// with the last.
//
// A [Node] is one content version of one path, a plain value. Node.Version
// names that version: the number of an override is never given twice in a
// process, that of a base file is derived from its device, inode, size, mtime
// and ctime; that of a directory from the object only, so that it stays the
// same while its entries change, and is that of the base directory while the
// base directory shows through. Node.Stamp changes with every change that the
// branch makes to bytes or attributes of the object. Writing through an open
// file changes an override in place: same Version, other Stamp.
//
// # Invariants
//
//   - The base is written by [Branch.Apply] alone, and its content never cached:
//     each look-up asks it again, relative to a descriptor taken at Open. No look-up follows a
//     symlink: a path through one is NotDir, as the kernel (which resolves
//     links itself, above a file system) would never ask for it.
//   - Every path-changing operation is atomic against a kill of the process:
//     it is one rename, or it is announced in the intent log and completed or
//     undone by the next Open, which reports it as a [Repair].
//   - A frozen layer never changes. A file that is open for writing when its
//     layer is frozen goes on in the new top; the frozen layer keeps a copy.
//   - Names user.overlay.* and files of the layers' own bookkeeping are never
//     visible through a branch.
//
// # Times and inode numbers
//
// Files of the base show their own, but never an earlier mtime than they showed
// before: then they show the present. Of a folder with CACHEDIR.TAG they show none
// later than the branch's beginning (outputs.go). A version that the branch makes (an
// agent's write, the first copy) has an mtime and ctime that no other version
// in the store has, later than those of the version it replaces, and not in
// the whole second of the base file's mtime; when the replaced version was
// opened, not in that version's second either (Python compares whole seconds).
// Programs that set times get the times they set. WriteFile of exactly what
// the base holds drops the override: reading falls through to the live base
// again, but the path shows the time of the revert (a metacopy entry) for as
// long as the base file itself is older, because make and cargo trust an mtime
// that moves forward. A directory that merges shows the base's times until the
// branch changes an entry in it.
//
// An override shows the inode number that the path had before: the base's
// where it covers a base file, else that of the version replaced. A file that
// is created gets a number of its own, never used before, as in any file
// system: programs compare inode numbers to see that a lock file was replaced.
// Renaming keeps the number. A merged directory has link count 1.
//
// # Applying
//
// A layer remembers each file of the base as it was when the branch first covered
// or hid it; what has changed since is a [Conflict]. [Branch.Apply] writes new
// files out of sight, notes what it is about to do, and then makes one rename for
// each path, which takes back what is not as the plan found it. It is all or
// nothing: an error takes back what was done, a kill lets the next Open do so, or
// go on from where everything was done. Then the overrides go whose files the base
// holds by now, without the branch ever showing anything else in between.
// Directories that branches moved are cut off from the base before it changes.
//
// # Absent on purpose
//
// Errno values and FUSE (fusefs), watching the base, permission checks beyond
// those that the state directory's file system makes, any opinion about which
// branch is wanted when. Content of the base cannot be pinned: hold the
// descriptor from [Node.Open]. Hard links of the base are separate files once
// one of them is overridden, and hard links of a frozen layer likewise, as in
// overlayfs.
//
// # Locks
//
// In this order, each optional:
//
//	Store.applying   held by the one who changes the base
//	feed.deliver     one per branch; held while subscribers are called
//	Branch.write     one per branch; serialises mutators, freezing, rollback;
//	                 held during the copying of large files
//	layer.mu         one per layer; guards its index and the names in its
//	                 directory; held shared by look-ups, exclusively for the
//	                 one rename that commits a change
//	feed.mu          one per branch: revision, subscribers, pending changes
//	Store.mu         tables: branches, reference counts, pins
//	beneath.mu       keeps a descriptor open during a call
//
// Two write locks are never held together. Two layer locks are held together
// only while freezing (the old top, then the new one, which nobody else knows
// yet). The package has no goroutines. All methods may be called from any
// goroutine; subscribers are called on the goroutine that changed the branch,
// after the change, in order, and may read the branch but not change it.
package overlay
