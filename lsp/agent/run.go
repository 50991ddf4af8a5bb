package agent

import (
	"context"
	"encoding/json"
)

const (
	// MethodRun runs a command in the branch. $/cancelRequest ends it and all that
	// it started.
	MethodRun = "shadowlsp/run"
	// NotifyOutput is the notification that carries what a command writes.
	NotifyOutput = "shadowlsp/output"
)

const (
	// DefaultOutput and MaxOutput bound what is sent of each stream of a command,
	// in bytes: the agent's queue ([Limits.Outgoing]) holds what it has not read, and a
	// byte can take six in JSON.
	DefaultOutput = 1 << 20
	MaxOutput     = 4 << 20
)

// RunParams: exactly one of Argv and Command is given.
type RunParams struct {
	Argv []string `json:"argv,omitempty"`
	// Command is for /bin/sh.
	Command string `json:"command,omitempty"`
	// Cwd is a URI or a path, relative ones to the root; absent: the root.
	Cwd string `json:"cwd,omitempty"`
	// Env is put over the daemon's environment.
	Env   map[string]string `json:"env,omitempty"`
	Stdin string            `json:"stdin,omitempty"`
	// Timeout is in seconds; absent: none.
	Timeout float64 `json:"timeout,omitempty"`
	// Net is "private" (absent), "none" or "host".
	Net string `json:"net,omitempty"`
	// Output bounds what is sent of each stream, in bytes: the beginning and the
	// end. Absent: DefaultOutput.
	MaxOutput int `json:"maxOutput,omitempty"`
	// Strict refuses what the machine cannot isolate as promised.
	Strict bool `json:"strict,omitempty"`
}

// RunResult tells how the command ended; its output has been sent before.
type RunResult struct {
	// ExitCode is 128 + the signal's number where a signal ended it.
	ExitCode int    `json:"exitCode"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timedOut,omitempty"`
	// Stdout and Stderr count what the command wrote, in bytes, and Omitted what of
	// both was not sent.
	Stdout    int64 `json:"stdout"`
	Stderr    int64 `json:"stderr"`
	Omitted   int64 `json:"omitted,omitempty"`
	Truncated bool  `json:"truncated,omitempty"`
	// Lacks is what the machine cannot give, and what is lost by it.
	Lacks []string `json:"lacks,omitempty"`
	// Rev is the branch's revision after it.
	Rev uint64 `json:"rev"`
}

// OutputParams are those of NotifyOutput.
type OutputParams struct {
	// ID is that of the shadowlsp/run request.
	ID     json.RawMessage `json:"id"`
	Stream string          `json:"stream"` // "stdout" or "stderr"
	// Omitted bytes come before this piece and are not sent.
	Omitted int64 `json:"omitted,omitempty"`
	// Data is the piece where it is UTF-8, else Base64 is.
	Data   string `json:"data,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

type idKeyType struct{}

// RequestID is the id of the agent's request that ctx belongs to, as the agent
// spelled it; nil where there is none.
func RequestID(ctx context.Context) json.RawMessage {
	id, _ := ctx.Value(idKeyType{}).(json.RawMessage)
	return id
}
