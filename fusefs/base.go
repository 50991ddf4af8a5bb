package fusefs

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// Base is the person's folder as it changes under the views.
//
// It watches the directories that some view has asked for, and nothing else.
// One goroutine reads the events, tells the views and then the subscribers; it
// is started by NewBase and ended by Close, which waits for it.
type Base struct {
	rootFd int // O_PATH; taken once, so that nothing mounted or moved later is in the way
	watch  *watcher
	log    zerolog.Logger
	done   chan struct{}

	cookies [2]cookie
	// readers are the files that views have open to read.
	readers fileCache

	mu sync.Mutex // guards the fields below
	// views is replaced, never changed: the reader uses it without the lock.
	views []*View
	subs  []*func([]BaseChange)
	// armed waits for the cookie event under way, waiting for the next: events
	// that are equal and adjacent merge, so there is never more than one.
	armed, waiting []chan struct{}
	// thrown is the cookie whose event counts. They take turns, so that one that
	// was thrown again after lost events is not taken for its successor.
	thrown int
	closed bool
}

// cookie is a memory file whose attribute events are the barrier: nothing of it
// is in any directory, so nothing is left behind by a kill. (The kernel does not
// report writes to it, but changes of its mode.)
type cookie struct {
	fd int
	wd int32
}

// ChangeKind says what happened to a path of the base.
type ChangeKind uint8

const (
	Created ChangeKind = iota + 1
	Changed
	Deleted
)

func (k ChangeKind) String() string {
	return [...]string{"invalid", "created", "changed", "deleted"}[min(k, 3)]
}

// BaseChange is one change that the person (or anyone outside) made. Only
// directories that a view has looked into are watched; of a directory that was
// created or deleted with all below it, only the directory may be listed.
type BaseChange struct {
	Path string // relative to the root
	Kind ChangeKind
	// Everything: events were lost. Anything may have changed; the other fields
	// are zero.
	Everything bool
}

// selfTestLimit bounds the first barrier, which proves that events arrive.
const selfTestLimit = 5 * time.Second

// NewBase watches the folder at root. Close it after its views.
func NewBase(root string, log zerolog.Logger) (*Base, error) {
	fail := func(err error) (*Base, error) {
		return nil, &Error{Op: "watch", Path: root, Kind: Unavailable, Err: err}
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	b := &Base{rootFd: fd, log: log, done: make(chan struct{}), cookies: [2]cookie{{fd: -1}, {fd: -1}}, readers: fileCache{limit: readerLimit()}}
	if err := b.open(fd); err != nil {
		b.release()
		return fail(err)
	}
	go b.read()
	ctx, cancel := context.WithTimeout(context.Background(), selfTestLimit)
	defer cancel()
	if err := b.Sync(ctx); err != nil {
		b.Close()
		return fail(err)
	}
	return b, nil
}

func (b *Base) open(fd int) (err error) {
	if b.watch, err = newWatcher(fd); err != nil {
		return err
	}
	for i := range b.cookies {
		c := &b.cookies[i]
		if c.fd, err = unix.MemfdCreate("shadowlsp-cookie", unix.MFD_CLOEXEC); err != nil {
			return err
		}
		wd, err := unix.InotifyAddWatch(b.watch.fd, procFD(c.fd), unix.IN_ATTRIB)
		if err != nil {
			return err
		}
		c.wd = int32(wd)
	}
	return nil
}

func (b *Base) release() {
	if b.watch != nil {
		b.watch.close()
	}
	b.closeFDs()
}

func (b *Base) closeFDs() error {
	for _, c := range b.cookies {
		if c.fd >= 0 {
			unix.Close(c.fd)
		}
	}
	return unix.Close(b.rootFd)
}

// Close ends the watching. The views must be closed before.
func (b *Base) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return &Error{Op: "close", Kind: Closed}
	}
	b.closed = true
	b.mu.Unlock()
	b.watch.close()
	<-b.done
	return b.closeFDs()
}

// Blind says whether some directory that a view has looked into is not watched,
// because the limit of watches is reached or it may not be listed: what changes
// there is seen late, and told to nobody. Once it was so it counts as so for good.
func (b *Base) Blind() bool { return b.watch.blind.Load() }

// Watches is the number of directories watched now.
func (b *Base) Watches() int { return b.watch.count() }

// Subscribe calls f with changes of the base, after the views know of them. It
// is called on the reader's goroutine and must not block, and must not call
// back. After cancel returned, a call that was under way may still finish.
func (b *Base) Subscribe(f func([]BaseChange)) (cancel func()) {
	sub := &f
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs = append(b.subs[:len(b.subs):len(b.subs)], sub)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.subs = without(b.subs, sub)
	}
}

func (b *Base) attach(v *View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.views = append(b.views[:len(b.views):len(b.views)], v)
}

func (b *Base) detach(v *View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.views = without(b.views, v)
}

// without returns a new slice.
func without[T comparable](s []T, x T) []T {
	kept := make([]T, 0, len(s))
	for _, y := range s {
		if y != x {
			kept = append(kept, y)
		}
	}
	return kept
}

