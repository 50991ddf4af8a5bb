package fusefs

import (
	"errors"
	"fmt"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// Kind says what a caller can do about an error.
type Kind uint8

const (
	// Unavailable: the kernel does not give what is needed (inotify, FUSE). A
	// lesser mode is left.
	Unavailable Kind = iota + 1
	// Gone: the mount has ended, because its processes have. Nothing is left to
	// do but Close.
	Gone
	// Held: processes are still in the mount. Kill them, then Close again.
	Held
	// Closed: Close was called before.
	Closed
)

func (k Kind) String() string {
	switch k {
	case Unavailable:
		return "unavailable"
	case Gone:
		return "gone"
	case Held:
		return "held"
	case Closed:
		return "closed"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Error is every error of this package's own API. What a program in a view sees
// is an errno: see errnoOf.
type Error struct {
	Op   string // "serve", "watch", "sync", "switch", "close"
	Path string // or ""
	Kind Kind
	Err  error
}

func (e *Error) Error() string {
	s := "fusefs: " + e.Op
	if e.Path != "" {
		s += " " + e.Path
	}
	s += ": " + e.Kind.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// errnoOf is the one table from the overlay's Kinds to what a program sees.
var errnoOf = map[overlay.Kind]unix.Errno{
	overlay.IO:           unix.EIO,
	overlay.NotExist:     unix.ENOENT,
	overlay.Exist:        unix.EEXIST,
	overlay.NotDir:       unix.ENOTDIR,
	overlay.IsDir:        unix.EISDIR,
	overlay.NotEmpty:     unix.ENOTEMPTY,
	overlay.Invalid:      unix.EINVAL,
	overlay.NoSpace:      unix.ENOSPC,
	overlay.Busy:         unix.EBUSY,
	overlay.Outside:      unix.EINVAL,
	overlay.Corrupt:      unix.EIO,
	overlay.TooLong:      unix.ENAMETOOLONG,
	overlay.Unsupported:  unix.EOPNOTSUPP,
	overlay.CrossDevice:  unix.EXDEV,
	overlay.Permission:   unix.EACCES,
	overlay.Stale:        unix.ESTALE,
	overlay.Closed:       unix.ESTALE,
	overlay.NoAttr:       unix.ENODATA,
	overlay.Range:        unix.ERANGE,
	overlay.NotSymlink:   unix.EINVAL,
	overlay.TooManyLinks: unix.EMLINK,
}

// status is what the kernel is told about err.
func status(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	var oe *overlay.Error
	if errors.As(err, &oe) {
		if no, ok := errnoOf[oe.Kind]; ok && oe.Kind != overlay.IO {
			return fuse.Status(no)
		}
	}
	var no unix.Errno
	if errors.As(err, &no) {
		return fuse.Status(no)
	}
	return fuse.EIO
}
