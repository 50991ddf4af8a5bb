package agent

import (
	"time"

	"shadowlsp/lsp/wire"
)

// Limits bound what one connection may take. A zero field means its default.
type Limits struct {
	// Handshake is how long a peer has to send initialize: a port scanner or a
	// browser that opens a connection and waits must not keep one.
	Handshake time.Duration // 10 s
	// HandshakeBytes is how much a peer may send before its token is checked:
	// any local user can reach a TCP port and must not make us take memory.
	// Real initialize requests are below 100 KB.
	HandshakeBytes int // 4 MiB
	// Frame bounds one message of the agent. Over it the connection ends, since
	// what follows cannot be trusted to be a header.
	Frame int // wire.MaxAgentFrame
	// Inbox bounds the messages, in bytes, that have been read but not handed
	// over. At it we stop reading, and the agent's writes wait.
	Inbox int // 2 × Frame
	// Requests bounds the requests of the agent that have no answer yet; each
	// costs a goroutine and a place in the scheduler. Over it a request is
	// refused.
	Requests int // 1024
	// Calls bounds our requests that the agent has not answered yet: an agent
	// that never answers must not collect them. Over it a call fails.
	Calls int // 256
	// Outgoing bounds what waits for the agent to read, in bytes; the frame that
	// crosses it is still taken, so one huge answer to a quick reader is never
	// over it. Past it the connection ends: the agent does not read.
	Outgoing int // 64 MiB
	// Documents bounds the open documents. Over it didOpen is refused.
	Documents int // 4096
	// TextBytes bounds the text of all open documents. Over it the edit is
	// refused.
	TextBytes int // 256 MiB
	// Drain is how long the last answers may take to leave at the end.
	Drain time.Duration // 2 s
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.HandshakeBytes, 4<<20)
	set(&l.Frame, wire.MaxAgentFrame)
	set(&l.Inbox, 2*l.Frame)
	set(&l.Requests, 1024)
	set(&l.Calls, 256)
	set(&l.Outgoing, 64<<20)
	set(&l.Documents, 4096)
	set(&l.TextBytes, 256<<20)
	if l.Handshake <= 0 {
		l.Handshake = 10 * time.Second
	}
	if l.Drain <= 0 {
		l.Drain = 2 * time.Second
	}
	return l
}
