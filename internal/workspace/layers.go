package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
)

// Layers says where the branches' files live and how much they may hold.
type Layers struct {
	// Memory keeps them in memory: nothing of them outlives the daemon, kept
	// branches included.
	Memory bool
	// Max bounds the bytes of all branches together: 0 is the default of the
	// place, negative is no limit.
	Max int64
}

const (
	// DefaultDiskMax holds the build output of a good many branches, and leaves
	// something of any disk that a person works on.
	DefaultDiskMax = 10 << 30
	// DefaultMemoryMax is small, because nothing gives memory back but dropping
	// branches.
	DefaultMemoryMax = 1 << 30
)

func (l Layers) max() int64 {
	switch {
	case l.Max < 0:
		return 0 // as overlay.Options has it
	case l.Max > 0:
		return l.Max
	case l.Memory:
		return DefaultMemoryMax
	}
	return DefaultDiskMax
}

// LayersStatus is what `shadowlsp status` says of them.
type LayersStatus struct {
	Store string `json:"store"` // "disk" or "memory"
	Dir   string `json:"dir"`
	Used  int64  `json:"usedBytes"`
	Max   int64  `json:"maxBytes"` // 0: no limit
}

// openLayers opens the store where the configuration wants it.
func (d *daemon) openLayers() error {
	dir := filepath.Join(d.cfg.Place.State, "layers")
	d.layers = LayersStatus{Store: "disk", Max: d.cfg.Layers.max()}
	if d.cfg.Layers.Memory {
		m, err := makeMemory(fmt.Sprintf("shadowlsp-%d", os.Getuid()), filepath.Base(d.cfg.Place.State), "/dev/shm", d.cfg.Place.Runtime)
		if err != nil {
			return err
		}
		d.memory, d.layers.Store = m, "memory"
		dir = filepath.Join(m.dir, "layers")
	}
	d.layers.Dir = dir
	d.sweepTemp()
	store, repairs, err := overlay.Open(overlay.Options{Base: d.root, State: dir, Limit: d.layers.Max})
	if overlay.KindOf(err) == overlay.Unsupported {
		other := "use a file system with user extended attributes and RENAME_EXCHANGE (ext4, xfs, btrfs, tmpfs) by setting XDG_STATE_HOME, or --store memory"
		if d.layers.Store == "memory" {
			other = "it takes Linux 6.6 or newer; use --store disk"
		}
		return fmt.Errorf("branches cannot be kept in %s: %w: %s", dir, err, other)
	}
	if err != nil {
		return err
	}
	d.store = store
	for _, r := range repairs {
		d.cfg.Log.Warn().Str("branch", r.Branch).Msgf("repaired after an unclean end: %+v", r)
	}
	return nil
}

// closeLayers closes the store, and gives the memory back.
func (d *daemon) closeLayers() {
	if d.store != nil {
		if err := d.store.Close(); err != nil {
			d.cfg.Log.Warn().Err(err).Msg("closing the layers")
		}
	}
	if d.memory != nil {
		if err := d.memory.remove(); err != nil {
			d.cfg.Log.Warn().Err(err).Msg("giving the memory of the layers back")
		}
	}
}

// explain makes an error for an agent of one that says that there is no room:
// which branch, how much, what to do. Others it returns as they are.
func (d *daemon) explain(err error) error {
	var e *overlay.Error
	if !errors.As(err, &e) || e.Kind != overlay.NoSpace {
		return err
	}
	type mark struct {
		Limit  string `json:"limit,omitempty"`
		Branch string `json:"branch"`
		Held   int64  `json:"branchBytes"`
		Used   int64  `json:"usedBytes"`
		Max    int64  `json:"maxBytes"`
		Most   int64  `json:"max,omitempty"`
	}
	m := mark{Branch: e.Branch, Used: d.store.Used(), Max: d.layers.Max}
	for _, info := range d.store.List() {
		if info.Name == e.Branch {
			m.Held = info.Bytes
		}
	}
	what := fmt.Sprintf("no room for %s in branch %s, which holds %s: ", e.Path, m.Branch, Size(m.Held))
	if e.Err == nil {
		m.Limit, m.Most = "layer-max", m.Max
		what += fmt.Sprintf("all branches of the workspace hold %s of the %s that --layer-max allows. Take edits back, end connections whose branches are not kept, or restart the daemon (`shadowlsp stop`) with a larger --layer-max", Size(m.Used), Size(m.Max))
	} else {
		what += fmt.Sprintf("the file system of %s is full (%v). Make room there, or set XDG_STATE_HOME to another one", d.layers.Dir, e.Err)
	}
	return wire.Errorf(wire.CodeRequestFailed, "%s", what).WithData(map[string]mark{"shadowlsp": m})
}

