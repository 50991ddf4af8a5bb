package overlay

import (
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// place opens what a step works on; stage is -1 where it has none.
func (s *Store) place(r *landingRecord, st *step, f func(dir int, name string, stage int) error) error {
	return s.inBase(string(st.Path), func(dir int, name string) error {
		if st.Temp == "" {
			return f(dir, name, -1)
		}
		stage, err := s.base.open(string(r.Stages[st.Stage]), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer unix.Close(stage)
		return f(dir, name, stage)
	})
}

// take makes one step; after an error it is not made.
func (s *Store) take(r *landingRecord, st *step) error {
	err := s.place(r, st, func(dir int, name string, stage int) error {
		switch st.Do {
		case stepRemove:
			if err := s.moveTo(dir, name, stage, st.Temp); err != nil {
				return err
			}
			if !isAt(stage, st.Temp, st.Old) {
				s.moveTo(stage, st.Temp, dir, name)
				return kindError(Stale)
			}
		case stepRmdir:
			err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
			if err == unix.ENOENT || err == unix.ENOTEMPTY || err == unix.EEXIST {
				return nil // something is left in it that is not ours to remove
			}
			return err
		case stepMkdir:
			if err := unix.Mkdirat(dir, name, 0o700); err != nil {
				var now unix.Stat_t
				if err == unix.EEXIST && fstatat(dir, name, &now) == nil && isDir(now.Mode) {
					return nil
				}
				return err
			}
			return unix.Fchmodat(dir, name, st.New.Mode&0o7777, 0)
		case stepCreate:
			return s.moveTo(stage, st.Temp, dir, name)
		case stepReplace:
			return s.swap(dir, name, stage, st)
		case stepChmod:
			if !st.Old.is(dir, name) {
				return kindError(Stale)
			}
			return unix.Fchmodat(dir, name, st.New.Mode&0o7777, 0)
		}
		return nil
	})
	if err != nil {
		return failed(string(st.Path), err)
	}
	return nil
}

// isAt says that the object is that of id, not written since.
func isAt(dir int, name string, id identity) bool {
	var st unix.Stat_t
	return fstatat(dir, name, &st) == nil && identityOf(&st) == id
}

// is is isAt; a directory is itself whatever is in it.
func (id identity) is(dir int, name string) bool {
	if !isDir(id.Mode) {
		return isAt(dir, name, id)
	}
	var st unix.Stat_t
	return fstatat(dir, name, &st) == nil && st.Ino == id.Ino && st.Mode == id.Mode
}

// moveTo renames and never replaces.
func (s *Store) moveTo(from int, name string, to int, target string) error {
	if !s.plainRename {
		err := unix.Renameat2(from, name, to, target, unix.RENAME_NOREPLACE)
		if !lacking(err) {
			return err
		}
	}
	if err := unix.Linkat(from, name, to, target, 0); err != nil {
		return err
	}
	s.step("linked")
	return unix.Unlinkat(from, name, 0)
}

// lacking says that a file system has no such flag of rename.
func lacking(err error) bool {
	return err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP
}

// oldName is where the replaced file goes on file systems that cannot exchange.
func (st *step) oldName() string { return st.Temp + "-old" }

// swap puts the new file in the place of the old one, which goes to the stage.
func (s *Store) swap(dir int, name string, stage int, st *step) error {
	err := error(unix.EINVAL)
	if !s.plainRename {
		err = unix.Renameat2(stage, st.Temp, dir, name, unix.RENAME_EXCHANGE)
	}
	if !lacking(err) {
		if err == nil && !isAt(stage, st.Temp, st.Old) {
			unix.Renameat2(stage, st.Temp, dir, name, unix.RENAME_EXCHANGE)
			err = kindError(Stale)
		}
		return err
	}
	if err := unix.Linkat(dir, name, stage, st.oldName(), 0); err != nil {
		return err
	}
	s.step("linked")
	if !isAt(stage, st.oldName(), st.Old) {
		unix.Unlinkat(stage, st.oldName(), 0)
		return kindError(Stale)
	}
	return unix.Renameat(stage, st.Temp, dir, name)
}

// takeBack undoes the steps that were made, as far as nobody has gone on from
// there: what the person did since stays, and is told. Which steps were made is
// read off what is where, so that it can be done again after a kill.
func (s *Store) takeBack(r *landingRecord) (kept []string) {
	for i := len(r.Steps) - 1; i >= 0; i-- {
		st := &r.Steps[i]
		err := s.place(r, st, func(dir int, name string, stage int) error { return s.undo(dir, name, stage, st) })
		if k := KindOf(err); err != nil && k != NotExist && k != NotDir {
			kept = append(kept, string(st.Path))
		}
		s.step("taken back")
	}
	return kept
}

func (s *Store) undo(dir int, name string, stage int, st *step) error {
	var there unix.Stat_t
	found := fstatat(dir, name, &there) == nil
	switch st.Do {
	case stepRemove:
		if isAt(stage, st.Temp, st.Old) {
			if found && there.Ino == st.Old.Ino {
				return unix.Unlinkat(stage, st.Temp, 0) // killed between link and unlink
			}
			return s.moveTo(stage, st.Temp, dir, name)
		}
	case stepRmdir:
		if !found {
			if err := unix.Mkdirat(dir, name, 0o700); err != nil {
				return err
			}
			return unix.Fchmodat(dir, name, st.Old.Mode&0o7777, 0)
		}
	case stepMkdir:
		if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != unix.ENOENT {
			return err
		}
	case stepCreate:
		if found && there.Ino == st.New.Ino {
			if identityOf(&there) != st.New {
				return kindError(Stale)
			}
			return unix.Unlinkat(dir, name, 0)
		}
	case stepReplace:
		return s.unswap(dir, name, stage, st, &there)
	case stepChmod:
		if found && there.Ino == st.Old.Ino && there.Mode == st.New.Mode {
			return unix.Fchmodat(dir, name, st.Old.Mode&0o7777, 0)
		}
	}
	return nil
}

func (s *Store) unswap(dir int, name string, stage int, st *step, there *unix.Stat_t) error {
	old := st.oldName()
	if isAt(stage, st.Temp, st.Old) {
		old = st.Temp
	} else if !isAt(stage, old, st.Old) {
		return nil // it was not made
	}
	switch {
	case there.Ino == st.Old.Ino:
		return nil // killed between link and rename
	case identityOf(there) != st.New:
		return kindError(Stale)
	}
	return unix.Renameat(stage, old, dir, name)
}

// finishLandings takes back, or clears up after, what a kill interrupted. Called
// when the branches are loaded.
func (s *Store) finishLandings() ([]Repair, error) {
	names, err := s.state.list("applies", nil)
	if err != nil {
		return nil, err
	}
	var repairs []Repair
	for _, n := range names {
		r, err := s.finishLanding("applies/" + n.Name)
		repairs = append(repairs, r...)
		if err != nil {
			return repairs, err
		}
	}
	return repairs, nil
}

func (s *Store) finishLanding(note string) (repairs []Repair, err error) {
	data, err := s.readState(note)
	if err != nil {
		return nil, err
	}
	var r landingRecord
	done, held := strings.HasSuffix(note, doneNote), strings.HasSuffix(note, heldNote)
	switch {
	case json.Unmarshal(data, &r) != nil:
		repairs = append(repairs, Repair{What: "ignored the unreadable note " + note})
	case done || held:
		repair := Repair{Branch: r.Branch, What: "completed an interrupted apply"}
		if b, err := s.Branch(r.Branch); err == nil { // else it was not kept
			err = b.locked(func() error {
				return b.rebase(r.paths(), held, func() error { held = true; return s.rename(note, heldName(note)) })
			})
			if held && done {
				note = heldName(note)
			}
			if err != nil {
				return append(repairs, Repair{Branch: r.Branch, What: fmt.Sprintf("could not complete an interrupted apply: %v", err)}), nil
			}
		}
		s.clearStages(&r)
		repairs = append(repairs, repair)
	default:
		for _, kept := range s.takeBack(&r) {
			repairs = append(repairs, Repair{Branch: r.Branch, Path: kept, What: "left as it is now: it was changed after an apply was interrupted"})
		}
		s.clearStages(&r)
		repairs = append(repairs, Repair{Branch: r.Branch, What: "took back an interrupted apply"})
	}
	return repairs, unix.Unlinkat(s.state.fd, note, 0)
}

func heldName(note string) string { return strings.TrimSuffix(note, doneNote) + heldNote }

// rename renames a note.
func (s *Store) rename(from, to string) error {
	return unix.Renameat(s.state.fd, from, s.state.fd, to)
}
