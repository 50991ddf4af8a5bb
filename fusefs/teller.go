package fusefs

import (
	"context"
	"strings"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// teller tells the kernel what it must no longer believe.
//
// The kernel takes locks for it that it also holds while it waits for an answer
// of ours: of a directory during a look-up in it, of a page during a read. So
// it is done by one goroutine, which holds no lock of ours meanwhile, and never
// by one that answers the kernel. For the same reason an answer that was
// computed before a change reaches the kernel before the notification of that
// change is carried out, if the notification was queued after the change was
// made: whoever queues, changes first.
type teller struct {
	view *View
	done chan struct{} // closed when the goroutine has ended
	wake chan struct{} // capacity 1

	mu sync.Mutex // guards the fields below
	// queue is in order; a news that is in it already is not queued again, so it
	// is bounded by the names that exist.
	queue   []job
	pending map[news]struct{}
	closed  bool
}

// news is something that may have changed.
type news struct {
	what what
	// path in the branch, or the base directory and name in it.
	path, name string
	op         overlay.Op
}

type what uint8

const (
	ofBranch   what = iota + 1 // path, by op
	ofBase                     // name in path
	ofBaseNew                  // name in path, which is another object now
	ofBaseDir                  // the directory path itself
	ofBaseGone                 // the directory path has left its place
	ofAbsent                   // the names that do not exist
	ofListing                  // the names in path, which nothing watches
	ofAll                      // anything
)

// job is a news, or else a function to call in its turn.
type job struct {
	news news
	call func()
}

func newTeller(v *View) *teller {
	t := &teller{view: v, done: make(chan struct{}), wake: make(chan struct{}, 1), pending: map[news]struct{}{}}
	go t.run()
	return t
}

// add queues a news. It never blocks.
func (t *teller) add(n news) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := t.pending[n]; there || t.closed {
		return
	}
	t.pending[n] = struct{}{}
	t.pushLocked(job{news: n})
}

// call queues a function; false after close.
func (t *teller) call(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.pushLocked(job{call: f})
	return true
}

