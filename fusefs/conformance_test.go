package fusefs

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
	"shadowlsp/overlay/overlaytest"
)

// The overlay's own suite, through the kernel: an FS whose calls are made by an
// eye.

type fsCall struct {
	Name     string
	S1, S2   string
	N        int64
	M        uint32
	T1, T2   overlay.Time
	B        []byte
	Handle   int
	Truncate bool
}

type fsReply struct {
	B       []byte
	S       string
	Attr    overlay.Attr
	List    []overlay.DirEntry
	Names   []string
	N       int
	Handle  int
	EOF     bool
	Errno   unix.Errno
	Problem string
}

func pack(v any) string {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		panic(err)
	}
	return b.String()
}

func unpack[T any](s string) (v T) {
	if err := gob.NewDecoder(bytes.NewReader([]byte(s))).Decode(&v); err != nil {
		panic(err)
	}
	return v
}

// eyeHandles are the files that an eye has open for a suite.
var eyeHandles = map[int]overlaytest.Handle{}

func init() {
	eyeDoes["fs"] = func(root string, args []string) (string, error) {
		c := unpack[fsCall](args[0])
		r := fsReply{Handle: c.Handle}
		err := eyeCall(overlaytest.OnDir(root), c, &r)
		r.EOF = errors.Is(err, io.EOF)
		if err != nil && !r.EOF && !errors.As(err, &r.Errno) {
			r.Problem = err.Error()
		}
		return pack(r), nil
	}
}

func eyeCall(d overlaytest.FS, c fsCall, r *fsReply) (err error) {
	opened := func(h overlaytest.Handle, err error) error {
		if err == nil {
			r.Handle = len(eyeHandles) + 1
			eyeHandles[r.Handle] = h
		}
		return err
	}
	switch c.Name {
	case "create":
		return opened(d.Create(c.S1, c.M))
	case "open":
		return opened(d.Open(c.S1, c.Truncate))
	case "read":
		r.B, err = d.Read(c.S1)
	case "mkdir":
		err = d.Mkdir(c.S1, c.M)
	case "mkfifo":
		err = d.Mkfifo(c.S1, c.M)
	case "symlink":
		err = d.Symlink(c.S1, c.S2)
	case "readlink":
		r.S, err = d.Readlink(c.S1)
	case "link":
		err = d.Link(c.S1, c.S2)
	case "unlink":
		err = d.Unlink(c.S1)
	case "rmdir":
		err = d.Rmdir(c.S1)
	case "rename":
		err = d.Rename(c.S1, c.S2, overlay.RenameFlags(c.M))
	case "stat":
		r.Attr, err = d.Stat(c.S1)
	case "list":
		r.List, err = d.List(c.S1)
	case "chmod":
		err = d.Chmod(c.S1, c.M)
	case "truncate":
		err = d.Truncate(c.S1, c.N)
	case "settimes":
		err = d.SetTimes(c.S1, c.T1, c.T2)
	case "setxattr":
		err = d.SetXattr(c.S1, c.S2, c.B, int(c.M))
	case "getxattr":
		r.B, err = d.GetXattr(c.S1, c.S2)
	case "listxattr":
		r.Names, err = d.ListXattr(c.S1)
	case "removexattr":
		err = d.RemoveXattr(c.S1, c.S2)
	case "h.readat":
		r.B = make([]byte, c.M)
		r.N, err = eyeHandles[c.Handle].ReadAt(r.B, c.N)
	case "h.writeat":
		r.N, err = eyeHandles[c.Handle].WriteAt(c.B, c.N)
	case "h.stat":
		r.Attr, err = eyeHandles[c.Handle].Stat()
	case "h.close":
		err = eyeHandles[c.Handle].Close()
	default:
		err = fmt.Errorf("the eye cannot %s", c.Name)
	}
	return err
}

type eyeFS struct{ eye *eye }

func (f eyeFS) call(c fsCall) (fsReply, error) {
	r := unpack[fsReply](f.eye.do("fs", pack(c)))
	switch {
	case r.Errno != 0:
		return r, r.Errno
	case r.EOF:
		return r, io.EOF
	case r.Problem != "":
		return r, errors.New(r.Problem)
	}
	return r, nil
}

func (f eyeFS) opened(c fsCall) (overlaytest.Handle, error) {
	r, err := f.call(c)
	if err != nil {
		return nil, err
	}
	return eyeHandle{f, r.Handle}, nil
}

