package agent

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"shadowlsp/lsp/wire"
)

// A request with a token is told how it stands: one beginning, one end, what a
// server says in between; one without a token, or with one for partial results
// only, is told nothing.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{request: func(ctx context.Context, m wire.Message) Pending[json.RawMessage] {
			p := ProgressOf(ctx)
			p.Report("queued: 2 before it")
			p.Report("queued: 2 before it")
			p.Report("queued: 1 before it")
			return func() (json.RawMessage, error) {
				passed := 0
				for _, value := range []string{
					`{"kind":"begin","title":"Searching","message":"all"}`, `{"kind":"report","percentage":3}`,
					`{"kind":"report","message":"half"}`, `{"kind":"end"}`, `[1]`,
				} {
					if p.Pass(json.RawMessage(`{"token":"w","value":` + value + `}`)) {
						passed++
					}
				}
				p.Pass(json.RawMessage(`{"token":"other","value":{"kind":"report","message":"not ours"}}`))
				return json.Marshal(passed)
			}
		}}
		c := initialized(t, f, Config{}, pull)
		value := func(v string) {
			c.want(`{"jsonrpc":"2.0","method":"$/progress","params":{"token":"w","value":` + v + `}}`)
		}
		c.send(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"workDoneToken":"w"}}`)
		value(`{"kind":"begin","title":"shadowlsp: m","cancellable":true,"message":"queued: 2 before it"}`)
		value(`{"kind":"report","cancellable":true,"message":"queued: 1 before it"}`)
		value(`{"kind":"report","cancellable":true,"message":"Searching: all"}`)
		value(`{"kind":"report","cancellable":true,"message":"half"}`)
		value(`{"kind":"end"}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":4}`)
		for _, params := range []string{`{}`, `{"partialResultToken":"w"}`, `{"workDoneToken":null}`, `{"workDoneToken":[1]}`} {
			c.send(`{"jsonrpc":"2.0","id":2,"method":"m","params":` + params + `}`)
			c.want(`{"jsonrpc":"2.0","id":2,"result":0}`)
		}
		c.close()
	})
}

// Progress that was not asked for needs the agent's leave, and a client that shows it.
func TestProgressOfOurOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{request: func(ctx context.Context, m wire.Message) Pending[json.RawMessage] {
			return Now(json.RawMessage("null"), nil)
		}}
		c := initialized(t, f, Config{}, `{"window":{"workDoneProgress":true}}`)
		for _, refused := range []bool{false, true} {
			made := make(chan *Progress, 1)
			go func() { made <- f.peer().Progress(t.Context(), "loads") }()
			m := c.recv()
			if m.Method != "window/workDoneProgress/create" {
				t.Fatal(m.Method)
			}
			if refused {
				c.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32601,"message":"no"}}`)
			} else {
				c.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":null}`)
			}
			p := <-made
			p.Report("half")
			p.End("ready")
			p.Report("late")
			if refused {
				continue
			}
			token, _ := lookup(m.Params, "token")
			c.want(`{"jsonrpc":"2.0","method":"$/progress","params":{"token":` + string(token) + `,"value":{"kind":"begin","title":"loads","message":"half"}}}`)
			c.want(`{"jsonrpc":"2.0","method":"$/progress","params":{"token":` + string(token) + `,"value":{"kind":"end","message":"ready"}}}`)
		}
		c.send(`{"jsonrpc":"2.0","id":1,"method":"m"}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":null}`) // and nothing before it
		c.close()
	})
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := initialized(t, f, Config{}, pull)
		if p := f.peer().Progress(t.Context(), "loads"); p != nil {
			t.Error("a client that shows none is asked")
		}
		c.close()
	})
}
