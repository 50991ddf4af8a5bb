package fusefs

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"shadowlsp/integration/need"
	"shadowlsp/overlay"
)

// An eye is a process inside a mount: this test binary, in namespaces of its
// own. Tests tell it what to do; the process of the test stays outside and
// serves. (internal/sandbox does the same for real programs; this package may
// not know it.)
type eye struct {
	t    testing.TB
	cmd  *exec.Cmd
	conn *net.UnixConn
	mu   sync.Mutex // one request at a time
}

// eyeRole is the first argument of an eye: then the directory to mount over.
const eyeRole = "fusefs-test-eye"

type request struct {
	Name string
	Args []string
}

type answer struct {
	Out string
	Err string
	No  int // errno, where the error has one
}

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == eyeRole {
		eyeMain(os.Args[2])
	}
	before := need.Mounts()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if after := need.Mounts(); after != before {
			fmt.Fprintln(os.Stderr, "mounts before:\n"+before+"after:\n"+after)
			code = 1
		}
	}
	os.Exit(code)
}

func ordinary() bool { return os.Geteuid() != 0 }

// newEye mounts over dir and returns the descriptor to serve.
func newEye(t testing.TB, dir string) (*eye, *os.File) {
	t.Helper()
	need.FUSE(t)
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "eye")
	defer theirs.Close()
	ours := os.NewFile(uintptr(fds[0]), "eye")
	c, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if ordinary() {
		need.UserNS(t)
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	cmd := exec.Command("/proc/self/exe", eyeRole, dir)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e := &eye{t: t, cmd: cmd, conn: c.(*net.UnixConn)}
	dev, err := e.device()
	if err != nil {
		e.kill()
		t.Fatal("mounting: ", err)
	}
	return e, dev
}

func (e *eye) device() (*os.File, error) {
	oob := make([]byte, syscall.CmsgSpace(4))
	text := make([]byte, 512)
	n, oobn, _, _, err := e.conn.ReadMsgUnix(text, oob)
	if err != nil {
		return nil, err
	}
	msgs, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) == 0 {
		return nil, fmt.Errorf("%s %v", text[:n], err)
	}
	fds, err := syscall.ParseUnixRights(&msgs[0])
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "/dev/fuse"), nil
}

// kill ends the eye and all it started.
func (e *eye) kill() {
	e.cmd.Process.Kill()
	e.conn.Close()
	e.cmd.Wait()
}

func send(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return err
	}
	head := []byte{byte(b.Len()), byte(b.Len() >> 8), byte(b.Len() >> 16), byte(b.Len() >> 24)}
	_, err := w.Write(append(head, b.Bytes()...))
	return err
}

func receive(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	body := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16|int(head[3])<<24)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return gob.NewDecoder(bytes.NewReader(body)).Decode(v)
}

// try makes the eye do something.
func (e *eye) try(name string, args ...string) (string, error) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conn.SetDeadline(time.Now().Add(2 * time.Minute))
	if err := send(e.conn, request{name, args}); err != nil {
		e.t.Fatalf("%s %q: the eye is gone: %v", name, args, err)
	}
	var a answer
	if err := receive(e.conn, &a); err != nil {
		e.t.Fatalf("%s %q: no answer: %v", name, args, err)
	}
	switch {
	case a.No != 0:
		return a.Out, fmt.Errorf("%s: %w", a.Err, syscall.Errno(a.No))
	case a.Err != "":
		return a.Out, errors.New(a.Err)
	}
	return a.Out, nil
}

// do is try that must succeed.
func (e *eye) do(name string, args ...string) string {
	e.t.Helper()
	out, err := e.try(name, args...)
	if err != nil {
		e.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

// sh runs a script in the root of the mount.
func (e *eye) sh(script string) string {
	e.t.Helper()
	return e.do("sh", script)
}

// eyeMain is the eye.
func eyeMain(root string) {
	f := os.NewFile(3, "eye")
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		os.Exit(1)
	}
	conn := c.(*net.UnixConn)
	fd, err := eyeMount(root)
	if err != nil {
		io.WriteString(conn, err.Error())
		os.Exit(1)
	}
	conn.WriteMsgUnix([]byte("mounted"), syscall.UnixRights(fd), nil)
	unix.Close(fd)
	for {
		var r request
		if receive(conn, &r) != nil {
			os.Exit(0)
		}
		f := eyeDoes[r.Name]
		if f == nil {
			send(conn, answer{Err: "the eye cannot " + r.Name})
			continue
		}
		// As internal/sandbox does, and for its reason: until somebody has asked
		// for them, the kernel takes the root's owner for uid 0, which in a user
		// namespace nobody is.
		unix.Stat(root, &unix.Stat_t{})
		try(root)
		out, err := f(root, r.Args)
		a := answer{Out: out}
		if err != nil {
			a.Err = err.Error()
			var no syscall.Errno
			if errors.As(err, &no) {
				a.No = int(no)
			}
		}
		send(conn, a)
	}
}

// try is what internal/sandbox does, too: see trial.go.
func try(root string) {
	for {
		if n, err := unix.Getxattr(root, TryAttr, make([]byte, 1)); err != nil || n == 0 {
			return
		}
		unix.Lstat(filepath.Join(root, TryName), &unix.Stat_t{})
		names(root, 4096)
	}
}

func eyeMount(root string) (int, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return -1, err
	}
	unix.Mount("proc", "/proc", "proc", 0, "")
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, os.Geteuid(), os.Getegid())
	options += ",default_permissions"
	if !ordinary() {
		options += ",allow_other"
	}
	return fd, unix.Mount("shadowlsp", root, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options)
}

