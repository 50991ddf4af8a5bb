package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	inside "shadowlsp/internal/command"
	"shadowlsp/internal/launch"
	"shadowlsp/internal/sandbox"
	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/front"
)

// timedOut is what timeout(1) exits with.
const timedOut = 124

func (o *options) execCommand() *cobra.Command {
	var (
		r                inside.Request
		network          = netFlag(sandbox.NetPrivate)
		memory, fileSize sizeFlag
		processes        countFlag
		quiet            bool
	)
	c := &cobra.Command{
		Use:   "exec [flags] -- CMD [ARGS…]",
		Short: "Run a command in a branch, as if in your folder",
		Long: `exec runs CMD at the same path, in the files of a branch; what it writes there is
the branch's. Streams, terminal, signals and exit status are CMD's own; it ends,
with all that it started, when exec does.

It has a network of its own in which commands of one branch reach each other over
localhost, a /tmp of its own for the branch, and cannot write outside the folder
but in what --write and the configuration name. Without --branch the branch is a
fresh one, which goes when CMD has ended, unless --keep.`,
		Example: "  shadowlsp exec --branch fix-parser -- go test ./...\n  shadowlsp exec --branch fix-parser -- some-agent",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no command is named")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			r.Net, r.Argv, r.Env = sandbox.Net(network), argv, os.Environ()
			r.Limits = inside.Limits{Memory: int64(memory), FileSize: int64(fileSize), Processes: int64(processes)}
			return o.exec(cmd.Context(), r, quiet)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false) // what stands behind CMD is CMD's, "--" or not
	f.StringVar(&r.Branch, "branch", "", "the branch to run in, made where it does not exist (default: a fresh one)")
	f.StringVar(&r.From, "from", "", "the branch to fork a new one from (default: the folder as it is)")
	f.BoolVar(&r.Keep, "keep", false, "keep a fresh branch when CMD has ended")
	f.Var(&network, "net", "what CMD reaches: its branch's localhost (private), nothing (none), all that you do (host)")
	f.StringArrayVar(&r.Write, "write", nil, "a file or directory outside the folder that CMD may change, repeatable")
	f.DurationVar(&r.Timeout, "timeout", 0, "end CMD after this time, with exit status 124")
	f.BoolVar(&r.Strict, "strict", false, "refuse to run where the machine cannot isolate as promised")
	f.Var(&memory, "memory", "the address space of each process: 500M, 20G, none (default: none)")
	f.Var(&fileSize, "file-size", "the largest file that CMD may write: 500M, 20G, none (default: none)")
	f.Var(&processes, "processes", fmt.Sprintf("how many processes and threads may run at once, or none (default: %d)", inside.DefaultProcesses))
	f.BoolVar(&quiet, "quiet", false, "do not say what this machine cannot give")
	return c
}

// netFlag is what a command reaches.
type netFlag sandbox.Net

func (n *netFlag) String() string { return string(*n) }
func (*netFlag) Type() string     { return "private|none|host" }

func (n *netFlag) Set(text string) error {
	switch sandbox.Net(text) {
	case sandbox.NetPrivate, sandbox.NetNone, sandbox.NetHost:
		*n = netFlag(text)
		return nil
	}
	return errors.New("it must be private, none or host")
}

// countFlag is a number above 0; 0 is the default, negative is no limit.
type countFlag int64

func (*countFlag) Type() string { return "count" }

func (c *countFlag) String() string {
	switch {
	case *c == 0:
		return ""
	case *c < 0:
		return "none"
	}
	return strconv.FormatInt(int64(*c), 10)
}

func (c *countFlag) Set(text string) error {
	if text == "none" {
		*c = -1
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return errors.New("it must be a number above 0, or none")
	}
	*c = countFlag(n)
	return nil
}

// exec runs a command in a branch and ends as it ends.
func (o *options) exec(ctx context.Context, r inside.Request, quiet bool) error {
	if in := os.Getenv(inside.BranchVariable); in != "" && os.Getenv(inside.AgentVariable) != "" {
		return execInside(in, r)
	}
	p, err := o.here()
	if err != nil {
		return err
	}
	if r.Dir, err = os.Getwd(); err != nil {
		return err
	}
	if r.Dir, err = filepath.EvalSymlinks(r.Dir); err != nil {
		return err
	}
	for i, path := range r.Write {
		if path, err = filepath.Abs(path); err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			return fmt.Errorf("--write: %w", err)
		}
		r.Write[i] = path
	}
	r.Umask = syscall.Umask(0)
	syscall.Umask(r.Umask)
	starter, err := o.starter(nil)
	if err != nil {
		return err
	}
	conn, err := o.joinOrStart(ctx, starter, p, launch.Exec)
	if err != nil {
		return err
	}
	defer conn.Close()
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("the daemon is reached over %s, and no descriptors can be handed over it", conn.RemoteAddr().Network())
	}
	exit, err := inside.Call(unix, r, os.Stdin, os.Stdout, os.Stderr, func(e inside.Event) {
		for _, lack := range e.Lacks {
			if !quiet {
				fmt.Fprintf(os.Stderr, "shadowlsp: not on this machine: %s\n", lack)
			}
		}
	})
	var failed *inside.Error
	switch {
	case errors.As(err, &failed):
		fmt.Fprintf(os.Stderr, "shadowlsp: %v\n", failed)
		return exitCode(failed.Kind.Status())
	case err != nil:
		return err
	case exit.TimedOut:
		fmt.Fprintf(os.Stderr, "shadowlsp: %s was ended after %v\n", r.Argv[0], r.Timeout.Round(time.Millisecond))
		return exitCode(timedOut)
	case exit.Killed:
		fmt.Fprintf(os.Stderr, "shadowlsp: %s was ended, because its branch was dropped or the daemon ends\n", r.Argv[0])
		return exitCode(inside.Ended.Status())
	case exit.Signal != 0:
		front.DieBy(exit.Signal)
		return exitCode(128 + int(exit.Signal))
	}
	return exitCode(exit.Code)
}

// execInside is exec for what runs in a branch: its commands are there already.
func execInside(branch string, r inside.Request) error {
	if r.Branch != "" && r.Branch != branch {
		return fmt.Errorf("this runs in the branch %s: no other branch can be reached from here", branch)
	}
	path, err := exec.LookPath(r.Argv[0])
	if err != nil {
		fmt.Fprintf(os.Stderr, "shadowlsp: %v\n", err)
		return exitCode(inside.NotFound.Status())
	}
	return syscall.Exec(path, r.Argv, os.Environ())
}

// connectInside is connect for what runs in a branch: it reaches its own.
func connectInside(ctx context.Context, socket, branch string) error {
	conn, err := agent.Dial(ctx, agent.Address{Network: "unix", Where: socket})
	if err != nil {
		return err
	}
	return agent.Join(ctx, conn, os.Stdin, os.Stdout, agent.JoinOptions{Branch: branch})
}
