package union

import (
	"encoding/json"

	"shadowlsp/lsp/barrier"
)

// tagged are the methods whose results hold items that come back whole, to be
// resolved.
var tagged = map[string]bool{
	"textDocument/completion": true, "completionItem/resolve": true,
	"textDocument/codeAction": true, "codeAction/resolve": true,
	"textDocument/codeLens": true, "codeLens/resolve": true,
	"textDocument/documentLink": true, "documentLink/resolve": true,
	"textDocument/inlayHint": true, "inlayHint/resolve": true,
	"workspace/symbol": true, "workspaceSymbol/resolve": true,
	"textDocument/prepareCallHierarchy": true, "callHierarchy/incomingCalls": true, "callHierarchy/outgoingCalls": true,
	"textDocument/prepareTypeHierarchy": true, "typeHierarchy/supertypes": true, "typeHierarchy/subtypes": true,
}

// Tagged says whether Tag changes results of a method: such a result must come as
// one, not in parts.
func Tagged(method string) bool { return tagged[method] }

// mark is the member of data that holds the tag, kept is that of the server's own
// data.
const (
	mark = "shadowlsp"
	kept = "data"
)

// Tag puts tag into the data of every item of a method's result.
func Tag(method string, result json.RawMessage, tag string) json.RawMessage {
	if !tagged[method] || len(result) == 0 {
		return result
	}
	var list []json.RawMessage
	if json.Unmarshal(result, &list) == nil && list != nil {
		for n, item := range list {
			list[n] = tagItem(method, item, tag)
		}
		return array(list)
	}
	if items, ok := barrier.Lookup(result, "items"); ok && method == "textDocument/completion" {
		data, common := barrier.Lookup(result, "itemDefaults", "data")
		if json.Unmarshal(items, &list) != nil {
			return result
		}
		for n, item := range list {
			if _, own := barrier.Lookup(item, "data"); own || !common {
				list[n] = tagItem(method, item, tag)
			}
		}
		edits := []barrier.Edit{{Path: []string{"items"}, Value: array(list)}}
		if common {
			edits = append(edits, barrier.Edit{Path: []string{"itemDefaults", "data"}, Value: wrap(data, tag)})
		}
		return barrier.Apply(result, edits)
	}
	return tagItem(method, result, tag)
}

// tagItem tags one item, where it stands in the result of its method.
func tagItem(method string, item json.RawMessage, tag string) json.RawMessage {
	at := []string{"data"}
	switch method {
	case "callHierarchy/incomingCalls":
		at = []string{"from", "data"}
	case "callHierarchy/outgoingCalls":
		at = []string{"to", "data"}
	case "textDocument/codeAction":
		if command, ok := barrier.Lookup(item, "command"); ok && len(command) > 0 && command[0] == '"' {
			return item // a Command, which has no data
		}
	}
	if len(item) == 0 || item[0] != '{' {
		return item
	}
	data, _ := barrier.Lookup(item, at...)
	return barrier.Apply(item, []barrier.Edit{{Path: at, Value: wrap(data, tag)}})
}

func wrap(data json.RawMessage, tag string) json.RawMessage {
	own := map[string]json.RawMessage{mark: barrier.Raw(tag)}
	if data != nil {
		own[kept] = data
	}
	return encode(own)
}

// encode is json.Marshal but keeps the bytes of raw members.
func encode(members map[string]json.RawMessage) json.RawMessage {
	out := []byte("{")
	if data, ok := members[kept]; ok {
		out = append(append(append(out, `"`+kept+`":`...), data...), ',')
	}
	out = append(append(append(out, `"`+mark+`":`...), members[mark]...), '}')
	return out
}

// Untag returns params as the server knows them, and the tag that they had. ok is
// false where they have none.
func Untag(params json.RawMessage) (own json.RawMessage, tag string, ok bool) {
	for _, at := range [][]string{{"data"}, {"item", "data"}} {
		data, there := barrier.Lookup(params, at...)
		if !there {
			continue
		}
		raw, marked := barrier.Lookup(data, mark)
		if !marked || json.Unmarshal(raw, &tag) != nil {
			continue
		}
		inner, had := barrier.Lookup(data, kept)
		if !had {
			inner = nil // takes the member away
		}
		return barrier.Apply(params, []barrier.Edit{{Path: at, Value: inner}}), tag, true
	}
	return params, "", false
}

// array joins raw values.
func array(list []json.RawMessage) json.RawMessage {
	out := []byte("[")
	for n, item := range list {
		if n > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}
