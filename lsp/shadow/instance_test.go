package shadow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/lsptest"
	"shadowlsp/lsp/shadow"
	"shadowlsp/lsp/wire"
)

// toy starts an instance of the toy server, in the test's bubble.
func toy(t *testing.T, rules lsptest.Rules, change ...func(*shadow.Config)) (*shadow.Instance, *lsptest.Server) {
	t.Helper()
	server, conn := lsptest.Start(t, rules)
	cfg := shadow.Config{
		Conn: conn, Initialize: json.RawMessage(`{"capabilities":{},"workspaceFolders":[{"uri":"file:///w","name":"w"}]}`),
		Root: "/w", Profile: barrier.For([]string{"toy"}, nil), Name: "toy-1",
	}
	for _, c := range change {
		c(&cfg)
	}
	i, err := shadow.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.Close(context.Background()) })
	return i, server
}

func doc(uri, text string) shadow.Document {
	return shadow.Document{URI: uri, LanguageID: "toy", Text: text}
}

func mustSync(t *testing.T, i *shadow.Instance, target shadow.Target) shadow.SyncStats {
	t.Helper()
	stats, err := i.Sync(context.Background(), target)
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// raw decodes for comparison by eye.
func params(m wire.Message) string { return string(m.Params) }

func TestInitializeChangesOnlyWhatItMust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Between the members white space goes; nothing else does.
		given := `{"processId": 77, "workDoneToken":1,"rootUri":null,"capabilities":{"general":{"positionEncodings":["utf-8"],"x":1e0},` +
			`"window":{"workDoneProgress":false},"experimental":{"a" : [1 , 2]}},"initializationOptions":{"ui.x.diagnosticsDelay":"9s","vulncheck":"Imports","mine":1.50},"zz":"\u00e9"}`
		_, server := toy(t, lsptest.Rules{Name: "gopls", On: []lsptest.Rule{
			{Method: "initialized", Do: []lsptest.Action{{Notify: "x"}}},
		}}, func(c *shadow.Config) {
			c.Initialize = json.RawMessage(given)
			c.Profile = barrier.For([]string{"/usr/bin/gopls"}, nil)
		})
		want := `{"processId":null,"rootUri":null,"capabilities":{"general":{"positionEncodings":["utf-16"],"x":1e0},` +
			`"window":{"workDoneProgress":true},"experimental":{"a":[1,2]},` +
			`"workspace":{"didChangeWatchedFiles":{"dynamicRegistration":true,"relativePatternSupport":true},"configuration":true},` +
			`"textDocument":{"publishDiagnostics":{"versionSupport":true}}},` +
			`"initializationOptions":{"vulncheck":"Imports","mine":1.50,"verboseWorkDoneProgress":true,"diagnosticsDelay":"0s",` +
			`"diagnosticsTrigger":"Edit","fileWatcher":"off","telemetryPrompt":false},"zz":"\u00e9"}`
		if got := params(server.Received("initialize")[0]); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// client answers configuration and records what it is told.
type client struct {
	shadow.Client
	values string
	told   chan string
}

func (c client) Configuration(json.RawMessage) (json.RawMessage, bool) {
	return json.RawMessage(c.values), true
}
func (c client) ApplyEdit(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"applied":true}`), nil
}
func (c client) Notification(method string, params json.RawMessage) {
	c.told <- method + " " + string(params)
}
func (c client) Progress(params json.RawMessage) { c.told <- "progress " + string(params) }

func TestServerRequestsAreAnswered(t *testing.T) {
	ask := func(method, params string) lsptest.Action {
		return lsptest.Action{Request: method, Params: json.RawMessage(params)}
	}
	synctest.Test(t, func(t *testing.T) {
		c := client{values: `[{"a":1}]`, told: make(chan string, 10)}
		// All of them before the answer to initialize.
		_, server := toy(t, lsptest.Rules{On: []lsptest.Rule{{Method: "initialize", Do: []lsptest.Action{
			ask("window/workDoneProgress/create", `{"token":1}`),
			ask("workspace/configuration", `{"items":[{"section":"x"},{"section":"gopls"}]}`),
			ask("workspace/workspaceFolders", `null`),
			ask("window/showMessageRequest", `{"type":1,"message":"?","actions":[{"title":"a"}]}`),
			ask("window/showDocument", `{"uri":"file:///w/a"}`),
			ask("workspace/diagnostic/refresh", `null`),
			ask("workspace/unheard/of", `{}`),
			ask("workspace/applyEdit", `{"edit":{}}`),
			{Notify: "window/logMessage", Params: json.RawMessage(`{"type":4,"message":"m"}`)},
			{Notify: "$/progress", Params: json.RawMessage(`{"token":1,"value":{"kind":"begin","title":"t"}}`)},
		}}}}, func(cfg *shadow.Config) { cfg.Client, cfg.Profile = c, barrier.For([]string{"gopls"}, nil) })
		synctest.Wait()
		answers := map[string]string{}
		for _, m := range server.Received("") {
			if m.Kind == wire.Response {
				answers[strings.Trim(string(m.ID), `"`)] = string(m.Result) + string(m.Error)
			}
		}
		for n, want := range []string{
			`null`,
			`[{"a":1},{"verboseWorkDoneProgress":true,"diagnosticsDelay":"0s","diagnosticsTrigger":"Edit","fileWatcher":"off","vulncheck":"Off","telemetryPrompt":false}]`,
			`[{"uri":"file:///w","name":"w"}]`,
			`null`,
			`{"success":false}`,
			`null`,
			`{"code":-32601,"message":"workspace/unheard/of: not known"}`,
			`{"applied":true}`,
		} {
			if got := answers[fmt.Sprintf("toy-%d", n+1)]; got != want {
				t.Errorf("answer %d: got %s, want %s", n+1, got, want)
			}
		}
		if got := <-c.told; got != `window/showMessage {"type":1,"message":"?"}` {
			t.Error(got)
		}
		if got := <-c.told; got != `window/logMessage {"type":4,"message":"m"}` {
			t.Error(got)
		}
		if got := <-c.told; got != `progress {"token":1,"value":{"kind":"begin","title":"t"}}` {
			t.Error(got)
		}
	})
}

func TestSyncSendsTheSmallestDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, server := toy(t, lsptest.Rules{})
		count := func() int { synctest.Wait(); return len(server.Received("")) }
		target := shadow.Target{Documents: []shadow.Document{doc("file:///w/a%3Ab.toy", "def a\nuse b\n"), doc("file:///w/b.toy", "def b\n")}}
		if got := mustSync(t, i, target); got.Opened != 2 {
			t.Error(got)
		}
		// The same again, one URI spelled in another way: nothing is sent.
		before := count()
		target.Documents[0].URI = "file:///w/a:b.toy"
		if got := mustSync(t, i, target); got != (shadow.SyncStats{}) || count() != before {
			t.Error(got, count()-before)
		}
		target.Documents[0].Text = "def a\nuse 😀b\n"
		target.Documents = target.Documents[:1]
		target.Saved = []string{"file:///w/a:b.toy", "file:///w/b.toy"}
		target.Files = []shadow.FileEvent{{"file:///w/x.toy", shadow.Created}, {"file:///w/x.txt", shadow.Created}, {"file:///w/a:b.toy", shadow.Changed}}
		if got := mustSync(t, i, target); got != (shadow.SyncStats{Changed: 1, Closed: 1, Saved: 1, Events: 2, Filtered: 1}) {
			t.Error(got)
		}
		synctest.Wait()
		var got []string
		for _, m := range server.Received("")[before:] {
			got = append(got, m.Method+" "+params(m))
		}
		want := []string{
			`workspace/didChangeWatchedFiles {"changes":[{"uri":"file:///w/x.toy","type":1}]}`,
			`textDocument/didChange {"contentChanges":[{"range":{"start":{"line":1,"character":4},"end":{"line":1,"character":4}},"text":"😀"}],` +
				`"textDocument":{"uri":"file:///w/a%3Ab.toy","version":3}}`,
			`textDocument/didClose {"textDocument":{"uri":"file:///w/b.toy"}}`,
			// A document that stays open: behind its change, as from an editor that saves.
			`workspace/didChangeWatchedFiles {"changes":[{"uri":"file:///w/a:b.toy","type":2}]}`,
			`textDocument/didSave {"textDocument":{"uri":"file:///w/a%3Ab.toy"}}`,
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		target.Documents = append(target.Documents, target.Documents[0])
		if _, err := i.Sync(context.Background(), target); !kind(err, shadow.Malformed) {
			t.Error(err)
		}
	})
}

func kind(err error, k shadow.Kind) bool {
	var e *shadow.Error
	return errors.As(err, &e) && e.Kind == k
}

