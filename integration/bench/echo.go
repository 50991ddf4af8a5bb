package main

import (
	"io"

	"shadowlsp/lsp/wire"
)

// echoArgument makes this program a server that answers every request at once
// with its own params: what is left of a round-trip is the lane.
const echoArgument = "-echo-server"

func echo(in io.Reader, out io.Writer) {
	r, w := wire.NewReader(in, wire.MaxServerFrame), wire.NewWriter(out)
	for {
		body, err := r.ReadFrame()
		if err != nil {
			return
		}
		m, err := wire.Parse(body)
		if err != nil || m.Method == "exit" {
			return
		}
		if m.Kind == wire.Request {
			answer := any(m.Params)
			if m.Method == "initialize" {
				answer = map[string]any{"capabilities": struct{}{}}
			}
			if w.WriteFrame(wire.NewResult(m.ID, answer)) != nil {
				return
			}
		}
	}
}
