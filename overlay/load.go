package overlay

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// load brings the kept branches back after Close or a kill: intents first, then
// records, then the index of each layer from its directory. What no record
// names is deleted.
func (s *Store) load() ([]Repair, error) {
	repairs, err := s.finishIntents()
	if err != nil {
		return repairs, err
	}
	names, err := s.state.list("branches", nil)
	if err != nil {
		return repairs, err
	}
	layers := map[string]*layer{}
	for _, n := range names {
		r, err := s.loadBranch(n.Name, layers)
		if err != nil {
			return repairs, err
		}
		repairs = append(repairs, r...)
	}
	if err := s.sweep(layers); err != nil {
		return repairs, err
	}
	r, err := s.finishLandings()
	return append(repairs, r...), err
}

func (s *Store) loadBranch(file string, layers map[string]*layer) ([]Repair, error) {
	data, err := s.readState("branches/" + file)
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil || r.Name == "" || len(r.Layers) == 0 {
		// Its layers are not known to belong to anything; they must not be
		// swept away with the rubbish.
		return nil, &Error{Op: "open store", Path: "branches/" + file, Kind: Corrupt, Err: err}
	}
	b := &Branch{store: s, name: r.Name, from: r.From, created: r.Created, since: r.Since, keep: true}
	if b.since.IsZero() {
		b.since = timeOf(b.created.UnixNano()) // written by an earlier release
	}
	s.begin(b.since)
	b.feed.rev = 1
	var repairs []Repair
	get := func(ids []string, top bool) *chain {
		c := &chain{}
		for i, id := range ids {
			l := layers[id]
			if l == nil {
				l = s.layerOf(id)
				layers[id] = l
				found, err := l.load()
				for _, f := range found {
					f.Branch = r.Name
					repairs = append(repairs, f)
				}
				if err != nil {
					repairs = append(repairs, Repair{Branch: r.Name, What: fmt.Sprintf("layer %s cannot be read: %v", id, err)})
				}
			}
			l.frozen = l.frozen || !top || i > 0
			c.layers = append(c.layers, l)
		}
		s.retain(c)
		return c
	}
	b.chain.Store(get(r.Layers, true))
	for _, cp := range r.Checkpoints {
		b.checkpoints = append(b.checkpoints, checkpoint{cp.Checkpoint, get(cp.Layers, false)})
	}
	s.branches[b.name] = b
	return repairs, nil
}

// sweep deletes what nothing refers to: layers of branches that were not kept,
// files on their way, contents that were pinned.
func (s *Store) sweep(layers map[string]*layer) error {
	found, err := s.state.list("layers", nil)
	if err != nil {
		return err
	}
	for _, e := range found {
		if layers[e.Name] == nil {
			if err := removeTree(s.state.fd, "layers/"+e.Name); err != nil {
				return err
			}
			continue
		}
		for _, sub := range []string{"/work", "/grave"} {
			if err := s.clear("layers/" + e.Name + sub); err != nil {
				return err
			}
		}
	}
	return s.clear("trash")
}

func (s *Store) clear(dir string) error {
	names, err := s.state.list(dir, nil)
	if err != nil {
		if err == unix.ENOENT {
			return unix.Mkdirat(s.state.fd, dir, 0o700)
		}
		return err
	}
	for _, n := range names {
		if err := removeTree(s.state.fd, dir+"/"+n.Name); err != nil {
			return err
		}
	}
	return nil
}

// load makes the index from the directory. A layer without one is empty: its
// branch was never written to.
func (l *layer) load() ([]Repair, error) {
	if err := l.reopen(); err != nil {
		if err == unix.ENOENT {
			return nil, nil
		}
		return nil, err
	}
	if err := l.loadThen(); err != nil {
		return nil, err
	}
	var repairs []Repair
	if v, err := l.getXattr("", xattrMode); err == nil {
		l.root.dir.own, l.root.dir.mode = true, parseMode(v)
		l.used = true
	}
	links := map[uint64]*file{}
	if err := l.loadDir(l.root, "", links, &repairs); err != nil {
		return repairs, err
	}
	return repairs, nil
}

