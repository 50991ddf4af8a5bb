package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"shadowlsp/lsp/wire"
)

// gated answers requests when it is told to, by the id in the params.
type gated map[string]chan struct{}

func (g gated) request(ctx context.Context, m wire.Message) Pending[json.RawMessage] {
	return func() (json.RawMessage, error) {
		select {
		case <-g[string(m.Params)]:
			return m.Params, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func TestHandOverIsOrderedAnswersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 50
		g := gated{}
		for i := range n {
			g[fmt.Sprint(i)] = make(chan struct{})
		}
		f := &fake{request: g.request}
		c := initialized(t, f, Config{}, pull)
		c.send(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a","languageId":"go","version":0,"text":""}}}`)
		want := []string{`open file:///a v0 ""`}
		text := ""
		for i := range n {
			c.sendf(`{"jsonrpc":"2.0","id":%d,"method":"m","params":%d}`, i, i)
			c.sendf(`{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///a","version":%d},"contentChanges":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":0}},"text":"%d"}]}}`, i+1, i)
			text = fmt.Sprint(i) + text
			want = append(want, fmt.Sprintf(`request {"jsonrpc":"2.0","id":%d,"method":"m","params":%d}`, i, i), fmt.Sprintf("change file:///a v%d %q", i+1, text))
		}
		c.nothing() // none is answered, all are handed over
		same(t, f.taken(), want)
		for i := n - 1; i >= 0; i-- {
			close(g[fmt.Sprint(i)])
			c.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%d}`, i, i))
		}
		c.close()
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		f := &fake{request: gated{}.request, edit: func(string, Document) error { <-open; return nil }}
		c := initialized(t, f, Config{}, pull)
		// While it runs, under another spelling of its id.
		c.send(`{"jsonrpc":"2.0","id":10,"method":"m"}`)
		c.nothing()
		c.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"10"}}`)
		c.nothing()
		c.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1e1}}`)
		c.wantError("10", wire.CodeRequestCancelled, "cancelled by the agent")
		// While it waits behind an edit: it is never handed over.
		f.taken()
		c.send(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a","version":1,"text":"t"}}}`)
		c.send(`{"jsonrpc":"2.0","id":"q","method":"m"}`)
		c.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"q"}}`)
		c.nothing()
		close(open)
		c.wantError(`"q"`, wire.CodeRequestCancelled, "")
		same(t, f.taken(), []string{`open file:///a v1 "t"`})
		// Of what is not there, or is none: nothing happens.
		for _, id := range []string{`"q"`, `99`, `{}`, `null`, `[1]`, `1e999999`} {
			c.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":` + id + `}}`)
		}
		c.send(`{"jsonrpc":"2.0","method":"$/cancelRequest"}`)
		c.nothing()
		c.close()
	})
}

func TestAnAnswerGivenInSpiteOfACancelCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{request: func(ctx context.Context, _ wire.Message) Pending[json.RawMessage] {
			return func() (json.RawMessage, error) { <-ctx.Done(); return json.RawMessage(`"partial"`), nil }
		}}
		c := initialized(t, f, Config{}, pull)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"m"}`)
		c.nothing()
		c.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":"partial"}`)
		c.close()
	})
}

func TestRequestLimitsAndIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated{"1": make(chan struct{})}
		f := &fake{request: g.request}
		c := initialized(t, f, Config{Limits: Limits{Requests: 2}}, pull)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"m","params":1}`)
		c.send(`{"jsonrpc":"2.0","id":1.0,"method":"m","params":1}`)
		c.wantError("1.0", wire.CodeInvalidRequest, "in use")
		c.send(`{"jsonrpc":"2.0","id":"1","method":"m","params":1}`)
		c.nothing()
		c.send(`{"jsonrpc":"2.0","id":2,"method":"m","params":1}`)
		c.wantError("2", wire.CodeRequestFailed, "2 requests")
		c.send(`{"jsonrpc":"2.0","id":{"a":1},"method":"m"}`)
		c.wantError("null", wire.CodeInvalidRequest, "")
		close(g["1"])
		c.recv()
		c.recv()
		c.send(`{"jsonrpc":"2.0","id":1,"method":"m","params":1}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":1}`)
		c.close()
	})
}

func TestIDKeys(t *testing.T) {
	for _, equal := range [][]string{{`1`, `1.0`, `1e0`, `10e-1`}, {`"a"`, `"\u0061"`}, {`9007199254740993`, `9007199254740993.0`}} {
		for _, id := range equal {
			a, ok := idKey(json.RawMessage(id))
			b, _ := idKey(json.RawMessage(equal[0]))
			if !ok || a != b {
				t.Errorf("%s: %q, %s: %q", id, a, equal[0], b)
			}
		}
	}
	a, _ := idKey(json.RawMessage(`9007199254740993`))
	b, _ := idKey(json.RawMessage(`9007199254740992`))
	if a == b {
		t.Error("ids beyond 2^53 are one")
	}
	for _, id := range []string{``, `null`, `true`, `{}`, `[]`, `1e99999`, `01`, `-`, `"` + strings.Repeat("x", maxID) + `"`} {
		if key, ok := idKey(json.RawMessage(id)); ok {
			t.Errorf("%s is taken for an id: %q", clip([]byte(id)), key)
		}
	}
}

func TestMethodsOfOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{extension: func(_ context.Context, method string, params json.RawMessage) Pending[json.RawMessage] {
			_, err := DecodeParams[LintParams](method, params)
			return Now(json.RawMessage(`{"rev":1.0}`), err)
		}}
		c := initialized(t, f, Config{}, pull)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"shadowlsp/lint","params":{"edits":[{"uri":"file:///a","text":"x"}]}}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"rev":1.0}}`)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"shadowlsp/lint","params":{"edit":[]}}`)
		c.wantError("1", wire.CodeInvalidParams, `shadowlsp/lint: unknown field "edit"`)
		c.send(`{"jsonrpc":"2.0","id":2,"method":"shadowlsp/nope"}`)
		c.wantError("2", wire.CodeMethodNotFound, "shadowlsp/lint, ")
		c.send(`{"jsonrpc":"2.0","method":"shadowlsp/lint"}`)
		c.send(`{"jsonrpc":"2.0","id":3,"method":"textDocument/didOpen","params":{}}`)
		c.wantError("3", wire.CodeInvalidRequest, "notification")
		c.send(`{"jsonrpc":"2.0","method":"textDocument/diagnostic","params":{}}`)
		f.taken()
		c.send(`{"jsonrpc":"2.0","method":"$/setTrace","params":{"value":"verbose"}}`)
		c.send(`{"jsonrpc":"2.0","method":"workspace/didChangeWatchedFiles","params":{"changes":[ ]}}`)
		c.send(`{"jsonrpc":"2.0","method":"textDocument/didSave","params":{"textDocument":{"uri":"file:///%61"}}}`)
		c.send(`{"jsonrpc":"2.0","method":"window/workDoneProgress/cancel","params":{"token":1}}`)
		c.nothing()
		same(t, f.taken(), []string{`watched {"changes":[ ]}`, `save file:///a`,
			`notification {"jsonrpc":"2.0","method":"window/workDoneProgress/cancel","params":{"token":1}}`})
		c.close()
	})
}

func TestFileEdits(t *testing.T) {
	text := "x"
	for _, tc := range []struct {
		e  FileEdit
		ok bool
	}{{FileEdit{URI: "u", Text: &text}, true}, {FileEdit{URI: "u", Delete: true}, true}, {FileEdit{URI: "u"}, false},
		{FileEdit{Text: &text}, false}, {FileEdit{URI: "u", Text: &text, Delete: true}, false}} {
		if err := tc.e.Validate(); (err == nil) != tc.ok {
			t.Errorf("%+v: %v", tc.e, err)
		}
	}
}

func TestCallsToTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := initialized(t, f, Config{Limits: Limits{Calls: 3}}, pull)
		peer := f.peer()
		type answer struct {
			result json.RawMessage
			err    error
		}
		call := func(ctx context.Context, method string) chan answer {
			done := make(chan answer, 1)
			c.end.Go(func() {
				result, err := peer.Call(ctx, method, json.RawMessage(`{"a":1.0}`))
				done <- answer{result, err}
			})
			synctest.Wait()
			return done
		}
		a := call(t.Context(), "a")
		c.want(`{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":1.0}}`)
		b := call(t.Context(), "b")
		c.recv()
		ctx, cancel := context.WithCancel(t.Context())
		d := call(ctx, "d")
		c.recv()
		if over := <-call(t.Context(), "e"); kind(over.err) != KindLimit {
			t.Errorf("%v", over.err)
		}
		c.send(`{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"no"}}`)
		if got := <-b; wire.AsError(got.err).Code != -1 {
			t.Errorf("%v", got.err)
		}
		c.send(`{"jsonrpc":"2.0","id":1,"result":{"b": 1e0}}`)
		if got := <-a; string(got.result) != `{"b": 1e0}` || got.err != nil {
			t.Errorf("%s %v", got.result, got.err)
		}
		cancel()
		c.want(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":3}}`)
		if got := <-d; !errors.Is(got.err, context.Canceled) {
			t.Errorf("%v", got.err)
		}
		c.send(`{"jsonrpc":"2.0","id":3,"result":null}`) // late
		c.send(`{"jsonrpc":"2.0","id":77,"result":null}`)
		last := call(t.Context(), "f")
		c.recv()
		_ = c.conn.Close()
		if got := <-last; kind(got.err) != KindClosed {
			t.Errorf("%v", got.err)
		}
		c.close()
		if _, err := peer.Call(t.Context(), "late", nil); kind(err) != KindClosed {
			t.Errorf("%v", err)
		}
		peer.Notify("late", nil)
		peer.Refresh()
		peer.Close(nil)
	})
}

func TestNothingOvertakesTheAnswerToInitialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s fake
		f := &fake{attach: func(_ context.Context, a Attach) (Attached, error) {
			a.Peer.Notify("early", nil)
			return Attached{Session: &s, About: About{Branch: "b"}}, nil
		}}
		c := start(t, f, Config{})
		c.send(initialize)
		if m := c.recv(); string(m.ID) != "1" {
			t.Errorf("%s", m.Body)
		}
		c.want(`{"jsonrpc":"2.0","method":"early"}`)
		c.close()
	})
}

func TestAnAgentThatDoesNotReadLosesItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := initialized(t, f, Config{Limits: Limits{Outgoing: 1 << 20}}, pull)
		// This pipe has no buffer: stop reading by sending more than the
		// client's channel is read of, with the reader held back.
		slow := make(chan struct{})
		c2 := startSlow(t, f, slow)
		big := json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)
		for range 20 {
			f.peer().Notify("n", big) // never waits
		}
		if err := <-c2; kind(err) != KindLimit || !strings.Contains(err.Error(), "does not read") {
			t.Errorf("%v", err)
		}
		close(slow)
		// A huge answer to a reader is no offence.
		f.mu.Lock()
		f.attached = f.attached[:1]
		f.mu.Unlock()
		f.peer().Notify("n", json.RawMessage(`"`+strings.Repeat("x", 8<<20)+`"`))
		if m := c.recv(); len(m.Body) < 8<<20 {
			t.Errorf("%s", clip(m.Body))
		}
		c.close()
	})
}
