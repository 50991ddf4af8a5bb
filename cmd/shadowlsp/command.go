package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	inside "shadowlsp/internal/command"
	"shadowlsp/internal/launch"
	"shadowlsp/internal/root"
	"shadowlsp/internal/workspace"
	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/front"
)

// options are the flags that several commands share.
type options struct {
	workspace   string
	traceDump   string
	agentListen []string
	agentRemote bool
	linger      time.Duration
	instances   int
	idleStop    time.Duration
	priority    string
	verbose     bool
	store       storeFlag
	layerMax    sizeFlag
	mode        modeFlag
	limits      workspace.Limits

	memoryBudget sizeFlag
	prewarm      bool
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "shadowlsp [flags] -- SERVER [ARGS…]",
		Short: "A language server for you, and hidden shadows of it for your agents",
		Long: `shadowlsp stands where a language server's command stands. The editor's traffic
passes untouched to SERVER; agents work on branches of the same folder through
hidden instances of it (see "shadowlsp connect"). With SHADOWLSP=off in its
environment it is SERVER and nothing else.

The flags but --workspace are for the daemon, which the first
command that needs it starts: one that runs keeps those that it was started with
("shadowlsp stop" ends it), but for --trace-dump, which reaches it at any time.`,
		Example:       "  shadowlsp -- gopls\n  shadowlsp connect --branch fix-parser\n  shadowlsp exec --branch fix-parser -- go test ./...\n  shadowlsp branch apply fix-parser",
		Version:       version(),
		Args:          cobra.ArbitraryArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New(`no server is named: write "shadowlsp -- SERVER [ARGS…]", or see "shadowlsp --help"`)
			}
			return o.front(args)
		},
	}
	c.CompletionOptions.HiddenDefaultCmd = true
	f := c.PersistentFlags()
	f.StringVar(&o.workspace, "workspace", "", "the workspace folder (default: what the client says, else the current folder)")
	f.StringVar(&o.traceDump, "trace-dump", "", "append every message and event to this file, one JSON object per line")
	f.StringArrayVar(&o.agentListen, "agent-listen", nil, "where agents connect: unix:PATH or tcp:HOST:PORT, repeatable (default: a private unix socket and a free loopback port)")
	f.BoolVar(&o.agentRemote, "agent-allow-remote", false, "let --agent-listen name addresses that other machines can reach; the token is all that guards them")
	f.DurationVar(&o.linger, "linger", time.Minute, "how long a daemon that nothing needs stays")
	f.Var(&o.store, "store", "where branches live: disk, or memory (then none of them outlives the daemon, kept ones included)")
	f.Var(&o.layerMax, "layer-max", "how much all branches of a workspace may hold: 500M, 20G, none (default: 10G on disk, 1G in memory)")
	f.IntVar(&o.instances, "instances", 1, "how many shadow instances of one server may run at once; a second is started only under load")
	f.DurationVar(&o.idleStop, "idle-stop", 15*time.Minute, "how long instances stay when nobody asks anything")
	f.StringVar(&o.priority, "priority", "auto", "processor, disk and memory priority of instances: idle, normal, or auto (idle while an editor is attached)")
	f.Var(&o.mode, "mode", "how servers see a branch: full (as their disk), elsewhere (as a disk at another path), documents (as open documents), auto (the best that the machine gives; see doctor)")
	f.Var(&o.memoryBudget, "memory-budget", "how much memory all instances together may hold: 4G, none (default: half of the machine's)")
	f.BoolVar(&o.prewarm, "prewarm", false, "start the servers that your editors run, or ran last, before an agent asks")
	for _, l := range limitFlags(&o.limits) {
		f.IntVar(l.value, l.name, 0, l.usage)
	}
	f.BoolVar(&o.verbose, "verbose", false, "have the daemon log each request as well")
	// What stands behind the server's name is the server's, "--" or not.
	c.Flags().SetInterspersed(false)
	c.SetVersionTemplate("shadowlsp {{.Version}}\n")
	c.AddCommand(o.serveCommand(), o.connectCommand(), o.statusCommand(), o.stopCommand(), o.traceCommand(), o.doctorCommand(), o.serversCommand(), o.execCommand(), o.branchCommand())
	explain(c)
	return c
}

// explain has misuse of a command and its sub-commands answered with its usage.
func explain(c *cobra.Command) {
	c.DisableFlagsInUseLine = true
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf(`%w: "%s --help" lists the flags`, err, c.CommandPath())
	})
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, given []string) error {
			if err := args(c, given); err != nil {
				return fmt.Errorf(`%w: write "%s", or see "%s --help"`, err, c.UseLine(), c.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		explain(sub)
	}
}

// version is what the build says of itself: a release, else a commit's time and
// name.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version + " (" + info.GoVersion + ")"
	}
	return "unknown"
}

// place finds the files of the root that covers dir.
func place(dir string) (root.Place, error) {
	r, err := root.Find(dir)
	if err != nil {
		return root.Place{}, err
	}
	home, _ := os.UserHomeDir()
	return root.At(r, root.Dirs{
		Runtime: os.Getenv("XDG_RUNTIME_DIR"),
		State:   os.Getenv("XDG_STATE_HOME"),
		Home:    home,
		Temp:    os.TempDir(),
	})
}

