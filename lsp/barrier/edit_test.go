package barrier

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

func TestApply(t *testing.T) {
	for _, tc := range []struct {
		in   string
		edit Edit
		want string
	}{
		{`{"a":1.0, "b" : {"c":[1 ,2]}}`, Edit{Path: []string{"b", "c"}, Value: Raw(3)}, `{"a":1.0, "b" : {"c":3}}`},
		{`{}`, Edit{Path: []string{"a", "b", "c"}, Value: Raw("x")}, `{"a":{"b":{"c":"x"}}}`},
		{` { } `, Edit{Path: []string{"a"}, Value: Raw(1)}, ` { "a":1} `},
		{`null`, Edit{Path: []string{"a"}, Value: Raw(1)}, `{"a":1}`},
		{``, Edit{Path: []string{"a"}, Value: Raw(1)}, `{"a":1}`},
		{`{"a":null}`, Edit{Path: []string{"a", "b"}, Value: Raw(1)}, `{"a":{"b":1}}`},
		{`{"a":7}`, Edit{Path: []string{"a", "b"}}, `{"a":7}`},
		{`{"a":1,"b":2,"c":3}`, Edit{Path: []string{"a"}}, `{"b":2,"c":3}`},
		{`{"a":1 , "b":2 , "c":3}`, Edit{Path: []string{"b"}}, `{"a":1  , "c":3}`},
		{`{"a":1,"b":2,"c":3 }`, Edit{Path: []string{"c"}}, `{"a":1,"b":2 }`},
		{`{"a":1 }`, Edit{Path: []string{"a"}}, `{ }`},
		{`{"a":1,"a":2}`, Edit{Path: []string{"a"}, Value: Raw(3)}, `{"a":3,"a":3}`},
		{`{"a":1,"a":2}`, Edit{Path: []string{"a"}}, `{}`},
		{`{"a":1}`, Edit{Path: []string{"a"}, Value: Raw(2), Keep: true}, `{"a":1}`},
		{`{"b":1}`, Edit{Path: []string{"a"}, Value: Raw(2), Existing: true}, `{"b":1}`},
		{`{"a,}\"":"}{,","\u0061":1}`, Edit{Path: []string{"a"}, Value: Raw(2)}, `{"a,}\"":"}{,","\u0061":2}`},
	} {
		if got := string(Apply(json.RawMessage(tc.in), []Edit{tc.edit})); got != tc.want {
			t.Errorf("%s with %+v: got %s, want %s", tc.in, tc.edit, got, tc.want)
		}
	}
}

// An edited object is what encoding/json makes of it with the member replaced.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1,"c":[{}]},"b":null}`), "a", "b", false)
	f.Add([]byte(` {"a" : "\"}" , "b":{}} `), "b", "a", true)
	f.Add([]byte(`{"a":1,"a":{"b":2}}`), "a", "b", true)
	f.Fuzz(func(t *testing.T, in []byte, first, second string, remove bool) {
		var before map[string]any
		if !json.Valid(in) || json.Unmarshal(in, &before) != nil || before == nil || bytes.Contains(in, []byte("\\u")) {
			return // surrogates alone in names have no one spelling
		}
		if slices.ContainsFunc([]string{first, second}, func(s string) bool { return string(quote(s)) != `"`+s+`"` }) {
			return
		}
		e := Edit{Path: []string{first, second}, Value: Raw("new")}
		if remove {
			e.Value = nil
		}
		out := Apply(in, []Edit{e})
		var after map[string]any
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%s became %s: %v", in, out, err)
		}
		inner, isObject := before[first].(map[string]any)
		switch {
		case remove && isObject:
			delete(inner, second)
		case !remove && isObject:
			inner[second] = "new"
		case !remove:
			before[first] = map[string]any{second: "new"}
		}
		if !reflect.DeepEqual(before, after) && !twice(in) {
			t.Fatalf("%s became %s", in, out)
		}
	})
}

// twice says whether an object has a name twice: then what counts is the
// decoder's choice, and encoding/json merges.
func twice(in []byte) bool {
	found, _ := members(in)
	seen := map[string]bool{}
	for _, m := range found {
		if seen[m.name] || twice(in[m.start:m.end]) {
			return true
		}
		seen[m.name] = true
	}
	return false
}

