package workspace

import (
	"encoding/json"
	"io"
	"net"
)

// TraceRequest asks the running daemon to trace into a file from now on.
type TraceRequest struct {
	File string `json:"file"` // absolute; "" ends the trace
}

// TraceAnswer answers a TraceRequest. Error is "" where it was done.
type TraceAnswer struct {
	Error string `json:"error,omitempty"`
	// Before is the file that was traced into, "" for none.
	Before string `json:"before,omitempty"`
}

// maxTraceRequest bounds a TraceRequest, in bytes: it holds one path.
const maxTraceRequest = 64 << 10

// tracePort serves one TraceRequest.
func (d *daemon) tracePort(c net.Conn) {
	var r TraceRequest
	if err := json.NewDecoder(io.LimitReader(c, maxTraceRequest)).Decode(&r); err != nil {
		d.cfg.Log.Warn().Err(err).Msg("a request about the trace is not understood")
		return
	}
	a := TraceAnswer{Before: d.trace.Path()}
	switch err := d.trace.To(r.File); {
	case err != nil:
		d.cfg.Log.Warn().Err(err).Msg("going on without the trace that was asked for")
		a.Error = err.Error()
	case r.File != a.Before:
		d.cfg.Log.Info().Str("file", r.File).Str("before", a.Before).Msg("tracing")
	}
	if err := json.NewEncoder(c).Encode(a); err != nil {
		d.cfg.Log.Debug().Err(err).Msg("answering a request about the trace")
	}
}
