package overlay

import (
	"crypto/rand"
	"encoding/hex"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Options open a Store.
type Options struct {
	Base  string // the person's folder
	State string // directory that the store owns; made 0700 if missing. On tmpfs: memory mode
	// Limit is the bytes that all layers together may hold (a name counts some
	// hundred bytes); 0: no limit.
	Limit int64
	// Clock is time.Now if nil.
	Clock func() time.Time
}

// Store is the layers of one root.
//
//	lock          held by the process that has the store open
//	layers/ID/    see layer
//	branches/     one record per kept branch
//	intents/      steps that are being done right now
//	applies/      changes of the base that are being made right now
//	trash/        on its way out
type Store struct {
	basePath string
	base     beneath
	state    beneath
	lockFd   int
	limit    int64
	clock    func() time.Time
	root     bool // may give files to other users
	uid, gid uint32
	umask    uint32
	// What the state directory's file system can do; tests take it away.
	marks       bool // user xattrs on files
	xattrWhites bool // no character devices 0/0
	renameWhite bool // RENAME_WHITEOUT
	// plainRename: tests take the flags of rename(2) away from the base's file system.
	plainRename bool

	last    atomic.Int64
	serials atomic.Uint64
	inos    atomic.Uint64
	used    atomic.Int64
	// stepped is called between the steps of changes; tests kill there.
	stepped func(name string)

	seen  seen
	apart apart
	// began is when the oldest branch did (ns); 0: there was none. It never grows.
	began atomic.Int64

	// applying is held by the one who changes the base.
	applying sync.Mutex

	mu sync.Mutex
	// guarded by mu, beside refs, open, pins and writers of layers and files:
	branches map[string]*Branch
	closed   bool
}

// Repair is something that Open found unfinished or damaged, and what it did.
type Repair struct {
	Branch string // "" when no branch is concerned
	Path   string
	What   string
}

// Open opens or makes the store at o.State. Busy when another process has it.
func Open(o Options) (*Store, []Repair, error) {
	s := &Store{limit: o.Limit, clock: o.Clock, branches: map[string]*Branch{}, lockFd: -1}
	s.seen.seed = maphash.MakeSeed()
	s.base.fd, s.state.fd = -1, -1
	if s.clock == nil {
		s.clock = time.Now
	}
	repairs, err := s.open(o)
	if err != nil {
		s.abandon()
		return nil, repairs, wrap("open store", "", o.State, err)
	}
	return s, repairs, nil
}

func (s *Store) open(o Options) ([]Repair, error) {
	abs, err := filepath.Abs(o.Base)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, err
	}
	s.basePath = abs
	if s.base.fd, err = openDir(abs); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.State, 0o700); err != nil {
		return nil, err
	}
	if s.state.fd, err = openDir(o.State); err != nil {
		return nil, err
	}
	if err := s.lock(); err != nil {
		return nil, err
	}
	for _, dir := range []string{"layers", "branches", "intents", "applies", "trash"} {
		if err := unix.Mkdirat(s.state.fd, dir, 0o700); err != nil && err != unix.EEXIST {
			return nil, err
		}
	}
	s.uid, s.gid = uint32(os.Geteuid()), uint32(os.Getegid())
	s.root = s.uid == 0
	s.umask = readUmask()
	var seed [8]byte
	rand.Read(seed[:])
	// 1<<52 and up: no common file system numbers its inodes there, and 40 random
	// bits keep processes apart. Below 1<<53, since JavaScript has inode numbers as
	// floating-point numbers, which cannot tell neighbours apart above.
	start := uint64(0)
	for _, b := range seed[:5] {
		start = start<<8 | uint64(b)
	}
	s.inos.Store(1<<52 | start<<11)
	if err := s.probe(); err != nil {
		return nil, err
	}
	return s.load()
}

func openDir(path string) (int, error) {
	return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// lock makes this the only process that has the store.
func (s *Store) lock() error {
	fd, err := unix.Openat(s.state.fd, "lock", unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	s.lockFd = fd
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) // EWOULDBLOCK is Busy
}

// readUmask is the umask of this process, without changing it.
func readUmask() uint32 {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if v, ok := strings.CutPrefix(line, "Umask:"); ok {
				mask := uint32(0)
				for _, c := range strings.TrimSpace(v) {
					mask = mask<<3 | uint32(c-'0')
				}
				return mask
			}
		}
	}
	return 0o777 // unknown: every mode is set explicitly
}

