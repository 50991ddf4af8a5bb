// Package client answers: what does a plain LSP client get from a server?
//
// Model: a [Client] runs a command and speaks LSP with it on stdin and stdout,
// as an agent does with `shadowlsp connect` and as an editor does with a server;
// or it dials the agent port itself.
// Requests of the server are answered as a bare client would: configuration from
// [Config.Settings], null for everything else. Notifications are handed to one
// function.
//
// Invariants: a call returns the server's own answer or error; the end of the
// process ends every waiting call with an error that says how it ended.
//
// Absent on purpose: documents, capabilities chosen by us beyond what a test
// passes, retries.
//
// Goroutines: one reader, ended when Close returns. Locks: Client.mu guards the
// calls that wait.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"shadowlsp/lsp/wire"
)

// Config says what to run and how to answer it.
type Config struct {
	Command []string
	Dir     string
	Env     []string  // added to this process's environment
	Stderr  io.Writer // may be nil
	// Settings answers each item of workspace/configuration by its section.
	Settings map[string]any
	// Answer answers other requests of the server, from the reader; nil answers null.
	Answer func(method string, params json.RawMessage) any
	// Notify is called from the reader for every notification; may be nil.
	Notify func(method string, params json.RawMessage)
}

// endTime bounds an orderly end: shutdown, exit, and the end of the process.
const endTime = 10 * time.Second

// Client is one running server. Its methods may be called from any goroutine.
type Client struct {
	cfg     Config
	process *exec.Cmd // nil where the server was dialled
	stdin   io.WriteCloser
	out     *wire.Writer
	ended   chan struct{} // closed by the reader, after which err holds
	err     error         // how the stream and the process ended

	mu    sync.Mutex // guards the fields below
	next  int
	waits map[string]chan wire.Message // by raw id
}

// Start runs the command. The caller initializes.
func Start(cfg Config) (*Client, error) {
	c := &Client{cfg: cfg, ended: make(chan struct{}), waits: map[string]chan wire.Message{}}
	c.process = exec.Command(cfg.Command[0], cfg.Command[1:]...)
	c.process.Dir, c.process.Stderr = cfg.Dir, cfg.Stderr
	c.process.Env = append(os.Environ(), cfg.Env...)
	// A group of its own: a Ctrl-C at the terminal is for the program that runs
	// the client, which then ends it in order.
	c.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.stdin, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	c.out = wire.NewWriter(c.stdin)
	go c.read(stdout)
	return c, nil
}

// Dial speaks with a server that listens on a unix socket; cfg.Command names it
// in errors. The caller initializes.
func Dial(socket string, cfg Config) (*Client, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	cfg.Command = []string{socket}
	c := &Client{cfg: cfg, stdin: conn, out: wire.NewWriter(conn), ended: make(chan struct{}), waits: map[string]chan wire.Message{}}
	go c.read(conn)
	return c, nil
}

// Pid is the process of the command.
func (c *Client) Pid() int { return c.process.Process.Pid }

// Initialize does the handshake for a workspace folder and returns the server's
// answer. capabilities and options are as in InitializeParams; options may be
// nil.
func (c *Client) Initialize(ctx context.Context, uri string, capabilities, options any) (json.RawMessage, error) {
	result, err := c.Call(ctx, "initialize", map[string]any{
		"processId": os.Getpid(), "rootUri": uri, "capabilities": capabilities,
		"workspaceFolders":      []map[string]string{{"uri": uri, "name": "workspace"}},
		"initializationOptions": options,
	})
	if err != nil {
		return nil, err
	}
	return result, c.Notify("initialized", struct{}{})
}

// Call sends a request and waits for its answer. What the server answered as an
// error is a [*wire.Error] in the error's chain.
func (c *Client) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	came := make(chan wire.Message, 1)
	c.mu.Lock()
	c.next++
	id := json.RawMessage(strconv.Itoa(c.next))
	c.waits[string(id)] = came
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waits, string(id))
		c.mu.Unlock()
	}()
	if err := c.out.WriteFrame(wire.NewRequest(id, method, params)); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m := <-came:
		if m.Error != nil {
			return nil, fmt.Errorf("%s: %w", method, wire.ParseError(m.Error))
		}
		return m.Result, nil
	case <-c.ended:
		return nil, fmt.Errorf("%s: %w", method, c.err)
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) error {
	if err := c.out.WriteFrame(wire.NewNotification(method, params)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// Close ends the server in order, or by force after some seconds, and returns
// how it ended: nil for status 0.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if _, err := c.Call(ctx, "shutdown", nil); err == nil {
		c.Notify("exit", nil)
	}
	c.stdin.Close()
	select {
	case <-c.ended:
	case <-ctx.Done():
		if c.process != nil {
			c.process.Process.Kill()
		}
		<-c.ended
		return fmt.Errorf("%s did not end by itself", c.cfg.Command[0])
	}
	if errors.Is(c.err, errEnded) {
		return nil
	}
	return c.err
}

// errEnded says that the server ended with status 0.
var errEnded = errors.New("the server has ended")

// read handles what comes until the stream and the process have ended.
func (c *Client) read(stdout io.Reader) {
	defer close(c.ended)
	in := wire.NewReader(stdout, wire.MaxServerFrame)
	var failed error
	for {
		body, err := in.ReadFrame()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				failed = err
			}
			break
		}
		m, err := wire.Parse(body)
		if err != nil {
			failed = err
			continue
		}
		switch m.Kind {
		case wire.Response:
			c.mu.Lock()
			if came := c.waits[string(m.ID)]; came != nil {
				came <- m
				delete(c.waits, string(m.ID))
			}
			c.mu.Unlock()
		case wire.Request:
			c.out.WriteFrame(wire.NewResult(m.ID, c.answer(m)))
		case wire.Notification:
			if c.cfg.Notify != nil {
				c.cfg.Notify(m.Method, m.Params)
			}
		}
	}
	var err error
	if c.process != nil {
		err = c.process.Wait()
	}
	switch {
	case failed != nil:
		c.err = failed
	case err != nil:
		c.err = fmt.Errorf("the server has ended: %w", err)
	default:
		c.err = errEnded
	}
}

// answer is what a bare client answers a request of the server.
func (c *Client) answer(m wire.Message) any {
	if m.Method != "workspace/configuration" {
		if c.cfg.Answer == nil {
			return nil
		}
		return c.cfg.Answer(m.Method, m.Params)
	}
	var params struct{ Items []struct{ Section string } }
	if json.Unmarshal(m.Params, &params) != nil {
		return nil
	}
	values := make([]any, len(params.Items))
	for i, item := range params.Items {
		values[i] = c.cfg.Settings[item.Section]
	}
	return values
}
