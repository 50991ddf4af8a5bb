package fusefs

import (
	"os"
	"slices"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// node is what the kernel calls an inode: one content version of one path (of
// each of its paths, for a file with hard links in the layer). Its id is never
// given to anything else.
type node struct {
	id  uint64 // fixed
	dir bool   // fixed
	typ uint32 // fixed: the type bits of its mode

	// Guarded by table.mu.

	// links are the names under which a look-up may find it. The first is its
	// path. Empty: it has lost its name, or another version has taken it.
	links []link
	// version is what a look-up must resolve to for this node to be the answer.
	version uint64
	// stamp is the overlay's when the kernel's caches were last known to be
	// right, and epoch the number of the switch before which that was.
	stamp, epoch uint64
	// touched: this view wrote through the node, so its stamp moved on.
	touched bool
	// wrote: something was written through it.
	wrote bool
	// shown: the last answer about its name was this node.
	shown bool
	// first is the epoch in which it was made: who has it open did that then, or
	// in a later one.
	first uint64
	// parted: descriptors of an earlier turn keep it; no look-up answers with it.
	parted bool
	// lookups is how many references the kernel has.
	lookups uint64
	// holds is what keeps it in the table besides: links of children.
	holds int
	// names are a directory's children that are in the table, several where the
	// kernel still holds older versions. Set to nil when it is dropped.
	names map[string][]*node
	// absent are names in a directory that the kernel may know not to be there.
	absent map[string]struct{}
	// base is where a directory's lower part lies in the base, if it has one.
	base    string
	hasBase bool

	open openFile
}

type link struct {
	parent *node
	name   string
}

// openFile is what descriptors of a node read and write.
type openFile struct {
	// mu is held shared for reading and writing through the files, and
	// exclusively for replacing them.
	mu sync.RWMutex

	// on is the version as last seen.
	on     overlay.Node
	pinned bool
	// reader reads it until there is a writer.
	reader *os.File
	// writer is the layer's own file, from the first write on.
	writer *overlay.File
	// using counts the calls that write through writer.
	using int
}

// table holds the nodes of a view.
//
// Its mutex is innermost: nothing else is called while it is held.
type table struct {
	mu sync.Mutex
	// Guarded by mu.
	root  *node
	byID  map[uint64]*node
	byDir map[string][]*node // by node.base, directories with a lower part
	// linked finds the node of a layer's file with several names.
	linked map[uint64]*node
	lastID uint64
	// moves counts the changes of this view that may move a version to another
	// node; a look-up that overlaps one starts again.
	moves uint64
	epoch uint64
	// absences counts the names in all nodes' absent.
	absences int
	// dropped are files that have left the table and whose content was kept.
	dropped []*node
}

func newTable(on overlay.Node) *table {
	root := &node{
		id: fuse.FUSE_ROOT_ID, dir: true, typ: on.Attr.Mode & typeMask,
		version: on.Version, stamp: on.Stamp,
		lookups: 1, names: map[string][]*node{}, hasBase: true,
	}
	root.open.on = on
	return &table{
		root: root, lastID: root.id,
		byID:   map[uint64]*node{root.id: root},
		byDir:  map[string][]*node{"": {root}},
		linked: map[uint64]*node{},
	}
}

// find is the node with this id; nil if the kernel asks for one that it gave up.
func (t *table) find(id uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// path is where n is; false if it has no name any more.
func (t *table) path(n *node) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pathLocked(n)
}

func (t *table) pathLocked(n *node) (string, bool) {
	if n == t.root {
		return "", true
	}
	var parts []string
	size := 0
	for ; n != t.root; n = n.links[0].parent {
		if len(n.links) == 0 {
			return "", false
		}
		parts = append(parts, n.links[0].name)
		size += len(n.links[0].name) + 1
	}
	b := make([]byte, 0, size)
	for i := len(parts) - 1; i >= 0; i-- {
		b = append(b, parts[i]...)
		if i > 0 {
			b = append(b, '/')
		}
	}
	return string(b), true
}

// child is the path of name in directory n.
func (t *table) child(n *node, name string) (string, bool) {
	dir, ok := t.path(n)
	return join(dir, name), ok
}

// versionOf is the version that n stands for now.
func (t *table) versionOf(n *node) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.version
}

// began is to be asked before resolving something that remember will be told.
func (t *table) began() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.moves
}

// remember finds or makes the node for what name in parent resolved to, and
// counts a reference of the kernel's. nil: something moved since began, or the
// parent is gone; resolve again.
func (t *table) remember(parent *node, name string, on overlay.Node, since uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.moves != since || parent.names == nil {
		return nil
	}
	return t.rememberLocked(parent, name, on)
}

func (t *table) rememberLocked(parent *node, name string, on overlay.Node) *node {
	n := t.matchLocked(parent, name, on)
	if n == nil {
		t.lastID++
		n = &node{id: t.lastID, dir: on.IsDir(), typ: on.Attr.Mode & typeMask, version: on.Version, first: t.epoch}
		n.open.on = on
		if n.dir {
			n.names = map[string][]*node{}
			if base, ok := lowerOf(on); ok {
				n.base, n.hasBase = base, true
				t.byDir[base] = append(t.byDir[base], n)
			}
		}
		t.byID[n.id] = n
		t.linkLocked(n, parent, name)
	}
	n.stamp, n.epoch, n.touched = on.Stamp, t.epoch, false
	n.lookups++
	for _, m := range parent.names[name] {
		m.shown = m == n
	}
	t.presentLocked(parent, name)
	if shared(on) && t.linked[n.version] == nil {
		t.linked[n.version] = n
	}
	return n
}

