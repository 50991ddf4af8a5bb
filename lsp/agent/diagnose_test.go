package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shadowlsp/lsp/wire"
)

const finding = `[{"message":"<no>","severity":1.0}]`

func fresh(uri, diagnostics string) Report {
	return Report{URI: uri, Diagnostics: json.RawMessage(diagnostics), Verdict: Fresh}
}

func TestPullOneDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Diagnosis
		var err error
		f := &fake{diagnose: func(context.Context, []string) Pending[Diagnosis] {
			return func() (Diagnosis, error) { return d, err }
		}}
		c := initialized(t, f, Config{}, pull)
		ask := func(previous string) {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"textDocument/diagnostic","params":{"textDocument":{"uri":"file:///%61"}` + previous + `}}`)
		}
		d = Diagnosis{Reports: []Report{fresh("file:///a", finding)}, Barrier: "gopls-progress", Rev: 7}
		ask("")
		id := resultID(json.RawMessage(finding))
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"kind":"full","resultId":"` + id + `","items":` + finding + `,"shadowlsp":{"verdict":"fresh","barrier":"gopls-progress","rev":7}}}`)
		d.Rev = 8
		ask(`,"previousResultId":"` + id + `"`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"kind":"unchanged","resultId":"` + id + `","shadowlsp":{"verdict":"fresh","barrier":"gopls-progress","rev":8}}}`)
		d.Reports[0].Diagnostics = json.RawMessage("[]")
		ask(`,"previousResultId":"` + id + `"`)
		if m := c.recv(); !strings.Contains(string(m.Result), `"kind":"full"`) || !strings.Contains(string(m.Result), `"items":[]`) {
			t.Errorf("%s", m.Body)
		}
		same(t, f.taken()[:1], []string{"diagnose file:///a"})

		// Whatever is not proven is an error, silence above all.
		retrigger := func(retry bool, verdict Verdict) {
			t.Helper()
			ask("")
			e := c.wantError("1", wire.CodeServerCancelled, "no final diagnostics")
			if want := fmt.Sprintf(`{"retriggerRequest":%v,"shadowlsp":{"verdict":%q}}`, retry, verdict); string(e.Data) != want {
				t.Errorf("got %s, want %s", e.Data, want)
			}
		}
		for _, r := range []Report{{}, {URI: "file:///a"}, {URI: "file:///a", Verdict: Fresh}, {URI: "file:///a", Verdict: Partial, Diagnostics: json.RawMessage("[]")}} {
			d.Reports = []Report{r}
			retrigger(true, Partial)
		}
		d.Reports = []Report{{URI: "file:///a", Verdict: Unsupported, Reason: "no server for it"}}
		retrigger(false, Unsupported)
		err = Unproven(Partial, "60 s passed")
		retrigger(true, Partial)
		err = errors.New("the server died")
		ask("")
		c.wantError("1", wire.CodeInternalError, "the server died")
		err, d.Reports = nil, []Report{fresh("file:///a", "[nonsense")}
		ask("")
		c.wantError("1", wire.CodeInternalError, "")
		c.send(`{"jsonrpc":"2.0","id":1,"method":"textDocument/diagnostic","params":{}}`)
		c.wantError("1", wire.CodeInvalidParams, "uri")
		c.close()
	})
}

func TestPullTheWorkspace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := Diagnosis{Barrier: "x", Rev: 1}
		f := &fake{diagnose: func(_ context.Context, uris []string) Pending[Diagnosis] {
			if uris != nil {
				t.Errorf("asked for %q", uris)
			}
			return Now(d, nil)
		}}
		c := initialized(t, f, Config{}, pull)
		c.send(didOpen("file:///%61", 4, ""))
		id := resultID(json.RawMessage(finding))
		d.Reports = []Report{fresh("file:///a", finding), fresh("file:///b", finding), {URI: "file:///c", Verdict: Unsupported}, fresh("file:///e", "[]")}
		d.Reports[3].Barrier = "y"
		c.send(`{"jsonrpc":"2.0","id":1,"method":"workspace/diagnostic","params":{"previousResultIds":[{"uri":"file:///%62","value":"` + id + `"},{"uri":"file:///gone%40","value":"old"}]}}`)
		mark := `"shadowlsp":{"verdict":"fresh","barrier":"x","rev":1}}`
		empty := resultID(json.RawMessage("[]"))
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"items":[` +
			`{"uri":"file:///%61","version":4,"kind":"full","resultId":"` + id + `","items":` + finding + `,` + mark + `,` +
			`{"uri":"file:///%62","version":null,"kind":"unchanged","resultId":"` + id + `",` + mark + `,` +
			`{"uri":"file:///e","version":null,"kind":"full","resultId":"` + empty + `","items":[],"shadowlsp":{"verdict":"fresh","barrier":"y","rev":1}},` +
			`{"uri":"file:///gone%40","version":null,"kind":"full","resultId":"` + empty + `","items":[],` + mark + `]}}`)
		d.Reports = append(d.Reports, Report{URI: "file:///f", Verdict: Partial, Reason: "too slow"})
		c.send(`{"jsonrpc":"2.0","id":1,"method":"workspace/diagnostic"}`)
		c.wantError("1", wire.CodeServerCancelled, "too slow")

		d.Reports = nil
		for i := range workspaceChunk + 1 {
			d.Reports = append(d.Reports, fresh(fmt.Sprintf("file:///%03d", i), finding))
		}
		c.send(`{"jsonrpc":"2.0","id":2,"method":"workspace/diagnostic","params":{"previousResultIds":[],"partialResultToken":"t"}}`)
		for _, n := range []int{workspaceChunk, 1} {
			m := c.recv()
			var p struct {
				Token string
				Value workspaceReport
			}
			if err := json.Unmarshal(m.Params, &p); err != nil || m.Method != "$/progress" || p.Token != "t" || len(p.Value.Items) != n {
				t.Errorf("%v: %s", err, clip(m.Body))
			}
		}
		c.want(`{"jsonrpc":"2.0","id":2,"result":{"items":[]}}`)
		c.close()
	})
}