// probe finds out what the file system of the state directory can do. Without
// user xattrs on directories or RENAME_EXCHANGE a layer cannot be what it must be.
func (s *Store) probe() error {
	dir := "trash/probe-" + newID()
	if err := unix.Mkdirat(s.state.fd, dir, 0o700); err != nil {
		return err
	}
	defer removeTree(s.state.fd, dir)
	fd, err := openat(s.state.fd, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fsetxattr(fd, xattrMode, []byte("755"), 0); err != nil {
		return unsupported(err)
	}
	for _, name := range []string{"a", "b"} {
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			return err
		}
	}
	if err := unix.Renameat2(fd, "a", fd, "b", unix.RENAME_EXCHANGE); err != nil {
		return unsupported(err)
	}
	s.xattrWhites = unix.Mknodat(fd, "w", unix.S_IFCHR, 0) != nil
	s.renameWhite = unix.Renameat2(fd, "a", fd, "c", unix.RENAME_WHITEOUT) == nil
	f, err := unix.Openat(fd, "f", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	s.marks = unix.Fsetxattr(f, xattrMeta, nil, 0) == nil
	return unix.Close(f)
}

// unsupported is the Error for a state directory on the wrong file system.
func unsupported(err error) error {
	return &Error{Op: "open store", Kind: Unsupported, Err: err}
}

// newID is a random name, never used before.
func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// step is where tests kill.
func (s *Store) step(name string) {
	if s.stepped != nil {
		s.stepped(name)
	}
}

// room fails when n more bytes are above the limit.
func (s *Store) room(n int64) error {
	if s.limit > 0 && n > 0 && s.used.Load()+n > s.limit {
		return kindError(NoSpace)
	}
	return nil
}

// Room fails with NoSpace when n more bytes would pass the limit of the store.
// A view asks before it extends a file; the bytes are counted by Wrote.
func (b *Branch) Room(n int64) error { return b.wrap("write", "", b.store.room(n)) }

// Used is the bytes that all layers hold now.
func (s *Store) Used() int64 { return s.used.Load() }

// baseMtime is the mtime of the regular file at path in the base, zero if
// something else is there; the error says whether anything is.
func (s *Store) baseMtime(path string) (Time, error) {
	var st unix.Stat_t
	if err := s.base.stat(path, &st); err != nil {
		return Time{}, err
	}
	if !isReg(st.Mode) {
		return Time{}, nil
	}
	return timeOfSpec(st.Mtim), nil
}

// Branch is the branch of that name.
func (s *Store) Branch(name string) (*Branch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.branchLocked(name)
	return b, wrap("find", name, "", err)
}

func (s *Store) branchLocked(name string) (*Branch, error) {
	if s.closed {
		return nil, kindError(Closed)
	}
	b := s.branches[name]
	if b == nil {
		return nil, kindError(NotExist)
	}
	return b, nil
}

// Info describes a branch.
type Info struct {
	Name    string
	From    string
	Keep    bool
	Rev     uint64
	Created time.Time
	Layers  int   // the depth of its chain
	Bytes   int64 // of its own top layer
}

// List is all branches, sorted by name.
func (s *Store) List() []Info {
	var out []Info
	for _, b := range s.all() {
		b.write.Lock()
		if c := b.chain.Load(); c != nil {
			out = append(out, Info{Name: b.name, From: b.from, Keep: b.keep, Rev: b.Rev(), Created: b.created, Layers: len(c.layers), Bytes: c.layers[0].bytes.Load()})
		}
		b.write.Unlock()
	}
	return out
}

// all is the branches now, sorted by name.
func (s *Store) all() []*Branch {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Branch
	for _, b := range s.branches {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b *Branch) int { return strings.Compare(a.name, b.name) })
	return out
}

// Close drops the branches that are not kept and gives the state directory
// free. Files that are still open can be written on, and all else says Closed.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true // no new branch from here on
	s.mu.Unlock()
	var first error
	var kept []*layer
	for _, b := range s.all() {
		layers, err := b.end(false)
		kept = append(kept, layers...)
		if err != nil && first == nil && KindOf(err) != Closed {
			first = err
		}
	}
	for _, l := range kept { // only now: branches share them
		l.shut()
	}
	s.abandon()
	return wrap("close store", "", "", first)
}

// abandon closes the descriptors and nothing more: what a kill does.
func (s *Store) abandon() {
	for _, b := range s.all() {
		if c := b.chain.Load(); c != nil {
			for _, l := range c.layers {
				l.shut()
			}
		}
	}
	s.base.close()
	s.state.close()
	if s.lockFd >= 0 {
		unix.Close(s.lockFd)
		s.lockFd = -1
	}
}

// shut closes the layer's descriptor; what still asks for it finds it dead.
func (l *layer) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.fd = -1
	}
}
