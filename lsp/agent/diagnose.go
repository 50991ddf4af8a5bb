package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"shadowlsp/lsp/wire"
)

// Pulled diagnostics. The first halves run in the dispatcher, the rest in the
// request's goroutine on values only.

// fullReport and its kin are LSP 3.17's report shapes; relatedDocuments is
// never used, since every document is asked for by itself.
type reportHead struct {
	Kind     string `json:"kind"`
	ResultID string `json:"resultId"`
}

type reportMark struct {
	Mark struct {
		Verdict Verdict `json:"verdict"`
		Barrier string  `json:"barrier,omitempty"`
		Rev     uint64  `json:"rev"`
	} `json:"shadowlsp"`
}

type documentReport struct {
	reportHead
	// Items is absent from an unchanged report.
	Items json.RawMessage `json:"items,omitempty"`
	reportMark
}

type workspaceItem struct {
	URI     string `json:"uri"`
	Version *int32 `json:"version"` // null where the agent has it not open
	documentReport
}

type workspaceReport struct {
	Items []workspaceItem `json:"items"`
	Mark  *workspaceMark  `json:"shadowlsp,omitempty"`
}

// workspaceMark is there where a limit left files out.
type workspaceMark struct {
	Incomplete string `json:"incomplete"`
}

// workspaceChunk is how many reports one partial result carries.
const workspaceChunk = 64

// resultID names the content of a report.
func resultID(diagnostics json.RawMessage) string {
	sum := sha256.Sum256(diagnostics)
	return hex.EncodeToString(sum[:12])
}

// document makes LSP's report of r; previous is the client's last resultId.
func (d Diagnosis) document(r Report, previous string) documentReport {
	out := documentReport{reportHead: reportHead{Kind: "full", ResultID: resultID(r.Diagnostics)}, Items: r.Diagnostics}
	if out.ResultID == previous {
		out.Kind, out.Items = "unchanged", nil
	}
	out.Mark.Verdict, out.Mark.Barrier, out.Mark.Rev = r.Verdict, r.Barrier, d.Rev
	if r.Barrier == "" {
		out.Mark.Barrier = d.Barrier
	}
	return out
}

// unproven returns why r cannot be handed out, or nil.
func (r Report) unproven() *wire.Error {
	switch {
	case r.Verdict == "":
		return Unproven(Partial, r.URI+": the report has no verdict")
	case r.Verdict != Fresh:
		return Unproven(r.Verdict, r.URI+": "+r.Reason)
	case len(r.Diagnostics) == 0:
		return Unproven(Partial, r.URI+": the report is empty")
	}
	return nil
}

// find returns the report of a document.
func (d Diagnosis) find(uri string) (Report, *wire.Error) {
	for _, r := range d.Reports {
		if canonical(r.URI) == uri {
			return r, r.unproven()
		}
	}
	return Report{}, Unproven(Partial, uri+": there is no report")
}