// here is the workspace that the user named, else the current folder.
func (o *options) here() (root.Place, error) {
	if branch := os.Getenv(inside.BranchVariable); branch != "" && os.Getenv(inside.AgentVariable) != "" {
		return root.Place{}, fmt.Errorf("this runs in the branch %s, where only connect and exec reach the daemon", branch)
	}
	if o.workspace != "" {
		return place(o.workspace)
	}
	dir, err := os.Getwd()
	if err != nil {
		return root.Place{}, err
	}
	return place(dir)
}

// starter knows how to start a daemon with the same flags.
func (o *options) starter(server []string) (launch.Starter, error) {
	self, err := os.Executable()
	if err != nil {
		return launch.Starter{}, fmt.Errorf("finding our own executable: %w", err)
	}
	args := []string{
		"--linger", o.linger.String(), "--instances", strconv.Itoa(o.instances),
		"--idle-stop", o.idleStop.String(), "--priority", o.priority,
	}
	if o.traceDump != "" {
		file, err := filepath.Abs(o.traceDump)
		if err != nil {
			return launch.Starter{}, err
		}
		args = append(args, "--trace-dump", file)
	}
	for _, l := range o.agentListen {
		args = append(args, "--agent-listen", l)
	}
	if o.agentRemote {
		args = append(args, "--agent-allow-remote")
	}
	if o.store != "" {
		args = append(args, "--store", string(o.store))
	}
	if o.mode != "" {
		args = append(args, "--mode", string(o.mode))
	}
	if o.layerMax != 0 {
		args = append(args, "--layer-max", o.layerMax.String())
	}
	if o.memoryBudget != 0 {
		args = append(args, "--memory-budget", o.memoryBudget.String())
	}
	if o.prewarm {
		args = append(args, "--prewarm")
	}
	args = append(args, limitArgs(o.limits)...)
	if o.verbose {
		args = append(args, "--verbose")
	}
	if len(server) > 0 {
		args = append(append(args, "--"), server...)
	}
	return launch.Starter{Executable: self, Args: args, Env: os.Environ()}, nil
}

// front runs the person's side: SERVER itself, with copies for the daemon.
func (o *options) front(server []string) error {
	if os.Getenv("SHADOWLSP") == "off" {
		path, err := exec.LookPath(server[0])
		if err != nil {
			fmt.Fprintf(os.Stderr, "shadowlsp: cannot start %s: %v\n", server[0], err)
			return exitCode(127)
		}
		return syscall.Exec(path, server, os.Environ())
	}
	starter, err := o.starter(nil)
	code := front.Run(front.Config{
		Command:   server,
		Workspace: o.workspace,
		TraceFile: o.traceDump,
		FindRoot:  root.Find,
		Env:       os.Environ(),
		// The person's stderr is the server's: what the front has to say goes to the
		// daemon's log by way of the daemon.
		Log: zerolog.Nop(),
		Connect: func(ctx context.Context, folder string, start bool) (net.Conn, error) {
			if err != nil {
				return nil, err
			}
			p, err := place(folder)
			if err != nil {
				return nil, err
			}
			if start {
				if err := starter.Ensure(ctx, p); err != nil {
					return nil, err
				}
			}
			// Agents do not depend on it; the daemon's log has the error.
			_ = o.wishTrace(ctx, p)
			return launch.Join(ctx, p, launch.Front)
		},
	}, os.Stdin, os.Stdout, os.Stderr)
	return exitCode(code)
}

func (o *options) serveCommand() *cobra.Command {
	var detach bool
	c := &cobra.Command{
		Use:   "serve [flags] [-- SERVER [ARGS…]]",
		Short: "Run the daemon of a workspace (editors and agents start it by themselves)",
		Long: `serve is for who wants the daemon's flags to be others than those of the command
that needs it first, or the daemon in a terminal. SERVER is the one that agents
get where no editor has attached and none is detected.`,
		RunE: func(cmd *cobra.Command, server []string) error {
			p, err := o.here()
			if err != nil {
				return err
			}
			if err := p.Make(); err != nil {
				return err
			}
			if detach {
				if launch.Serves(p) {
					return nil // ready and running is what was asked for
				}
				starter, err := o.starter(server)
				if err != nil {
					return err
				}
				args := append([]string{"serve", "--detached", "--workspace", p.Root}, starter.Args...)
				return launch.Detach(starter.Executable, args, starter.Env, p.Log())
			}
			detached, _ := cmd.Flags().GetBool("detached")
			return o.serve(p, server, detached)
		},
	}
	c.Flags().BoolVar(&detach, "detach", false, "return when the daemon is ready and leave it running")
	c.Flags().Bool("detached", false, "")
	_ = c.Flags().MarkHidden("detached")
	return c
}

