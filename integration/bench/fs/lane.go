package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"shadowlsp/fusefs"
	"shadowlsp/integration/need"
	"shadowlsp/internal/sandbox"
	"shadowlsp/overlay"
)

// kind is one way to show the tree.
type kind struct {
	name string
	ours bool
	user bool   // not root
	tool string // the program that it needs
	// recipe mounts over $TREE, in a namespace where the tree itself is $LOWER
	// and what is written may go to $UPPER and $WORK.
	recipe string
}

const native = "native"

var kinds = []kind{
	{name: native},
	{name: "ours-root", ours: true},
	{name: "ours-user", ours: true, user: true},
	{name: "overlayfs", recipe: `mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$UPPER,workdir=$WORK" "$TREE"`},
	{name: "fuse-overlayfs", tool: "fuse-overlayfs", recipe: `"$TOOL" -o "lowerdir=$LOWER,upperdir=$UPPER,workdir=$WORK" "$TREE"`},
	{name: "unionfs-fuse", tool: "unionfs", recipe: `"$TOOL" -o cow,suid,dev,allow_other,default_permissions,nonempty "$UPPER=RW:$LOWER=RO" "$TREE"`},
	{name: "mergerfs", tool: "mergerfs", recipe: `"$TOOL" -o allow_other,use_ino,nonempty,cache.files=auto-full,category.create=ff "$UPPER:$LOWER=NC" "$TREE"`},
}

// lane is a worker that looks at the tree in one way.
type lane struct {
	kind kind
	cmd  *exec.Cmd
	in   *json.Encoder
	out  *json.Decoder
	pipe io.Closer
	// began is what the server had in memory at first, in KiB.
	began int
}

// start starts a lane.
func (s *stand) start(k kind) (*lane, error) {
	own := filepath.Join(s.top, k.name)
	if err := os.RemoveAll(own); err != nil {
		return nil, err
	}
	for _, sub := range []string{"", "upper", "work", "lower", "state", "tmp"} {
		if err := os.Mkdir(filepath.Join(own, sub), 0o755); err != nil {
			return nil, err
		}
		if err := os.Chown(filepath.Join(own, sub), ordinary, ordinary); err != nil {
			return nil, err
		}
	}
	if err := s.shell(context.Background(), s.top, fmt.Sprintf("cp -r gocache %s && chown -R %d:%d %s/gocache", k.name, ordinary, ordinary, k.name)); err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	args := []string{workerRole, s.tree, "true"}
	if k.recipe != "" {
		tool := ""
		if k.tool != "" {
			var err error
			if tool, err = need.FindTool(k.tool); err != nil {
				return nil, err
			}
		}
		args[2] = fmt.Sprintf("TOOL=%q TREE=%q LOWER=%q UPPER=%q WORK=%q\nmount --bind \"$TREE\" \"$LOWER\"\n%s",
			tool, s.tree, own+"/lower", own+"/upper", own+"/work", k.recipe)
	}
	if k.ours {
		// It serves, so it must stay outside of the namespace that it makes.
		args = []string{serverRole, s.tree, own}
		attr.Cloneflags = unix.CLONE_NEWNS
		if k.user {
			args[0] = userRole
		}
	}
	cmd := exec.Command(s.self, args...)
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = s.top, os.Stderr, attr
	cmd.Env = append(s.env, "GOCACHE="+own+"/gocache", "TMPDIR="+own+"/tmp")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	l := &lane{kind: k, cmd: cmd, in: json.NewEncoder(in), out: json.NewDecoder(bufio.NewReader(out)), pipe: in}
	if err := l.answer(nil); err != nil {
		l.stop()
		return nil, err
	}
	if _, err := l.do(order{Do: "nothing", Files: s.files}); err != nil {
		l.stop()
		return nil, err
	}
	l.began = l.memory()
	return l, nil
}

