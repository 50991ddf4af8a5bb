// Package root answers: which folder does a workspace's shadow cover, and where
// do that folder's own files (sockets, lock, token, layers, log) live?
//
// Model: the root is the enclosing version-control top level of a folder, else
// the folder itself, always as a real path. From its hash follow two private
// directories: a runtime directory (gone after a reboot) and a state directory
// (kept). One daemon per root holds the lock in the runtime directory.
//
// Invariants: both directories are mode 0700 and belong to the user, or
// [Place.Make] fails: a directory that another user prepared in a shared temp
// folder is refused. A root is never "/" and never contains its own runtime or
// state directory, which would show the daemon's files in every view.
//
// Absent on purpose: reading the environment (cmd hands it in), any knowledge of
// what is stored.
//
// Locks: the flock of [Place.Lock] is held by a file descriptor, so it ends with
// the process that holds it, kill -9 included. No goroutines.
package root

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// markers are what a version-control top level contains.
var markers = []string{".git", ".hg", ".jj", ".svn", ".bzr"}

// Find returns the root that covers dir: the real path of the nearest enclosing
// version-control top level, else of dir itself.
func Find(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return "", fmt.Errorf("finding the workspace of %s: %w", dir, err)
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return "", fmt.Errorf("finding the workspace of %s: not a folder", dir)
	}
	for at := real; ; at = filepath.Dir(at) {
		for _, m := range markers {
			if _, err := os.Lstat(filepath.Join(at, m)); err == nil && at != "/" {
				return at, nil
			}
		}
		if at == "/" {
			break
		}
	}
	if real == "/" {
		return "", errors.New("the folder / cannot be a workspace: name a folder below it with --workspace")
	}
	return real, nil
}

// Place is where the files of one root live. All paths are absolute.
type Place struct {
	Root    string // the real path of the folder
	Runtime string // sockets, lock, token; 0700
	State   string // layers, log, what was learnt; 0700
}

// Dirs are the base directories from the environment; empty fields mean the
// defaults of the XDG base directory specification.
type Dirs struct {
	Runtime string // $XDG_RUNTIME_DIR
	State   string // $XDG_STATE_HOME
	Home    string // $HOME
	Temp    string // the user's temp directory, for Runtime's fallback
}

// At returns the place of root (a real path, see [Find]).
func At(root string, d Dirs) (Place, error) {
	sum := sha256.Sum256([]byte(root))
	name := hex.EncodeToString(sum[:8])
	runtime := filepath.Join(d.Runtime, "shadowlsp")
	if d.Runtime == "" {
		runtime = filepath.Join(d.Temp, fmt.Sprintf("shadowlsp-%d", os.Getuid()))
	}
	state := d.State
	if state == "" {
		if d.Home == "" {
			return Place{}, errors.New("neither XDG_STATE_HOME nor HOME is set: set one, so that branches have a place to live")
		}
		state = filepath.Join(d.Home, ".local", "state")
	}
	p := Place{Root: root, Runtime: filepath.Join(runtime, name), State: filepath.Join(state, "shadowlsp", name)}
	for _, dir := range []string{p.Runtime, p.State} {
		if Contains(root, dir) {
			return Place{}, fmt.Errorf("the workspace %s contains shadowlsp's own directory %s: name a smaller folder with --workspace, or set XDG_STATE_HOME and XDG_RUNTIME_DIR outside it", root, dir)
		}
	}
	return p, nil
}

// Contains says whether path is root or below it. Both are clean and absolute.
func Contains(root, path string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

// Control is the socket of fronts and commands.
func (p Place) Control() string { return filepath.Join(p.Runtime, "control.sock") }

// Agent is the unix socket of the agent port.
func (p Place) Agent() string { return filepath.Join(p.Runtime, "agent.sock") }

// Token is the file (0600) that holds the token of the TCP agent port.
func (p Place) Token() string { return filepath.Join(p.Runtime, "token") }

// Log is the daemon's log file.
func (p Place) Log() string { return filepath.Join(p.State, "daemon.log") }

// Make creates both directories, private to the user.
func (p Place) Make() error {
	for _, dir := range []string{p.Runtime, p.State} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the directory %s: %w", dir, err)
		}
		// The parent is shared by all roots of this user, and where it stands in a
		// shared temp folder somebody else may have made it.
		for _, d := range []string{filepath.Dir(dir), dir} {
			st, err := os.Lstat(d)
			if err != nil {
				return fmt.Errorf("making the directory %s: %w", dir, err)
			}
			owner := st.Sys().(*syscall.Stat_t).Uid
			if !st.IsDir() || int(owner) != os.Getuid() || st.Mode().Perm()&0o077 != 0 {
				return fmt.Errorf("%s must be a directory of your own with mode 0700 (it has owner %d, mode %v): remove it, or set XDG_RUNTIME_DIR", d, owner, st.Mode())
			}
		}
	}
	return nil
}

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("another shadowlsp daemon serves this workspace")

// Lock takes the lock called name ("lock" is the daemon's, "start" is held by
// who is starting one). It waits only if wait is set, else fails with ErrLocked.
// Close the file to let go.
func (p Place) Lock(name string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(p.Runtime, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	return f, nil
}
