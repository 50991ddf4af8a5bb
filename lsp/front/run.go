package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"
)

const (
	// farewell bounds how long Run waits for the trace to be written after the
	// server has ended, and only if there is one.
	farewell = time.Second
	// patience bounds how long the last output of a server that was told to end
	// by a signal waits for the editor to read it. Of a server that ended by
	// itself every byte waits, as the server itself would.
	patience = time.Second
	// processors is how many goroutines may run at once, at least. A pump that
	// comes back from a read needs a free one: with two for courier, sender,
	// trace and garbage collector a message could wait for milliseconds.
	processors = 8
	// memoryLimit is where the garbage collector becomes thorough: a burst of
	// the largest messages must not double what they take.
	memoryLimit = 96 << 20
)

// Config is what a front needs to know.
type Config struct {
	// Command is the real server's.
	Command []string
	// Env is its environment.
	Env []string
	// Workspace is the folder that the person named; "" takes the editor's.
	Workspace string
	// TraceFile gets the user lane; "" for none.
	TraceFile string
	// FindRoot returns the root that covers a folder. nil takes the folder.
	FindRoot func(dir string) (string, error)
	// Connect joins the daemon of a root; if there is none and start is true
	// it starts one. What it returns is ready for what [Receive] reads. It may
	// take its time, and ends with ctx. nil never connects.
	Connect func(ctx context.Context, root string, start bool) (net.Conn, error)
	// Log must not go to stdout, nor to stderr, which is the server's.
	Log zerolog.Logger

	// onFrame is called by the courier for each frame; tests make it panic.
	onFrame func(toServer bool, body []byte)
}

// Run runs the real server between stdin, stdout and stderr, and returns its
// exit status; if a signal killed it, this process dies by the same signal. The
// caller must end the process with that status at once: Run may leave a
// goroutine that is blocked in a read of stdin. It takes over the process's
// signals.
func Run(cfg Config, stdin, stdout, stderr *os.File) (exitCode int) {
	if len(cfg.Command) == 0 {
		fmt.Fprintln(stderr, "shadowlsp: no server is named")
		return 127
	}
	// The server dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	caught := catchSignals()
	server, err := startServer(cfg.Command, cfg.Env, stderr)
	if err != nil {
		code, reason := startFailure(err)
		fmt.Fprintf(stderr, "shadowlsp: cannot start %s: %s\n", cfg.Command[0], reason)
		return code
	}
	caught.passSignals(server.pid)

	c := newCourier(cfg)
	out := make(chan struct{})
	go func() { // ends when the server's output has ended
		defer close(out)
		pumpOut(server, stdout, c)
	}()
	go pumpIn(stdin, server, c) // ends with stdin, or with the process
	if runtime.GOMAXPROCS(0) < processors {
		runtime.GOMAXPROCS(processors)
	}
	debug.SetMemoryLimit(memoryLimit)
	ctx, cancel := context.WithCancel(context.Background())
	go c.run()
	go newSender(cfg, c).run(ctx)

	server.wait()
	caught.stop()
	status := server.reap()
	_ = server.stdout.SetReadDeadline(time.Unix(1, 0))
	if status.Signaled() || caught.asked.Load() {
		// Killed with its pipe full, the server would have been gone at once:
		// who kills it does not read any more, perhaps.
		select {
		case <-out:
		case <-time.After(patience):
		}
	} else {
		<-out
	}
	cancel()
	c.bye()
	if status.Signaled() {
		DieBy(status.Signal())
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// pumpIn copies from the editor to the server.
func pumpIn(stdin *os.File, s *server, c *courier) {
	err := (&pump{from: stdin, to: s.stdin, tape: c.tapes[direction(true)], nudge: c.nudge}).run()
	var read *readError
	if err != nil && !errors.As(err, &read) {
		vacate(stdin) // the server reads no more: the editor must see it
	}
	_ = s.stdin.Close()
}

// pumpOut copies from the server to the editor.
func pumpOut(s *server, stdout *os.File, c *courier) {
	err := (&pump{from: s.stdout, to: stdout, tape: c.tapes[direction(false)], nudge: c.nudge}).run()
	if err != nil {
		// The editor reads no more: the server must see it, as SIGPIPE or
		// EPIPE. Any other failure to write looks the same to it.
		_ = s.stdout.Close()
	}
	vacate(stdout)
}

// bye ends the courier. The trace is worth waiting for a little, nothing else.
func (c *courier) bye() {
	close(c.stop)
	if c.traceFile == "" {
		return
	}
	select {
	case <-c.done:
	case <-time.After(farewell):
	}
}