func TestSyncAsTheServerWantsIt(t *testing.T) {
	for name, tc := range map[string]struct{ sync, want string }{
		"full":         {`{"openClose":true,"change":1}`, `didOpen didChange{"contentChanges":[{"text":"two\n"}]`},
		"number":       {`1`, `didOpen didChange{"contentChanges":[{"text":"two\n"}] didSave`},
		"none":         {`{"openClose":true,"change":0}`, `didOpen didClose didOpen`},
		"nothing":      {`0`, ``},
		"include text": {`{"openClose":true,"change":2,"save":{"includeText":true}}`, `didOpen didChange{"contentChanges":[{"range" didSave+text`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i, server := toy(t, lsptest.Rules{Capabilities: json.RawMessage(`{"textDocumentSync":` + tc.sync + `}`)})
				target := shadow.Target{Documents: []shadow.Document{doc("file:///w/a.toy", "one\n")}}
				mustSync(t, i, target)
				target.Documents[0].Text = "two\n"
				target.Saved = []string{"file:///w/a.toy"}
				mustSync(t, i, target)
				synctest.Wait()
				var got []string
				for _, m := range server.Received("") {
					method, ok := strings.CutPrefix(m.Method, "textDocument/")
					if !ok {
						continue
					}
					if method == "didChange" {
						method += params(m)
						if at := strings.Index(tc.want, "didChange"); at >= 0 {
							n := strings.IndexByte(tc.want[at:]+" ", ' ')
							method = method[:min(n, len(method))]
						}
					}
					if strings.Contains(params(m), `"text":"two\n"`) && method == "didSave" {
						method += "+text"
					}
					got = append(got, method)
				}
				if strings.Join(got, " ") != tc.want {
					t.Errorf("got %s, want %s", strings.Join(got, " "), tc.want)
				}
			})
		})
	}
}

func TestWatchedPatterns(t *testing.T) {
	register := json.RawMessage(`{"registrations":[{"id":"w","method":"workspace/didChangeWatchedFiles","registerOptions":{"watchers":[
		{"globPattern":"**/*.{mod,work}"},
		{"globPattern":"*.json","kind":4},
		{"globPattern":"/other/**/x.go"},
		{"globPattern":{"baseUri":"file:///w/sub%20dir","pattern":"**/*.go"},"kind":3},
		{"globPattern":{"baseUri":{"uri":"file:///v","name":"v"},"pattern":"y/*"}},
		{"globPattern":{"baseUri":"","pattern":"**/*.tmpl"}},
		{"globPattern":"[broken"}]}}]}`)
	synctest.Test(t, func(t *testing.T) {
		i, _ := toy(t, lsptest.Rules{Watch: []string{}, On: []lsptest.Rule{{Method: "initialized", Do: []lsptest.Action{{Request: "client/registerCapability", Params: register}}}}})
		synctest.Wait()
		for _, tc := range []struct {
			path   string
			change shadow.FileChange
			want   bool
		}{
			{"/w/go.mod", shadow.Changed, true}, {"/w/a/b/go.work", shadow.Deleted, true}, {"/elsewhere/go.mod", shadow.Created, true},
			{"/w/package.json", shadow.Deleted, true}, {"/w/package.json", shadow.Changed, false}, {"/w/a/package.json", shadow.Deleted, false},
			{"/other/a/b/x.go", shadow.Changed, true}, {"/other/a/b/y.go", shadow.Changed, false},
			{"/w/sub dir/a/b.go", shadow.Changed, true}, {"/w/sub dir/b.go", shadow.Deleted, false}, {"/w/subdir/b.go", shadow.Changed, false},
			{"/v/y/z", shadow.Created, true}, {"/v/y/z/z", shadow.Created, false},
			{"/w/t.tmpl", shadow.Created, true},
			{"/w/broken", shadow.Created, false},
		} {
			if got := i.Watches(tc.path, tc.change); got != tc.want {
				t.Errorf("%s %d: %v", tc.path, tc.change, got)
			}
		}
	})
}

// sink collects progress.
type sink struct{ got *[]string }

func (s sink) Progress(params json.RawMessage) { *s.got = append(*s.got, string(params)) }