// becomeOrdinary makes this process an ordinary user's that may mount, as on
// most systems: where /dev/fuse is root's alone, it is given another one, which
// nobody else sees.
func becomeOrdinary(tree, own string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat("/dev/fuse", &st); err != nil {
		return err
	}
	device := filepath.Join(own, "device")
	if err := unix.Mknod(device, unix.S_IFCHR|0o666, int(st.Rdev)); err != nil {
		return err
	}
	if err := os.Chmod(device, 0o666); err != nil {
		return err
	}
	if err := unix.Mount(device, "/dev/fuse", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(ordinary), syscall.Setuid(ordinary)} {
		if err != nil {
			return err
		}
	}
	return syscall.Exec("/proc/self/exe", []string{os.Args[0], serverRole, tree, own}, os.Environ())
}

// answer waits for the worker.
func (l *lane) answer(took *time.Duration) error {
	var d done
	if err := l.out.Decode(&d); err != nil {
		return fmt.Errorf("%s has gone: %w", l.kind.name, err)
	}
	if d.Err != "" {
		return fmt.Errorf("%s: %s", l.kind.name, d.Err)
	}
	if took != nil {
		*took = d.Took
	}
	return nil
}

// do has the worker do something.
func (l *lane) do(o order) (took time.Duration, err error) {
	if err := l.in.Encode(o); err != nil {
		return 0, fmt.Errorf("%s has gone: %w", l.kind.name, err)
	}
	return took, l.answer(&took)
}

// answers is how many requests of the kernel's our server has answered so far, by
// what it has written; 0 for other lanes.
func (l *lane) answers() int { return l.said("io", "syscw:") }

// memory is what our server has in memory, in KiB.
func (l *lane) memory() int { return l.said("status", "VmRSS:") }

// said is a number from a file of our server's in /proc.
func (l *lane) said(file, key string) (n int) {
	if !l.kind.ours {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", l.cmd.Process.Pid, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, key+" %d", &n)
	}
	return n
}

// stop ends the worker, and with it its namespace and mounts.
func (l *lane) stop() {
	l.pipe.Close()
	l.cmd.Wait()
}

// serveLane is the process of a lane of ours: it serves a view and runs the
// worker in it.
func serveLane(tree, own string) {
	if err := serveTree(tree, own); err != nil {
		json.NewEncoder(os.Stdout).Encode(done{Err: err.Error()})
	}
}

func serveTree(tree, own string) (err error) {
	store, _, err := overlay.Open(overlay.Options{Base: tree, State: filepath.Join(own, "state")})
	if err != nil {
		return err
	}
	defer store.Close()
	branch, err := store.Create("bench", overlay.CreateOptions{})
	if err != nil {
		return err
	}
	log := zerolog.New(os.Stderr).Level(zerolog.WarnLevel)
	base, err := fusefs.NewBase(tree, log)
	if err != nil {
		return err
	}
	defer base.Close()
	self := filepath.Join(filepath.Dir(tree), "fs")
	p, view, err := show(tree, self, branch, base, log, os.Stdin, os.Stdout, true)
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return errors.Join(err, view.Close())
}

// show starts a worker in a view of a branch; fixed: as commands have it.
func show(tree, self string, branch *overlay.Branch, base *fusefs.Base, log zerolog.Logger, in, out *os.File, fixed bool) (*sandbox.Process, *fusefs.View, error) {
	p, err := sandbox.Start(context.Background(), sandbox.Spec{
		Argv: []string{self, workerRole, tree}, Env: os.Environ(), Dir: tree, Mount: tree,
		Stdin: in, Stdout: out, Stderr: os.Stderr, UserNS: sandbox.NeedsUserNS(),
	})
	if err != nil {
		return nil, nil, err
	}
	view, err := fusefs.Serve(p.Fuse, fusefs.Config{Branch: branch, Base: base, Log: log, UserNS: sandbox.NeedsUserNS(), Fixed: fixed})
	if err != nil {
		p.Kill()
		p.Wait()
		return nil, nil, err
	}
	if err := p.Exec(); err != nil {
		p.Wait()
		return nil, nil, errors.Join(err, view.Close())
	}
	return p, view, nil
}
