package overlay

import (
	"bytes"
	"encoding/json"

	"golang.org/x/sys/unix"
)

const (
	// maxThenFile bounds the content that is remembered of one file of the base, in
	// bytes: above what people write by hand. Of a larger one only its times,
	// size and inode are.
	maxThenFile = 256 << 10
	// maxThenLayer bounds all content that one layer remembers, in bytes: deleting
	// a tree of dependencies must not copy it.
	maxThenLayer = 32 << 20
	// maxThenDead is how much that was forgotten may lie in the file before it is
	// written anew, in bytes.
	maxThenDead = 1 << 20
)

// then is what a layer remembers of the base: each file as it was when the
// branch first covered or hid it. Applying asks it whether the person has
// changed the file since. It is a file of records beside the layer, written
// before the change that it belongs to, so that no override is without one; a
// path without a record was nothing in the base.
//
// Owned by the holder of the write lock of the branch whose top the layer is;
// fixed once the layer is frozen.
type then struct {
	records map[string]thenFile // by path in the base
	size    int64               // of the file
	live    int64               // bytes of it that count
}

// thenFile is a file of the base as it was.
type thenFile struct {
	Mode         uint32
	Size         int64
	Ino          uint64
	Mtime, Ctime Time
	// Kept is the bytes of content that are kept: all of it, or -1 for none.
	Kept int64

	at     int64 // where the content is
	length int64 // of the record
}

// thenRecord is the line before the content; Forget takes an earlier one back.
type thenRecord struct {
	Path   []byte
	Forget bool
	thenFile
}

func thenOf(st *unix.Stat_t) thenFile {
	return thenFile{
		Mode: st.Mode, Size: st.Size, Ino: st.Ino, Kept: -1,
		Mtime: timeOfSpec(st.Mtim), Ctime: timeOfSpec(st.Ctim),
	}
}

// is says that a is of the very file, unchanged.
func (f thenFile) is(a Attr) bool {
	return f.Mode == a.Mode && f.Size == a.Size && f.Ino == a.Ino && f.Mtime == a.Mtime && f.Ctime == a.Ctime
}

func (l *layer) thenName() string { return l.dirName() + "/then" }

// then finds what the branch remembers of a path of the base: what its lowest
// layer does, which covered it first. Needs write.
func (b *Branch) then(path string) (f thenFile, in *layer, ok bool) {
	layers := b.chain.Load().layers
	for i := len(layers) - 1; i >= 0; i-- {
		if f, ok = layers[i].then.records[path]; ok {
			return f, layers[i], true
		}
	}
	return f, nil, false
}

// remember notes what the base holds at path, unless the branch has before.
// Needs write.
func (b *Branch) remember(path string) error {
	if _, _, ok := b.then(path); ok {
		return nil
	}
	top := b.top()
	if err := top.make(); err != nil {
		return err
	}
	limit := min(maxThenFile, maxThenLayer-top.then.live)
	f, content, err := b.store.asItIs(path, limit)
	if k := KindOf(err); k == NotExist || k == NotDir || k == IsDir {
		return nil
	}
	if err != nil {
		return err
	}
	if b.store.room(int64(len(content))) != nil {
		f.Kept, content = -1, nil
	}
	return top.note(thenRecord{Path: []byte(path), thenFile: f}, content)
}

// rememberShown is remember for all that the branch shows from the base at path
// and below, which is about to be hidden.
func (b *Branch) rememberShown(path string) error {
	var h hit
	n, err := b.resolve(path, &h)
	if err != nil {
		return err
	}
	if !n.IsDir() {
		if n.inBase {
			return b.remember(n.base)
		}
		return nil
	}
	entries, err := b.readDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := b.rememberShown(join(path, e.Name)); err != nil && KindOf(err) != NotExist {
			return err
		}
	}
	return nil
}

