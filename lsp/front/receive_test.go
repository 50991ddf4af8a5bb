package front

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// encode writes items as the sender does.
func encode(h Hello, items ...item) []byte {
	b := appendHello(nil, h)
	for _, i := range items {
		b = append(appendItem(b, i), i.body...)
	}
	return b
}

var someItems = []item{
	{frame: frame{true, []byte(`{"method":"a"}`)}}, {frame: frame{false, []byte{}}},
	{frame: frame{toServer: true}, gap: 7}, {frame: frame{toServer: false}, gap: 0},
	{frame: frame{false, bytes.Repeat([]byte("b"), 3<<20)}},
}

func TestReceiveHearsWhatIsSent(t *testing.T) {
	want := Hello{
		Version: protocolVersion, Pid: 5, Command: []string{"a", "\xff"}, Env: []string{"A=\xfe", "B="},
		Dir: "/d\xff", Folder: "/f", TraceFile: "/t",
	}
	d := newTold()
	if err := Receive(bytes.NewReader(encode(want, someItems...)), d); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, d.hello); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"hello", "->a", "<-", "gap->", "gap<-", "<-"}, d.order); diff != "" {
		t.Error(diff)
	}
	if d.gaps != [2]int{7, 0} || len(d.frames[2].body) != 3<<20 {
		t.Errorf("gaps %v", d.gaps)
	}
}

func TestReceiveRefuses(t *testing.T) {
	hello := encode(Hello{Version: protocolVersion})
	for name, tc := range map[string]struct {
		in   []byte
		kind Kind
	}{
		"no hello":         {appendItem(nil, someItems[1]), Malformed},
		"two hellos":       {append(append([]byte{}, hello...), hello...), Malformed},
		"another version":  {encode(Hello{Version: protocolVersion + 1}), Version},
		"a hello of noise": {append(appendHeader(nil, kindHello, 3), "abc"...), Malformed},
		"a huge hello":     {appendHeader(nil, kindHello, maxHello+1), Malformed},
		"a huge frame":     {appendHeader(append([]byte{}, hello...), kindToServer, 1<<63), Malformed},
		"an unknown kind":  {appendHeader(append([]byte{}, hello...), 'x', 0), Malformed},
		"a cut header":     {append(append([]byte{}, hello...), 'g', 0), Broken},
		"a cut body":       {append(appendHeader(append([]byte{}, hello...), kindToServer, 9), 'a'), Broken},
		"a cut large body": {append(appendHeader(append([]byte{}, hello...), kindToServer, 9<<20), 'a'), Broken},
	} {
		var e *Error
		if err := Receive(bytes.NewReader(tc.in), newTold()); !errors.As(err, &e) || e.Kind != tc.kind {
			t.Errorf("%s: %v", name, err)
		} else if tc.kind == Broken && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(encode(Hello{Version: protocolVersion, Env: []string{"A=b"}}, someItems[:4]...))
	f.Add(appendHeader(encode(Hello{Version: protocolVersion}), kindToServer, 1<<40))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		d := newTold()
		err := Receive(bytes.NewReader(in), d)
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%v", err)
		}
		if len(d.order) > 0 && d.order[0] != "hello" {
			t.Fatalf("%q", d.order)
		}
		got := 0
		for _, frame := range d.frames {
			got += messageHeader + len(frame.body)
		}
		if got > len(in) {
			t.Fatalf("%d bytes of frames in %d", got, len(in))
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	var m memory
	see := func(toServer bool, body string) { m.observe(frame{toServer, []byte(body)}) }
	see(true, initialize)
	see(false, `{"jsonrpc":"2.0","id":0,"result":{}}`)
	pad := strings.Repeat("x", 60<<10)
	for range 400 { // questions that differ, half of them answered
		id := string(must(json.Marshal(len(m.kept)*7919 + m.bytes)))
		see(false, `{"jsonrpc":"2.0","id":`+id+`,"method":"workspace/configuration","params":{"items":["`+id+pad+`"]}}`)
		see(true, `{"jsonrpc":"2.0","id":`+id+`,"result":["`+pad+`"]}`)
		see(false, `{"jsonrpc":"2.0","id":"u`+id+`","method":"workspace/configuration","params":{"items":["`+id+`"]}}`)
	}
	if m.bytes > maxMemory || len(m.kept) > maxQuestions+3 || len(m.questions) > maxQuestions {
		t.Errorf("%d bytes, %d kept, %d questions", m.bytes, len(m.kept), len(m.questions))
	}
	if string(m.frames()[0].body) != initialize {
		t.Error("initialize is forgotten")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestFolder(t *testing.T) {
	for params, want := range map[string]string{
		`{"workspaceFolders":[{"uri":"file:///a%20b"},{"uri":"file:///c"}],"rootUri":"file:///d"}`: "/a b",
		`{"workspaceFolders":[],"rootUri":"file:///d","rootPath":"/e"}`:                            "/d",
		`{"workspaceFolders":null,"rootUri":null,"rootPath":"/e"}`:                                 "/e",
		`{"workspaceFolders":[{"uri":"untitled:x"}],"rootUri":"file://localhost/d"}`:               "/d",
		`{"workspaceFolders":7,"rootUri":"file:///d"}`:                                             "/d",
		`{}`:   "",
		`null`: "",
		`7`:    "",
	} {
		if got := folder(json.RawMessage(params)); got != want {
			t.Errorf("%s: %q, want %q", params, got, want)
		}
	}
}

func TestOutboxBeginsAgainWhenFull(t *testing.T) {
	o := newOutbox()
	put := func(body string) { o.putFrame(frame{true, []byte(body)}) }
	put(initialize)
	put(`{"jsonrpc":"2.0","method":"workspace/didChangeConfiguration","params":{}}`)
	big := `{"jsonrpc":"2.0","method":"big","params":"` + strings.Repeat("x", 3<<20) + `"}`
	for range 7 {
		put(big)
	}
	items := o.take()
	if len(items) < 5 || string(items[0].body) != initialize || items[2].gap == 0 || items[3].body != nil {
		t.Fatalf("%d items", len(items))
	}
	if total := len(items[4:])*len(big) + int(items[2].gap); total < 7*len(big) {
		t.Errorf("%d bytes accounted for", total)
	}
	if again := o.take(); len(again) != 0 {
		t.Errorf("%d items again", len(again))
	}
	// Muted it keeps nothing but its memory.
	o.mute()
	put(big)
	o.putGap(false, 3)
	if o.bytes != 0 || len(o.items) != 0 {
		t.Errorf("%d bytes kept", o.bytes)
	}
	o.unmute()
	if items := o.take(); len(items) != 4 || items[2].gap != uint64(len(big)) || items[3].gap != 3 {
		t.Errorf("%+v", items[2:])
	}
}
