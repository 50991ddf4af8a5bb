package command

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"shadowlsp/internal/parcel"
	"shadowlsp/overlay"
)

// Request is what `shadowlsp exec` asks; its stdin, stdout and stderr come with
// it.
type Request struct {
	// Branch names the branch, made where it does not exist; "": a fresh one, which
	// goes when the command has ended unless Keep.
	Branch string
	From   string // the branch to fork a new one from
	Keep   bool
	Command
}

// Event is what the daemon tells the caller. Failed and Exit are the last.
type Event struct {
	// Started: the command runs; with the other side of its terminal, if it has
	// one. Branch is where.
	Started bool
	Branch  string
	Lacks   []string
	Failed  *Failure
	Exit    *Exit
}

// Failure says why there is no command.
type Failure struct {
	Text string
	Kind Kind
}

// Order is what the caller tells the daemon while its command runs.
type Order struct {
	Signal int
	Group  bool // the whole process group, as a terminal's keys do
}

// Receive reads the request at the beginning of a connection.
func Receive(c *net.UnixConn) (Request, Streams, error) {
	var r Request
	files, err := parcel.Receive(c, &r)
	if err == nil && len(files) != 3 {
		parcel.Close(files)
		err = errors.New("a request without its three streams")
	}
	if err != nil {
		return r, Streams{}, err
	}
	return r, Streams{files[0], files[1], files[2]}, nil
}

func (s Streams) close() { parcel.Close([]*os.File{s.In, s.Out, s.Err}) }

// Refuse answers a request that is not to be run.
func Refuse(c *net.UnixConn, s Streams, err error) {
	s.close()
	f := &Failure{Text: err.Error(), Kind: Invalid}
	var e *Error
	if errors.As(err, &e) {
		f.Kind = e.Kind
	}
	_ = parcel.Send(c, Event{Failed: f}) // who has left needs no answer
}

// Serve runs the command of a request and returns when it has ended and the
// caller knows, or has left. It takes over the streams.
func (h *Host) Serve(ctx context.Context, c *net.UnixConn, r Request, s Streams, over *overlay.Branch) {
	// A caller that leaves before its command starts has it not started.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running *Running
	started, read := make(chan struct{}), make(chan struct{})
	go func() { // ends with the connection, which the caller of Serve closes or the defer below
		defer close(read)
		for {
			var o Order
			files, err := parcel.Receive(c, &o)
			parcel.Close(files)
			if err != nil {
				cancel()
				<-started
				if running != nil {
					running.Kill()
				}
				return
			}
			<-started
			if running != nil && o.Signal != 0 {
				running.Signal(syscall.Signal(o.Signal), o.Group)
			}
		}
	}()
	defer func() { _ = c.CloseRead(); <-read }()
	got, err := h.Start(ctx, over, r.Command, s)
	running = got
	close(started)
	if err != nil {
		Refuse(c, s, err)
		return
	}
	s.close()
	event := Event{Started: true, Branch: over.Name(), Lacks: running.Lacks}
	if running.Terminal != nil {
		err = parcel.Send(c, event, int(running.Terminal.Fd()))
		running.Terminal.Close()
	} else {
		err = parcel.Send(c, event)
	}
	if err != nil {
		running.Kill()
	}
	exit := running.Wait()
	_ = parcel.Send(c, Event{Exit: &exit}) // who has left needs no answer
}
