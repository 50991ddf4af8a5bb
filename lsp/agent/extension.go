package agent

import (
	"encoding/json"

	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
)

// Methods of ours. Their params and results are JSON objects, below.
const (
	MethodLint   = "shadowlsp/lint"
	MethodRead   = "shadowlsp/read"
	MethodWrite  = "shadowlsp/write"
	MethodList   = "shadowlsp/list"
	MethodSearch = "shadowlsp/search"
	MethodDiff   = "shadowlsp/diff"
	MethodStatus = "shadowlsp/status"
	MethodDrop   = "shadowlsp/drop"

	MethodBranches   = "shadowlsp/branches"
	MethodFork       = "shadowlsp/fork"
	MethodCheckpoint = "shadowlsp/checkpoint"
	MethodRollback   = "shadowlsp/rollback"
	MethodApply      = "shadowlsp/apply"
)

// Extension is one row of the table of our own requests.
type Extension struct {
	Method string
	// Params and Result are zero values of the types that its JSON decodes to.
	Params, Result any
	// Doc says what it does, for people and for tools that list it.
	Doc string
}

// Extensions is the table of our own requests. A request "shadowlsp/…" that is
// not in it is answered MethodNotFound.
var Extensions = []Extension{
	{MethodLint, LintParams{}, LintResult{}, "Makes edits in the branch, then returns final diagnostics."},
	{MethodRead, ReadParams{}, ReadResult{}, "Reads a file as the branch shows it."},
	{MethodWrite, WriteParams{}, WriteResult{}, "Makes edits in the branch."},
	{MethodList, ListParams{}, ListResult{}, "Lists a directory as the branch shows it."},
	{MethodSearch, SearchParams{}, SearchResult{}, "Searches the text of files as the branch shows them."},
	{MethodRun, RunParams{}, RunResult{}, "Runs a command in the branch; shadowlsp/output carries what it writes."},
	{MethodDiff, DiffParams{}, DiffResult{}, "Returns the branch's changes over its base as a patch for git apply."},
	{MethodStatus, StatusParams{}, StatusResult{}, "Tells the state of the branch and its servers."},
	{MethodDrop, DropParams{}, DropResult{}, "Deletes the branch when the last connection to it has ended, or another branch at once."},
	{MethodBranches, BranchesParams{}, BranchesResult{}, "Lists all branches with their checkpoints."},
	{MethodFork, ForkParams{}, ForkResult{}, "Makes a branch over what this one shows now."},
	{MethodCheckpoint, CheckpointParams{}, CheckpointResult{}, "Remembers what the branch shows now."},
	{MethodRollback, RollbackParams{}, RollbackResult{}, "Makes the branch show a checkpoint again."},
	{MethodApply, ApplyParams{}, ApplyResult{}, "Brings the branch's changes to the person's folder, or to a new git branch."},
}

// isExtension says whether the table lists method.
func isExtension(method string) bool {
	for _, e := range Extensions {
		if e.Method == method {
			return true
		}
	}
	return false
}

// extensionMethods lists the table's methods.
func extensionMethods() []string {
	names := make([]string, len(Extensions))
	for i, e := range Extensions {
		names[i] = e.Method
	}
	return names
}

// DecodeParams decodes the params of a request of ours; absent params are the
// zero value. Unknown members and wrong types are InvalidParams errors that
// name them.
func DecodeParams[T any](method string, params json.RawMessage) (T, error) {
	var v T
	if len(params) == 0 || string(params) == "null" {
		return v, nil
	}
	if err := decodeStrict(params, &v); err != nil {
		return v, wire.Errorf(wire.CodeInvalidParams, "%s: %v", method, err)
	}
	return v, nil
}

// FileEdit changes one file of the branch: exactly one of Text, Edits and
// Delete is given.
type FileEdit struct {
	URI string `json:"uri"`
	// Text is the whole new text; the file is made, and its directories, where
	// it does not exist.
	Text *string `json:"text,omitempty"`
	// Edits are TextEdits in UTF-16 positions, all against the text that the
	// branch shows; overlapping ones are refused.
	Edits []text.Edit `json:"edits,omitempty"`
	// Delete removes the file.
	Delete bool `json:"delete,omitempty"`
}

// Validate returns an InvalidParams error where not exactly one kind of change
// is given.
func (e FileEdit) Validate() error {
	n := 0
	for _, given := range []bool{e.Text != nil, e.Edits != nil, e.Delete} {
		if given {
			n++
		}
	}
	switch {
	case e.URI == "":
		return wire.Errorf(wire.CodeInvalidParams, "an edit has no uri")
	case n != 1:
		return wire.Errorf(wire.CodeInvalidParams, `the edit of %s has %d of "text", "edits" and "delete": it must have one`, e.URI, n)
	}
	return nil
}

// LintParams: all edits are made, or none where one of them is refused.
type LintParams struct {
	Edits []FileEdit `json:"edits,omitempty"`
	// URIs are the documents to report on; absent: every file of the workspace
	// that has diagnostics, and every edited one.
	URIs []string `json:"uris,omitempty"`
}

