package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.lsp.dev/jsonrpc2"
)

// Kind says what a message is.
type Kind uint8

const (
	// Request has an id and wants exactly one Response.
	Request Kind = iota + 1
	// Notification has no id and no answer.
	Notification
	// Response carries Result or Error for an id.
	Response
)

func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Response:
		return "response"
	}
	return "invalid"
}

// Message is one JSON-RPC message, parsed as far as its envelope. All slices
// alias Body.
type Message struct {
	Kind Kind
	// Body is the whole message, as it came.
	Body []byte
	// ID is the raw id as spelled (1, "1", 1e0), nil for a Notification.
	// A Response to something unparsable has none either.
	ID json.RawMessage
	// Method is set for Request and Notification.
	Method string
	// Params is nil where the message had none.
	Params json.RawMessage
	// Result is set for a successful Response ("null" included).
	Result json.RawMessage
	// Error is the raw error object of a failed Response.
	Error json.RawMessage
}

// Parse looks at the envelope of one frame. Batches and what is not a JSON-RPC
// message are errors; the payload is not validated beyond its extent.
func Parse(body []byte) (Message, error) {
	v, err := jsonrpc2.ScanMessageView(body)
	if err != nil {
		return parseLenient(body)
	}
	s := spans{id: v.IDRaw, method: v.MethodRaw, params: v.Params, result: v.Result, err: v.ErrorRaw}
	return s.message(body)
}

// spans are the raw values of an envelope's members, nil where absent.
type spans struct{ id, method, params, result, err []byte }

// parseLenient accepts what jsonrpc2's scanner refuses but real servers send
// and other clients accept: "error": null beside a result, no "jsonrpc" member,
// ids like 1e0, members in any order.
func parseLenient(body []byte) (Message, error) {
	bad := func(err error) (Message, error) {
		return Message{}, fmt.Errorf("parsing a JSON-RPC message: %w", err)
	}
	if !json.Valid(body) {
		return bad(errors.New("not JSON"))
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return bad(errors.New("not an object"))
	}
	var s spans
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return bad(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return bad(err)
		}
		end := int(d.InputOffset())
		span := body[end-len(value) : end]
		if bytes.Equal(span, []byte("null")) && key != "result" {
			span = nil // a null error, id or params is an absent one, and undoes an earlier one
		}
		switch key {
		case "id":
			s.id = span
		case "method":
			s.method = span
		case "params":
			s.params = span
		case "result":
			s.result = span
		case "error":
			s.err = span
		}
	}
	return s.message(body)
}

// message decides what kind of message the members make.
func (s spans) message(body []byte) (Message, error) {
	m := Message{Body: body}
	if bytes.Equal(s.id, []byte("null")) {
		s.id = nil
	}
	switch {
	case s.method != nil:
		if err := json.Unmarshal(s.method, &m.Method); err != nil || m.Method == "" {
			return Message{}, errors.New("parsing a JSON-RPC message: malformed method")
		}
		m.Kind, m.ID, m.Params = Notification, s.id, s.params
		if s.id != nil {
			m.Kind = Request
		}
	case s.err != nil:
		m.Kind, m.ID, m.Error = Response, s.id, s.err
	case s.result != nil && s.id != nil:
		m.Kind, m.ID, m.Result = Response, s.id, s.result
	default:
		return Message{}, errors.New("parsing a JSON-RPC message: neither method nor result nor error")
	}
	return m, nil
}

// WithID returns the message with the raw id put in the place of its own; every
// other byte stays. The message must have an id.
func (m Message) WithID(id json.RawMessage) []byte {
	at := cap(m.Body) - cap(m.ID) // where ID, which aliases Body, begins in it
	out := make([]byte, 0, len(m.Body)-len(m.ID)+len(id))
	out = append(out, m.Body[:at]...)
	out = append(out, id...)
	return append(out, m.Body[at+len(m.ID):]...)
}

// NewRequest encodes a request. params may be nil, raw JSON or any value that
// encoding/json takes; it panics on a value that cannot be encoded, which is a
// programming error.
func NewRequest(id json.RawMessage, method string, params any) []byte {
	return encode(envelope{ID: id, Method: method, Params: raw(params)})
}

// NewNotification encodes a notification; params as for [NewRequest].
func NewNotification(method string, params any) []byte {
	return encode(envelope{Method: method, Params: raw(params)})
}

// NewResult encodes a successful response; a nil result is null.
func NewResult(id json.RawMessage, result any) []byte {
	r := raw(result)
	if r == nil {
		r = json.RawMessage("null")
	}
	return encode(envelope{ID: id, Result: r})
}

// NewError encodes a failed response from err: an [*Error] in err's chain is
// sent as it is, anything else as InternalError with its text.
func NewError(id json.RawMessage, err error) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	return encode(envelope{ID: id, Error: AsError(err)})
}

type envelope struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

func encode(e envelope) []byte {
	e.JSONRPC = "2.0"
	return raw(e)
}

// raw turns v into JSON without escaping HTML, as servers and editors write it.
func raw(v any) json.RawMessage {
	switch v := v.(type) {
	case nil:
		return nil
	case json.RawMessage:
		return v
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("wire: encoding %T: %v", v, err))
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}

// Codes of LSP and JSON-RPC errors that shadowlsp itself answers with.
const (
	CodeParseError           = -32700
	CodeInvalidRequest       = -32600
	CodeMethodNotFound       = -32601
	CodeInvalidParams        = -32602
	CodeInternalError        = -32603
	CodeServerNotInitialized = -32002
	CodeRequestFailed        = -32803
	CodeServerCancelled      = -32802
	CodeContentModified      = -32801
	CodeRequestCancelled     = -32800
)

// Error is a JSON-RPC error object, and a Go error. Data may be raw JSON.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error whose message says what failed and what to do next.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithData returns a copy of e that carries data (encoded as JSON).
func (e *Error) WithData(data any) *Error {
	c := *e
	c.Data = raw(data)
	return &c
}

// AsError returns the [*Error] in err's chain, or err's text as InternalError.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternalError, Message: err.Error()}
}

// ParseError decodes a raw error object of a Response.
func ParseError(rawError json.RawMessage) *Error {
	var e Error
	if err := json.Unmarshal(rawError, &e); err != nil {
		return Errorf(CodeInternalError, "the server sent a malformed error object: %s", rawError)
	}
	return &e
}