func (c *connection) documentDiagnostic(r *request, m wire.Message) {
	var p struct {
		Doc      documentID `json:"textDocument"`
		Previous string     `json:"previousResultId"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil || p.Doc.URI == "" {
		c.answer(r, nil, wire.Errorf(wire.CodeInvalidParams, "%s: malformed params: %s", m.Method, reason(err, "textDocument needs a uri")))
		return
	}
	if why := c.docs.refuse(m.Params); why != nil {
		c.answer(r, nil, why)
		return
	}
	uri := canonical(p.Doc.URI)
	pending := c.session.Diagnose(r.ctx, []string{uri})
	c.await(r, func() (json.RawMessage, error) {
		d, err := guard(pending)
		if err != nil {
			return nil, err
		}
		report, why := d.find(uri)
		if why != nil {
			return nil, why
		}
		return marshal(d.document(report, p.Previous)), nil
	})
}

func (c *connection) workspaceDiagnostic(r *request, m wire.Message) {
	var p struct {
		Previous []struct {
			URI   string `json:"uri"`
			Value string `json:"value"`
		} `json:"previousResultIds"`
		Token json.RawMessage `json:"partialResultToken"`
	}
	if len(m.Params) > 0 {
		if err := json.Unmarshal(m.Params, &p); err != nil {
			c.answer(r, nil, wire.Errorf(wire.CodeInvalidParams, "%s: malformed params: %v", m.Method, err))
			return
		}
	}
	if why := c.docs.refuse(m.Params); why != nil {
		c.answer(r, nil, why)
		return
	}
	known := make(map[string]workspaceItem, len(c.docs.byURI))
	for uri, d := range c.docs.byURI {
		version := d.Version
		known[uri] = workspaceItem{URI: d.spelled, Version: &version}
	}
	previous := make(map[string]string, len(p.Previous))
	var order []string
	for _, id := range p.Previous {
		uri := canonical(id.URI)
		if _, twice := previous[uri]; !twice {
			order = append(order, uri)
		}
		previous[uri] = id.Value
		if _, open := known[uri]; !open {
			known[uri] = workspaceItem{URI: id.URI}
		}
	}
	pending := c.session.Diagnose(r.ctx, nil)
	c.await(r, func() (json.RawMessage, error) {
		d, err := guard(pending)
		if err != nil {
			return nil, err
		}
		items, why := d.workspace(known, previous, order)
		if why != nil {
			return nil, why
		}
		if len(p.Token) > 0 && string(p.Token) != "null" {
			c.stream(p.Token, items)
			items = items[:0]
		}
		report := workspaceReport{Items: items}
		if d.Incomplete != "" {
			report.Mark = &workspaceMark{d.Incomplete}
		}
		return marshal(report), nil
	})
}

// workspace makes the reports of the whole workspace: one for each Report, and
// an empty one for each document that the client remembers and that has none
// any more. known tells spelling and version as the agent has them.
func (d Diagnosis) workspace(known map[string]workspaceItem, previous map[string]string, order []string) ([]workspaceItem, *wire.Error) {
	items := make([]workspaceItem, 0, len(d.Reports))
	seen := make(map[string]bool, len(d.Reports))
	add := func(r Report) {
		item, ok := known[r.URI]
		if !ok {
			item.URI = r.URI
		}
		if r.Version != nil {
			item.Version = r.Version
		}
		item.documentReport = d.document(r, previous[r.URI])
		items = append(items, item)
	}
	for _, r := range d.Reports {
		r.URI = canonical(r.URI) // a server spells them in its own way
		seen[r.URI] = true
		if r.Verdict == Unsupported {
			continue
		}
		if why := r.unproven(); why != nil {
			return nil, why
		}
		add(r)
	}
	for _, uri := range order {
		if !seen[uri] {
			add(Report{URI: uri, Diagnostics: json.RawMessage("[]"), Verdict: Fresh})
		}
	}
	return items, nil
}

// stream sends items as partial results.
func (c *connection) stream(token json.RawMessage, items []workspaceItem) {
	for len(items) > 0 {
		n := min(workspaceChunk, len(items))
		c.Notify("$/progress", struct {
			Token json.RawMessage `json:"token"`
			Value workspaceReport `json:"value"`
		}{token, workspaceReport{Items: items[:n]}})
		items = items[n:]
	}
}

// refresh takes up calls of Peer.Refresh. It runs in the dispatcher.
func (c *connection) refresh() {
	c.refreshing.Store(false)
	if !c.pulls {
		c.poke()
		return
	}
	if !c.refreshable || c.down {
		return
	}
	if c.calling {
		c.again = true
		return
	}
	c.calling = true
	c.waiters.Go(func() {
		_, err := c.Call(c.ctx, "workspace/diagnostic/refresh", nil)
		var refused *wire.Error
		if err != nil && !errors.As(err, &refused) {
			c.log().Debug().Err(err).Msg("workspace/diagnostic/refresh")
		}
		c.inbox.post(item{do: func() {
			c.calling = false
			if c.again {
				c.again = false
				c.refresh()
			}
		}})
	})
}

// marshal encodes a value of ours that may hold raw JSON of a server's.
func marshal(v any) json.RawMessage { return encode(v) }
