package front

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// protocolVersion is that of the connection between front and daemon. It changes
// with the meaning of what is sent, since an old front may meet a new daemon.
const protocolVersion = 1

// maxHello bounds a Hello: the environment of a process is at most a few
// megabytes, and encoded here in base64.
const maxHello = 16 << 20

// Hello is the first message: who speaks.
type Hello struct {
	Version   int
	Pid       int      // of the front, which is the parent of the real server
	Command   []string // of the real server, as given
	Env       []string // of the real server
	Dir       string   // the working directory of the real server
	Folder    string   // the workspace folder that was named, by flag or by the editor
	TraceFile string   // absolute; "" if no dump was asked for. The user lane is there already
}

// hello carries texts as bytes: arguments, variables and paths need not be UTF-8.
type hello struct {
	Version, Pid           int
	Command, Env           [][]byte
	Dir, Folder, TraceFile []byte
}

func bytesOf(texts []string) [][]byte {
	all := make([][]byte, len(texts))
	for i, s := range texts {
		all[i] = []byte(s)
	}
	return all
}

func textsOf(all [][]byte) []string {
	texts := make([]string, len(all))
	for i, b := range all {
		texts[i] = string(b)
	}
	return texts
}

// Handler is told what a front says, from the goroutine that called [Receive].
type Handler interface {
	// Hello is called once, first.
	Hello(Hello)
	// Frame is called with the body of each message that passed, in the order
	// in which they passed. The handler owns body. After a reconnection, or
	// where much was lost, some frames are told again (initialize, its answer,
	// those of the configuration), followed by a Gap in each direction.
	Frame(toServer bool, body []byte)
	// Gap says that bytes of one direction were not told here: what was known
	// of open documents may be wrong. The number counts from the last Frame or
	// Gap of that direction, roughly, and may be 0 where it is not known.
	Gap(toServer bool, bytes int)
}

// Kinds of messages on the connection. Each has a kind, a length (eight bytes,
// little endian) and, unless it is a gap, that many bytes.
const (
	kindHello      = 'H'
	kindToServer   = '>'
	kindFromServer = '<'
	kindGapTo      = 'g' // the length is the number of bytes missing
	kindGapFrom    = 'G'
)

const messageHeader = 9

func appendHeader(b []byte, kind byte, length uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, kind), length)
}

// appendHello encodes h as a message.
func appendHello(b []byte, h Hello) []byte {
	body, err := json.Marshal(hello{
		Version: h.Version, Pid: h.Pid, Command: bytesOf(h.Command), Env: bytesOf(h.Env),
		Dir: []byte(h.Dir), Folder: []byte(h.Folder), TraceFile: []byte(h.TraceFile),
	})
	if err != nil {
		panic("front: " + err.Error()) // numbers and bytes: cannot happen
	}
	return append(appendHeader(b, kindHello, uint64(len(body))), body...)
}

// appendItem encodes i without its body, which follows as it is.
func appendItem(b []byte, i item) []byte {
	switch {
	case i.body != nil && i.toServer:
		return appendHeader(b, kindToServer, uint64(len(i.body)))
	case i.body != nil:
		return appendHeader(b, kindFromServer, uint64(len(i.body)))
	case i.toServer:
		return appendHeader(b, kindGapTo, i.gap)
	}
	return appendHeader(b, kindGapFrom, i.gap)
}

// Receive reads what a front sends until the connection ends, and tells h. It
// returns nil at a clean end, and an [*Error] otherwise. It takes no more memory
// than what has really come.
func Receive(conn io.Reader, h Handler) error {
	greeted := false
	var head [messageHeader]byte
	for {
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return broken(err)
		}
		kind, length := head[0], binary.LittleEndian.Uint64(head[1:])
		if greeted == (kind == kindHello) {
			return malformed(fmt.Errorf("message %q out of order", kind))
		}
		switch kind {
		case kindHello:
			body, err := readBody(conn, length, maxHello)
			if err != nil {
				return err
			}
			greeting, err := parseHello(body)
			if err != nil {
				return err
			}
			h.Hello(greeting)
			greeted = true
		case kindToServer, kindFromServer:
			body, err := readBody(conn, length, maxFrame)
			if err != nil {
				return err
			}
			h.Frame(kind == kindToServer, body)
		case kindGapTo, kindGapFrom:
			h.Gap(kind == kindGapTo, int(min(length, 1<<62)))
		default:
			return malformed(fmt.Errorf("unknown message %q", kind))
		}
	}
}

func parseHello(body []byte) (Hello, error) {
	var h hello
	if err := json.Unmarshal(body, &h); err != nil {
		return Hello{}, malformed(err)
	}
	if h.Version != protocolVersion {
		return Hello{}, &Error{Op: "receiving from a front", Kind: Version,
			Err: fmt.Errorf("it speaks version %d, this daemon %d: restart the editor and the daemon", h.Version, protocolVersion)}
	}
	return Hello{
		Version: h.Version, Pid: h.Pid, Command: textsOf(h.Command), Env: textsOf(h.Env),
		Dir: string(h.Dir), Folder: string(h.Folder), TraceFile: string(h.TraceFile),
	}, nil
}

func readBody(conn io.Reader, length, limit uint64) ([]byte, error) {
	if length > limit {
		return nil, malformed(fmt.Errorf("a message of %d bytes, %d are allowed", length, limit))
	}
	if length <= 1<<20 {
		body := make([]byte, length)
		if _, err := io.ReadFull(conn, body); err != nil {
			return nil, broken(err)
		}
		return body, nil
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, conn, int64(length)); err != nil {
		return nil, broken(err)
	}
	return body.Bytes(), nil
}

func malformed(err error) error {
	return &Error{Op: "receiving from a front", Kind: Malformed, Err: err}
}

func broken(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &Error{Op: "receiving from a front", Kind: Broken, Err: err}
}
