// Package editor answers: what does a person in a real editor see and do?
//
// Model: a headless Neovim with its own LSP client, started with the language
// server command under test. A Lua script in it (driver.lua) connects to a unix
// socket of ours; commands go there as JSON lines, one at a time, and answers
// and events (diagnostics as shown, every publish as it came, messages, the
// end of the server) come back. [Editor] keeps what it heard; a wait is a
// condition on that, and fails at once when it can never be met any more.
//
// Invariants: nothing of the person's own configuration is read (--clean, no
// swap or shada files, a state folder of its own for Neovim's log); times are
// taken inside Neovim; no sleeps.
//
// Absent on purpose: an LSP client of ours, key bindings, screens.
//
// Goroutines: one reader and one that waits for the process, both ended when
// Close returns. Locks: Editor.mu guards what was heard; Editor.turn is held for
// one command and its answer, and is taken first.
package editor

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

//go:embed driver.lua
var driver []byte

// Config says which Neovim, and which server it talks to.
type Config struct {
	Nvim    string   // the program, 0.10 or newer
	Command []string // the language server, as an editor's configuration has it
	Dir     string   // the workspace folder
	// Filetypes that the server is started for; Go when empty.
	Filetypes []string
	Settings  any       // answers to workspace/configuration; may be nil
	Options   any       // initializationOptions; may be nil
	Env       []string  // added to this process's environment
	Output    io.Writer // what Neovim prints; may be nil
	// Timeout bounds each command inside Neovim; 60 s when 0.
	Timeout time.Duration
}

// closeTime is how long Neovim may take to end by itself: it gives its servers
// half a second to answer shutdown.
const closeTime = 10 * time.Second

// Editor is one running Neovim. Its methods may be called from any goroutine.
type Editor struct {
	dir     string
	timeout time.Duration
	scratch string // socket, script and Neovim's own state
	conn    net.Conn
	process *exec.Cmd
	ended   chan struct{} // closed when the process has been waited for
	reading chan struct{} // closed when the reader has ended

	turn sync.Mutex // held for one command and its answer
	next int

	mu      sync.Mutex // guards the fields below
	heard   heard
	answers map[int]chan answer
	changed chan struct{} // closed and replaced at every event
}

type answer struct {
	ID     int             `json:"id"`
	OK     bool            `json:"ok"`
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
}

// Start runs Neovim and returns when it takes commands. The server is started
// by the first Open.
func Start(ctx context.Context, cfg Config) (_ *Editor, err error) {
	e := &Editor{
		dir: cfg.Dir, timeout: cfg.Timeout,
		ended: make(chan struct{}), reading: make(chan struct{}),
		answers: map[int]chan answer{}, changed: make(chan struct{}),
	}
	if e.timeout == 0 {
		e.timeout = time.Minute
	}
	// A short path: socket names are limited to about 100 bytes.
	if e.scratch, err = os.MkdirTemp("", "nvim-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(e.scratch)
		}
	}()
	script, socket := filepath.Join(e.scratch, "driver.lua"), filepath.Join(e.scratch, "s")
	if err := os.WriteFile(script, driver, 0o600); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	defer listener.Close()

	e.process = exec.Command(cfg.Nvim, "--headless", "--clean", "-n", "-i", "NONE",
		"--cmd", fmt.Sprintf("let g:editor_socket='%s'", socket), "-S", script)
	e.process.Dir = cfg.Dir
	e.process.Env = append(append(os.Environ(), "NVIM_LOG_FILE="+filepath.Join(e.scratch, "log")), cfg.Env...)
	if cfg.Output != nil {
		e.process.Stdout, e.process.Stderr = cfg.Output, cfg.Output
	}
	// A group of its own: a Ctrl-C at the terminal is for the program that runs
	// the editor, which then ends it in order.
	e.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.process.Start(); err != nil {
		return nil, fmt.Errorf("starting Neovim: %w", err)
	}
	go func() {
		defer close(e.ended)
		e.process.Wait()
		listener.Close() // ends the Accept below when Neovim never got that far
	}()
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	if e.conn, err = listener.Accept(); err != nil {
		e.process.Process.Kill()
		<-e.ended
		return nil, errors.Join(fmt.Errorf("starting Neovim: %s did not come up", cfg.Nvim), ctx.Err())
	}
	go e.read()
	filetypes := cfg.Filetypes
	if len(filetypes) == 0 {
		filetypes = []string{"go", "gomod"}
	}
	err = e.do(ctx, "start", map[string]any{
		"command": cfg.Command, "dir": cfg.Dir, "filetypes": filetypes, "settings": cfg.Settings,
		"options": cfg.Options, "timeout": e.timeout.Milliseconds(),
	}, nil)
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Close ends Neovim as `:qall!` does, which shuts its servers down, and returns
// when the process has gone.
func (e *Editor) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	e.do(ctx, "quit", nil, nil) // where it fails, Neovim has gone already or is killed below
	var err error
	select {
	case <-e.ended:
	case <-ctx.Done():
		err = errors.New("closing: Neovim did not end by itself")
		e.process.Process.Kill()
		<-e.ended
	}
	e.conn.Close()
	<-e.reading
	os.RemoveAll(e.scratch)
	return err
}

// Pid is Neovim's process.
func (e *Editor) Pid() int { return e.process.Process.Pid }

// do sends one command and waits for its answer, which it decodes into result
// unless that is nil.
func (e *Editor) do(ctx context.Context, op string, args, result any) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	e.next++
	id, came := e.next, make(chan answer, 1)
	e.mu.Lock()
	e.answers[id] = came
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.answers, id)
		e.mu.Unlock()
	}()
	line, err := json.Marshal(map[string]any{"id": id, "op": op, "args": args})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if _, err := e.conn.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	select {
	case a := <-came:
		if !a.OK {
			return fmt.Errorf("%s: %s", op, a.Error)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(a.Result, result)
	case <-e.reading:
		return fmt.Errorf("%s: Neovim has ended", op)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
}

// read takes in answers and events until the connection ends.
func (e *Editor) read() {
	defer close(e.reading)
	in := bufio.NewReader(e.conn)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var message struct {
			answer
			event
		}
		if err := json.Unmarshal(line, &message); err != nil {
			message.event = event{Event: "message", Params: json.RawMessage(line)}
		}
		e.mu.Lock()
		if message.Event == "" {
			if came := e.answers[message.ID]; came != nil {
				came <- message.answer
			}
		} else {
			e.heard.add(message.event)
			close(e.changed)
			e.changed = make(chan struct{})
		}
		e.mu.Unlock()
	}
}
