package command

import (
	"context"
	"io"
	"os"
	"sync"

	"shadowlsp/overlay"
)

// Output is a piece of what a command writes.
type Output struct {
	Stream string // "stdout" or "stderr"
	// Omitted bytes came before Data and are not told.
	Omitted int64
	Data    []byte
}

// Captured is how a captured command ended.
type Captured struct {
	Exit
	// Stdout and Stderr count what it wrote, Omitted what of both was not told.
	Stdout, Stderr, Omitted int64
	Lacks                   []string
}

// Capture runs a command and tells what it writes, of each stream at most that
// many bytes: its beginning at once, and its end when it has ended. tell is called
// by one goroutine at a time. The end of ctx ends the command.
func (h *Host) Capture(ctx context.Context, over *overlay.Branch, c Command, stdin string, most int, tell func(Output)) (Captured, error) {
	var (
		pipes []*os.File
		pipe  = func() (r, w *os.File, err error) {
			if r, w, err = os.Pipe(); err == nil {
				pipes = append(pipes, r, w)
			}
			return r, w, err
		}
	)
	defer func() {
		for _, f := range pipes {
			f.Close() // again, where it has been closed: no matter
		}
	}()
	const op = "running a command"
	outR, outW, err := pipe()
	if err != nil {
		return Captured{}, fail(op, Unable, "%w", err)
	}
	errR, errW, err := pipe()
	if err != nil {
		return Captured{}, fail(op, Unable, "%w", err)
	}
	s := Streams{Out: outW, Err: errW}
	var inW *os.File
	if stdin != "" {
		if s.In, inW, err = pipe(); err != nil {
			return Captured{}, fail(op, Unable, "%w", err)
		}
	}
	running, err := h.Start(ctx, over, c, s)
	outW.Close()
	errW.Close()
	if err != nil {
		return Captured{}, err
	}
	stop := context.AfterFunc(ctx, running.Kill)
	defer stop()
	var all sync.WaitGroup
	if inW != nil {
		s.In.Close()
		all.Go(func() {
			_, _ = io.WriteString(inW, stdin) // a command need not read it
			inW.Close()
		})
	}
	var telling sync.Mutex
	out, errs := &spool{most: most, stream: "stdout", tell: tell}, &spool{most: most, stream: "stderr", tell: tell}
	for from, to := range map[*os.File]*spool{outR: out, errR: errs} {
		all.Go(func() { // ends when everything that could write has ended
			buf := make([]byte, 32<<10)
			for {
				n, err := from.Read(buf)
				telling.Lock()
				to.write(buf[:n])
				telling.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	exit := running.Wait()
	if inW != nil {
		inW.Close() // nobody reads it any more
	}
	all.Wait()
	out.end()
	errs.end()
	return Captured{Exit: exit, Stdout: out.total, Stderr: errs.total, Omitted: out.omitted + errs.omitted, Lacks: running.Lacks}, nil
}