// eyeDoes is what an eye can do; root is the mount point.
var eyeDoes = map[string]func(root string, args []string) (string, error){
	"sh": func(root string, args []string) (string, error) {
		cmd := exec.Command("/bin/sh", "-euc", args[0])
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		return string(out), err
	},
	// start leaves a script running. It holds standard error, by which others
	// see that it lives.
	"start": func(root string, args []string) (string, error) {
		cmd := exec.Command("/bin/sh", "-euc", args[0])
		cmd.Dir = root
		cmd.Stderr = os.Stderr
		return "", cmd.Start()
	},
	"read": func(root string, args []string) (string, error) {
		data, err := os.ReadFile(filepath.Join(root, args[0]))
		return string(data), err
	},
	"write": func(root string, args []string) (string, error) {
		return "", os.WriteFile(filepath.Join(root, args[0]), []byte(args[1]), 0o644)
	},
	"list": func(root string, args []string) (string, error) {
		entries, err := os.ReadDir(filepath.Join(root, args[0]))
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " "), err
	},
	"stat": func(root string, args []string) (string, error) {
		var st unix.Stat_t
		err := unix.Lstat(filepath.Join(root, args[0]), &st)
		return statLine(&st), err
	},
	"cat": func(root string, args []string) (string, error) {
		name, err := strconv.Unquote(args[0])
		if err != nil {
			return "", err
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		return string(data), err
	},
}

func statLine(st *unix.Stat_t) string {
	return fmt.Sprintf("mode=%o nlink=%d uid=%d gid=%d size=%d ino=%d mtime=%d.%09d ctime=%d.%09d",
		st.Mode, st.Nlink, st.Uid, st.Gid, st.Size, st.Ino, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
}

// stage is a base with a store, a view on a branch of it, and an eye in it.
type stage struct {
	t      testing.TB
	root   string // the base
	store  *overlay.Store
	base   *Base
	branch *overlay.Branch
	view   *View
	eye    *eye
}

// newStage shows a branch of a base made of files, by path; a path that ends in
// "/" is a directory, and one that contains " -> " a symbolic link.
func newStage(t testing.TB, files map[string]string) *stage {
	t.Helper()
	need.FUSE(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	plant(t, root, files)
	return stageOver(t, root)
}

// stageOver is newStage for a base that is there.
func stageOver(t testing.TB, root string) *stage {
	t.Helper()
	s := &stage{t: t, root: root}
	store, repairs, err := overlay.Open(overlay.Options{Base: root, State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if len(repairs) > 0 {
		t.Fatal(repairs)
	}
	s.store = store
	t.Cleanup(func() { store.Close() })
	s.base, err = NewBase(root, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.base.Close() })
	s.branch = s.create("main")
	s.eye, s.view = s.show(s.branch)
	return s
}

func testLog(t testing.TB) zerolog.Logger {
	return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
}

func (s *stage) create(name string) *overlay.Branch {
	s.t.Helper()
	b, err := s.store.Create(name, overlay.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// show makes one more view.
func (s *stage) show(b *overlay.Branch) (*eye, *View) {
	s.t.Helper()
	e, dev := newEye(s.t, s.root)
	v, err := Serve(dev, Config{Branch: b, Base: s.base, Log: testLog(s.t), UserNS: ordinary(), Asks: true})
	if err != nil {
		e.kill()
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		e.kill()
		if err := v.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return e, v
}

// agent edits a branch, as an agent does.
func (s *stage) agent(b *overlay.Branch, path, text string) {
	s.t.Helper()
	if err := b.WriteFile(path, []byte(text), 0); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) settle() {
	s.t.Helper()
	if err := s.view.Settled(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) sync() {
	s.t.Helper()
	if err := s.base.Sync(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) switchTo(b *overlay.Branch) SwitchStats {
	s.t.Helper()
	stats, err := s.view.Switch(b)
	if err != nil {
		s.t.Fatal(err)
	}
	return stats
}

// outside is a path of the base.
func (s *stage) outside(path string) string { return filepath.Join(s.root, path) }

func plant(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		full := filepath.Join(root, path)
		if strings.HasSuffix(path, "/") {
			must(t, os.MkdirAll(full, 0o755))
			continue
		}
		if name, target, ok := strings.Cut(path, " -> "); ok {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
			must(t, os.Symlink(target, filepath.Join(root, name)))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must(t, os.WriteFile(full, []byte(text), 0o644))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waitFor waits on a condition that nothing announces.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not in time", what)
		}
	}
}
