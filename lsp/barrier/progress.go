package barrier

import (
	"bytes"
	"encoding/json"

	"shadowlsp/lsp/wire"
)

// bracket is one work-done progress of the server, between begin and end.
type bracket struct {
	title   string
	message string // of its begin or last report
	serial  uint64 // counts the begins of all brackets
}

// brackets are the progresses that the server has begun by itself. The zero
// value is ready.
type brackets struct {
	open  map[string]*bracket // by raw token
	begun uint64
}

// step is what one message did to the brackets: one of the two, or none.
type step struct{ began, ended, told *bracket }

// observe takes a message that came from the server.
func (b *brackets) observe(m wire.Message) step {
	if m.Kind != wire.Notification || m.Method != "$/progress" {
		return step{}
	}
	var p struct {
		Token json.RawMessage `json:"token"`
		Value struct {
			Kind    string  `json:"kind"`
			Title   string  `json:"title"`
			Message *string `json:"message"`
		} `json:"value"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return step{} // a partial result, whose value is no object
	}
	token := string(bytes.TrimSpace(p.Token))
	switch p.Value.Kind {
	case "begin":
		b.begun++
		k := &bracket{title: p.Value.Title, serial: b.begun}
		if p.Value.Message != nil {
			k.message = *p.Value.Message
		}
		if b.open == nil {
			b.open = make(map[string]*bracket)
		}
		b.open[token] = k
		return step{began: k}
	case "report":
		k := b.open[token]
		if k != nil && p.Value.Message != nil {
			k.message = *p.Value.Message
		}
		return step{told: k}
	case "end":
		k := b.open[token]
		delete(b.open, token)
		return step{ended: k}
	}
	return step{}
}

// any says whether a bracket is open that is of interest.
func (b *brackets) any(of func(*bracket) bool) bool {
	for _, k := range b.open {
		if of(k) {
			return true
		}
	}
	return false
}
