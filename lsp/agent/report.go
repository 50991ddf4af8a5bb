package agent

import (
	"encoding/json"

	"shadowlsp/lsp/wire"
)

// Verdict says what is known of a report's finality.
type Verdict string

const (
	// Fresh: what a fresh server on a copy of the branch would say. The only
	// verdict under which diagnostics are handed out.
	Fresh Verdict = "fresh"
	// Partial: not proven final in time; asking again may help.
	Partial Verdict = "partial"
	// Unsupported: no server, or no proof, exists for this; asking again is
	// pointless.
	Unsupported Verdict = "unsupported"
)

// Report is the final diagnostics of one document.
type Report struct {
	// URI may be spelled as the server does.
	URI string
	// Version is the version, as this connection gave it, that the report is
	// of; nil where that is not known or the document is not open in it.
	Version *int32
	// Diagnostics is a JSON array, as the server sent it. Empty (nil) is an
	// error, not a clean file: that one is "[]".
	Diagnostics json.RawMessage
	// Verdict is Fresh, or this document has no Diagnostics but a Reason. For
	// the whole workspace, Unsupported documents are better left out.
	Verdict Verdict
	Reason  string
	// Barrier names what proved it; empty: that of the Diagnosis.
	Barrier string
}

// Diagnosis answers [Session.Diagnose]. For named documents it holds a report
// for each of them: one that is missing becomes an error. For the whole
// workspace a file that is not in it has been proven to have no diagnostics.
// An error in its place concerns all documents: a single one that cannot be
// diagnosed has a Report that says so.
type Diagnosis struct {
	Reports []Report
	Barrier string
	// Rev is the branch's revision that all reports are of.
	Rev uint64
	// Incomplete says, for the whole workspace, which documents were not looked at
	// because of a limit; "" is none.
	Incomplete string
}

// Unproven is the error for diagnostics whose finality is not proven: LSP's
// ServerCancelled with data {"retriggerRequest", "shadowlsp": {"verdict"}}.
// Clients that honour retriggerRequest ask again at once and for ever, so it is
// true for Partial only.
func Unproven(v Verdict, reason string) *wire.Error {
	type mark struct {
		Verdict Verdict `json:"verdict"`
	}
	return wire.Errorf(wire.CodeServerCancelled, "no final diagnostics: %s", reason).WithData(struct {
		Retrigger bool `json:"retriggerRequest"`
		Mark      mark `json:"shadowlsp"`
	}{v == Partial, mark{v}})
}