// pushing is a backend whose lints end when the test says so.
type pushing struct {
	fake
	lints chan lint
}

type lint struct {
	uris []string
	end  chan result
}

type result struct {
	d   Diagnosis
	err error
}

func newPushing() *pushing {
	p := &pushing{lints: make(chan lint, 100)}
	p.diagnose = func(ctx context.Context, uris []string) Pending[Diagnosis] {
		l := lint{uris, make(chan result, 1)}
		p.lints <- l
		return func() (Diagnosis, error) {
			select {
			case r := <-l.end:
				return r.d, r.err
			case <-ctx.Done():
				return Diagnosis{}, ctx.Err()
			}
		}
	}
	return p
}

// found ends a lint; the reports are URI, diagnostics, URI, diagnostics, …
func (l lint) found(pairs ...string) {
	var d Diagnosis
	for i := 0; i < len(pairs); i += 2 {
		d.Reports = append(d.Reports, fresh(pairs[i], pairs[i+1]))
	}
	l.end <- result{d: d}
}

func (p *pushing) next(t *testing.T, uris ...string) lint {
	t.Helper()
	synctest.Wait()
	select {
	case l := <-p.lints:
		same(t, l.uris, uris)
		return l
	default:
		t.Fatal("no lint was asked for")
		return lint{}
	}
}

func (p *pushing) idle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if len(p.lints) > 0 {
		t.Fatalf("a lint of %q", (<-p.lints).uris)
	}
}

