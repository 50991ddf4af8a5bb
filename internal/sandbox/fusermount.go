package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fusermount is the program by which FUSE lets who may not mount, mount.
const fusermount = "fusermount3"

// Mounted is a FUSE mount that everybody sees, made by fusermount3: for machines
// that give no namespaces.
type Mounted struct {
	// Fuse is the descriptor of the mount. Who serves it takes it over.
	Fuse *os.File

	dir  string
	cmd  *exec.Cmd
	hold *os.File // while it is open fusermount3 leaves the mount alone
}

// MountAt mounts on dir, an empty directory of the caller's own. The mount ends
// with Close, or with this process, however that ends: fusermount3 waits for
// both. ctx bounds the mounting.
func MountAt(ctx context.Context, dir string) (_ *Mounted, err error) {
	failed := func(err error) error {
		return &Error{Op: "mount with " + fusermount + " on", Name: dir, Kind: Mount, Err: err}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, failed(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "fusermount"), os.NewFile(uintptr(pair[1]), "fusermount")
	defer theirs.Close()
	defer func() {
		if err != nil {
			ours.Close()
		}
	}()
	options := "fsname=" + Source + ",subtype=" + Source + ",nosuid,nodev,default_permissions,auto_unmount"
	if os.Geteuid() == 0 {
		options += ",allow_other" // programs of several uids may run in one view
	}
	var stderr strings.Builder
	cmd := exec.Command(fusermount, "-o", options, "--", dir)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Env = []string{"_FUSE_COMMFD=" + strconv.Itoa(initSocket)}
	cmd.Stderr = &stderr
	// What interrupts a terminal's programs must not take the mount away.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, failed(err)
	}
	theirs.Close()
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	fuse, err := receiveFuse(ours)
	if !stop() && err != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		ours.Close()
		if status := cmd.Wait(); status != nil && stderr.Len() > 0 {
			err = fmt.Errorf("%w: %s", status, strings.TrimSpace(stderr.String()))
		}
		return nil, failed(err)
	}
	return &Mounted{Fuse: fuse, dir: dir, cmd: cmd, hold: ours}, nil
}

// receiveFuse waits for the descriptor that fusermount3 sends.
func receiveFuse(conn *os.File) (*os.File, error) {
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	for {
		_, n, _, _, err := unix.Recvmsg(int(conn.Fd()), data, control, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		messages, err := unix.ParseSocketControlMessage(control[:n])
		if err != nil {
			return nil, err
		}
		if len(messages) != 1 {
			return nil, errors.New("it ended without a mount")
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != 1 {
			return nil, errors.New("it sent no descriptor")
		}
		return os.NewFile(uintptr(fds[0]), "/dev/fuse"), nil
	}
}

// Close takes the mount away. Fuse must be closed by then, or what serves it be
// able to serve the last requests.
func (m *Mounted) Close() error {
	err := m.hold.Close()
	m.cmd.Wait() // its status says nothing: the mount may be gone already
	return errors.Join(err, Unmount(m.dir))
}

// Unmount detaches what fusermount3 has left mounted on dir, if anything.
func Unmount(dir string) error {
	var at, up unix.Stat_t
	err := unix.Stat(dir, &at)
	if err == nil {
		err = unix.Stat(dir+"/..", &up)
	}
	if err == nil && at.Dev == up.Dev || err == unix.ENOENT {
		return nil
	}
	if out, err := exec.Command(fusermount, "-u", "-z", "--", dir).CombinedOutput(); err != nil {
		return &Error{Op: "unmount with " + fusermount, Name: dir, Kind: Mount, Err: fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))}
	}
	return nil
}

// probeFusermount mounts and unmounts.
func probeFusermount() Ability {
	a := Ability{Name: "fusermount", OK: true, Detail: fusermount + " mounts for this user"}
	err := func() error {
		dir, err := os.MkdirTemp("", "shadowlsp-probe-")
		if err != nil {
			return err
		}
		defer os.Remove(dir)
		ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
		defer cancel()
		m, err := MountAt(ctx, dir)
		if err != nil {
			return err
		}
		problem := greet(m.Fuse)
		m.Fuse.Close()
		if err := m.Close(); err != nil {
			return err
		}
		if problem != "" {
			return errors.New(problem)
		}
		return nil
	}()
	if err == nil {
		return a
	}
	a.OK, a.Detail = false, err.Error()
	a.Lost = "without user namespaces there is no shadow folder at another path either"
	a.Remedy = "install fuse3; in a container, pass the device in (--device /dev/fuse)"
	return a
}
