package overlay

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Kind says what a caller can do about an error.
type Kind uint8

const (
	// IO: the file system below failed in a way that has no Kind; nothing to do but report.
	IO Kind = iota + 1
	// NotExist: no such path, branch, checkpoint or attribute.
	NotExist
	// Exist: the path or branch is there already.
	Exist
	// NotDir: a component on the way is not a directory.
	NotDir
	// IsDir: the operation wants something else than a directory.
	IsDir
	// NotEmpty: the directory has entries.
	NotEmpty
	// Invalid: the arguments make no sense (a directory into itself, a bad name).
	Invalid
	// NoSpace: Options.Limit is reached, or the disk is full: drop branches.
	NoSpace
	// Busy: the store is owned by another process, or the root was meant: try later.
	Busy
	// Outside: the path leaves the root (absolute, or with "." or ".." in it).
	Outside
	// Corrupt: the state directory is not as this package left it.
	Corrupt
	// TooLong: a name above 255 bytes or a path above what the kernel takes.
	TooLong
	// Unsupported: the file system of the state directory cannot do it.
	Unsupported
	// CrossDevice: a hard link or rename that would leave the store.
	CrossDevice
	// Permission: the file system refused it to this process's user.
	Permission
	// Stale: the node's object is gone or was replaced: look the path up again.
	Stale
	// Closed: the branch was dropped or the store closed.
	Closed
	// NoAttr: no such extended attribute.
	NoAttr
	// Range: an extended attribute's value is too large.
	Range
	// NotSymlink: Readlink of something else.
	NotSymlink
	// Conflicting: the base has changed since the branch first covered it: show the
	// conflicts, and ask whether to force it.
	Conflicting
	// TooLarge: more than fits into one patch: leave paths out.
	TooLarge
	// TooManyLinks: the file has as many names as the file system allows.
	TooManyLinks
)

var kindNames = [...]string{
	IO: "i/o error", NotExist: "does not exist", Exist: "exists already", NotDir: "not a directory",
	IsDir: "is a directory", NotEmpty: "directory not empty", Invalid: "invalid argument",
	NoSpace: "no space left for branches", Busy: "busy", Outside: "outside the root", Corrupt: "state directory is damaged",
	TooLong: "name too long", Unsupported: "not supported", CrossDevice: "crosses file systems",
	Permission: "permission denied", Stale: "changed meanwhile", Closed: "closed", NoAttr: "no such attribute",
	Range: "attribute too large", NotSymlink: "not a symbolic link", TooManyLinks: "too many links",
	TooLarge:    "more than fits into one patch: leave paths out",
	Conflicting: "the folder has changed since the branch first covered it",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Error is every error of this package.
type Error struct {
	Op     string // what was tried: "lookup", "rename", …
	Branch string // "" where no branch is concerned
	Path   string
	Kind   Kind
	Err    error // what was below, may be nil
}

func (e *Error) Error() string {
	s := e.Op
	if e.Branch != "" {
		s += " in branch " + e.Branch
	}
	if e.Path != "" {
		s += fmt.Sprintf(" %q", e.Path)
	}
	s += ": " + e.Kind.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf is the Kind of err: 0 for nil, IO for an error of somebody else.
func KindOf(err error) Kind {
	if err == nil {
		return 0
	}
	if k, ok := err.(kindError); ok {
		return Kind(k)
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return kindOfErrno(err)
}

// kindError is an error inside this package that has no more to say than its
// Kind, and costs no memory. wrap turns it into an Error at the exported door.
type kindError Kind

func (k kindError) Error() string { return Kind(k).String() }

// wrap makes the Error of an exported method.
func (b *Branch) wrap(op, path string, err error) error {
	return wrap(op, b.name, path, err)
}

func wrap(op, branch, path string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	e := &Error{Op: op, Branch: branch, Path: path, Kind: KindOf(err)}
	if _, bare := err.(kindError); !bare {
		e.Err = err
	}
	return e
}

// kindOfErrno is the one table from system errors to Kinds.
func kindOfErrno(err error) Kind {
	var no unix.Errno
	if !errors.As(err, &no) {
		return IO
	}
	switch no {
	case unix.ENOENT:
		return NotExist
	case unix.EEXIST:
		return Exist
	case unix.ENOTDIR, unix.ELOOP:
		return NotDir
	case unix.EISDIR:
		return IsDir
	case unix.ENOTEMPTY:
		return NotEmpty
	case unix.EINVAL:
		return Invalid
	case unix.ENOSPC, unix.EDQUOT:
		return NoSpace
	case unix.EBUSY, unix.ETXTBSY, unix.EAGAIN:
		return Busy
	case unix.ENAMETOOLONG:
		return TooLong
	case unix.EOPNOTSUPP, unix.ENOSYS:
		return Unsupported
	case unix.EXDEV:
		return CrossDevice
	case unix.EACCES, unix.EPERM, unix.EROFS:
		return Permission
	case unix.ESTALE:
		return Stale
	case unix.ENODATA:
		return NoAttr
	case unix.ERANGE, unix.E2BIG:
		return Range
	case unix.EMLINK:
		return TooManyLinks
	}
	return IO
}
