package union

import (
	"encoding/json"

	"shadowlsp/lsp/barrier"
)

// asked are the methods that every server which offers them is asked, with the
// way their answers become one.
var asked = map[string]func(a, b json.RawMessage) json.RawMessage{
	"workspace/symbol":          concat,
	"textDocument/codeAction":   concat,
	"workspace/willCreateFiles": edits,
	"workspace/willRenameFiles": edits,
	"workspace/willDeleteFiles": edits,
}

// Asked says whether every server that offers the method is to be asked.
func Asked(method string) bool { return asked[method] != nil }

// Answers makes one answer of several servers'.
func Answers(method string, answers []json.RawMessage) json.RawMessage {
	var all json.RawMessage
	for _, a := range answers {
		switch {
		case empty(a):
		case all == nil:
			all = a
		default:
			all = asked[method](all, a)
		}
	}
	if all == nil && len(answers) > 0 {
		return answers[0]
	}
	return all
}

func empty(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// concat joins two lists; what is no list is left out.
func concat(a, b json.RawMessage) json.RawMessage {
	var x, y []json.RawMessage
	switch {
	case json.Unmarshal(a, &x) != nil:
		return b
	case json.Unmarshal(b, &y) != nil:
		return a
	}
	return array(append(x, y...))
}

// edits joins two WorkspaceEdits. Both forms of changes may be there; then the
// plain one is given the richer one's, since clients look at one of them only.
func edits(a, b json.RawMessage) json.RawMessage {
	_, richA := barrier.Lookup(a, "documentChanges")
	_, richB := barrier.Lookup(b, "documentChanges")
	if richA != richB {
		a, b = rich(a), rich(b)
	}
	var objectA, objectB map[string]json.RawMessage
	if json.Unmarshal(a, &objectA) != nil || json.Unmarshal(b, &objectB) != nil {
		return a
	}
	for name, value := range objectB {
		old, both := objectA[name]
		switch {
		case !both:
			objectA[name] = value
		case name == "documentChanges":
			objectA[name] = concat(old, value)
		default: // changes, changeAnnotations: by key; the edits of one file in both
			objectA[name] = byKey(old, value)
		}
	}
	return barrier.Raw(objectA)
}

func byKey(a, b json.RawMessage) json.RawMessage {
	var x, y map[string]json.RawMessage
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return a
	}
	for key, value := range y {
		if old, both := x[key]; both {
			value = concat(old, value)
		}
		x[key] = value
	}
	return barrier.Raw(x)
}

// rich is a WorkspaceEdit with its changes as documentChanges.
func rich(edit json.RawMessage) json.RawMessage {
	raw, ok := barrier.Lookup(edit, "changes")
	var changes map[string]json.RawMessage
	if !ok || json.Unmarshal(raw, &changes) != nil {
		return edit
	}
	type document struct {
		TextDocument struct {
			URI     string `json:"uri"`
			Version *int32 `json:"version"`
		} `json:"textDocument"`
		Edits json.RawMessage `json:"edits"`
	}
	list := []document{}
	for uri, e := range changes {
		d := document{Edits: e}
		d.TextDocument.URI = uri
		list = append(list, d)
	}
	return barrier.Apply(edit, []barrier.Edit{{Path: []string{"changes"}}, {Path: []string{"documentChanges"}, Value: barrier.Raw(list)}})
}
