package agent

import (
	"encoding/json"
	"errors"

	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
)

// The notifications about documents. All run in the dispatcher.

type documentID struct {
	URI     string `json:"uri"`
	Version *int32 `json:"version"`
}

func (c *connection) didOpen(m wire.Message) {
	var p struct {
		Doc struct {
			URI        string  `json:"uri"`
			LanguageID string  `json:"languageId"`
			Version    int32   `json:"version"`
			Text       *string `json:"text"`
		} `json:"textDocument"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil || p.Doc.URI == "" || p.Doc.Text == nil {
		c.lost(m, wire.Errorf(wire.CodeInvalidParams, "didOpen: malformed params: %s", reason(err, "textDocument needs uri and text")))
		return
	}
	before := c.docs.find(p.Doc.URI)
	reopened := before != nil && before.handed && before.LanguageID != p.Doc.LanguageID
	d, err := c.docs.open(p.Doc.URI, p.Doc.LanguageID, p.Doc.Version, *p.Doc.Text)
	if err != nil {
		c.complain(err)
		return
	}
	if reopened {
		// The Session chose a server by the language: it has to choose again.
		d.handed = false
		if err := c.try(func() error { return c.session.Close(c.ctx, d.URI) }); err != nil {
			c.complain(err)
		}
	}
	c.handOver(d)
}

func (c *connection) didChange(m wire.Message) {
	var p struct {
		Doc     documentID    `json:"textDocument"`
		Changes []text.Change `json:"contentChanges"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil || p.Doc.URI == "" {
		c.lost(m, wire.Errorf(wire.CodeInvalidParams, "didChange: malformed params: %s: %s", reason(err, "textDocument needs a uri"), heal))
		return
	}
	d, err := c.docs.change(p.Doc.URI, p.Doc.Version, p.Changes)
	if err != nil {
		c.complain(err)
		return
	}
	c.handOver(d)
}

// handOver tells the Session the text of d.
func (c *connection) handOver(d *document) {
	err := c.try(func() error {
		if d.handed {
			return c.session.Change(c.ctx, d.Document)
		}
		return c.session.Open(c.ctx, d.Document)
	})
	if err == nil {
		d.handed = true
		c.docs.setWhy(d, nil, false)
		c.poke()
		return
	}
	e := wireError(c.ctx, err)
	diverged := e.Code != wire.CodeInvalidParams
	d.handed = d.handed || diverged // see Session.Open
	c.docs.setWhy(d, e, diverged)
	c.complain(wire.Errorf(e.Code, "%s is not in the branch as you have it: %s", d.spelled, e.Message))
}

// lost deals with an edit that could not be read: the document it names, if one
// can be made out, is not what the agent has any more.
func (c *connection) lost(m wire.Message, why *wire.Error) {
	raw, _ := lookup(m.Params, "textDocument", "uri")
	var uri string
	if json.Unmarshal(raw, &uri) == nil {
		if d := c.docs.find(uri); d != nil {
			c.docs.lose(d, why)
		}
	}
	c.complain(why)
}

func (c *connection) didSave(m wire.Message) {
	d, uri, ok := c.named(m)
	if !ok {
		return
	}
	if d != nil && d.why != nil {
		c.complain(wire.Errorf(wire.CodeRequestFailed, "didSave: %s", refusal(d).Message))
		return
	}
	if err := c.try(func() error { return c.session.Save(c.ctx, uri) }); err != nil {
		c.complain(err)
	}
	c.poke()
}

func (c *connection) didClose(m wire.Message) {
	d, uri, ok := c.named(m)
	if !ok {
		return
	}
	if d == nil {
		c.complain(wire.Errorf(wire.CodeInvalidRequest, "didClose %s: the document is not open", uri))
		return
	}
	c.docs.remove(d)
	if d.handed {
		if err := c.try(func() error { return c.session.Close(c.ctx, d.URI) }); err != nil {
			c.complain(err)
		}
	}
	c.clear(d)
	c.poke()
}

// named returns the document that params name: its canonical URI, and what is
// open under it.
func (c *connection) named(m wire.Message) (d *document, uri string, ok bool) {
	var p struct {
		Doc documentID `json:"textDocument"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil || p.Doc.URI == "" {
		c.complain(wire.Errorf(wire.CodeInvalidParams, "%s: malformed params: %s", m.Method, reason(err, "textDocument needs a uri")))
		return nil, "", false
	}
	uri = canonical(p.Doc.URI)
	return c.docs.byURI[uri], uri, true
}

func (c *connection) watchedFiles(m wire.Message) {
	if err := c.try(func() error { return c.session.WatchedFiles(c.ctx, m.Params) }); err != nil {
		c.complain(err)
	}
	c.poke()
}

// complain tells the agent what has no response to tell it in.
func (c *connection) complain(err error) {
	e := wireError(c.ctx, err)
	c.log().Info().Str("err", e.Message).Int("code", e.Code).Msg("an agent's notification was refused")
	c.Notify("window/showMessage", showMessage{Type: messageError, Message: e.Message})
}

// Types of window/showMessage and window/logMessage.
const (
	messageError   = 1
	messageWarning = 2
)

type showMessage struct {
	Type    int    `json:"type"`
	Message string `json:"message"`
}

// try calls the Session; a panic is logged and becomes an error.
func (c *connection) try(f func() error) error {
	_, err := guard(func() (struct{}, error) { return struct{}{}, f() })
	var p *panicError
	if errors.As(err, &p) {
		c.logPanic(p)
	}
	return err
}

func (c *connection) logPanic(p *panicError) {
	c.log().Error().Interface("panic", p.value).Bytes("stack", p.stack).Msg("panic while serving an agent")
}

func reason(err error, otherwise string) string {
	if err != nil {
		return err.Error()
	}
	return otherwise
}
