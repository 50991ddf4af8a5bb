package wire

import "testing"

func TestParseAndWithIDKeepEveryOtherByte(t *testing.T) {
	for _, tc := range []struct{ in, id, want string }{
		{`{"jsonrpc":"2.0","id":1e0,"method":"x","params":{"b":1.0,"a":2}}`, `7`, `{"jsonrpc":"2.0","id":7,"method":"x","params":{"b":1.0,"a":2}}`},
		{` {"params":{"id":5},"id":"a\u0041","method":"x","zz":1} `, `12`, ` {"params":{"id":5},"id":12,"method":"x","zz":1} `},
		{`{"id":4,"result":null,"jsonrpc":"2.0"}`, `"s"`, `{"id":"s","result":null,"jsonrpc":"2.0"}`},
	} {
		m, err := Parse([]byte(tc.in))
		if err != nil {
			t.Fatalf("%s: %v", tc.in, err)
		}
		if got := string(m.WithID([]byte(tc.id))); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

func TestParseKinds(t *testing.T) {
	for in, want := range map[string]Kind{
		`{"jsonrpc":"2.0","method":"a"}`:                                Notification,
		`{"jsonrpc":"2.0","id":0,"method":"a"}`:                         Request,
		`{"jsonrpc":"2.0","id":"","method":"a","params":[]}`:            Request,
		`{"id":3,"result":1,"error":null}`:                              Response,
		`{"jsonrpc":"2.0","id":3,"result":null}`:                        Response,
		`{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}`:    Response,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}`: Response,
	} {
		m, err := Parse([]byte(in))
		if err != nil || m.Kind != want {
			t.Errorf("%s: %v, %v; want %v", in, m.Kind, err, want)
		}
	}
	for _, in := range []string{``, `[]`, `[{"jsonrpc":"2.0","method":"a"}]`, `{}`, `{"jsonrpc":"2.0","id":3}`, `nope`} {
		if m, err := Parse([]byte(in)); err == nil {
			t.Errorf("%s: parsed as %v", in, m.Kind)
		}
	}
}
