package trace

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// Lanes.
const (
	User      = "user"
	Agent     = "agent"
	Shadow    = "shadow"
	Scheduler = "scheduler"
)

// Directions of messages.
const (
	ToServer   = "->"
	FromServer = "<-"
)

// Dropped is the name of the event that stands for lost ones; its field
// "count" says how many.
const Dropped = "dropped"

// timeFormat has a fixed width, so that lines can be sorted as text.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// Event is one line of a trace. It is a message if Event is empty.
type Event struct {
	TS       time.Time
	Lane     string
	Branch   string
	Instance string
	Dir      string          // ToServer or FromServer
	Msg      json.RawMessage // the message
	Raw      []byte          // the message, where it was not JSON in UTF-8
	Event    string
	Fields   map[string]any // of an event that is not a message
}

// line is the order in which the members stand.
type line struct {
	TS       string          `json:"ts"`
	Lane     string          `json:"lane"`
	Branch   string          `json:"branch,omitempty"`
	Instance string          `json:"instance,omitempty"`
	Dir      string          `json:"dir,omitempty"`
	Event    string          `json:"event,omitempty"`
	Encoding string          `json:"encoding,omitempty"` // "base64" or absent, of Raw
	Raw      *string         `json:"raw,omitempty"`
	Msg      json.RawMessage `json:"msg,omitempty"`
}

// members are the names that Fields cannot take.
var members = []string{"ts", "lane", "branch", "instance", "dir", "event", "encoding", "raw", "msg"}

// MarshalJSON encodes the event as its line, without the newline. A field named
// as one of the line's own members is left out.
func (e Event) MarshalJSON() ([]byte, error) {
	fields, err := encodeFields(e.Fields)
	if err != nil {
		return nil, err
	}
	body := []byte(e.Msg)
	if e.Msg == nil {
		body = e.Raw
	}
	var buf bytes.Buffer
	appendLine(&buf, record{
		ts: e.TS, lane: e.Lane, branch: e.Branch, instance: e.Instance, dir: e.Dir,
		body: body, event: e.Event, fields: fields,
	})
	return buf.Bytes(), nil
}

// UnmarshalJSON decodes a line.
func (e *Event) UnmarshalJSON(data []byte) error {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return fmt.Errorf("reading a trace line: %w", err)
	}
	*e = Event{Lane: l.Lane, Branch: l.Branch, Instance: l.Instance, Dir: l.Dir, Event: l.Event, Msg: l.Msg}
	var err error
	if e.TS, err = time.Parse(time.RFC3339Nano, l.TS); err != nil {
		return fmt.Errorf("reading a trace line: %w", err)
	}
	if l.Raw != nil {
		e.Raw = []byte(*l.Raw)
		if l.Encoding == "base64" {
			if e.Raw, err = base64.StdEncoding.DecodeString(*l.Raw); err != nil {
				return fmt.Errorf("reading a trace line: %w", err)
			}
		}
	}
	if e.Event == "" {
		return nil
	}
	if err := json.Unmarshal(data, &e.Fields); err != nil {
		return fmt.Errorf("reading a trace line: %w", err)
	}
	for _, name := range members {
		delete(e.Fields, name)
	}
	return nil
}

// record is an event on its way into the file.
type record struct {
	ts                          time.Time
	lane, branch, instance, dir string
	body                        []byte // a message
	event                       string
	fields                      []byte // the inside of a JSON object, with a leading comma, or empty
}

// size is what the record takes of the queue's bytes, roughly.
func (r record) size() int { return recordOverhead + len(r.body) + len(r.fields) }

// recordOverhead is what a record takes besides its texts.
const recordOverhead = 256

// appendLine encodes r, without the newline. The body is compacted in place of
// being decoded: number spellings, key order and unknown members stay.
func appendLine(buf *bytes.Buffer, r record) {
	l := line{
		TS: r.ts.UTC().Format(timeFormat), Lane: r.lane, Branch: r.branch,
		Instance: r.instance, Dir: r.dir, Event: r.event,
	}
	if r.event != "" {
		appendObject(buf, l, r.fields, nil)
		return
	}
	start := buf.Len()
	appendObject(buf, l, nil, []byte(`,"msg":`))
	if utf8.Valid(r.body) && json.Compact(buf, r.body) == nil {
		buf.WriteByte('}')
		return
	}
	buf.Truncate(start)
	raw := string(r.body)
	if !utf8.Valid(r.body) {
		l.Encoding, raw = "base64", base64.StdEncoding.EncodeToString(r.body)
	}
	l.Raw = &raw
	appendObject(buf, l, nil, nil)
}

// appendObject writes l with fields behind its members, and leaves the object
// open behind the text open if there is one.
func appendObject(buf *bytes.Buffer, l line, fields, open []byte) {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		panic("trace: " + err.Error()) // strings only: cannot happen
	}
	buf.Truncate(buf.Len() - len("}\n"))
	buf.Write(fields)
	if open != nil {
		buf.Write(open)
		return
	}
	buf.WriteByte('}')
}

// encodeFields returns what a record's fields are. Errors become their texts
// (encoding/json would make {} of most).
func encodeFields(fields map[string]any) ([]byte, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	kept := make(map[string]any, len(fields))
	for name, value := range fields {
		if err, ok := value.(error); ok {
			value = err.Error()
		}
		kept[name] = value
	}
	for _, name := range members {
		delete(kept, name)
	}
	if len(kept) == 0 {
		return nil, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(kept); err != nil {
		return nil, fmt.Errorf("encoding the fields of an event: %w", err)
	}
	object := bytes.TrimSuffix(buf.Bytes(), []byte("}\n"))
	object[0] = ','
	return object, nil
}