func (f eyeFS) err(c fsCall) error { _, err := f.call(c); return err }

func (f eyeFS) Create(p string, mode uint32) (overlaytest.Handle, error) {
	return f.opened(fsCall{Name: "create", S1: p, M: mode})
}
func (f eyeFS) Open(p string, truncate bool) (overlaytest.Handle, error) {
	return f.opened(fsCall{Name: "open", S1: p, Truncate: truncate})
}
func (f eyeFS) Read(p string) ([]byte, error) {
	r, err := f.call(fsCall{Name: "read", S1: p})
	return r.B, err
}
func (f eyeFS) Mkdir(p string, mode uint32) error {
	return f.err(fsCall{Name: "mkdir", S1: p, M: mode})
}
func (f eyeFS) Mkfifo(p string, mode uint32) error {
	return f.err(fsCall{Name: "mkfifo", S1: p, M: mode})
}
func (f eyeFS) Symlink(target, p string) error {
	return f.err(fsCall{Name: "symlink", S1: target, S2: p})
}
func (f eyeFS) Readlink(p string) (string, error) {
	r, err := f.call(fsCall{Name: "readlink", S1: p})
	return r.S, err
}
func (f eyeFS) Link(p, q string) error { return f.err(fsCall{Name: "link", S1: p, S2: q}) }
func (f eyeFS) Unlink(p string) error  { return f.err(fsCall{Name: "unlink", S1: p}) }
func (f eyeFS) Rmdir(p string) error   { return f.err(fsCall{Name: "rmdir", S1: p}) }
func (f eyeFS) Rename(p, q string, flags overlay.RenameFlags) error {
	return f.err(fsCall{Name: "rename", S1: p, S2: q, M: uint32(flags)})
}
func (f eyeFS) Stat(p string) (overlay.Attr, error) {
	r, err := f.call(fsCall{Name: "stat", S1: p})
	return r.Attr, err
}
func (f eyeFS) List(p string) ([]overlay.DirEntry, error) {
	r, err := f.call(fsCall{Name: "list", S1: p})
	return r.List, err
}
func (f eyeFS) Chmod(p string, mode uint32) error {
	return f.err(fsCall{Name: "chmod", S1: p, M: mode})
}
func (f eyeFS) Truncate(p string, size int64) error {
	return f.err(fsCall{Name: "truncate", S1: p, N: size})
}
func (f eyeFS) SetTimes(p string, a, m overlay.Time) error {
	return f.err(fsCall{Name: "settimes", S1: p, T1: a, T2: m})
}
func (f eyeFS) SetXattr(p, name string, v []byte, flags int) error {
	return f.err(fsCall{Name: "setxattr", S1: p, S2: name, B: v, M: uint32(flags)})
}
func (f eyeFS) GetXattr(p, name string) ([]byte, error) {
	r, err := f.call(fsCall{Name: "getxattr", S1: p, S2: name})
	return r.B, err
}
func (f eyeFS) ListXattr(p string) ([]string, error) {
	r, err := f.call(fsCall{Name: "listxattr", S1: p})
	return r.Names, err
}
func (f eyeFS) RemoveXattr(p, name string) error {
	return f.err(fsCall{Name: "removexattr", S1: p, S2: name})
}

type eyeHandle struct {
	fs eyeFS
	id int
}

func (h eyeHandle) ReadAt(p []byte, off int64) (int, error) {
	r, err := h.fs.call(fsCall{Name: "h.readat", Handle: h.id, M: uint32(len(p)), N: off})
	copy(p, r.B)
	return r.N, err
}
func (h eyeHandle) WriteAt(p []byte, off int64) (int, error) {
	r, err := h.fs.call(fsCall{Name: "h.writeat", Handle: h.id, B: p, N: off})
	return r.N, err
}
func (h eyeHandle) Stat() (overlay.Attr, error) {
	r, err := h.fs.call(fsCall{Name: "h.stat", Handle: h.id})
	return r.Attr, err
}
func (h eyeHandle) Close() error { return h.fs.err(fsCall{Name: "h.close", Handle: h.id}) }

func TestConformance(t *testing.T) {
	var s *stage
	overlaytest.Run(t, overlaytest.Suite{
		Open: func(t *testing.T, base string) overlaytest.FS {
			root, err := filepath.EvalSymlinks(base)
			must(t, err)
			s = stageOver(t, root)
			return eyeFS{s.eye}
		},
		Settle: func() { s.sync() },
	})
}