// Sync returns when every change of the base that was made before the call has
// been seen, told to the subscribers, and is shown by all views.
func (b *Base) Sync(ctx context.Context) error {
	seen := make(chan struct{})
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return &Error{Op: "sync", Kind: Closed}
	}
	if len(b.armed) == 0 {
		b.armed = append(b.armed, seen)
		b.throwLocked()
	} else {
		b.waiting = append(b.waiting, seen)
	}
	b.mu.Unlock()
	select {
	case <-seen:
	case <-b.done:
		return &Error{Op: "sync", Kind: Closed}
	case <-ctx.Done():
		return &Error{Op: "sync", Kind: Unavailable, Err: context.Cause(ctx)}
	}
	b.mu.Lock()
	views := b.views
	b.mu.Unlock()
	for _, v := range views {
		// A view whose mount has ended shows nothing.
		if err := v.Settled(ctx); err != nil && ctx.Err() != nil {
			return &Error{Op: "sync", Kind: Unavailable, Err: context.Cause(ctx)}
		}
	}
	return nil
}

// throwLocked makes the event that follows all earlier ones in the queue.
func (b *Base) throwLocked() {
	b.thrown = 1 - b.thrown
	if err := unix.Fchmod(b.cookies[b.thrown].fd, 0o600); err != nil {
		b.log.Error().Err(err).Msg("the barrier's cookie cannot be thrown")
	}
}

// throwAgain is for when the cookie may be among the lost events.
func (b *Base) throwAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.armed) > 0 {
		b.throwLocked()
	}
}

// caught releases those who waited for the cookie under way and throws the next.
func (b *Base) caught(wd int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wd != b.cookies[b.thrown].wd {
		return
	}
	for _, c := range b.armed {
		close(c)
	}
	b.armed, b.waiting = b.waiting, nil
	if len(b.armed) > 0 {
		b.throwLocked()
	}
}

func (b *Base) read() {
	defer close(b.done)
	buf := make([]byte, 64<<10)
	for {
		events, err := b.watch.read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			// Never seen. Whatever it is, events may be lost.
			b.log.Error().Err(err).Msg("reading the watcher")
			b.everything()
			return
		}
		b.take(events)
	}
}

// take handles one batch: the cookie's turn comes after all that was before it.
func (b *Base) take(events []event) {
	b.mu.Lock()
	views := b.views
	b.mu.Unlock()
	var batch changeBatch
	for _, e := range events {
		switch {
		case e.mask&unix.IN_Q_OVERFLOW != 0:
			b.log.Warn().Msg("the kernel's queue of file events overflowed; everything is looked at again")
			batch = changeBatch{}
			b.everything()
			b.throwAgain()
		case e.wd == b.cookies[0].wd || e.wd == b.cookies[1].wd:
			b.publish(batch.take())
			b.caught(e.wd)
		case e.mask&unix.IN_IGNORED != 0:
			b.watch.ignored(e.wd)
		default:
			for _, dir := range b.watch.paths(e.wd) {
				b.one(views, dir, e, &batch)
			}
		}
	}
	b.publish(batch.take())
}

// one handles one event in the directory dir.
func (b *Base) one(views []*View, dir string, e event, batch *changeBatch) {
	if e.name == "" {
		// About the directory itself; its parent tells the rest, if it is
		// watched. The root has no parent.
		if e.mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0 && dir != "" {
			b.watch.forget(dir, e.mask&unix.IN_MOVE_SELF != 0)
		}
		for _, v := range views {
			v.baseDirChanged(dir, e.mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0)
		}
		return
	}
	path := join(dir, e.name)
	isDir := e.mask&unix.IN_ISDIR != 0
	moved := e.mask&(unix.IN_MOVED_FROM|unix.IN_MOVED_TO) != 0
	named := moved || e.mask&(unix.IN_CREATE|unix.IN_DELETE) != 0
	if isDir && named {
		b.watch.forget(path, moved)
	}
	for _, v := range views {
		v.baseChanged(dir, e.name, named)
	}
	kind := Changed
	switch {
	case e.mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		kind = Created
	case e.mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		kind = Deleted
	}
	batch.add(path, kind)
}

func (b *Base) everything() {
	b.mu.Lock()
	views := b.views
	b.mu.Unlock()
	for _, v := range views {
		v.baseLost()
	}
	b.publish([]BaseChange{{Everything: true}})
}

func (b *Base) publish(changes []BaseChange) {
	if len(changes) == 0 {
		return
	}
	b.mu.Lock()
	subs := b.subs
	b.mu.Unlock()
	for _, f := range subs {
		(*f)(changes)
	}
}

// changeBatch merges what happened to one path in one batch of events.
type changeBatch struct {
	order []string
	kinds map[string]ChangeKind
}

func (c *changeBatch) add(path string, kind ChangeKind) {
	old, seen := c.kinds[path]
	if !seen {
		if c.kinds == nil {
			c.kinds = map[string]ChangeKind{}
		}
		c.order = append(c.order, path)
		c.kinds[path] = kind
		return
	}
	switch {
	case old == Created && kind == Changed: // new to the reader all the same
	case old == Deleted && kind == Created: // replaced
		c.kinds[path] = Changed
	default:
		c.kinds[path] = kind
	}
}

func (c *changeBatch) take() []BaseChange {
	var out []BaseChange
	for _, path := range c.order {
		out = append(out, BaseChange{Path: path, Kind: c.kinds[path]})
	}
	*c = changeBatch{}
	return out
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
