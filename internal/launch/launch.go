// Package launch answers: how does a process reach the daemon of a root, and
// start it where none runs?
//
// Model: whoever needs the daemon dials its control socket. Where nobody
// listens, the caller takes the root's start lock, looks once more, and runs
// `shadowlsp serve --detach`, which returns when the daemon listens or has said
// why it cannot. The daemon is in a session of its own and no child of the
// caller, so that neither a closed terminal nor an editor that kills its process
// tree ends it.
//
// Invariants: at most one daemon is being started per root; nothing here is on
// the path of the person's bytes.
//
// Absent on purpose: what is said over the connection (the first byte names the
// kind, see [Kind]); retries.
//
// Locks: the start lock, a file lock held while one daemon is started. No
// goroutines outlive a call.
package launch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"shadowlsp/internal/root"
)

// Kind is the first byte on a control connection.
type Kind byte

const (
	// Front: the copies of a front follow.
	Front Kind = 'F'
	// Status: the daemon answers with one JSON document and closes.
	Status Kind = 'S'
	// Server: one JSON document {"command", "dir", "env"} names the server for
	// agents where no editor has; the daemon closes when it has taken it.
	Server Kind = 'V'
	// Exec: a command.Request follows; the daemon runs it and tells how it ends.
	Exec Kind = 'X'
	// Branch: a workspace.BranchRequest follows, a BranchAnswer comes back.
	Branch Kind = 'B'
	// Trace: a workspace.TraceRequest follows, a TraceAnswer comes back.
	Trace Kind = 'T'
	// Stop: the daemon ends in good order and closes.
	Stop Kind = 'Q'
)

// startTimeout bounds the start of a daemon: it listens within some 50 ms, and
// later only on a machine that is about to fall over.
const startTimeout = 30 * time.Second

// Join connects to the running daemon of p.
func Join(ctx context.Context, p root.Place, k Kind) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", p.Control())
	if err != nil {
		return nil, fmt.Errorf("reaching the daemon of %s: %w", p.Root, err)
	}
	if _, err := c.Write([]byte{byte(k)}); err != nil {
		c.Close()
		return nil, fmt.Errorf("reaching the daemon of %s: %w", p.Root, err)
	}
	return c, nil
}

// NotRunning says whether err of [Join] means that there is no daemon.
func NotRunning(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
}

// Starter starts daemons.
type Starter struct {
	Executable string   // our own binary
	Args       []string // flags for `serve`, the server's command behind "--" included
	Env        []string
}

// Serves says whether a daemon of p listens.
func Serves(p root.Place) bool {
	up, _ := serves(p) // what cannot be reached does not serve
	return up
}

func serves(p root.Place) (bool, error) {
	c, err := net.Dial("unix", p.Control())
	if err == nil {
		c.Close()
		return true, nil
	}
	if NotRunning(err) {
		return false, nil
	}
	return false, fmt.Errorf("reaching the daemon of %s: %w", p.Root, err)
}

// Ensure returns when a daemon of p listens, starting one where none does.
func (s Starter) Ensure(ctx context.Context, p root.Place) error {
	if up, err := serves(p); up || err != nil {
		return err
	}
	if err := p.Make(); err != nil {
		return err
	}
	lock, err := p.Lock("start", true)
	if err != nil {
		return err
	}
	defer lock.Close()
	if up, err := serves(p); up || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Executable, append([]string{"serve", "--detach", "--workspace", p.Root}, s.Args...)...)
	cmd.Env = s.Env
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		if text := strings.TrimSpace(string(out)); text != "" {
			return fmt.Errorf("starting the daemon of %s: %s", p.Root, text)
		}
		return fmt.Errorf("starting the daemon of %s: %w (its log is %s)", p.Root, err, p.Log())
	}
	return nil
}

// ReadyFD is the descriptor on which a detached daemon tells its starter how the
// start went: "ok\n", or what went wrong.
const ReadyFD = 3

// Detach runs args of our own executable as a daemon: in a session of its own,
// away from the caller's terminal and folder, with stderr in logFile. It returns
// when that has reported through [ReadyFD].
func Detach(executable string, args, env []string, logFile string) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	log, err := os.OpenFile(logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	ready, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(executable, args...)
	cmd.Env, cmd.Dir = env, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = null, null, log
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	said, _ := io.ReadAll(io.LimitReader(bufio.NewReader(ready), 64<<10))
	if !bytes.Equal(said, []byte("ok\n")) {
		if len(said) == 0 {
			return fmt.Errorf("the daemon ended before it was ready; its log is %s", logFile)
		}
		return errors.New(strings.TrimSpace(string(said)))
	}
	return nil
}
