package remap

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestMap(t *testing.T) {
	m := New("/home/a b/proj", "/run/v/1")
	for _, tc := range []struct{ outside, inside string }{
		{`{"uri":"file:///home/a%20b/proj/x.go"}`, `{"uri":"file:///run/v/1/x.go"}`},
		{`{"rootUri":"file:///home/a%20b/proj","rootPath":"/home/a b/proj"}`, `{"rootUri":"file:///run/v/1","rootPath":"/run/v/1"}`},
		{`{"changes":{"file:///home/a%20b/proj/x%23.go":[1, 2]}}`, `{"changes":{"file:///run/v/1/x%23.go":[1, 2]}}`},
		{`["-modfile=/home/a b/proj/go.mod" , "/home/a b/project"]`, `["-modfile=/run/v/1/go.mod" , "/home/a b/project"]`},
		{`{"a":"/x/home/a b/proj","b":1.50,"c":"\u00e9"}`, `{"a":"/x/home/a b/proj","b":1.50,"c":"\u00e9"}`},
		{`{"value":"see [x](file:///home/a%20b/proj/x.go#L3) in /home/a b/proj."}`, `{"value":"see [x](file:///run/v/1/x.go#L3) in /run/v/1."}`},
		{`{"target":"file:///home/a%20b/proj/x.go#L3,4"}`, `{"target":"file:///run/v/1/x.go#L3,4"}`},
		{`{"uri":"file:///home/a%20b/proj/"}`, `{"uri":"file:///run/v/1/"}`},
		{`{"uri":"untitled:/home/other"}`, `{"uri":"untitled:/home/other"}`},
	} {
		if got := string(m.ToServer([]byte(tc.outside))); got != tc.inside {
			t.Errorf("to the server\n%s\n%s, want\n%s", tc.outside, got, tc.inside)
		}
		if got := string(m.FromServer([]byte(tc.inside))); got != tc.outside {
			t.Errorf("from the server\n%s\n%s, want\n%s", tc.inside, got, tc.outside)
		}
	}
}

// Other spellings are understood, and texts are the branch's own.
func TestSpellings(t *testing.T) {
	m := New("/home/a@b/proj", "/run/v/1")
	for in, want := range map[string]string{
		`{"uri":"file:///home/a%40b/proj/x.go"}`:                              `{"uri":"file:///run/v/1/x.go"}`,
		`{"uri":"file:\/\/\/home\/a@b\/proj\/x.go"}`:                          `{"uri":"file:///run/v/1/x.go"}`,
		`{"text":"/home/a@b/proj/x","newText":"/home/a@b/proj","t":["text"]}`: `{"text":"/home/a@b/proj/x","newText":"/home/a@b/proj","t":["text"]}`,
		`{"t":["text","/home/a@b/proj"]}`:                                     `{"t":["text","/run/v/1"]}`,
	} {
		if got := string(m.ToServer([]byte(in))); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", in, got, want)
		}
	}
	if got := string(New("/p", "/run/v/1").FromServer([]byte(`["/run/v/12","/run/v/1.go","/run/v/1/a"]`))); got != `["/run/v/12","/run/v/1.go","/p/a"]` {
		t.Error(got)
	}
	var none *Map
	if got := string(none.FromServer([]byte(`"/p"`))); got != `"/p"` {
		t.Error(got)
	}
}

// Valid JSON stays valid, there and back is the same message, and what holds
// nothing of the folder keeps its bytes.
func FuzzMap(f *testing.F) {
	f.Add([]byte(`{"uri":"file:///home/a%20b/proj/x.go","n":[1,"\ud800","/home/a b/proj:/home/a b/proj"]}`))
	f.Add([]byte(`{"a\"b":"\\","text":"/home/a b/proj"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if !json.Valid(body) {
			return
		}
		m := New("/home/a b/proj", "/run/v/1")
		in := m.ToServer(bytes.Clone(body))
		if !json.Valid(in) {
			t.Fatalf("%q became %q", body, in)
		}
		if out := m.FromServer(in); !json.Valid(out) {
			t.Fatalf("%q became %q", in, out)
		}
		if !bytes.Contains(body, []byte("home")) && !bytes.Contains(body, []byte(`\`)) && !bytes.Contains(body, []byte("%")) && !bytes.Equal(in, body) {
			t.Fatalf("%q became %q", body, in)
		}
	})
}
