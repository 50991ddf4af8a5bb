package fusefs

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

const (
	// cached is how long the kernel may keep what it will be told about when it
	// changes.
	cached = time.Hour
	// maxWrite is the largest write the kernel hands over at once: its own
	// limit without tuning.
	maxWrite = 1 << 20
	// maxBackground is how many read-aheads and the like the kernel may have
	// under way; the default of 12 is from the days of one disk head.
	maxBackground = 64
	// closeLimit is how long Close waits for the kernel to let go of a mount
	// whose processes are dead.
	closeLimit = 5 * time.Second
)

// Config says what a view shows.
type Config struct {
	Branch *overlay.Branch
	Base   *Base
	Log    zerolog.Logger
	// UserNS: the mount is in a user namespace, where only this process's own
	// user is known: the view then checks permissions, too, and shows others'
	// files such that the kernel agrees. (It always checks: mount option
	// default_permissions.)
	UserNS bool
	// Fixed: the view shows one branch for as long as it lives.
	Fixed bool
	// Asks has the view remember what is asked about: see [View.Asked].
	Asks bool
}

// View shows a branch to the kernel through one mount.
//
// Its goroutines: serve runs go-fuse's readers and ends with the mount; tell
// sends all invalidations and ends with Close. Close waits for both.
//
// All methods may be called from any goroutine, but not from one that looks
// into the mount.
type View struct {
	fuse.RawFileSystem // answers ENOSYS to what we do not have

	base    *Base
	log     zerolog.Logger
	userNS  bool
	fixed   bool
	uid     uint32
	gid     uint32
	server  *fuse.Server
	table   *table
	writers fileCache    // of files; see noopen.go
	seed    maphash.Seed // of the positions in listings
	trial   trial
	asked   *asked // nil: nobody wants to know
	// noOpenDir: the kernel reads directories without opening them.
	noOpenDir bool
	listings  listings
	listed    func() // for tests: a directory was listed and the answer is not sent yet
	tell      *teller
	origin    overlay.Origin // who writes, as far as the overlay needs to know

	// pokes make events for those who watch files in the view, once there is a
	// poker.
	pokes pokes
	poked atomic.Bool

	served chan struct{} // closed when the mount has ended

	// moving is held shared by every operation that resolves paths, and
	// exclusively while a directory is renamed or the branch is changed: paths
	// and branch are the same from the beginning to the end of an operation.
	moving sync.RWMutex
	// branch is guarded by moving, and so is shown: the branches before it, the
	// last one last.
	branch *overlay.Branch
	shown  []*overlay.Branch

	// switching serialises Switch and Close.
	switching sync.Mutex
	// unsubscribe ends the subscription to branch; guarded by switching.
	unsubscribe func()
	closed      bool
}

// Serve answers the kernel on dev, the descriptor of a FUSE mount, which it
// takes over. It returns when the kernel has been greeted: from then on, and
// not before, may anything look into the mount.
func Serve(dev *os.File, cfg Config) (*View, error) {
	fail := func(err error) (*View, error) {
		dev.Close()
		return nil, &Error{Op: "serve", Kind: Unavailable, Err: err}
	}
	root, err := cfg.Branch.Lookup("")
	if err != nil {
		return fail(err)
	}
	v := &View{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		base:          cfg.Base,
		log:           cfg.Log,
		userNS:        cfg.UserNS,
		fixed:         cfg.Fixed,
		uid:           uint32(os.Geteuid()),
		gid:           uint32(os.Getegid()),
		table:         newTable(root),
		served:        make(chan struct{}),
		branch:        cfg.Branch,
		seed:          maphash.MakeSeed(),
		writers:       fileCache{limit: maxWriters},
	}
	v.origin = overlay.Origin{View: v}
	if cfg.Asks {
		v.asked = &asked{names: map[string]bool{}}
	}
	// go-fuse takes a number and closes it itself: give it one of its own.
	fd, err := unix.FcntlInt(dev.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fail(err)
	}
	v.server, err = fuse.NewServer(v, fmt.Sprintf("/dev/fd/%d", fd), &fuse.MountOptions{
		MaxWrite:      maxWrite,
		MaxBackground: maxBackground,
		// What the kernel has cached is right until it is told otherwise; it
		// need not guess from a file's mtime.
		ExplicitDataCacheControl: true,
		EnableSymlinkCaching:     true,
		DisableReadDirPlus:       true,
		ExtraCapabilities:        fuse.CAP_HANDLE_KILLPRIV_V2, // else each write asks for an xattr first
		Logger:                   log.New(goFuseLog{cfg.Log}, "", 0),
		PanicHandler:             v.panicked,
	})
	if err != nil {
		unix.Close(fd)
		return fail(err)
	}
	dev.Close()
	v.noOpenDir = v.server.KernelSettings().Flags64()&fuse.CAP_NO_OPENDIR_SUPPORT != 0
	v.tell = newTeller(v)
	v.unsubscribe = cfg.Branch.Subscribe(v.branchChanged)
	v.base.attach(v)
	go v.serve()
	return v, nil
}

func (v *View) serve() {
	v.server.Serve()
	close(v.served)
}

// Done is closed when the mount has ended.
func (v *View) Done() <-chan struct{} { return v.served }

// Close ends the view. The processes in the mount must be dead: the mount ends
// with them, and only then does the kernel stop asking.
func (v *View) Close() error {
	v.switching.Lock()
	defer v.switching.Unlock()
	if v.closed {
		return &Error{Op: "close", Kind: Closed}
	}
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-v.served:
	case <-limit.C:
		return &Error{Op: "close", Kind: Held, Err: errors.New("processes still use the mount")}
	}
	v.closed = true
	v.unsubscribe()
	v.base.detach(v)
	v.tell.close()
	v.letGo(v.table.files()) // the kernel does not forget what it lost with the mount
	return nil
}

// Branch is what the view shows now.
func (v *View) Branch() *overlay.Branch {
	v.moving.RLock()
	defer v.moving.RUnlock()
	return v.branch
}

// Settled returns when every change of the branch and of the base that the view
// had heard of before the call is shown by it. For the base, see Base.Sync.
func (v *View) Settled(ctx context.Context) error { return v.tell.settled(ctx) }

// panicked keeps the daemon alive when a handler is wrong.
func (v *View) panicked(x any) fuse.Status {
	v.log.Error().Any("panic", x).Stack().Msg("a request of the kernel's failed badly")
	return fuse.EIO
}

// goFuseLog takes go-fuse's lines into our log.
type goFuseLog struct{ log zerolog.Logger }

func (l goFuseLog) Write(p []byte) (int, error) {
	l.log.Warn().Msg("go-fuse: " + strings.TrimSpace(string(p)))
	return len(p), nil
}
