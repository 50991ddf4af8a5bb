package overlay

import "os"

// Time is a file time, as the kernel has it.
type Time struct {
	Sec  int64
	Nsec uint32
}

// Attr is what stat(2) shows of a path in a branch.
type Attr struct {
	Mode                uint32 // type and permission bits as in stat(2)
	Nlink               uint32
	UID, GID            uint32
	Rdev                uint64
	Size                int64
	Blocks              int64 // of 512 bytes
	BlockSize           uint32
	Ino                 uint64
	Atime, Mtime, Ctime Time
}

// Node is one content version of one path: a value, valid for ever, though its
// methods fail with Stale once the object it stands for is gone.
type Node struct {
	Path    string // in the branch it was looked up in
	Version uint64 // identity of the content version (see package doc)
	Stamp   uint64 // changes with every change of bytes or attributes
	Attr    Attr   // at the time of the look-up

	branch *Branch
	file   *file  // a layer's file; nil: base, or a directory
	base   string // path in the base, where file is nil and it comes from there
	inBase bool
}

// DirEntry is one name of a directory.
type DirEntry struct {
	Name string
	Mode uint32 // only the type bits
	Ino  uint64
}

// IsDir says that the node is a directory.
func (n Node) IsDir() bool { panic("todo") }

// FromBase says that the bytes come from the live base; BasePath is where they
// are there (it differs from Path below a renamed directory). False for a
// directory that has any entry in a layer and for all that a layer holds.
func (n Node) FromBase() (path string, ok bool) { return n.base, n.inBase }

// Stat is the present attributes. Stale when the object at Path is another one.
// A file of a layer is found even where its name is gone, while it is pinned.
func (n Node) Stat() (Attr, error) { panic("todo") }

// Open opens a regular file for reading. For a file of the base: Stale when
// another file has taken its place (a change in place is not noticed).
func (n Node) Open() (*os.File, error) { panic("todo") }

// OpenWrite opens the layer's own file for reading and writing, without a look
// at names: for a file of the branch's top layer, or one that was removed while
// pinned. Invalid for what must be copied first: see [Branch.OpenWrite],
// [Branch.OpenUnlinked].
func (n Node) OpenWrite() (*File, error) { panic("todo") }

// Readlink is the target of a symlink.
func (n Node) Readlink() (string, error) { panic("todo") }

// Pin keeps the content of a layer's file readable (through this Node) when it
// is replaced or removed, or its branch dropped, until as many Unpins. It does
// nothing for nodes of the base and directories.
func (n Node) Pin() { panic("todo") }

// Unpin undoes one Pin; the content may be deleted.
func (n Node) Unpin() { panic("todo") }

// File is a layer's file, open for writing. It must be closed: an open File
// moves with its branch when the layer is frozen. Files are pinned while open.
type File struct {
	*os.File
	node Node
}

// Node is the version that is written.
func (f *File) Node() Node { return f.node }

// Wrote says that data went through the file (also by mapping or
// passthrough): stamp, revision and state count it, subscribers hear of it.
// Call it before the write is acknowledged to the program.
func (f *File) Wrote(by Origin) { panic("todo") }

// Close closes the file and ends its pin.
func (f *File) Close() error { panic("todo") }