// Size is a number of bytes, for people and flags.
type Size int64

func (s Size) String() string {
	const units = "KMGT"
	if s < 1<<10 {
		return fmt.Sprintf("%d B", int64(s))
	}
	value, unit := float64(s)/(1<<10), 0
	for value >= 1<<10 && unit < len(units)-1 {
		value, unit = value/(1<<10), unit+1
	}
	return fmt.Sprintf("%.4g %ciB", value, units[unit])
}

// memory is a private directory in memory that ends with its daemon. What a
// daemon leaves that is killed, the next one that uses memory removes, for
// whichever workspace it was.
type memory struct {
	parent, dir string
	alive       *os.File // locked as long as the daemon lives
}

// aliveFile is locked by the daemon whose directory it is in.
const aliveFile = "alive"

// makeMemory makes a directory for a workspace below one called parent in the
// first of places that is in memory.
func makeMemory(parent, name string, places ...string) (*memory, error) {
	place := ""
	for _, p := range places {
		var st unix.Statfs_t
		if unix.Statfs(p, &st) == nil && st.Type == unix.TMPFS_MAGIC && unix.Access(p, unix.W_OK) == nil {
			place = p
			break
		}
	}
	if place == "" {
		return nil, fmt.Errorf("--store memory needs a file system in memory (tmpfs) at one of %q: mount one there, or use --store disk", places)
	}
	m := &memory{parent: filepath.Join(place, parent)}
	lock, err := m.lockParent()
	if err != nil {
		return nil, fmt.Errorf("making a place for branches in memory: %w", err)
	}
	defer lock.Close()
	m.sweep()
	if m.dir, err = os.MkdirTemp(m.parent, name+"-"); err != nil {
		return nil, fmt.Errorf("making a place for branches in memory: %w", err)
	}
	if m.alive, err = os.OpenFile(filepath.Join(m.dir, aliveFile), os.O_CREATE|os.O_RDWR, 0o600); err == nil {
		err = unix.Flock(int(m.alive.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		os.RemoveAll(m.dir)
		return nil, fmt.Errorf("making a place for branches in memory: %w", err)
	}
	return m, nil
}

// lockParent makes the directory of all this user's workspaces and locks it, so
// that none is made or removed meanwhile.
func (m *memory) lockParent() (*os.File, error) {
	for {
		if err := os.Mkdir(m.parent, 0o700); err != nil && !os.IsExist(err) {
			return nil, err
		}
		fd, err := unix.Open(m.parent, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT {
			continue // its last user has just removed it
		}
		if err != nil {
			return nil, fmt.Errorf("opening %s: %w", m.parent, err)
		}
		f := os.NewFile(uintptr(fd), m.parent)
		var st, now unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil {
			// Anybody may make directories in a shared place.
			if st.Uid != uint32(os.Getuid()) || st.Mode&0o077 != 0 {
				err = fmt.Errorf("%s must be a directory of your own with mode 0700: remove it, or use --store disk", m.parent)
			} else {
				err = flockWaiting(fd)
			}
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		if unix.Stat(m.parent, &now) == nil && now.Ino == st.Ino && now.Dev == st.Dev {
			return f, nil
		}
		f.Close()
	}
}

func flockWaiting(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

// sweep removes what daemons that were killed have left.
func (m *memory) sweep() {
	left, _ := os.ReadDir(m.parent)
	for _, e := range left {
		dir := filepath.Join(m.parent, e.Name())
		f, err := os.OpenFile(filepath.Join(dir, aliveFile), os.O_RDWR, 0)
		if err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
			f.Close()
			if err != nil {
				continue // its daemon lives
			}
		}
		_ = os.RemoveAll(dir) // tried again at the next start
	}
}

// remove gives the memory back.
func (m *memory) remove() error {
	lock, err := m.lockParent()
	if err != nil {
		return err
	}
	defer lock.Close()
	err = os.RemoveAll(m.dir)
	m.alive.Close()
	_ = os.Remove(m.parent) // refused while others use it
	return err
}