func (t *teller) pushLocked(j job) {
	t.queue = append(t.queue, j)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// settled returns when all that was queued before it is done.
func (t *teller) settled(ctx context.Context) error {
	reached := make(chan struct{})
	if !t.call(func() { close(reached) }) {
		return &Error{Op: "settle", Kind: Closed}
	}
	select {
	case <-reached:
		return nil
	case <-t.done:
		return &Error{Op: "settle", Kind: Closed}
	case <-ctx.Done():
		return &Error{Op: "settle", Kind: Unavailable, Err: context.Cause(ctx)}
	}
}

// close ends the goroutine and waits for it. What is queued is dropped.
func (t *teller) close() {
	t.mu.Lock()
	t.closed = true
	t.queue = nil
	t.pushLocked(job{})
	t.mu.Unlock()
	<-t.done
}

func (t *teller) run() {
	defer close(t.done)
	for range t.wake {
		for {
			t.mu.Lock()
			if t.closed {
				t.mu.Unlock()
				return
			}
			if len(t.queue) == 0 {
				t.queue = nil
				t.mu.Unlock()
				break
			}
			j := t.queue[0]
			t.queue = t.queue[1:]
			// From here on the same news is new again.
			delete(t.pending, j.news)
			t.mu.Unlock()
			if j.call != nil {
				j.call()
			} else {
				t.tell(j.news)
			}
		}
	}
}

func (t *teller) tell(n news) {
	v := t.view
	switch n.what {
	case ofBranch:
		tell := func() { v.tellBranch(n.path, n.op) }
		if v.poked.Load() {
			v.pokeBranch(n.path, n.op, tell)
		} else {
			tell()
		}
	case ofBase, ofBaseNew:
		tell := func() { v.tellBase(n.path, n.name, n.what == ofBaseNew) }
		if v.poked.Load() {
			v.pokeBase(n.path, n.name, n.what == ofBaseNew, tell)
		} else {
			tell()
		}
	case ofBaseDir:
		for _, dir := range v.table.lowerDirs(n.path) {
			v.attrs(dir)
		}
	case ofBaseGone:
		for _, dir := range v.table.lowerDirs(n.path) {
			v.below(dir)
		}
	case ofListing:
		for _, dir := range v.table.at(n.path) {
			v.relist(dir, false)
		}
	case ofAbsent:
		v.tellAbsent()
	case ofAll:
		v.tellAll()
	}
}

// branchChanged is the subscription to the branch shown.
func (v *View) branchChanged(c overlay.Change) {
	if c.Origin == any(v) {
		return // the kernel knows: it asked for it
	}
	v.tell.add(news{what: ofBranch, path: c.Path, op: c.Op})
}

// baseChanged is called by the base's reader.
func (v *View) baseChanged(dir, name string, named bool) {
	n := news{what: ofBase, path: dir, name: name}
	if named {
		n.what = ofBaseNew
	}
	v.tell.add(n)
}

func (v *View) baseDirChanged(dir string, gone bool) {
	n := news{what: ofBaseDir, path: dir}
	if gone {
		n.what = ofBaseGone
	}
	v.tell.add(n)
}

func (v *View) baseLost() { v.tell.add(news{what: ofAll}) }

// tellBranch tells of a change of the branch that is shown, made by others.
func (v *View) tellBranch(path string, op overlay.Op) {
	if path == "" {
		v.attrs(v.table.root)
		return
	}
	dir, name := splitPath(path)
	for _, parent := range v.table.at(dir) {
		switch op {
		case overlay.OpWrite, overlay.OpAttr:
			v.inPlace(parent, name, path, op == overlay.OpWrite)
		default:
			v.relist(parent, !v.shows(parent, name, path) && v.name(parent, name, path))
		}
	}
}

// shows says that what the kernel was last told about a name is right: whoever
// was quick has looked it up since it changed. To be told again would take the
// name from the file, and who watches that would not hear of its end: see
// deleted. Where it is not so, those who watch what it was are told.
func (v *View) shows(parent *node, name, path string) bool {
	v.moving.RLock()
	on, err := v.branch.Lookup(path)
	v.moving.RUnlock()
	right := false
	for _, n := range v.table.children(parent, name) {
		switch {
		case n.dir:
		case err == nil && v.table.versionOf(n) == on.Version:
			right = right || v.table.right(n, on)
		case v.poked.Load():
			v.deleted(parent, n, name)
		}
	}
	return right
}

// right says that n was the last answer about its name and still is one, with the
// same attributes.
func (t *table) right(n *node, on overlay.Node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.version == on.Version && n.shown && !n.parted && (n.epoch == t.epoch || n.stamp == on.Stamp && !n.touched)
}

// inPlace tells of new bytes or attributes of the same version.
func (v *View) inPlace(parent *node, name, path string, bytes bool) {
	v.moving.RLock()
	on, err := v.branch.Lookup(path)
	v.moving.RUnlock()
	var n *node
	if err == nil {
		n = v.table.named(parent, name, on.Version)
	}
	if n == nil {
		v.relist(parent, v.name(parent, name, path))
		return
	}
	v.table.mu.Lock()
	n.stamp, n.epoch = on.Stamp, v.table.epoch
	v.table.mu.Unlock()
	if n.dir {
		v.attrs(n)
	} else {
		v.content(n) // a change of attributes may be one of the size
	}
}

// name tells that a name may mean something else. The directory's listing is
// another matter: see relist, which takes whether the kernel was told.
func (v *View) name(parent *node, name, path string) (told bool) {
	known := v.table.children(parent, name)
	var dirs []*node
	for _, n := range known {
		if n.dir {
			dirs = append(dirs, n)
		}
	}
	if len(dirs) > 0 {
		v.moving.RLock()
		on, err := v.branch.Lookup(path)
		v.moving.RUnlock()
		for _, n := range dirs {
			if err != nil || !v.table.stays(n, on.Version) {
				v.below(n)
			} else if len(known) == 1 {
				// The same directory: dropping it would drop all that the
				// kernel knows below.
				v.attrs(n)
				return false
			}
		}
	}
	v.entryGone(parent, name)
	return true
}

// below tells that every name below a directory may mean something else: it is
// another directory now, but whoever stands in the old one still has it.
func (v *View) below(dir *node) {
	dirs := map[*node]bool{dir: false}
	for _, c := range v.table.allBelow(dir) {
		for _, n := range v.table.children(c.parent, c.name) {
			if n.dir {
				dirs[n] = false // its own names come after it
			}
		}
		v.entryGone(c.parent, c.name)
		dirs[c.parent] = true
	}
	for n, told := range dirs {
		v.relist(n, told)
	}
}

// tellBase tells of a change of the base.
func (v *View) tellBase(dir, name string, named bool) {
	for _, parent := range v.table.lowerDirs(dir) {
		told := false
		for _, n := range v.table.children(parent, name) {
			switch {
			case n.dir && named:
				// It may come back with the same inode number and be another
				// directory. (A directory that only layers hold is looked up
				// anew and gets another node; nothing else is lost.)
				v.table.retire(n)
				v.below(n)
			case n.dir:
				v.attrs(n)
			default:
				// Whoever has it open reads the file that is there: as outside.
				v.content(n)
			}
		}
		path, ok := v.table.child(parent, name)
		if (named || !v.onlyDirs(parent, name)) && !(ok && v.shows(parent, name, path)) {
			v.entryGone(parent, name)
			told = true
		}
		if named {
			v.relist(parent, told)
		}
	}
}

// onlyDirs says that a name is known, as a directory and nothing else.
func (v *View) onlyDirs(parent *node, name string) bool {
	known := v.table.children(parent, name)
	for _, n := range known {
		if !n.dir {
			return false
		}
	}
	return len(known) > 0
}

// tellAll tells that nothing is certain.
func (v *View) tellAll() {
	for _, c := range v.table.allBelow(v.table.root) {
		for _, n := range v.table.children(c.parent, c.name) {
			if !n.dir {
				v.content(n)
			}
		}
	}
	v.below(v.table.root)
	v.tellAbsent()
}

// tellAbsent makes the kernel look again for all names that it may know not to
// exist.
func (v *View) tellAbsent() {
	for _, l := range v.table.takeAbsent() {
		v.entryGone(l.parent, l.name)
	}
}

// entryGone makes the kernel look a name up again. It waits until nobody is
// reading the directory.
func (v *View) entryGone(parent *node, name string) {
	v.table.mu.Lock()
	v.table.presentLocked(parent, name)
	v.table.mu.Unlock()
	v.told(v.server.EntryNotify(parent.id, name))
}

// noName is in no directory. If it is, nothing but a look-up is lost.
const noName = ".shadowlsp-no-such-name"

// relist makes the kernel ask for the names in a directory again, and for its
// attributes; told: of a name in it, since it changed. Why so: see dir.go.
func (v *View) relist(n *node, told bool) {
	if !told {
		v.entryGone(n, noName)
	}
	v.listings.forget(n)
	v.content(n)
}

// attrs makes the kernel ask for attributes again.
func (v *View) attrs(n *node) { v.told(v.server.InodeNotify(n.id, -1, 0)) }

// content makes the kernel ask for attributes and bytes again.
func (v *View) content(n *node) { v.told(v.server.InodeNotify(n.id, 0, 0)) }

// told looks at how the kernel took it. That it does not know what we name is
// the usual case.
func (v *View) told(st fuse.Status) {
	switch st {
	case fuse.OK, fuse.ENOENT:
	case fuse.Status(unix.ENOTDIR): // a directory's node that nobody holds as one
	case fuse.ENODEV, fuse.Status(unix.ENOTCONN), fuse.EBADF, fuse.EPERM: // the mount has ended
	default:
		v.log.Error().Str("err", st.String()).Msg("the kernel did not take an invalidation")
	}
}

func splitPath(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// at finds the directories that the kernel knows, or knew, at a path.
func (t *table) at(path string) []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := []*node{t.root}
	for path != "" && len(found) > 0 {
		name, rest, _ := strings.Cut(path, "/")
		path = rest
		var next []*node
		for _, d := range found {
			for _, n := range d.names[name] {
				if n.dir {
					next = append(next, n)
				}
			}
		}
		found = next
	}
	return found
}

// stays says whether the kernel has n under its name and is right to.
func (t *table) stays(n *node, version uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.version == version && n.shown
}

// children are the nodes known under a name.
func (t *table) children(parent *node, name string) []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return parent.names[name] // replaced, never changed
}

// lowerDirs are the directories through which a directory of the base shows.
func (t *table) lowerDirs(base string) []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byDir[base]
}

// allBelow lists every name known below a directory, parents first.
func (t *table) allBelow(dir *node) []link {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []link
	for queue := []*node{dir}; len(queue) > 0; queue = queue[1:] {
		for name, nodes := range queue[0].names {
			all = append(all, link{queue[0], name})
			for _, n := range nodes {
				if n.dir {
					queue = append(queue, n)
				}
			}
		}
	}
	return all
}
