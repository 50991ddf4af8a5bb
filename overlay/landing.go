package overlay

import (
	"encoding/json"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// landing is one change of the base: all steps or none.
//
// New files are written to a stage first, a directory on the file system of
// their place, so that each step is one rename within it; what a step replaces or
// removes goes to the stage by the same rename, and so can be looked at (is it
// what the plan was made for?) and brought back. A note says what is going on
// before it goes on:
//
//	applies/ID        not complete: the next Open takes back what was done
//	applies/ID.done   complete: the next Open rebases the branch and clears up
//	applies/ID.held   the branch is being rebased: the next Open goes on
type landing struct {
	s      *Store
	id     string
	record landingRecord
	stages map[uint64]int // by mount
}

const doneNote, heldNote = ".done", ".held"

// landingRecord is the note. Paths are bytes: names need not be UTF-8.
type landingRecord struct {
	Branch string
	Paths  [][]byte // what the branch need not override afterwards
	Stages [][]byte
	Steps  []step
}

func (r *landingRecord) paths() map[string]bool {
	out := make(map[string]bool, len(r.Paths))
	for _, p := range r.Paths {
		out[string(p)] = true
	}
	return out
}

// stepKind is what a step does to a path of the base.
type stepKind uint8

const (
	stepRemove  stepKind = iota + 1 // a file goes to the stage
	stepRmdir                       // a directory goes, if it is empty by now
	stepMkdir                       // a directory is made
	stepCreate                      // a file comes from the stage, where nothing is
	stepReplace                     // a file comes from the stage, another goes there
	stepChmod                       // permission bits change in place
)

// step is one change of one path. Old is what the plan found there, New what
// will be there; of a file.
type step struct {
	Do       stepKind
	Path     []byte
	Stage    int
	Temp     string `json:",omitempty"` // its name in the stage
	Old, New identity
}

// identity tells a file from another, and from itself before it was written.
// The ctime is no part of it: a rename changes it.
type identity struct {
	Mode  uint32
	Ino   uint64
	Size  int64
	Mtime Time
}

func identityOf(st *unix.Stat_t) identity {
	return identity{Mode: st.Mode, Ino: st.Ino, Size: st.Size, Mtime: timeOfSpec(st.Mtim)}
}

func newLanding(b *Branch) *landing {
	return &landing{s: b.store, id: newID(), record: landingRecord{Branch: b.name}, stages: map[uint64]int{}}
}

func (l *landing) note() string { return "applies/" + l.id }

func (l *landing) write() error {
	data, err := json.Marshal(l.record)
	if err != nil {
		return err
	}
	return l.s.writeState(l.note(), data)
}

// land makes the planned changes. After an error the base is what it was.
func (l *landing) land(plan []planned) error {
	err := l.stageAll(plan)
	if err == nil {
		err = l.write()
	}
	l.s.step("staged")
	for i := range l.record.Steps {
		if err != nil {
			break
		}
		err = l.s.take(&l.record, &l.record.Steps[i])
		l.s.step("step taken")
	}
	if err == nil {
		err = l.s.rename(l.note(), l.note()+doneNote)
	}
	if err != nil {
		l.s.takeBack(&l.record)
		l.s.clearStages(&l.record)
		unix.Unlinkat(l.s.state.fd, l.note(), 0)
	}
	l.s.step("landed")
	return err
}

// held notes that the branch's top layer owns what was not applied.
func (l *landing) held() error {
	l.s.step("all held")
	return l.s.rename(l.note()+doneNote, l.note()+heldNote)
}

// finish clears up when the branch is rebased.
func (l *landing) finish() error {
	l.s.clearStages(&l.record)
	l.s.step("cleared")
	return unix.Unlinkat(l.s.state.fd, l.note()+heldNote, 0)
}

// stageAll writes the new files, out of sight.
func (l *landing) stageAll(plan []planned) error {
	for i, p := range plan {
		st := step{Do: p.do, Path: []byte(p.path)}
		if p.old.Attr.Mode != 0 {
			a := p.old.Attr
			st.Old = identity{Mode: a.Mode, Ino: a.Ino, Size: a.Size, Mtime: a.Mtime}
		}
		st.New.Mode = p.now.Attr.Mode
		if p.do == stepRemove || p.do == stepCreate || p.do == stepReplace {
			var err error
			if st.Stage, err = l.stageFor(p.path); err != nil {
				return failed(p.path, err)
			}
			st.Temp = strconv.Itoa(i)
		}
		if p.do == stepCreate || p.do == stepReplace {
			if err := l.stageFile(&st, p); err != nil {
				return failed(p.path, err)
			}
			l.s.step("file staged")
		}
		l.record.Steps = append(l.record.Steps, st)
	}
	return nil
}

// failed names the path of the base that an error is about.
func failed(path string, err error) error {
	return &Error{Op: "apply", Path: path, Kind: KindOf(err), Err: err}
}

// stageFor is the stage on the file system that path is on.
func (l *landing) stageFor(path string) (int, error) {
	at, _ := split(path)
	mount, err := l.s.mountOf(at)
	for KindOf(err) == NotExist || KindOf(err) == NotDir {
		at, _ = split(at)
		mount, err = l.s.mountOf(at)
	}
	if err != nil {
		return 0, err
	}
	if i, ok := l.stages[mount]; ok {
		return i, nil
	}
	// In .git nobody watches, lists or builds.
	name := ".shadowlsp-apply-" + l.id
	if m, err := l.s.mountOf(".git"); err == nil && m == mount {
		name = ".git/" + name[1:]
	} else if m, err := l.s.mountOf(""); err != nil || m != mount {
		name = join(at, name)
	}
	l.stages[mount] = len(l.record.Stages)
	l.record.Stages = append(l.record.Stages, []byte(name))
	if err := l.write(); err != nil {
		return 0, err
	}
	l.s.step("stage noted")
	err = l.s.inBase(name, func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o700) })
	return l.stages[mount], err
}