func TestForAndArguments(t *testing.T) {
	for _, tc := range []struct {
		command []string
		result  string
		want    string
	}{
		{[]string{"gopls"}, ``, "gopls"},
		{[]string{"/a/b/gopls", "-remote=auto"}, ``, "gopls"},
		{[]string{"/bin/env", "gopls", "serve"}, ``, "gopls"},
		{[]string{"wrapper"}, `{"serverInfo":{"name":"gopls"}}`, "gopls"},
		{[]string{"wrapper", "--for", "gopls"}, `{"serverInfo":{"name":7}}`, "generic"},
		{nil, ``, "generic"},
		// What it says of itself counts more than what it was started as.
		{[]string{"gopls"}, `{"serverInfo":{"name":"frobls"}}`, "generic"},
		{[]string{"pyright-langserver", "--stdio"}, `{"serverInfo":{"name":"basedpyright"}}`, "basedpyright"},
		{[]string{"vtsls"}, `{"capabilities":{"executeCommandProvider":{"commands":["_typescript.applyRenameFile"]}}}`, "typescript-language-server"},
		{[]string{"bash-language-server"}, `{"serverInfo":{"name":"bash-language-server"}}`, "bash-language-server"},
		// The same server, in the ways that people start it.
		{[]string{"node", "/x/node_modules/typescript-language-server/lib/cli.mjs", "--stdio"}, ``, "typescript-language-server"},
		{[]string{"node", "--max-old-space-size=4096", "/x/pyright/langserver.index.js", "--stdio"}, ``, "pyright"},
		{[]string{"npx", "typescript-language-server@5", "--stdio"}, ``, "typescript-language-server"},
		{[]string{"npx", "-y", "-p", "typescript", "typescript-language-server", "--stdio"}, ``, "typescript-language-server"},
		{[]string{"npx", "@vtsls/language-server@0.3.0", "--stdio"}, ``, "vtsls"},
		{[]string{"node", "/x/node_modules/@vtsls/language-server/dist/main.js"}, ``, "vtsls"},
		{[]string{"node", "/x/node_modules/vscode-langservers-extracted/bin/vscode-css-language-server", "--stdio"}, ``, "vscode-css-language-server"},
		{[]string{"/usr/bin/python3.12", "-m", "basedpyright.langserver", "--stdio"}, ``, "basedpyright"},
		{[]string{"python", "/venv/bin/pyright-langserver", "--stdio"}, ``, "pyright"},
		{[]string{"uvx", "--from", "basedpyright", "basedpyright-langserver", "--stdio"}, ``, "basedpyright"},
		{[]string{"env", "-u", "GOFLAGS", "GOWORK=off", "/a/gopls"}, ``, "gopls"},
		{[]string{"sh", "-c", "cd /x && exec gopls -remote=auto"}, ``, "gopls"},
		{[]string{`C:\bin\clangd.exe`}, ``, "generic"}, // of another system
		{[]string{"/opt/x/clangd.exe", "-j=2"}, ``, "clangd"},
		// Arguments of a server are no program.
		{[]string{"frobls", "gopls"}, ``, "generic"},
		{[]string{"node", "frob.js"}, ``, "generic"},
	} {
		if got := For(tc.command, json.RawMessage(tc.result)).Name; got != tc.want {
			t.Errorf("%v %s: %s", tc.command, tc.result, got)
		}
	}
	p := gopls()
	for _, tc := range []struct{ in, want []string }{
		{[]string{"gopls", "-remote=auto", "serve"}, []string{"gopls", "serve"}},
		{[]string{"gopls", "--remote", "unix;/x", "-rpc.trace"}, []string{"gopls", "-rpc.trace"}},
		{[]string{"gopls", "-remote.listen.timeout", "1m", "--remote.debug=:0", "-v"}, []string{"gopls", "-v"}},
		{[]string{"gopls", "-vv", "-logfile", "x", "-debug=localhost:6060", "serve", "-listen", "y"}, []string{"gopls", "-vv", "serve"}},
		{[]string{"gopls", "--", "-remote=auto"}, []string{"gopls", "--", "-remote=auto"}},
		{[]string{"gopls", "-remotely"}, []string{"gopls", "-remotely"}},
	} {
		if got := p.Arguments(tc.in); !slices.Equal(got, tc.want) {
			t.Errorf("%v: got %v, want %v", tc.in, got, tc.want)
		}
	}
	for file, want := range map[string]string{
		"/a/x.go": "go", "/a/go.mod": "go.mod", "/a/go.work": "go.work", "/a/x.tmpl": "gotmpl", "/a/mygo.mod": "", "/a/go": "",
	} {
		if got, _ := p.Language(file); got != want {
			t.Errorf("%s: %q", file, got)
		}
	}
}

func TestSettings(t *testing.T) {
	s := Settings{Flat: true, Options: []Option{{Name: "x", Value: Raw(true), Keep: []json.RawMessage{Raw("mine")}}}}
	for in, want := range map[string]string{
		`null`:                    `{"x":true}`,
		`{"ui.x":false,"y":1.0}`:  `{"y":1.0,"x":true}`,
		`{"x":1,"a.b.x":2,"c":3}`: `{"x":true,"c":3}`,
		`{"ui.x":"mine"}`:         `{"ui.x":"mine"}`,
		`{"yx":1}`:                `{"yx":1,"x":true}`,
	} {
		if got := string(s.Apply(json.RawMessage(in))); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
