package barrier

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Edit puts Value at Path into a raw JSON object, or removes what is there if
// Value is nil. Whatever else the object holds keeps its bytes.
type Edit struct {
	Path  []string
	Value json.RawMessage
	// Keep leaves a value that is there already as it is.
	Keep bool
	// Existing leaves an absent member absent.
	Existing bool
}

// Apply returns object with the edits made, in order. What is not an object
// (null, or nothing) counts as an empty one where an edit needs it.
func Apply(object json.RawMessage, edits []Edit) json.RawMessage {
	for _, e := range edits {
		object = e.apply(object, e.Path)
	}
	return object
}

func (e Edit) apply(object json.RawMessage, path []string) json.RawMessage {
	found, ok := members(object)
	if !ok {
		if e.Value == nil || e.Existing {
			return object
		}
		object, found = json.RawMessage("{}"), nil
	}
	// Members of one name twice: decoders differ on which counts, so all are
	// edited, last first, because that keeps the earlier offsets true.
	done := false
	for at := len(found) - 1; at >= 0; at-- {
		m := found[at]
		if m.name != path[0] {
			continue
		}
		done = true
		switch {
		case len(path) > 1:
			value := e.apply(slices.Clone(object[m.start:m.end]), path[1:])
			object = splice(object, m.start, m.end, value)
		case e.Value == nil:
			start, end := m.cut(object, at == 0)
			object = splice(object, start, end, nil)
		case !e.Keep:
			object = splice(object, m.start, m.end, e.Value)
		}
	}
	if done || e.Value == nil || e.Existing {
		return object
	}
	value := e.Value
	for _, name := range slices.Backward(path[1:]) {
		value = slices.Concat([]byte("{"), quote(name), []byte(":"), value, []byte("}"))
	}
	member := slices.Concat(quote(path[0]), []byte(":"), value)
	if len(found) > 0 {
		member = append([]byte(","), member...)
	}
	end := bytes.LastIndexByte(object, '}')
	return splice(object, end, end, member)
}

// Lookup returns the value at path of a raw object: the last one, where a name
// is there twice. The result aliases object.
func Lookup(object json.RawMessage, path ...string) (json.RawMessage, bool) {
	for _, name := range path {
		found, ok := members(object)
		if !ok {
			return nil, false
		}
		at := -1
		for i, m := range found {
			if m.name == name {
				at = i
			}
		}
		if at < 0 {
			return nil, false
		}
		object = object[found[at].start:found[at].end]
	}
	return object, true
}

// member is one name and value of an object, as offsets into it.
type member struct {
	name       string
	key        int // where the name's quote stands
	start, end int // of the value
}

// cut returns what has to go to remove m: with the comma behind it if it is the
// first, else with the one before.
func (m member) cut(object []byte, first bool) (start, end int) {
	if !first {
		return bytes.LastIndexByte(object[:m.key], ','), m.end
	}
	end = m.end
	for end < len(object) && object[end] <= ' ' {
		end++
	}
	if end < len(object) && object[end] == ',' {
		return m.key, end + 1
	}
	return m.key, m.end
}

// members lists an object's members; ok is false for anything else.
func members(object []byte) (found []member, ok bool) {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		from := int(d.InputOffset())
		key, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		end := int(d.InputOffset())
		quoteAt := from + bytes.IndexByte(object[from:], '"')
		found = append(found, member{name: key.(string), key: quoteAt, start: end - len(value), end: end})
	}
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	return found, true
}

func splice(b []byte, start, end int, with []byte) []byte {
	return slices.Concat(b[:start], with, b[end:])
}

func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return b
}

// Raw encodes v, for data in profiles; v is a literal, so failing is a bug.
func Raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
