package agent

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"shadowlsp/lsp/wire"
)

// Pushed diagnostics, for clients that do not declare pull. All but the waiting
// runs in the dispatcher, so a publication has a place among the edits.

// A lint whose finality could not be proven is tried again, since a client that
// does not pull cannot ask: first after retryFirst, then with the pause doubled
// up to retryLast, until one succeeds or an edit starts another.
const (
	retryFirst = time.Second
	retryLast  = 30 * time.Second
)

// pusher lints all open documents after changes: one lint at a time, and one
// more for whatever happened during it. A running lint is not cancelled by an
// edit: who types without pause would never see a dependent's diagnostics.
type pusher struct {
	dirty   bool // something changed since the running, or last, lint was handed over
	running bool
	pause   time.Duration // before the next retry
	attempt int           // counts lints, so that an old retry does nothing
}

// poke says that diagnostics of open documents may have changed.
func (c *connection) poke() {
	if !c.pulls {
		c.push.dirty = true
		c.push.pause = retryFirst
	}
}

// lint starts a lint where one is due. The dispatcher calls it whenever it has
// nothing else to do, so that a burst of edits makes one lint.
func (c *connection) lint() {
	if !c.push.dirty || c.push.running || c.down {
		return
	}
	serials := map[string]uint64{}
	var uris []string
	for uri, d := range c.docs.byURI {
		if d.diverged {
			return // whatever heals it pokes again
		}
		if d.why == nil {
			serials[uri] = d.serial
			uris = append(uris, uri)
		}
	}
	c.push.dirty = false
	if len(uris) == 0 {
		return
	}
	slices.Sort(uris)
	c.push.running = true
	c.push.attempt++
	pending, err := guard(func() (Pending[Diagnosis], error) { return c.session.Diagnose(c.ctx, uris), nil })
	c.waiters.Go(func() {
		var d Diagnosis
		if err == nil {
			d, err = guard(pending)
		}
		c.inbox.post(item{do: func() { c.linted(uris, serials, d, err) }})
	})
}

// linted publishes what a lint found; serials are the texts it was asked about.
func (c *connection) linted(uris []string, serials map[string]uint64, d Diagnosis, err error) {
	c.push.running = false
	retry := false
	if err != nil {
		retry = c.unproven(err)
	}
	for _, uri := range uris {
		doc := c.docs.byURI[uri]
		if err != nil || doc == nil || doc.serial != serials[uri] || doc.why != nil {
			continue
		}
		report, why := d.find(uri)
		switch {
		case why != nil && report.Verdict == Unsupported:
			// There is nothing to publish, ever.
		case why != nil:
			retry = c.unproven(why)
		case report.Version == nil || *report.Version == doc.Version:
			c.publish(doc, report.Diagnostics)
		}
	}
	if retry && !c.push.dirty {
		c.retry()
	}
}

// unproven tells the agent, by a log message, that diagnostics are missing, and
// returns whether to try again.
func (c *connection) unproven(err error) (retry bool) {
	var p *panicError
	if errors.As(err, &p) {
		c.logPanic(p)
	}
	e := wireError(c.ctx, err)
	c.Notify("window/logMessage", showMessage{Type: messageWarning, Message: e.Message})
	var data struct {
		Retrigger bool `json:"retriggerRequest"`
	}
	return e.Code == wire.CodeServerCancelled && (len(e.Data) == 0 || json.Unmarshal(e.Data, &data) == nil && data.Retrigger)
}

// retry lints again after a pause, unless another lint has been started.
func (c *connection) retry() {
	pause, attempt := max(c.push.pause, retryFirst), c.push.attempt
	c.push.pause = min(2*pause, retryLast)
	c.waiters.Go(func() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			c.inbox.post(item{do: func() {
				if c.push.attempt == attempt {
					c.push.dirty = true
				}
			}})
		case <-c.ctx.Done():
		}
	})
}

type publishParams struct {
	URI         string          `json:"uri"`
	Version     *int32          `json:"version,omitempty"`
	Diagnostics json.RawMessage `json:"diagnostics"`
}

// publish sends a document's diagnostics where they, or its version, are not
// those published last. (An agent may wait for a publication of its version.)
func (c *connection) publish(d *document, diagnostics json.RawMessage) {
	now := publication{version: d.Version, hash: resultID(diagnostics)}
	if d.published != nil && *d.published == now {
		return
	}
	d.published = &now
	version := d.Version
	c.Notify("textDocument/publishDiagnostics", publishParams{d.spelled, &version, diagnostics})
}

// clear takes back what was published of a document that is closed.
func (c *connection) clear(d *document) {
	if !c.pulls {
		c.Notify("textDocument/publishDiagnostics", publishParams{URI: d.spelled, Diagnostics: json.RawMessage("[]")})
	}
}
