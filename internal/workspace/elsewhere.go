package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/rs/zerolog"

	"shadowlsp/fusefs"
	"shadowlsp/internal/sandbox"
	"shadowlsp/lsp/remap"
)

// elsewhereWay is mode.Elsewhere: the disk that a server sees is a view of its
// branch, mounted where everybody could see it, at another path than the
// person's folder. Paths are rewritten in all that passes to and from the server.
type elsewhereWay struct {
	*fusefs.Base
	d     *daemon
	dir   string // of the mount points
	temp  string // as documentsWay's
	mount atomic.Int64
}

// newElsewhereWay takes what a daemon that was killed has left, and base over.
func newElsewhereWay(d *daemon, base *fusefs.Base) (*elsewhereWay, error) {
	w := &elsewhereWay{Base: base, d: d, dir: filepath.Join(d.cfg.Place.Runtime, "views"), temp: filepath.Join(d.cfg.Place.State, "tmp")}
	real, err := filepath.EvalSymlinks(d.cfg.Place.Runtime)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(real+"/", d.root+"/") {
		return nil, fmt.Errorf("mode elsewhere: views cannot be mounted in %s, which is in the workspace they show: set XDG_RUNTIME_DIR to a directory outside of it", real)
	}
	w.dir = filepath.Join(real, "views")
	left, err := os.ReadDir(w.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range left {
		at := filepath.Join(w.dir, e.Name())
		if err := errors.Join(sandbox.Unmount(at), os.Remove(at)); err != nil {
			return nil, err
		}
	}
	err = errors.Join(os.RemoveAll(w.temp), os.MkdirAll(w.dir, 0o700))
	if err == nil {
		err = os.Mkdir(w.temp, 0o700)
	}
	return w, err
}

// Close implements folder.
func (w *elsewhereWay) Close() error {
	return errors.Join(w.Base.Close(), os.RemoveAll(w.temp), os.Remove(w.dir))
}

func (w *elsewhereWay) start(ctx context.Context, spec sandbox.Spec, p *pool, scratch *branch, log zerolog.Logger) (_ *sandbox.Process, _ sight, err error) {
	dir := filepath.Join(w.dir, fmt.Sprint(w.mount.Add(1)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, nil, err
	}
	at, err := sandbox.MountAt(ctx, dir)
	if err != nil {
		return nil, nil, errors.Join(err, os.Remove(dir))
	}
	s := elsewhereSight{dir: dir, at: at, where: remap.New(w.d.root, dir)}
	s.view, err = fusefs.Serve(at.Fuse, fusefs.Config{Branch: scratch.over, Base: w.Base, Log: log, Asks: p.profile().Remembers})
	if err != nil {
		at.Fuse.Close()
		return nil, nil, errors.Join(err, at.Close(), os.Remove(dir))
	}
	spec.Argv, spec.Env = s.inside(spec.Argv), s.inside(spec.Env)
	spec.Dir = s.where.Inside(spec.Dir)
	proc, err := w.d.startGuarded(ctx, spec, w.temp, log)
	if err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	return proc, s, nil
}

// elsewhereSight is a server with a view at dir.
type elsewhereSight struct {
	viewSight
	dir   string
	at    *sandbox.Mounted
	where *remap.Map
}

func (s elsewhereSight) paths() *remap.Map { return s.where }

// inside moves the paths of arguments or of an environment.
func (s elsewhereSight) inside(words []string) []string {
	moved := make([]string, len(words))
	for n, word := range words {
		moved[n] = s.where.Inside(word)
	}
	return moved
}

func (s elsewhereSight) close() error {
	return errors.Join(s.viewSight.close(), s.at.Close(), os.Remove(s.dir))
}
