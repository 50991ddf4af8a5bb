package fusefs

import (
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// A program in the view that watches files (inotify) hears of what other
// programs in the view do, because they do it through the kernel. Of what an
// agent writes, or the person in the base, it hears nothing: no FUSE
// notification makes such an event. So a thread beside the program, the poker,
// does to the name, through the mount, what would have made the event, and the
// view answers as if it were done and does nothing:
//
//	a new name, or other content   mknod, mkdir, symlink: the view says at first
//	                               that there is nothing, then that it is made
//	a name that is gone            unlink, rmdir: the view shows something for
//	                               the poker to remove
//	a change in place              open for writing, truncate to the same size
//
// The poker is woken, and asks what to do by reading an attribute of the root
// that only it is answered for. It is known by its thread id.

// PokeAttr is the extended attribute of the root by which the poker takes its
// next poke: its type of file and what to do, in one byte each, then the path.
// ENODATA: nothing is to do.
const PokeAttr = "user.shadowlsp.poke"

// What a poker does, the second byte.
const (
	PokeMade    = 'm'
	PokeGone    = 'g'
	PokeChanged = 'c'
)

// Poker is who pokes for a view.
type Poker struct {
	// Thread is its id in the pid namespace of the mount.
	Thread int
	// Wake makes it read PokeAttr until there is no more. It must not block for
	// long, and is not called again before the poker has read.
	Wake func()
}

// maxPokes bounds the names that wait; what is more is not poked. A watcher
// that is overrun so far has lost events of its own: inotify queues 16,384.
const maxPokes = 1 << 14

// pokes are what a view wants poked. The zero value is ready.
type pokes struct {
	mu sync.Mutex // innermost; guards the fields below
	// by is set once.
	by Poker
	// queue is in order, and what holds each of its paths once.
	queue []string
	what  map[string]poke
	// now and doing are what the poker is at.
	now   string
	doing poke
	// going is what the teller is about to have removed.
	going string
	woken bool
}

type poke struct {
	mode uint32 // type bits
	what byte   // 0: nothing
}

// SetPoker gives the view a poker. Call it once, before anything changes that is
// to be noticed.
func (v *View) SetPoker(p Poker) {
	v.pokes.mu.Lock()
	defer v.pokes.mu.Unlock()
	v.pokes.by, v.pokes.what = p, map[string]poke{}
	v.poked.Store(true)
}

// isPoker says whether a request is the poker's.
func (v *View) isPoker(h *fuse.InHeader) bool {
	if !v.poked.Load() {
		return false
	}
	v.pokes.mu.Lock()
	defer v.pokes.mu.Unlock()
	return int(h.Caller.Pid) == v.pokes.by.Thread
}

// poke asks for a poke, by the teller.
func (v *View) poke(path string, p poke) {
	k := &v.pokes
	k.mu.Lock()
	was, there := k.what[path]
	switch {
	case there && was.what == PokeMade && p.what == PokeChanged:
		p.what = PokeMade
	case there:
	case len(k.queue) >= maxPokes || len(path) >= unix.PathMax: // or cannot be named in one call
		k.mu.Unlock()
		return
	default:
		k.queue = append(k.queue, path)
	}
	k.what[path] = p
	wake := !k.woken
	k.woken = true
	f := k.by.Wake
	k.mu.Unlock()
	if wake {
		f()
	}
}

// nextPoke is the value of PokeAttr for the poker.
func (v *View) nextPoke() ([]byte, error) {
	k := &v.pokes
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now, k.doing = "", poke{}
	if len(k.queue) == 0 {
		k.queue, k.woken = nil, false
		return nil, unix.ENODATA
	}
	k.now = k.queue[0]
	k.queue = k.queue[1:]
	k.doing = k.what[k.now]
	delete(k.what, k.now)
	return append([]byte{byte(k.doing.mode >> 12), k.doing.what}, k.now...), nil
}

// pokeAt is what the poker is doing, if it is at this path.
func (v *View) pokeAt(path string) byte {
	v.pokes.mu.Lock()
	defer v.pokes.mu.Unlock()
	if v.pokes.now != path {
		return 0
	}
	return v.pokes.doing.what
}

// pokeGoing says that the kernel must not keep that there is no such name:
// the poker will have to remove it.
func (v *View) pokeGoing(path string) bool {
	if !v.poked.Load() {
		return false
	}
	k := &v.pokes
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.what[path].what == PokeGone || k.now == path && k.doing.what == PokeGone || k.going == path
}

func (v *View) setGoing(path string) {
	v.pokes.mu.Lock()
	defer v.pokes.mu.Unlock()
	v.pokes.going = path
}

// pokeRemoval pokes a name that is gone. The poker can remove what the kernel
// has, or asks for, but not what it knows not to exist: who looked before the
// teller came here (the poker itself, for an earlier change) may have been told
// so.
func (v *View) pokeRemoval(parent *node, name, path string, typ uint32) {
	v.setGoing(path) // from here on no such answer is kept
	if v.table.isAbsent(parent, name) {
		v.entryGone(parent, name)
	}
	v.poke(path, poke{typ, PokeGone})
	v.setGoing("")
}

// pokeValid is enough for the poker to remove what it was shown.
const pokeValid = time.Second

// pokeLookup answers the poker about the name that it is at; false: as anybody.
func (v *View) pokeLookup(header *fuse.InHeader, name string, out *fuse.EntryOut) (fuse.Status, bool) {
	parent := v.table.find(header.NodeId)
	if parent == nil {
		return fuse.OK, false
	}
	path, ok := v.table.child(parent, name)
	if !ok {
		return fuse.OK, false
	}
	switch v.pokeAt(path) {
	case PokeMade:
		return fuse.ENOENT, true // so that it can be made
	case PokeGone:
		v.moving.RLock()
		_, err := v.branch.Lookup(path)
		v.moving.RUnlock()
		if overlay.KindOf(err) != overlay.NotExist {
			return fuse.ENOENT, true // it is back: nothing is removed
		}
	default:
		return fuse.OK, false
	}
	// An id that nothing is known by. The kernel forgets it with the removal.
	v.table.mu.Lock()
	v.table.lastID++
	id := v.table.lastID
	v.table.mu.Unlock()
	v.pokes.mu.Lock()
	mode := v.pokes.doing.mode
	v.pokes.mu.Unlock()
	out.NodeId, out.Generation = id, 1
	out.Attr = fuse.Attr{Ino: id, Mode: mode | 0o600, Nlink: 1, Owner: fuse.Owner{Uid: v.uid, Gid: v.gid}}
	out.SetAttrTimeout(pokeValid)
	return fuse.OK, true
}

// pokeMake answers the poker that it has made what was there.
func (v *View) pokeMake(header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	v.moving.RLock()
	defer v.moving.RUnlock()
	parent := v.table.find(header.NodeId)
	if parent == nil || !parent.dir {
		return fuse.Status(unix.ESTALE)
	}
	path, ok := v.table.child(parent, name)
	if !ok || v.pokeAt(path) != PokeMade {
		return fuse.EPERM
	}
	st := v.lookup(parent, name, out)
	if st == fuse.OK && out.NodeId == 0 {
		return fuse.ENOENT
	}
	return st
}

// pokeRemove answers the poker that it has removed what was not there.
func (v *View) pokeRemove(header *fuse.InHeader, name string) fuse.Status {
	parent := v.table.find(header.NodeId)
	if parent == nil {
		return fuse.Status(unix.ESTALE)
	}
	path, ok := v.table.child(parent, name)
	if !ok || v.pokeAt(path) != PokeGone {
		return fuse.EPERM
	}
	return fuse.OK
}

// pokeBranch asks for a poke about a change of the branch by others, and carries
// out tell, which tells the kernel.
func (v *View) pokeBranch(path string, op overlay.Op, tell func()) {
	dir, name := splitPath(path)
	parents := v.table.at(dir)
	if path == "" || len(parents) == 0 || op == overlay.OpCopyUp {
		tell()
		return
	}
	v.pokeName(parents[0], name, path, op != overlay.OpWrite && op != overlay.OpAttr, false, tell)
}

// pokeBase is pokeBranch for a change of the base.
func (v *View) pokeBase(dir, name string, named bool, tell func()) {
	parents := v.table.lowerDirs(dir)
	if len(parents) == 0 {
		tell()
		return
	}
	path, ok := v.table.child(parents[0], name)
	if !ok {
		tell()
		return
	}
	v.pokeName(parents[0], name, path, named, true, tell)
}

// pokeName pokes one name; named: it means something else now; base: only if it
// is the base's. A removal is poked before the kernel is told, because the poker
// may still find there what it removes; all else after, so that who is woken by
// it sees what is new.
func (v *View) pokeName(parent *node, name, path string, named, base bool, tell func()) {
	was := uint32(unix.S_IFREG)
	known := v.table.children(parent, name)
	for _, n := range known {
		if n.dir {
			was = unix.S_IFDIR
		}
	}
	v.moving.RLock()
	on, err := v.branch.Lookup(path)
	v.moving.RUnlock()
	if overlay.KindOf(err) == overlay.NotExist {
		for _, n := range known {
			v.deleted(parent, n, name)
		}
		v.pokeRemoval(parent, name, path, was)
		tell()
		return
	}
	if _, whole := on.FromBase(); err != nil || base && !whole {
		tell() // hidden
		return
	}
	p := poke{on.Attr.Mode & typeMask, PokeChanged}
	if named {
		p.what = PokeMade
	}
	tell()
	v.poke(path, p)
}

// deleted lets those who watch a file itself know that it has gone, so that they
// watch its successor: they would hear nothing ever again. (The poker is no help:
// it may come after the kernel was told, and then finds another file. Directories
// would stay dead for the kernel if they came back.)
func (v *View) deleted(parent, n *node, name string) {
	if n.dir {
		return
	}
	v.told(v.server.DeleteNotify(parent.id, n.id, name))
	v.attrs(n)
}