func parseMode(v []byte) uint32 {
	m, _ := strconv.ParseUint(string(v), 8, 32)
	return uint32(m) & 0o7777
}

func (l *layer) loadDir(dir *entry, path string, links map[uint64]*file, repairs *[]Repair) error {
	fd, err := l.openAt(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	names, err := listFd(fd, nil)
	unix.Close(fd)
	if err != nil {
		return err
	}
	own := false // something besides directories that merge
	for _, n := range names {
		at := join(path, n.Name)
		var st unix.Stat_t
		if err := l.stat(at, &st); err != nil {
			return err
		}
		e := &entry{name: n.Name}
		if isDir(st.Mode) {
			err = l.loadSub(e, at, &st)
			own = own || e.dir.opaque
		} else {
			err = l.loadFile(e, at, &st, links)
			own = true
		}
		if err != nil {
			return err
		}
		dir.add(e)
		l.used = true
		l.charge(entryCost)
		b := Branch{store: l.store}
		l.setSum(e, b.shareOf(e))
		if e.kind == dirEntry {
			if e.dir.redirect != "" || e.dir.own {
				l.setSum(e, l.store.unique())
			}
			if err := l.loadDir(e, at, links, repairs); err != nil {
				return err
			}
		}
	}
	if own {
		var st unix.Stat_t
		if err := l.stat(path, &st); err != nil {
			return err
		}
		dir.dir.mtime, dir.dir.ctime = timeOfSpec(st.Mtim), timeOfSpec(st.Mtim)
	}
	return nil
}

func (l *layer) loadSub(e *entry, at string, st *unix.Stat_t) error {
	e.kind = dirEntry
	e.dir = &dirState{version: l.store.serial(), ino: l.store.ino()}
	if v, err := l.getXattr(at, xattrMode); err == nil {
		e.dir.own, e.dir.mode = true, parseMode(v)
	}
	if v, err := l.getXattr(at, xattrOpaque); err == nil && string(v) == "y" {
		e.dir.opaque = true
		if !e.dir.own {
			e.dir.own, e.dir.mode = true, st.Mode&0o7777
		}
	}
	if v, err := l.getXattr(at, xattrRedirect); err == nil {
		e.dir.redirect = strings.TrimPrefix(string(v), "/")
		if checkPath(e.dir.redirect) != nil || e.dir.redirect == "" {
			return &Error{Op: "open store", Path: at, Kind: Corrupt}
		}
	}
	return nil
}

func (l *layer) loadFile(e *entry, at string, st *unix.Stat_t, links map[uint64]*file) error {
	s := l.store
	if st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 {
		e.kind = whiteEntry
		return nil
	}
	if isReg(st.Mode) {
		if _, err := l.getXattr(at, xattrWhite); err == nil && st.Size == 0 {
			e.kind = whiteEntry
			return nil
		}
		if _, err := l.getXattr(at, xattrMeta); err == nil {
			e.kind = markEntry
			v := s.serial()
			e.mark = &markState{version: v, stamp: v, time: timeOfSpec(st.Mtim)}
			return nil
		}
	}
	e.kind = fileEntry
	if f := links[st.Ino]; f != nil {
		e.file = f
		f.names = append(f.names, e)
		return nil
	}
	f := &file{version: s.serial(), mode: st.Mode & unix.S_IFMT, perm: st.Mode & 0o7777, cid: s.unique(), born: timeOfSpec(st.Mtim)}
	f.stamp = f.version
	f.layer.Store(l)
	f.opened.Store(true)
	f.names = []*entry{e}
	f.recharge(l, st)
	var base unix.Stat_t
	if s.base.stat(at, &base) == nil && !isDir(base.Mode) {
		f.ino, f.base = base.Ino, timeOfSpec(base.Mtim)
	} else {
		f.ino = s.ino()
	}
	if st.Nlink > 1 {
		links[st.Ino] = f
	}
	e.file = f
	return nil
}
