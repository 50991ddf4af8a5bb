package workspace

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shadowlsp/lsp/wire"
)

// The instances stand still from a request on until a moment behind its answer,
// but never for long.
func TestCourtesy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped atomic.Bool
		c := newCourtesy(func() func() {
			stopped.Store(true)
			return func() { stopped.Store(false) }
		})
		e := newEditor(func() {})
		e.courtesy = c
		look := func(want bool, when string) {
			t.Helper()
			synctest.Wait()
			if stopped.Load() != want {
				t.Errorf("%s: stopped is %v", when, !want)
			}
		}
		send := func(toServer bool, body string) { e.Frame(toServer, []byte(body)) }
		const question, answer = `{"jsonrpc":"2.0","id":1,"method":"textDocument/hover","params":{}}`, `{"jsonrpc":"2.0","id":1,"result":null}`
		const keystroke = `{"jsonrpc":"2.0","method":"textDocument/didChange","params":{}}`

		look(false, "at first")
		send(true, question)
		look(true, "while the server works")
		time.Sleep(time.Second)
		look(true, "as long as it works")
		send(false, answer)
		time.Sleep(courtesyRest - time.Millisecond)
		look(true, "right behind the answer")
		time.Sleep(time.Millisecond)
		look(false, "a moment behind the answer")

		send(true, keystroke)
		look(true, "at a keystroke")
		time.Sleep(courtesyRest)
		look(false, "behind a keystroke")

		send(true, question)
		time.Sleep(courtesyPatience)
		look(false, "when a question is not answered")

		var ran time.Duration
		for range 2100 { // the person types without a pause
			send(true, keystroke)
			synctest.Wait()
			if !stopped.Load() {
				ran += 10 * time.Millisecond
			}
			time.Sleep(10 * time.Millisecond)
		}
		if want := 21 * time.Second * courtesyFree / (courtesyStretch + courtesyFree); ran < want*3/4 || ran > want*5/4 {
			t.Errorf("instances ran for %v of 21 s, want about %v", ran, want)
		}
		time.Sleep(time.Second)
		send(true, question)
		e.Gap(false, 100) // its answer may have been among what is missing
		time.Sleep(courtesyRest)
		look(false, "when messages are missing")

		time.Sleep(time.Second)
		send(true, question)
		look(true, "before the end")
		c.close()
		look(false, "at the end")
	})
}

// A message that is none of the kinds, and no courtesy at all.
func TestNoCourtesy(*testing.T) {
	var c *courtesy
	e := newEditor(func() {})
	c.frame(e, true, wire.Message{})
	c.forget(e)
	c.close()
}