// matchLocked finds the node that stands for on already.
func (t *table) matchLocked(parent *node, name string, on overlay.Node) *node {
	for _, n := range parent.names[name] {
		if n.version == on.Version && !n.parted && t.freshLocked(n, on) {
			return n
		}
	}
	if !shared(on) {
		return nil
	}
	n := t.linked[on.Version]
	if n == nil || !t.freshLocked(n, on) {
		return nil
	}
	t.linkLocked(n, parent, name)
	return n
}

// freshLocked says whether what the kernel caches for n is right for on. While a
// branch is shown, others' changes in place are told to the kernel. Changes
// from before the last switch were not: then the stamp must be the one known,
// unless this view itself moved it on.
func (t *table) freshLocked(n *node, on overlay.Node) bool {
	return n.dir || n.stamp == on.Stamp || n.epoch == t.epoch || n.touched
}

// shared says whether a file may be found under several names as one node: a
// layer's hard links. Those of the base are separate files once one of them is
// changed, so each is a node of its own.
func shared(on overlay.Node) bool {
	_, base := on.FromBase()
	return !base && !on.IsDir() && on.Attr.Nlink > 1
}

// lowerOf is the base directory that shows through a directory.
func lowerOf(on overlay.Node) (string, bool) {
	base, whole := on.FromBase()
	return base, whole || base != ""
}

func (t *table) linkLocked(n, parent *node, name string) {
	n.links = append(n.links, link{parent, name})
	parent.names[name] = append(parent.names[name], n)
	parent.holds++
}

// unlinkLocked takes one name from n, or all of them if parent is nil.
func (t *table) unlinkLocked(n, parent *node, name string) {
	for i := 0; i < len(n.links); {
		l := n.links[i]
		if parent != nil && l != (link{parent, name}) {
			i++
			continue
		}
		n.links = slices.Delete(n.links, i, i+1)
		left := slices.DeleteFunc(slices.Clone(l.parent.names[l.name]), func(m *node) bool { return m == n })
		if len(left) == 0 {
			delete(l.parent.names, l.name)
		} else {
			l.parent.names[l.name] = left
		}
		l.parent.holds--
		t.dropLocked(l.parent)
	}
}

// dropLocked takes n out of the table if nobody needs it any more.
func (t *table) dropLocked(n *node) {
	if n.lookups > 0 || n.holds > 0 || n == t.root || t.byID[n.id] == nil {
		return
	}
	delete(t.byID, n.id)
	if n.typ == unix.S_IFREG {
		t.dropped = append(t.dropped, n)
	}
	if t.linked[n.version] == n {
		delete(t.linked, n.version)
	}
	if n.hasBase {
		left := slices.DeleteFunc(slices.Clone(t.byDir[n.base]), func(m *node) bool { return m == n })
		if len(left) == 0 {
			delete(t.byDir, n.base)
		} else {
			t.byDir[n.base] = left
		}
	}
	t.absences -= len(n.absent)
	n.names, n.absent = nil, nil
	t.unlinkLocked(n, nil, "")
}

// forget takes back references of the kernel's.
func (t *table) forget(id, count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil {
		return
	}
	n.lookups -= min(count, n.lookups)
	t.dropLocked(n)
}

// made is remember for what the view itself has just created. Nothing else can
// have the name; where somebody else has taken it since, they are told.
func (t *table) made(parent *node, name string, on overlay.Node) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves++
	return t.rememberLocked(parent, name, on)
}

// became says that n is another version now: this view wrote it, or moved it.
// It returns the paths of n that the kernel may still know as another node.
func (t *table) became(n *node, on overlay.Node) (others []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves++
	for _, l := range n.links {
		if len(l.parent.names[l.name]) > 1 {
			if dir, ok := t.pathLocked(l.parent); ok {
				others = append(others, join(dir, l.name))
			}
		}
	}
	if t.linked[n.version] == n {
		delete(t.linked, n.version)
	}
	n.version, n.stamp, n.epoch, n.touched, n.parted = on.Version, on.Stamp, t.epoch, true, false
	if shared(on) {
		t.linked[n.version] = n
	}
	return others
}

// ofEarlierTurn says that n was there before the last switch.
func (t *table) ofEarlierTurn(n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.first < t.epoch
}

// part keeps n from being the answer to a look-up, though it has its name: its
// descriptors are of another turn.
func (t *table) part(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves++
	n.parted = true
}

// orphaned says that n has lost its name for good and is on now.
func (t *table) orphaned(n *node, on overlay.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves++
	t.retireLocked(n)
	n.version, n.stamp, n.parted = on.Version, on.Stamp, false
}

// touch says that this view changed n in place.
func (t *table) touch(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.touched, n.wrote = true, true
}

// retire sees to it that no look-up answers with n again.
func (t *table) retire(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves++
	t.retireLocked(n)
}

func (t *table) retireLocked(n *node) {
	if t.linked[n.version] == n {
		delete(t.linked, n.version)
	}
	t.unlinkLocked(n, nil, "")
}

// removed takes a name from the node that had it.
func (t *table) removed(n, parent *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves++
	t.unlinkLocked(n, parent, name)
}

// named is the node under a name with this version, or nil.
func (t *table) named(parent *node, name string, version uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range parent.names[name] {
		if n.version == version && !n.parted {
			return n
		}
	}
	return nil
}

// renamed moves n from one name to another.
func (t *table) renamed(n *node, from, to link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves++
	t.linkLocked(n, to.parent, to.name)
	t.unlinkLocked(n, from.parent, from.name)
	for _, m := range to.parent.names[to.name] {
		m.shown = m == n
	}
}

// linkedAs gives n one more name, and counts a reference of the kernel's.
func (t *table) linkedAs(n, parent *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves++
	t.linkLocked(n, parent, name)
	n.lookups++
	for _, m := range parent.names[name] {
		m.shown = m == n
	}
}
