package lsptest

import (
	"encoding/json"
	"time"
)

// Signal is how a server makes its diagnostics known.
type Signal string

// The ways of real servers.
const (
	Push      Signal = ""          // publishDiagnostics without a version
	Versioned Signal = "versioned" // with it
	Pull      Signal = "pull"      // textDocument/diagnostic only
	Progress  Signal = "progress"  // published within a progress "diagnosing"
	Silent    Signal = "silent"    // never
)

// Rules say how a server differs from an honest one. They can be sent to a
// process, so they are data.
type Rules struct {
	Name   string        `json:"name,omitempty"` // serverInfo.name; "toy"
	Signal Signal        `json:"signal,omitempty"`
	Delay  time.Duration `json:"delay,omitempty"` // before it publishes
	// Lie makes the first publish behind each modification falsely clean; the
	// true one follows after LieFor.
	Lie    bool          `json:"lie,omitempty"`
	LieFor time.Duration `json:"lieFor,omitempty"`
	// Capabilities replace those of the toy.
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	// Watch is what it registers for, with client/registerCapability, when
	// initialized: glob patterns; nil: "**/*.toy".
	Watch []string `json:"watch,omitempty"`
	On    []Rule   `json:"on,omitempty"`
}

// Rule is what to do when a message comes.
type Rule struct {
	Method string   `json:"method"`
	Nth    int      `json:"nth,omitempty"` // which message of that method, from 1; 0: each
	Do     []Action `json:"do"`
	// Only leaves out what an honest server does with that message.
	Only bool `json:"only,omitempty"`
}

// Action is one thing a server does. The first member that is set counts.
type Action struct {
	// Crash ends the process with this status, without another word; in the
	// test's own process it closes the connection.
	Crash int `json:"crash,omitempty"`
	// Stall makes it read nothing any more.
	Stall bool `json:"stall,omitempty"`
	// Raw writes these bytes as they are.
	Raw string `json:"raw,omitempty"`
	// Wait does nothing for so long, and reads nothing meanwhile.
	Wait time.Duration `json:"wait,omitempty"`
	// Request sends a request, Notify a notification, with Params.
	Request string          `json:"request,omitempty"`
	Notify  string          `json:"notify,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	// Result and Error answer the message, if it is a request.
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}