func (o *options) serve(p root.Place, server []string, detached bool) (err error) {
	ready := func(error) {}
	if detached {
		w := os.NewFile(launch.ReadyFD, "ready")
		syscall.CloseOnExec(launch.ReadyFD)
		ready = func(err error) {
			if err != nil {
				fmt.Fprintln(w, err)
			} else {
				fmt.Fprintln(w, "ok")
			}
			w.Close()
		}
	}
	level := zerolog.InfoLevel
	if o.verbose {
		level = zerolog.DebugLevel
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return workspace.Run(ctx, workspace.Config{
		Place:       p,
		AgentListen: o.agentListen,
		AgentRemote: o.agentRemote,
		Instances:   o.instances,
		IdleStop:    o.idleStop,
		Limits:      o.limits,

		MemoryBudget: int64(o.memoryBudget),
		Prewarm:      o.prewarm,
		Priority:     workspace.Priority(o.priority),
		TraceFile:    o.traceDump,
		Server:       server,
		Person:       personConfig(),
		Env:          os.Environ(),
		Layers:       workspace.Layers{Memory: o.store == memoryStore, Max: int64(o.layerMax)},
		Mode:         o.mode.wanted(),
		Linger:       o.linger,
		Ready:        ready,
		Log:          zerolog.New(os.Stderr).Level(level).With().Timestamp().Int("pid", os.Getpid()).Logger(),
	})
}

func (o *options) connectCommand() *cobra.Command {
	var branch string
	c := &cobra.Command{
		Use:   "connect [--branch NAME] [-- SERVER [ARGS…]]",
		Short: "Join stdin and stdout to the agent port, on a branch",
		Long: `connect is the language server command of an agent: ordinary LSP on stdin and
stdout, for one branch of the workspace. It starts the daemon where none runs;
SERVER is needed only where no editor has ever attached and none is detected.`,
		RunE: func(cmd *cobra.Command, server []string) error {
			if socket := os.Getenv(inside.AgentVariable); socket != "" {
				return connectInside(cmd.Context(), socket, branch)
			}
			p, err := o.here()
			if err != nil {
				return err
			}
			starter, err := o.starter(server)
			if err != nil {
				return err
			}
			if err := starter.Ensure(cmd.Context(), p); err != nil {
				return err
			}
			if err := o.wishTrace(cmd.Context(), p); err != nil {
				return err
			}
			if len(server) > 0 {
				if err := nameServer(cmd.Context(), p, server); err != nil {
					return err
				}
			}
			running, err := status(cmd.Context(), p)
			if err != nil {
				return err
			}
			if ignored := o.ignored(running); ignored != "" {
				fmt.Fprintf(os.Stderr, "shadowlsp: the daemon of %s runs already, %s: `shadowlsp stop` ends it, and the next one takes your flags\n", p.Root, ignored)
			}
			join := agent.JoinOptions{Branch: branch}
			address := agent.Address{Network: "unix", Where: running.Agent.Unix}
			if address.Where == "" {
				address = agent.Address{Network: "tcp", Where: running.Agent.TCP}
				token, err := os.ReadFile(running.Agent.TokenFile)
				if err != nil {
					return fmt.Errorf("reading the agent port's token: %w", err)
				}
				join.Token = strings.TrimSpace(string(token))
			}
			conn, err := agent.Dial(cmd.Context(), address)
			if err != nil {
				return err
			}
			return agent.Join(cmd.Context(), conn, os.Stdin, os.Stdout, join)
		},
	}
	c.Flags().StringVar(&branch, "branch", "", "the branch to work on, made where it does not exist (default: a fresh one)")
	return c
}

func (o *options) statusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [--json]",
		Short: "Show the daemon's lanes, branches, turns and queues",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := o.here()
			if err != nil {
				return err
			}
			st, err := status(cmd.Context(), p)
			if launch.NotRunning(err) {
				return fmt.Errorf("no daemon runs for %s: start your editor there, or `shadowlsp connect`", p.Root)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return st.WriteJSON(os.Stdout)
			}
			return st.Print(os.Stdout)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// nameServer tells the running daemon of p which server agents want.
func nameServer(ctx context.Context, p root.Place, server []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	conn, err := launch.Join(ctx, p, launch.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	named := map[string]any{"command": server, "dir": dir, "env": os.Environ()}
	if err := json.NewEncoder(conn).Encode(named); err != nil {
		return fmt.Errorf("naming the server: %w", err)
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}

// status asks the running daemon of p.
func status(ctx context.Context, p root.Place) (s workspace.Status, err error) {
	conn, err := launch.Join(ctx, p, launch.Status)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	if err := json.NewDecoder(conn).Decode(&s); err != nil {
		return s, fmt.Errorf("the daemon's answer is not understood (is it of another version?): %w", err)
	}
	return s, nil
}

func (o *options) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "End the daemon of a workspace; kept branches stay, the editor does not notice",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := o.here()
			if err != nil {
				return err
			}
			conn, err := launch.Join(cmd.Context(), p, launch.Stop)
			if launch.NotRunning(err) {
				return nil
			}
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = io.Copy(io.Discard, conn)
			return err
		},
	}
}
