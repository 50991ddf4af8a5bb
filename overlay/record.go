package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// record is what a kept branch leaves on disk beside its layers.
type record struct {
	Name        string
	From        string `json:",omitempty"`
	Created     time.Time
	Since       Time
	Layers      []string // top first
	Checkpoints []recordedCheckpoint
}

type recordedCheckpoint struct {
	Checkpoint
	Layers []string
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// recordName is the file of a branch's record: readable where it can be.
func recordName(branch string) string {
	if plainName.MatchString(branch) {
		return "branches/" + branch + ".json"
	}
	sum := sha256.Sum256([]byte(branch))
	return "branches/," + hex.EncodeToString(sum[:16]) + ".json"
}

func ids(c *chain) (out []string) {
	for _, l := range c.layers {
		out = append(out, l.id)
	}
	return out
}

// record writes the record of a kept branch. Needs write.
func (b *Branch) record() error { return b.recordChain(b.chain.Load()) }

// recordChain writes the record as it will be with another chain.
func (b *Branch) recordChain(c *chain) error {
	if !b.keep {
		return nil
	}
	r := record{Name: b.name, From: b.from, Created: b.created, Since: b.since, Layers: ids(c)}
	for _, cp := range b.checkpoints {
		r.Checkpoints = append(r.Checkpoints, recordedCheckpoint{cp.Checkpoint, ids(cp.chain)})
	}
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return b.store.writeState(recordName(b.name), data)
}

// forget deletes the record. Needs write.
func (b *Branch) forget() error {
	err := unix.Unlinkat(b.store.state.fd, recordName(b.name), 0)
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// writeState writes a small file of the state directory, whole or not at all.
func (s *Store) writeState(path string, data []byte) error {
	tmp := "trash/" + newID()
	fd, err := unix.Openat(s.state.fd, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	n, err := unix.Write(fd, data)
	unix.Close(fd)
	if err == nil && n < len(data) {
		err = unix.ENOSPC
	}
	if err == nil {
		err = unix.Renameat(s.state.fd, tmp, s.state.fd, path)
	}
	if err != nil {
		unix.Unlinkat(s.state.fd, tmp, 0)
	}
	return err
}

func (s *Store) readState(path string) ([]byte, error) {
	fd, err := s.state.open(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var out []byte
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return out, err
		}
		out = append(out, buf[:n]...)
	}
}

// The intents: changes that take more than one system call and could not be
// told from something else afterwards. All others need no note: their
// intermediate states are either invisible or mean the old state.
const (
	intentRename = "rename" // From was renamed to To; a deletion must be at From
	intentCarry  = "carry"  // From moves to layer Target; the copy To takes its place
)

// intent is one note in the intent log.
type intent struct {
	Op     string
	Layer  string
	From   string
	To     string
	Target string `json:",omitempty"`
}

// jsonIntent carries paths as bytes: names need not be UTF-8.
type jsonIntent struct {
	Op, Layer, Target string
	From, To          []byte
}

// announce notes an intent; done takes the note away.
func (s *Store) announce(i intent) (done func(), err error) {
	data, err := json.Marshal(jsonIntent{i.Op, i.Layer, i.Target, []byte(i.From), []byte(i.To)})
	if err != nil {
		return nil, err
	}
	name := "intents/" + strconv.FormatUint(s.serial(), 36) + "-" + newID()
	if err := s.writeState(name, data); err != nil {
		return nil, err
	}
	s.step("announced")
	return func() { unix.Unlinkat(s.state.fd, name, 0) }, nil
}

// finishIntents completes or undoes what a kill interrupted.
func (s *Store) finishIntents() ([]Repair, error) {
	names, err := s.state.list("intents", nil)
	if err != nil {
		return nil, err
	}
	var repairs []Repair
	for _, n := range names {
		path := "intents/" + n.Name
		data, err := s.readState(path)
		if err != nil {
			return repairs, err
		}
		var j jsonIntent
		if err := json.Unmarshal(data, &j); err != nil {
			repairs = append(repairs, Repair{What: fmt.Sprintf("ignored the unreadable note %s: its change had not begun", n.Name)})
		} else if r, err := s.finish(intent{j.Op, j.Layer, string(j.From), string(j.To), j.Target}); err != nil {
			repairs = append(repairs, Repair{Path: string(j.From), What: fmt.Sprintf("could not complete an interrupted %s: %v", j.Op, err)})
		} else {
			repairs = append(repairs, r)
		}
		if err := unix.Unlinkat(s.state.fd, path, 0); err != nil {
			return repairs, err
		}
	}
	return repairs, nil
}

func (s *Store) finish(i intent) (Repair, error) {
	l := s.layerOf(i.Layer)
	if err := l.reopen(); err != nil {
		return Repair{}, err
	}
	defer l.shut()
	var st unix.Stat_t
	r := Repair{Path: i.From}
	gone := l.stat(i.From, &st) == unix.ENOENT
	switch i.Op {
	case intentRename:
		if !gone {
			r.What = "undid an interrupted rename that had not begun, or was complete"
			return r, nil
		}
		r.What = "completed an interrupted rename"
		dir, _ := split(i.From)
		b := &Branch{store: s}
		b.chain.Store(&chain{layers: []*layer{l}})
		return r, b.makeWhite(i.From, &entry{name: dir, parent: l.root, dir: &dirState{}})
	case intentCarry:
		if !gone {
			l.unlink(i.To)
			r.What = "undid an interrupted fork of an open file"
			return r, nil
		}
		r.What = "completed an interrupted fork of an open file"
		return r, l.rename(i.To, i.From, 0)
	}
	return r, kindError(Corrupt)
}

// reopen opens the directory of a layer that exists.
func (l *layer) reopen() error {
	fd, err := openat(l.store.state.fd, l.dirName()+"/fs", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	l.fd = fd
	return nil
}
