package workspace

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"shadowlsp/fusefs"
)

// scanned is the person's folder where there are no views: nothing tells which
// directories matter to a server, so all are looked over each time somebody
// needs to know (some 6 µs a file), and now and then while somebody listens. A
// watch on every directory was refused: it takes the person's own watches, and
// making one loses what happens meanwhile.
//
// Goroutine: run, ended by Close.
type scanned struct {
	root    string
	wanted  func() bool
	ending  chan struct{}
	ended   chan struct{}
	closing sync.Once

	mu sync.Mutex // held during a scan; guards the fields below
	// files are those of the last scan, by path below the root.
	files map[string]fileState
	subs  map[*func([]fusefs.BaseChange)]bool
}

// fileState is what tells one content of a file from another.
type fileState struct {
	ino          uint64
	size         int64
	mtime, ctime int64
	mode         uint32
	// fresh: it changed so shortly before it was looked at that a later change
	// may have the same times.
	fresh bool
}

const (
	// scanEvery is how often the folder is looked over for those who listen.
	scanEvery = 2 * time.Second
	// scanShare bounds what that costs, as the part of the time.
	scanShare = 20
	// clockTick is more than what file times are apart at least.
	clockTick = 20 * time.Millisecond
)

func newScanned(root string, wanted func() bool) (*scanned, error) {
	s := &scanned{
		root: root, wanted: wanted, ending: make(chan struct{}), ended: make(chan struct{}),
		subs: map[*func([]fusefs.BaseChange)]bool{},
	}
	if _, err := s.scanLocked(context.Background()); err != nil { // nobody else knows it yet
		return nil, err
	}
	go s.run()
	return s, nil
}

// run looks now and then.
func (s *scanned) run() {
	defer close(s.ended)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pause := time.NewTimer(scanEvery)
	defer pause.Stop()
	for {
		select {
		case <-s.ending:
			return
		case <-pause.C:
		}
		began := time.Now()
		if s.wanted() {
			_ = s.Sync(ctx) // whoever needs it asks again, and is told
		}
		pause.Reset(max(scanEvery, scanShare*time.Since(began)))
	}
}

// Close implements folder.
func (s *scanned) Close() error {
	s.closing.Do(func() { close(s.ending) })
	<-s.ended
	return nil
}

// Subscribe implements folder.
func (s *scanned) Subscribe(f func([]fusefs.BaseChange)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := &f
	s.subs[key] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subs, key)
	}
}

// Blind implements folder.
func (s *scanned) Blind() bool { return false }

// Sync implements folder.
func (s *scanned) Sync(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes, err := s.scanLocked(ctx)
	if err != nil || len(changes) == 0 {
		return err
	}
	for f := range s.subs {
		(*f)(changes)
	}
	return nil
}

// unscanned are folders whose files no server takes for sources.
var unscanned = map[string]bool{".git": true, ".hg": true, ".jj": true, ".svn": true, ".bzr": true}

// scanLocked looks at everything and returns what is not as it was.
func (s *scanned) scanLocked(ctx context.Context) (changes []fusefs.BaseChange, err error) {
	now := make(map[string]fileState, len(s.files))
	began := time.Now()
	err = filepath.WalkDir(s.root, func(name string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if name == s.root {
			return err
		}
		if err != nil {
			if e != nil && e.IsDir() {
				return fs.SkipDir // it may not be listed, or has gone
			}
			return nil
		}
		if e.IsDir() && unscanned[e.Name()] {
			return fs.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return nil // gone meanwhile
		}
		st := info.Sys().(*syscall.Stat_t)
		path := name[len(s.root)+1:]
		file := fileState{ino: st.Ino, mode: st.Mode}
		if !e.IsDir() {
			file.size, file.mtime, file.ctime = st.Size, st.Mtim.Nano(), st.Ctim.Nano()
			file.fresh = began.UnixNano()-max(file.mtime, file.ctime) < int64(clockTick)
		}
		now[path] = file
		old, was := s.files[path]
		switch {
		case !was:
			changes = append(changes, fusefs.BaseChange{Path: path, Kind: fusefs.Created})
		case old.fresh || !old.same(file):
			changes = append(changes, fusefs.BaseChange{Path: path, Kind: fusefs.Changed})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking over the folder %s: %w", s.root, err)
	}
	if _, err := os.Stat(s.root); err != nil {
		return nil, fmt.Errorf("looking over the folder: %w", err)
	}
	for path := range s.files {
		if _, is := now[path]; !is {
			changes = append(changes, fusefs.BaseChange{Path: path, Kind: fusefs.Deleted})
		}
	}
	s.files = now
	return changes, nil
}

// same ignores when it was looked at.
func (f fileState) same(other fileState) bool {
	f.fresh, other.fresh = false, false
	return f == other
}