// mountOf tells the file systems of directories of the base apart, as far as
// renames do.
func (s *Store) mountOf(dir string) (uint64, error) {
	fd, err := s.base.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var x unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &x); err == nil && x.Mask&unix.STATX_MNT_ID != 0 {
		return x.Mnt_id, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Dev, nil
}

// inBase calls f with the directory that a path of the base is in, opened
// without following a link, and its last name.
func (s *Store) inBase(path string, f func(dir int, name string) error) error {
	dir, name := split(path)
	fd, err := s.base.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd, name)
}

// stageFile writes the file of a step to its stage.
func (l *landing) stageFile(st *step, p planned) error {
	dir, err := l.s.base.open(string(l.record.Stages[st.Stage]), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if isLnk(p.now.Attr.Mode) {
		target, err := p.now.readlink()
		if err == nil {
			err = unix.Symlinkat(target, dir, st.Temp)
		}
		if err != nil {
			return err
		}
	} else if err := l.stageContent(dir, st.Temp, p.now); err != nil {
		return err
	}
	owner := p.now.Attr
	if !p.adds() {
		owner = p.old.Attr
	}
	// A file that is replaced keeps its owner, as far as we may give it away.
	if err := unix.Fchownat(dir, st.Temp, int(owner.UID), int(owner.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil && l.s.root {
		return err
	}
	if !isLnk(p.now.Attr.Mode) {
		if err := unix.Fchmodat(dir, st.Temp, p.now.Attr.Mode&0o7777, 0); err != nil {
			return err
		}
	}
	var made unix.Stat_t
	err = fstatat(dir, st.Temp, &made)
	st.New = identityOf(&made)
	return err
}

func (l *landing) stageContent(dir int, temp string, n Node) error {
	src, err := n.open(false)
	if err != nil {
		return err
	}
	defer src.Close()
	fd, err := unix.Openat(dir, temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	dst := os.NewFile(uintptr(fd), temp)
	defer dst.Close()
	var size unix.Stat_t
	if err := unix.Fstat(int(src.Fd()), &size); err != nil {
		return err
	}
	if err := copyData(dst, src, size.Size); err != nil {
		return err
	}
	return copyXattrs(procPath(int(src.Fd())), procPath(fd))
}

// clearStages removes the stages with what was replaced.
func (s *Store) clearStages(r *landingRecord) {
	for _, stage := range r.Stages {
		s.inBase(string(stage), func(dir int, name string) error { return removeTree(dir, name) })
	}
}