func published(uri string, version int, diagnostics string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"textDocument/publishDiagnostics","params":{"uri":%q,"version":%d,"diagnostics":%s}}`, uri, version, diagnostics)
}

func TestPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing()
		c := initialized(t, p, Config{}, "")
		c.send(didOpen("file:///%61", 1, "x"))
		l := p.next(t, "file:///a")
		c.nothing()
		// Edits during a lint make one more, and what it says of the old text is
		// not published.
		for v := 2; v < 10; v++ {
			c.send(didChange("file:///a", v, at(0, 0, 0, 0, "y")))
		}
		c.send(didOpen("file:///b", 1, "x"))
		p.idle(t)
		l.found("file:///a", finding)
		l = p.next(t, "file:///a", "file:///b")
		c.nothing()
		l.found("file:///a", finding, "file:///b", "[]")
		c.want(published("file:///%61", 9, finding))
		c.want(published("file:///b", 1, "[]"))
		p.idle(t)
		// Only what changed is published again: the edited document always, a
		// dependent when its diagnostics are others.
		c.send(didChange("file:///b", 2, at(0, 0, 0, 0, "y")))
		p.next(t, "file:///a", "file:///b").found("file:///a", finding, "file:///b", "[]")
		c.want(published("file:///b", 2, "[]"))
		c.send(didChange("file:///b", 3, at(0, 0, 0, 0, "y")))
		p.next(t, "file:///a", "file:///b").found("file:///a", "[]", "file:///b", finding)
		c.want(published("file:///%61", 9, "[]"))
		c.want(published("file:///b", 3, finding))
		// The version used twice: the text counts.
		c.send(didChange("file:///b", 4, at(0, 0, 0, 0, "y")))
		l = p.next(t, "file:///a", "file:///b")
		c.send(didChange("file:///b", 4, at(0, 0, 0, 0, "z")))
		synctest.Wait()
		l.found("file:///a", finding, "file:///b", "[]")
		c.want(published("file:///%61", 9, finding))
		l = p.next(t, "file:///a", "file:///b")
		// Closed meanwhile: the empty list is the last.
		c.send(didClose("file:///b"))
		c.want(`{"jsonrpc":"2.0","method":"textDocument/publishDiagnostics","params":{"uri":"file:///b","diagnostics":[]}}`)
		l.found("file:///a", finding, "file:///b", finding)
		p.next(t, "file:///a").found("file:///a", finding)
		c.nothing()
		// The branch changed elsewhere.
		p.peer().Refresh()
		p.peer().Refresh()
		p.next(t, "file:///a").found("file:///a", "[]")
		c.want(published("file:///%61", 9, "[]"))
		p.idle(t)
		c.send(didClose("file:///a"))
		c.recv()
		p.idle(t)
		c.close()
	})
}

func TestPushOnlyWhatIsProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing()
		c := initialized(t, p, Config{}, "")
		c.send(didOpen("file:///a", 1, "x"))
		began := time.Now()
		for _, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			p.next(t, "file:///a").end <- result{err: Unproven(Partial, "slow")}
			c.wantMessage("window/logMessage", "slow")
			c.nothing()
			p.idle(t)
			<-time.After(pause * time.Second)
		}
		if got := time.Since(began); got != 91*time.Second {
			t.Errorf("%v", got)
		}
		l := p.next(t, "file:///a")
		l.end <- result{d: Diagnosis{Reports: []Report{{URI: "file:///a", Verdict: Partial, Reason: "half"}}}}
		c.wantMessage("window/logMessage", "half")
		// An edit does not wait for the retry, and takes its place.
		c.send(didChange("file:///a", 2, at(0, 0, 0, 0, "x")))
		p.next(t, "file:///a").found("file:///a", "[]")
		c.want(published("file:///a", 2, "[]"))
		<-time.After(time.Hour)
		p.idle(t)
		// No server for it: nothing, quietly. Other errors: once.
		c.send(didChange("file:///a", 3, at(0, 0, 0, 0, "x")))
		p.next(t, "file:///a").end <- result{d: Diagnosis{Reports: []Report{{URI: "file:///a", Verdict: Unsupported}}}}
		c.nothing()
		c.send(didChange("file:///a", 4, at(0, 0, 0, 0, "x")))
		p.next(t, "file:///a").end <- result{err: errors.New("the server died")}
		c.wantMessage("window/logMessage", "the server died")
		<-time.After(time.Hour)
		p.idle(t)
		// The session says that it is of another version.
		old := int32(4)
		c.send(didChange("file:///a", 5, at(0, 0, 0, 0, "x")))
		r := fresh("file:///a", finding)
		r.Version = &old
		p.next(t, "file:///a").end <- result{d: Diagnosis{Reports: []Report{r}}}
		c.nothing()
		// Nothing is linted while a document has diverged.
		c.send(didChange("file:///a", 1, at(0, 0, 0, 0, "x")))
		c.recv()
		c.send(didOpen("file:///b", 1, "x"))
		p.idle(t)
		c.send(didClose("file:///a"))
		c.recv()
		l = p.next(t, "file:///b")
		c.close() // in the middle of a lint
		_ = l
	})
}

func TestRefreshForClientsThatPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := initialized(t, f, Config{}, `{"textDocument":{"diagnostic":{}},"workspace":{"diagnostics":{"refreshSupport":true}}}`)
		c.send(didOpen("file:///a", 1, "x"))
		c.nothing()
		for range 5 {
			f.peer().Refresh()
			synctest.Wait()
		}
		c.want(`{"jsonrpc":"2.0","id":1,"method":"workspace/diagnostic/refresh"}`)
		c.nothing()
		c.send(`{"jsonrpc":"2.0","id":1,"result":null}`)
		c.want(`{"jsonrpc":"2.0","id":2,"method":"workspace/diagnostic/refresh"}`)
		c.send(`{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}`)
		c.nothing()
		c.close()
		c = initialized(t, f, Config{}, pull)
		f.peer().Refresh()
		c.nothing()
		c.close()
	})
}
