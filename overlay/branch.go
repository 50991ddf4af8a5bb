package overlay

import "io"

// Origin says who changes a branch. The zero value is an agent's edit.
type Origin struct {
	// View is handed to subscribers as Change.Origin, so that a view can ignore
	// its own changes.
	View any
	// Own: what is created belongs to UID and GID instead of this process's
	// user (only root can give files away).
	Own      bool
	UID, GID uint32
}

// Branch is one line of edits. Paths are slash-separated, relative to the root,
// without "." and ".." and empty components; "" is the root; any bytes but NUL.
type Branch struct {
	store *Store
	name  string
}

func (b *Branch) Name() string { return b.name }

// Rev counts the changes of the branch, from 1.
func (b *Branch) Rev() uint64 { panic("todo") }

// StateID identifies the content that a branch shows above the base. It is
// comparable and valid in this process only.
type StateID struct{ Hi, Lo uint64 }

// State identifies what the branch overrides, by content where it was given by
// WriteFile: equal only if two branches (or one at two times) show the same
// names, bytes and modes over the same base. Times and inode numbers are no
// part of it: to switch a view, use [Differ].
func (b *Branch) State() StateID { panic("todo") }

// Lookup resolves one path. It never follows a symlink.
func (b *Branch) Lookup(path string) (Node, error) { panic("todo") }

// ReadDir lists a directory, merged, sorted by name, without "." and "..".
func (b *Branch) ReadDir(path string) ([]DirEntry, error) { panic("todo") }

// ReadFile is the whole content of a regular file.
func (b *Branch) ReadFile(path string) ([]byte, error) { panic("todo") }

// WriteFile is an agent's edit: it makes a new content version of the whole
// file, atomically, and parents as needed. mode is the permission bits; 0 keeps
// those shown, 0644 for a new file. Content (and mode) that the branch shows
// already changes nothing; content that the base holds drops the override.
func (b *Branch) WriteFile(path string, data []byte, mode uint32) error { panic("todo") }

// Create makes a new regular file and opens it; Exist where the path exists.
func (b *Branch) Create(path string, mode uint32, by Origin) (Node, *File, error) { panic("todo") }

// Mkdir makes a directory.
func (b *Branch) Mkdir(path string, mode uint32, by Origin) (Node, error) { panic("todo") }

// Symlink makes a symbolic link at path.
func (b *Branch) Symlink(target, path string, by Origin) (Node, error) { panic("todo") }

// Mknod makes a fifo, a socket, an empty regular file or (for root) a device;
// the type is in mode. A character device 0/0 is Permission: it means a
// deletion in a layer.
func (b *Branch) Mknod(path string, mode uint32, rdev uint64, by Origin) (Node, error) {
	panic("todo")
}

// Link gives the file at oldPath a second name.
func (b *Branch) Link(oldPath, newPath string, by Origin) (Node, error) { panic("todo") }

// Unlink removes anything but a directory.
func (b *Branch) Unlink(path string, by Origin) error { panic("todo") }

// Rmdir removes an empty directory.
func (b *Branch) Rmdir(path string, by Origin) error { panic("todo") }

// RemoveAll removes the path with all below it, in one step.
func (b *Branch) RemoveAll(path string, by Origin) error { panic("todo") }

// RenameFlags are those of renameat2(2).
type RenameFlags uint32

const (
	NoReplace RenameFlags = 1 << iota // Exist instead of replacing
	Exchange                          // both must exist and change places
)

// Rename moves a file or directory, atomically replacing what newPath names.
func (b *Branch) Rename(oldPath, newPath string, flags RenameFlags, by Origin) error { panic("todo") }

// AttrMask says which fields of an AttrChange count.
type AttrMask uint32

const (
	SetMode AttrMask = 1 << iota
	SetUID
	SetGID
	SetSize
	SetAtime
	SetMtime
	SetAtimeNow
	SetMtimeNow
)

// AttrChange is a change of attributes.
type AttrChange struct {
	Mask         AttrMask
	Mode         uint32 // permission bits
	UID, GID     uint32
	Size         int64
	Atime, Mtime Time
}

// SetAttr changes attributes of a path (of the link itself for a symlink).
func (b *Branch) SetAttr(path string, c AttrChange, by Origin) (Node, error) { panic("todo") }

