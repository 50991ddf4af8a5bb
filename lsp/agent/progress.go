package agent

import (
	"context"
	"encoding/json"
	"sync"

	"shadowlsp/lsp/wire"
)

// Progress shows an agent what becomes of a request that it gave a workDoneToken,
// or of something that it did not ask for ([Peer.Progress]). It begins with the first
// Report; that of a request is ended before the response leaves. All methods may be
// called from any goroutine, and on nil, where nobody wants to know.
type Progress struct {
	send        func(body []byte)
	token       json.RawMessage
	title       string
	cancellable bool

	mu           sync.Mutex // guards the fields below; held while sending, which never waits, to keep the order
	begun, ended bool
	last         string
}

type progressKey struct{}

// ProgressOf returns the progress of the request whose context ctx is, or is
// made from; nil if the agent wants none.
func ProgressOf(ctx context.Context) *Progress {
	p, _ := ctx.Value(progressKey{}).(*Progress)
	return p
}

// follow makes the progress of a request that gives a token.
func (c *connection) follow(r *request, m wire.Message) {
	token, ok := lookup(m.Params, "workDoneToken")
	if _, valid := idKey(token); !ok || !valid {
		return
	}
	// Nothing but initialize's own progress may come before its answer.
	early := m.Method == "initialize"
	r.progress = &Progress{
		send:  func(body []byte) { c.send(body, early) },
		token: token, title: "shadowlsp: " + m.Method, cancellable: true,
	}
	r.ctx = context.WithValue(r.ctx, progressKey{}, r.progress)
}

// progressValue is a WorkDoneProgressBegin, Report or End. There is no
// percentage: nobody knows how long others will take.
type progressValue struct {
	Kind        string `json:"kind"`
	Title       string `json:"title,omitempty"`
	Cancellable bool   `json:"cancellable,omitempty"`
	Message     string `json:"message,omitempty"`
}

func (p *Progress) tell(v progressValue) {
	p.send(wire.NewNotification("$/progress", struct {
		Token json.RawMessage `json:"token"`
		Value progressValue   `json:"value"`
	}{p.token, v}))
}

// Report tells the agent how things stand; what it was told last is not repeated.
func (p *Progress) Report(message string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended || p.begun && message == p.last:
		return
	case p.begun:
		p.tell(progressValue{Kind: "report", Cancellable: p.cancellable, Message: message})
	default:
		p.tell(progressValue{Kind: "begin", Title: p.title, Cancellable: p.cancellable, Message: message})
	}
	p.begun, p.last = true, message
}

// Pass takes a server's $/progress under the request's own token and reports
// what it says: a token has one beginning and one end, which are ours. It
// returns false for what is no such progress (a partial result).
func (p *Progress) Pass(params json.RawMessage) bool {
	var of struct {
		Token json.RawMessage
		Value struct{ Kind, Title, Message string }
	}
	if p == nil || json.Unmarshal(params, &of) != nil || string(of.Token) != string(p.token) {
		return false
	}
	switch v := of.Value; v.Kind {
	case "begin":
		if v.Message != "" {
			v.Title += ": " + v.Message
		}
		p.Report(v.Title)
	case "report", "end":
		if v.Message != "" {
			p.Report(v.Message)
		}
	default:
		return false
	}
	return true
}

// End ends the progress, once; that of a request when the response is made. message
// may be "".
func (p *Progress) End(message string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun && !p.ended {
		p.tell(progressValue{Kind: "end", Message: message})
	}
	p.ended = true
}
