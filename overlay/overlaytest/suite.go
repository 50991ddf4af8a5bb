package overlaytest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// Suite says what to run the cases on.
type Suite struct {
	// Open gives the tree of a fresh branch over the directory base.
	Open func(t *testing.T, base string) FS
	// Settle returns when earlier changes of the base are seen. Nil: at once.
	Settle func()
	// Plain: the tree is the base directory itself, so cases about what stays
	// behind in the base are left out.
	Plain bool
}

// Run runs all cases.
func Run(t *testing.T, s Suite) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.base && s.Plain {
				t.Skip("a plain directory has no base")
			}
			base := t.TempDir()
			e := &env{T: t, Base: base, settle: s.Settle}
			e.makeBase()
			e.FS = s.Open(t, base)
			c.run(e)
		})
	}
}

// env is one case at work.
type env struct {
	*testing.T
	FS
	Base   string
	settle func()
}

func (e *env) settled() {
	if e.settle != nil {
		e.settle()
	}
}

// makeBase makes the tree that all cases start from.
func (e *env) makeBase() {
	for p, data := range map[string]string{"file": "base file", "dir/one": "1", "dir/two": "22", "dir/sub/deep": "deep", "other/x": "x"} {
		at := filepath.Join(e.Base, p)
		e.ok(os.MkdirAll(filepath.Dir(at), 0o755))
		e.ok(os.WriteFile(at, []byte(data), 0o644))
	}
	e.ok(os.Symlink("dir/one", filepath.Join(e.Base, "link")))
	e.ok(os.Mkdir(filepath.Join(e.Base, "empty"), 0o755))
}

func (e *env) ok(err error) {
	if err != nil {
		e.Helper()
		e.Fatal(err)
	}
}

func (e *env) fails(err error, want ...overlay.Kind) {
	e.Helper()
	if k := overlay.KindOf(err); !slices.Contains(want, k) {
		e.Errorf("got %v (%v), want %v", err, k, want)
	}
}

func (e *env) holds(path, want string) {
	e.Helper()
	data, err := e.Read(path)
	if err != nil || string(data) != want {
		e.Errorf("%s holds %q, %v; want %q", path, data, err, want)
	}
}

func (e *env) baseHolds(path, want string) {
	e.Helper()
	data, err := os.ReadFile(filepath.Join(e.Base, path))
	if err != nil || string(data) != want {
		e.Errorf("the base's %s holds %q, %v; want %q", path, data, err, want)
	}
}

func (e *env) lists(path string, want ...string) {
	e.Helper()
	entries, err := e.List(path)
	e.ok(err)
	var got []string
	for _, d := range entries {
		got = append(got, d.Name)
		a := e.stat(strings.TrimPrefix(path+"/"+d.Name, "/"))
		if a.Ino != d.Ino || a.Mode&unix.S_IFMT != d.Mode {
			e.Errorf("%s/%s is listed as %o %d and is %o %d", path, d.Name, d.Mode, d.Ino, a.Mode, a.Ino)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		e.Errorf("%q lists %q, want %q", path, got, want)
	}
}

func (e *env) stat(path string) overlay.Attr {
	e.Helper()
	a, err := e.Stat(path)
	e.ok(err)
	return a
}

func (e *env) gone(path string) {
	e.Helper()
	_, err := e.Stat(path)
	e.fails(err, overlay.NotExist)
}

// write puts data into an existing file, in place.
func (e *env) write(path, data string, truncate bool) {
	e.Helper()
	h, err := e.Open(path, truncate)
	e.ok(err)
	_, err = h.WriteAt([]byte(data), 0)
	e.ok(err)
	e.ok(h.Close())
}

func (e *env) create(path, data string) {
	e.Helper()
	h, err := e.Create(path, 0o644)
	e.ok(err)
	_, err = h.WriteAt([]byte(data), 0)
	e.ok(err)
	e.ok(h.Close())
}

func read(h Handle) string {
	buf := make([]byte, 4096)
	n, _ := h.ReadAt(buf, 0)
	return string(bytes.Clone(buf[:n]))
}