// asItIs is the file at path of the base, with its content (the target of a
// link) if that has no more than limit bytes and can be read.
func (s *Store) asItIs(path string, limit int64) (f thenFile, content []byte, err error) {
	for try := 0; ; try++ {
		var st, after unix.Stat_t
		if err := s.base.stat(path, &st); err != nil {
			return f, nil, err
		}
		f = thenOf(&st)
		switch {
		case isDir(st.Mode):
			return f, nil, kindError(IsDir)
		case !isReg(st.Mode) && !isLnk(st.Mode) || st.Size > limit:
			return f, nil, nil
		}
		n := Node{Path: path, branch: &Branch{store: s}, base: path, inBase: true, Attr: attrOf(&st)}
		content, err := n.content()
		if err != nil {
			return f, nil, nil // unreadable, or gone: the next look at it will say so
		}
		if s.base.stat(path, &after) == nil && f.is(attrOf(&after)) && int64(len(content)) <= limit {
			f.Kept = int64(len(content))
			return f, content, nil
		}
		if try == tornTries {
			return f, nil, nil // somebody writes it without pause
		}
	}
}

// content is the bytes of a regular file, or the target of a link.
func (n Node) content() ([]byte, error) {
	if isLnk(n.Attr.Mode) {
		target, err := n.readlink()
		return []byte(target), err
	}
	return n.read()
}

// note appends a record.
func (l *layer) note(r thenRecord, content []byte) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	start := l.then.size
	if err := l.appendThen(append(line, content...)); err != nil {
		return err
	}
	r.at, r.length = start+int64(len(line)), l.then.size-start
	l.then.take(r)
	return nil
}

// take puts a record that is in the file into the index.
func (t *then) take(r thenRecord) {
	if t.records == nil {
		t.records = map[string]thenFile{}
	}
	path := string(r.Path)
	t.live -= t.records[path].length
	if r.Forget {
		delete(t.records, path)
		return
	}
	t.records[path] = r.thenFile
	t.live += r.length
}

func (l *layer) appendThen(data []byte) error {
	fd, err := unix.Openat(l.store.state.fd, l.thenName(), unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for rest := data; len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			unix.Ftruncate(fd, l.then.size)
			return err
		}
		rest = rest[n:]
	}
	l.then.size += int64(len(data))
	l.charge(int64(len(data)))
	return nil
}

// forget takes back what is remembered of a path that is not covered any more.
func (l *layer) forget(path string) error {
	if _, ok := l.then.records[path]; !ok {
		return nil
	}
	if err := l.note(thenRecord{Path: []byte(path), Forget: true}, nil); err != nil {
		return err
	}
	if dead := l.then.size - l.then.live; dead > maxThenDead && dead > l.then.live {
		return l.compactThen()
	}
	return nil
}

// compactThen writes the file anew without what was forgotten.
func (l *layer) compactThen() error {
	data, err := l.store.readState(l.thenName())
	if err != nil {
		return err
	}
	var out bytes.Buffer
	kept := then{}
	for path, f := range l.then.records {
		start := int64(out.Len())
		line, err := json.Marshal(thenRecord{Path: []byte(path), thenFile: f})
		if err != nil {
			return err
		}
		out.Write(append(line, '\n'))
		at := int64(out.Len())
		if f.Kept > 0 {
			out.Write(data[f.at : f.at+f.Kept])
		}
		f.at, f.length = at, int64(out.Len())-start
		kept.take(thenRecord{Path: []byte(path), thenFile: f})
	}
	if err := l.store.writeState(l.thenName(), out.Bytes()); err != nil {
		return err
	}
	kept.size = int64(out.Len())
	l.charge(kept.size - l.then.size)
	l.then = kept
	return nil
}

// loadThen reads the file; what a kill tore off its end belongs to a change that
// had not begun.
func (l *layer) loadThen() error {
	data, err := l.store.readState(l.thenName())
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	for rest := data; ; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		var r thenRecord
		if !whole || json.Unmarshal(line, &r) != nil || int64(len(after)) < r.Kept {
			break
		}
		start := l.then.size
		r.at = start + int64(len(line)) + 1
		l.then.size = r.at + max(r.Kept, 0)
		r.length = l.then.size - start
		l.then.take(r)
		rest = data[l.then.size:]
	}
	l.charge(l.then.size)
	if l.then.size == int64(len(data)) {
		return nil
	}
	fd, err := l.store.state.open(l.thenName(), unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Ftruncate(fd, l.then.size)
}

// thenContent reads what is remembered; ok is false where only times and size are.
func (l *layer) thenContent(f thenFile) (content []byte, ok bool) {
	if f.Kept < 0 {
		return nil, false
	}
	fd, err := l.store.state.open(l.thenName(), unix.O_RDONLY)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	content = make([]byte, f.Kept)
	n, err := unix.Pread(fd, content, f.at)
	return content, err == nil && int64(n) == f.Kept
}
