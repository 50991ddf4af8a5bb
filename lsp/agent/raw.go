package agent

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// This file edits members of raw JSON objects in place. Everything that is not
// named keeps its bytes: order, spelling of numbers, spaces, duplicates.

// member is where one member of an object lies in the raw text.
type member struct {
	key                  string
	keyAt, valueAt, last int // last is behind the value
}

// members lists the members of the raw object; ok is false where raw is not an
// object (or not JSON).
func members(raw []byte) (list []member, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		before := int(d.InputOffset())
		key, err := d.Token()
		if err != nil {
			return nil, false
		}
		name, isString := key.(string)
		if !isString {
			return nil, false
		}
		keyAt := before + bytes.IndexByte(raw[before:], '"')
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		last := int(d.InputOffset())
		list = append(list, member{key: name, keyAt: keyAt, valueAt: last - len(value), last: last})
	}
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	return list, true
}

// find returns the member that decoders see: the last of that name.
func find(list []member, key string) (member, bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].key == key {
			return list[i], true
		}
	}
	return member{}, false
}

// lookup returns the raw value below the path of keys.
func lookup(raw json.RawMessage, path ...string) (json.RawMessage, bool) {
	for _, key := range path {
		list, ok := members(raw)
		if !ok {
			return nil, false
		}
		m, ok := find(list, key)
		if !ok {
			return nil, false
		}
		raw = raw[m.valueAt:m.last]
	}
	return raw, true
}

// setMember returns raw with the value below the path of keys replaced, or
// added last, with the objects on the way made where they are missing or null.
// ok is false, and raw unchanged, where something on the way is not an object.
func setMember(raw, value json.RawMessage, path ...string) (_ json.RawMessage, ok bool) {
	if len(path) == 0 {
		return value, true
	}
	list, ok := members(raw)
	if !ok {
		if len(raw) > 0 && string(bytes.TrimSpace(raw)) != "null" {
			return raw, false
		}
		raw, list = json.RawMessage("{}"), nil
	}
	at, has := find(list, path[0])
	if has {
		inner, ok := setMember(raw[at.valueAt:at.last], value, path[1:]...)
		if !ok {
			return raw, false
		}
		return splice(raw, at.valueAt, at.last, inner), true
	}
	inner, _ := setMember(nil, value, path[1:]...)
	text := strconv.AppendQuote(nil, path[0]) // our keys are plain ASCII
	text = append(append(text, ':'), inner...)
	if len(list) == 0 {
		end := bytes.IndexByte(raw, '{') + 1
		return splice(raw, end, end, text), true
	}
	end := list[len(list)-1].last
	return splice(raw, end, end, append([]byte{','}, text...)), true
}

// cutMember returns raw without the members at the end of the path; raw itself
// where there are none.
func cutMember(raw json.RawMessage, path ...string) json.RawMessage {
	list, ok := members(raw)
	if !ok {
		return raw
	}
	if len(path) > 1 {
		at, has := find(list, path[0])
		if !has {
			return raw
		}
		return splice(raw, at.valueAt, at.last, cutMember(raw[at.valueAt:at.last], path[1:]...))
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].key != path[0] {
			continue
		}
		from, to := list[i].keyAt, list[i].last
		switch {
		case i+1 < len(list): // up to the next member, its comma with it
			to = list[i+1].keyAt
		case i > 0: // from the end of the one before, whose comma goes
			from = list[i-1].last
		}
		raw = splice(raw, from, to, nil)
		list, _ = members(raw)
	}
	return raw
}

func splice(raw []byte, from, to int, with []byte) json.RawMessage {
	out := make([]byte, 0, len(raw)-(to-from)+len(with))
	out = append(out, raw[:from]...)
	out = append(out, with...)
	return append(out, raw[to:]...)
}