// LintResult holds one item per document asked for.
type LintResult struct {
	Items []LintItem `json:"items"`
	// Incomplete says which files an edit may have broken that were not looked at,
	// because of a limit; absent: none.
	Incomplete string `json:"incomplete,omitempty"`
	// Rev is the branch's revision that all items are of.
	Rev uint64 `json:"rev"`
}

// LintItem is final where its verdict is "fresh"; any other verdict comes with
// a reason and without diagnostics.
type LintItem struct {
	URI         string          `json:"uri"`
	Diagnostics json.RawMessage `json:"diagnostics,omitempty"`
	Verdict     Verdict         `json:"verdict"`
	Barrier     string          `json:"barrier,omitempty"`
	Reason      string          `json:"reason,omitempty"`
}

// ReadParams names a file.
type ReadParams struct {
	URI string `json:"uri"`
}

// ReadResult holds the content as Text where it is UTF-8, else as Base64.
type ReadResult struct {
	Text   *string `json:"text,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
	Rev    uint64  `json:"rev"`
	// Overridden says that the branch, not the base, holds it.
	Overridden bool `json:"overridden"`
}

// WriteParams: all edits are made, or none where one of them is refused.
type WriteParams struct {
	Edits []FileEdit `json:"edits"`
}

// WriteResult tells the revision that holds the edits.
type WriteResult struct {
	Rev uint64 `json:"rev"`
}

// ListParams names a directory; absent: the root.
type ListParams struct {
	URI string `json:"uri,omitempty"`
	// Glob filters the paths below URI ("**/*.go"); with it the list is
	// recursive. Absent: the directory's own entries.
	Glob string `json:"glob,omitempty"`
	// Overridden lists only what the branch changed, deletions included.
	Overridden bool `json:"overridden,omitempty"`
	// Limit bounds the entries; absent: the backend's own limit.
	Limit int `json:"limit,omitempty"`
}

// ListResult is sorted by path.
type ListResult struct {
	Entries []ListEntry `json:"entries"`
	// Truncated says that there are more than the limit.
	Truncated bool   `json:"truncated,omitempty"`
	Rev       uint64 `json:"rev"`
}

// ListEntry is one path below the root.
type ListEntry struct {
	Path string `json:"path"` // relative to the root, with slashes
	URI  string `json:"uri"`
	// Kind is "file", "dir", "symlink", "other", or "deleted" for what the
	// branch deleted.
	Kind       string `json:"kind"`
	Size       int64  `json:"size,omitempty"`
	Overridden bool   `json:"overridden,omitempty"`
}

// SearchParams asks for a literal text, or for an RE2 expression.
type SearchParams struct {
	Pattern    string `json:"pattern"`
	Regexp     bool   `json:"regexp,omitempty"`
	IgnoreCase bool   `json:"ignoreCase,omitempty"`
	Glob       string `json:"glob,omitempty"` // paths below the root; absent: all
	Limit      int    `json:"limit,omitempty"`
}

// SearchResult is sorted by path and place.
type SearchResult struct {
	Matches   []SearchMatch `json:"matches"`
	Truncated bool          `json:"truncated,omitempty"`
	Rev       uint64        `json:"rev"`
}

// SearchMatch is one match; Line is the text of its first line.
type SearchMatch struct {
	URI   string     `json:"uri"`
	Range text.Range `json:"range"`
	Line  string     `json:"line"`
}

// DiffParams limits the patch to paths below the root; absent: all.
type DiffParams struct {
	Paths []string `json:"paths,omitempty"`
	// Ignored includes files that git ignores (build output).
	Ignored bool `json:"ignored,omitempty"`
}

// DiffResult holds a patch that `git apply` takes, binary files included.
type DiffResult struct {
	Patch string   `json:"patch"`
	Paths []string `json:"paths"`
	Rev   uint64   `json:"rev"`
}

// StatusParams is empty.
type StatusParams struct{}

// StatusResult tells the state of this connection's branch.
type StatusResult struct {
	Branch    string         `json:"branch"`
	From      string         `json:"from,omitempty"`
	Base      Base           `json:"base"`
	Rev       uint64         `json:"rev"`
	Root      string         `json:"root"`
	Overrides int            `json:"overrides"`
	Keep      bool           `json:"keep"`
	Agents    int            `json:"agents"` // connections attached to the branch
	Servers   []ServerStatus `json:"servers"`
}

// ServerStatus tells of one server behind the branch.
type ServerStatus struct {
	Name string `json:"name"`
	// State is "none", "starting", "ready", "failed".
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	Queued int    `json:"queued"` // questions of all branches that wait for a turn
}

// DropParams name a branch; absent: this connection's, when the last connection to
// it has ended. Another one is dropped at once, and refused while it is in use;
// Force ends what uses it.
type DropParams struct {
	Branch string `json:"branch,omitempty"`
	Force  bool   `json:"force,omitempty"`
}

// DropResult tells which branch it is, and how many connections still hold it,
// this one included.
type DropResult struct {
	Branch string `json:"branch"`
	Agents int    `json:"agents"`
}
