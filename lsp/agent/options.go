package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"shadowlsp/lsp/wire"
)

// Base says what a branch stands on.
type Base string

const (
	// BaseDisk: the folder as it is on disk. The default.
	BaseDisk Base = "disk"
	// BaseEditor: the same under the person's unsaved buffers.
	BaseEditor Base = "editor"
)

// Options is initializationOptions.shadowlsp of an agent.
type Options struct {
	// Token is required where the connection has one to compare it to.
	Token string `json:"token,omitempty"`
	// Branch names the branch to attach to, made if there is none of that name;
	// empty: a fresh one, dropped at the end unless Keep.
	Branch string `json:"branch,omitempty"`
	// From names the branch to fork from; empty: the base.
	From string `json:"from,omitempty"`
	Base Base   `json:"base,omitempty"`
	// Autosave writes edits through to the branch's files at once; otherwise
	// didSave does. Default true.
	Autosave bool `json:"autosave"`
	// Keep keeps the branch when the connection ends.
	Keep bool `json:"keep,omitempty"`
}

// MaxBranchName bounds the name of a branch in bytes: it becomes part of a file
// name and of a git ref.
const MaxBranchName = 64

// ValidBranch says in one clause what is wrong with a branch name; "" if
// nothing is. The rule keeps names usable as a file name, an argument and a git
// ref without quoting.
func ValidBranch(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case len(name) > MaxBranchName:
		return "it is longer than 64 bytes"
	case strings.Contains(name, ".."), strings.HasSuffix(name, "."), strings.HasSuffix(name, ".lock"):
		return `it contains "..", or ends in "." or ".lock"`
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("._-", rune(c))) {
			return "it must begin with a letter or digit and hold letters, digits, '.', '_' and '-' only"
		}
	}
	return ""
}

// ParseOptions takes the Options out of the params of an initialize request.
// Unknown members are an error: a misspelt "branch" would otherwise silently
// work on a fresh one. Errors are InvalidParams and say what is allowed.
func ParseOptions(params json.RawMessage) (Options, error) {
	var p struct {
		Init json.RawMessage `json:"initializationOptions"`
	}
	if len(params) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return Options{}, wire.Errorf(wire.CodeInvalidParams, "initialize: malformed params: %v", err)
		}
	}
	o := Options{Base: BaseDisk, Autosave: true}
	ours, ok := lookup(p.Init, "shadowlsp")
	if !ok || string(ours) == "null" {
		return o, nil
	}
	bad := func(format string, args ...any) (Options, error) {
		return Options{}, wire.Errorf(wire.CodeInvalidParams, "initializationOptions.shadowlsp: "+format, args...)
	}
	if err := decodeStrict(ours, &o); err != nil {
		return bad("%v; known are token, branch, from, base, autosave and keep", err)
	}
	switch o.Base {
	case "":
		o.Base = BaseDisk
	case BaseDisk, BaseEditor:
	default:
		return bad(`base is %q: it must be "disk" or "editor"`, o.Base)
	}
	if o.Branch != "" {
		if why := ValidBranch(o.Branch); why != "" {
			return bad("branch %q: %s", o.Branch, why)
		}
	}
	if o.From != "" {
		if why := ValidBranch(o.From); why != "" {
			return bad("from %q: %s", o.From, why)
		}
	}
	return o, nil
}

// decodeStrict decodes one JSON value and refuses members that v does not have.
func decodeStrict(raw json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return errors.New("member " + kind.Field + " must be a " + kind.Type.String() + ", not a " + kind.Value)
		}
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