// GetXattr, ListXattr, SetXattr and RemoveXattr are the extended attributes;
// flags are those of setxattr(2).
func (b *Branch) GetXattr(path, name string) ([]byte, error) { panic("todo") }

func (b *Branch) ListXattr(path string) ([]string, error) { panic("todo") }

func (b *Branch) SetXattr(path, name string, value []byte, flags int, by Origin) error {
	panic("todo")
}

func (b *Branch) RemoveXattr(path, name string, by Origin) error { panic("todo") }

// OpenWrite opens a regular file for reading and writing, copied up to the top
// layer where it is not there yet; the node returned is the one written.
func (b *Branch) OpenWrite(path string, truncate bool, by Origin) (Node, *File, error) {
	panic("todo")
}

// OpenUnlinked is OpenWrite for a file that has lost its name while the view
// still has it open: a private copy of n's content without a name.
func (b *Branch) OpenUnlinked(n Node) (Node, *File, error) { panic("todo") }

// Wrote is [File.Wrote] by path.
func (b *Branch) Wrote(path string, by Origin) { panic("todo") }

// Room fails with NoSpace when n more bytes would pass the limit of the store.
// A view asks before it extends a file; the bytes are counted by Wrote.
func (b *Branch) Room(n int64) error { panic("todo") }

// OverrideKind says what a branch shows in place of the base.
type OverrideKind uint8

const (
	Regular OverrideKind = iota + 1
	Dir
	Symlink
	Special // fifo, socket, device
	Deleted
)

// Override is one path whose resolution differs from the base.
type Override struct {
	Path    string
	Kind    OverrideKind
	Version uint64 // as Node.Version; 0 for Deleted
	Stamp   uint64 // as Node.Stamp; 0 for Deleted
}

// Overrides are all paths whose resolution differs from the base, sorted.
// A deleted directory stands for all below it; a directory that is new, or was
// moved here, is listed with all below it. A merged directory is listed only
// when its own attributes were set.
func (b *Branch) Overrides() ([]Override, error) { panic("todo") }

// Differ is every path that may resolve differently in a and b (names,
// versions, stamps, times), parents before children. Where both show a
// directory of different Version, all below it differs without being listed.
// Its cost follows the layers that a and b do not share.
func Differ(a, b *Branch) []string { panic("todo") }

// Op says what happened to a path.
type Op uint8

const (
	OpCreate  Op = iota + 1 // the path exists now and did not before
	OpReplace               // another version (an agent's write, a rename onto it, a rollback)
	OpRemove
	OpWrite  // bytes changed in place: same Version, other Stamp
	OpAttr   // mode, owner, times, size or xattrs changed in place
	OpCopyUp // other Version with the same content: the top layer has its own copy now
)

// Change is one change of one path. A rename is an OpRemove of the old path and
// an OpCreate or OpReplace of the new; below a moved directory nothing is listed.
type Change struct {
	Path   string
	Op     Op
	Rev    uint64 // of the branch after the change
	Origin any    // Origin.View of the mutator
}

// Subscribe calls f after each change, in order, outside all locks that reading
// takes, before the mutator returns. f must not change the branch.
func (b *Branch) Subscribe(f func(Change)) (cancel func()) { panic("todo") }

// Keep says whether the branch outlives Close (and a kill).
func (b *Branch) Keep(keep bool) error { panic("todo") }

// Fork makes a branch over what this one shows now.
func (b *Branch) Fork(name string, keep bool) (*Branch, error) {
	return b.store.Create(name, CreateOptions{From: b.name, Keep: keep})
}

// DiffOptions choose what a patch holds.
type DiffOptions struct {
	// Include says whether a path belongs into the patch; nil means all.
	// Paths in .git are never included.
	Include func(path string) bool
}

// DiffStats say what a patch holds and what it cannot.
type DiffStats struct {
	Files   int
	Skipped []string // fifos, sockets, devices, and files that could not be read
}

// Diff writes a patch from the base as it is now to the branch, as
// `git apply` takes it.
func (b *Branch) Diff(w io.Writer, o DiffOptions) (DiffStats, error) { panic("todo") }