func request(t *testing.T, body string) wire.Message {
	t.Helper()
	m, err := wire.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestForwardChangesIdsAndTokensOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, server := toy(t, lsptest.Rules{On: []lsptest.Rule{{Method: "x/y", Only: true}}})
		var got []string
		var answer wire.Message
		done := make(chan struct{})
		go func() {
			defer close(done)
			var err error
			answer, err = i.Forward(context.Background(), request(t,
				` {"jsonrpc":"2.0","params":{"workDoneToken" : {"no":1}, "n":1.0,"partialResultToken":"mine","z":{"workDoneToken":2}},"id":"7","method":"x/y","extra":true}`), sink{&got})
			if err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		m := server.Received("x/y")[0]
		if want := ` {"jsonrpc":"2.0","params":{"workDoneToken" : "shadowlsp-1", "n":1.0,"partialResultToken":"shadowlsp-2","z":{"workDoneToken":2}},"id":` + string(m.ID) + `,"method":"x/y","extra":true}`; string(m.Body) != want {
			t.Errorf("got  %s\nwant %s", m.Body, want)
		}
		for _, body := range []string{
			`{"jsonrpc":"2.0","method":"$/progress","params":{"value":{"kind":"begin","title":"t"},"token":"shadowlsp-1"}}`,
			`{"jsonrpc":"2.0","method":"$/progress","params":{"token":"shadowlsp-2","value":[1e0]}}`,
			`{"jsonrpc":"2.0","result":{"a":1.00},"id":` + string(m.ID) + `,"x":0}`,
			`{"jsonrpc":"2.0","method":"$/progress","params":{"token":"shadowlsp-2","value":["late"]}}`,
		} {
			if err := server.Send([]byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		<-done
		synctest.Wait()
		if want := `{"jsonrpc":"2.0","result":{"a":1.00},"id":"7","x":0}`; string(answer.Body) != want {
			t.Errorf("got %s", answer.Body)
		}
		want := []string{`{"value":{"kind":"begin","title":"t"},"token":{"no":1}}`, `{"token":"mine","value":[1e0]}`}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %s", got)
		}
	})
}

func TestForwardCancels(t *testing.T) {
	ask := `{"jsonrpc":"2.0","id":1,"method":"x/y"}`
	synctest.Test(t, func(t *testing.T) {
		i, server := toy(t, lsptest.Rules{On: []lsptest.Rule{{Method: "x/y", Only: true}}})
		forward := func(answerToCancel bool) (answer wire.Message, took time.Duration) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			began := time.Now()
			if answerToCancel {
				n := len(server.Received("$/cancelRequest"))
				go func() {
					m, err := server.Await(context.Background(), "$/cancelRequest", n+1)
					if err != nil {
						return
					}
					id, _ := barrier.Lookup(m.Params, "id")
					server.Send(wire.NewError(id, wire.Errorf(wire.CodeRequestCancelled, "as you wish")))
				}()
			}
			answer, err := i.Forward(ctx, request(t, ask), nil)
			if err != nil {
				t.Fatal(err)
			}
			return answer, time.Since(began)
		}
		if answer, took := forward(true); string(answer.Error) != `{"code":-32800,"message":"as you wish"}` || took != time.Second {
			t.Errorf("%s after %v", answer.Body, took)
		}
		answer, took := forward(false)
		if e := wire.ParseError(answer.Error); e.Code != wire.CodeRequestCancelled || string(answer.ID) != "1" || took != time.Second+shadow.DefaultCancelGrace {
			t.Errorf("%s after %v", answer.Body, took)
		}
		// The late answer is dropped, and the next request gets its own.
		late := server.Received("x/y")[1].ID
		server.Send(wire.NewResult(late, "late"))
		if answer, _ := forward(true); !strings.Contains(string(answer.Error), "as you wish") {
			t.Errorf("%s", answer.Body)
		}
		if i.InFlight() != 0 {
			t.Error(i.InFlight())
		}
	})
}

// A server that does not read stops neither our reading nor our end.
func TestServerThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, server := toy(t, lsptest.Rules{On: []lsptest.Rule{{Method: "stall", Do: []lsptest.Action{{Stall: true}}}}},
			func(c *shadow.Config) { c.Limits.Queue = 4096 })
		if err := i.Notify(context.Background(), "stall", nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		// It goes on talking, and asks until the answers do not fit any more.
		for n := range 200 {
			server.Send(wire.NewRequest(json.RawMessage(fmt.Sprint(n)), "workspace/configuration", json.RawMessage(`{"items":[{},{},{}]}`)))
		}
		<-i.Done()
		if !kind(i.Err(), shadow.Stalled) {
			t.Error(i.Err())
		}
		if _, err := i.Call(context.Background(), "x", nil); !kind(err, shadow.Stalled) {
			t.Error(err)
		}
	})
}

func TestCallersWaitForAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _ := toy(t, lsptest.Rules{On: []lsptest.Rule{{Method: "wait", Do: []lsptest.Action{{Wait: time.Minute}}}}},
			func(c *shadow.Config) { c.Limits.Queue = 4096 })
		i.Notify(context.Background(), "wait", nil)
		began := time.Now()
		for range 10 {
			if err := i.Notify(context.Background(), "x", barrier.Raw(strings.Repeat("x", 2000))); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != time.Minute {
			t.Error(took)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		i.Notify(context.Background(), "wait", nil)
		var err error
		for range 10 {
			if err = i.Notify(ctx, "x", barrier.Raw(strings.Repeat("x", 2000))); err != nil {
				break
			}
		}
		if !kind(err, shadow.Stalled) {
			t.Error(err)
		}
	})
}

func TestServerThatCrashes(t *testing.T) {
	rules := lsptest.Rules{On: []lsptest.Rule{{Method: "textDocument/hover", Do: []lsptest.Action{{Crash: 3}}}}}
	check := func(t *testing.T, i *shadow.Instance) {
		target := shadow.Target{Documents: []shadow.Document{doc("file:///w/a.toy", "error x\n")}}
		mustSync(t, i, target)
		_, err := i.Forward(context.Background(), request(t, `{"jsonrpc":"2.0","id":1,"method":"textDocument/hover","params":{}}`), nil)
		if !kind(err, shadow.Exited) {
			t.Error(err)
		}
		if _, err := i.Diagnose(context.Background(), nil); err == nil {
			t.Error("diagnoses of a dead server")
		}
		if _, err := i.Sync(context.Background(), target); err == nil {
			t.Error("a dead server in sync")
		}
		<-i.Done()
	}
	t.Run("in process", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			i, _ := toy(t, rules)
			check(t, i)
		})
	})
	t.Run("a process", func(t *testing.T) {
		i, err := shadow.Start(within(t), shadow.Config{
			Conn: launch(t, t.TempDir(), lsptest.Command(rules)...), Initialize: json.RawMessage(`{}`),
			Profile: barrier.For([]string{"toy"}, nil), Name: "toy-1",
		})
		if err != nil {
			t.Fatal(err)
		}
		check(t, i)
	})
	t.Run("at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, conn := lsptest.Start(t, lsptest.Rules{On: []lsptest.Rule{{Method: "initialize", Do: []lsptest.Action{{Crash: 1}}}}})
			_, err := shadow.Start(context.Background(), shadow.Config{Conn: conn, Profile: barrier.For(nil, nil)})
			if !kind(err, shadow.Exited) {
				t.Error(err)
			}
		})
	})
	t.Run("refuses", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, conn := lsptest.Start(t, lsptest.Rules{On: []lsptest.Rule{{Method: "initialize", Only: true,
				Do: []lsptest.Action{{Error: json.RawMessage(`{"code":1,"message":"no"}`)}}}}})
			_, err := shadow.Start(context.Background(), shadow.Config{Conn: conn, Profile: barrier.For(nil, nil)})
			if !kind(err, shadow.Refused) || !strings.Contains(err.Error(), "no") {
				t.Error(err)
			}
		})
	})
	t.Run("talks nonsense", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			i, _ := toy(t, lsptest.Rules{On: []lsptest.Rule{
				{Method: "json", Do: []lsptest.Action{{Raw: "Content-Length: 3\r\n\r\n{]}"}}},
				{Method: "frame", Do: []lsptest.Action{{Raw: "panic: oh no\n\n"}}},
			}})
			i.Notify(context.Background(), "json", nil)
			if _, err := i.Call(context.Background(), "x", nil); wire.AsError(err).Code != wire.CodeMethodNotFound {
				t.Error(err)
			}
			i.Notify(context.Background(), "frame", nil)
			<-i.Done()
			if !kind(i.Err(), shadow.Malformed) {
				t.Error(i.Err())
			}
		})
	})
	t.Run("closed under a call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			i, _ := toy(t, lsptest.Rules{On: []lsptest.Rule{{Method: "x", Only: true}}})
			failed := make(chan error)
			go func() { _, err := i.Call(context.Background(), "x", nil); failed <- err }()
			synctest.Wait()
			i.Close(context.Background())
			if err := <-failed; !kind(err, shadow.Closed) {
				t.Error(err)
			}
		})
	})
}
