package shadow_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/lsptest"
	"shadowlsp/lsp/shadow"
)

const (
	uriA = "file:///w/a.toy"
	uriB = "file:///w/b.toy"
)

// Branches alternate: a defines what b needs, or does not. Both are open.
func TestLadderAlternates(t *testing.T) {
	const second = time.Second
	for name, tc := range map[string]struct {
		rules lsptest.Rules
		want  [2]string     // the rungs of a and b
		most  time.Duration // per question, by the fake clock
	}{
		"pull":           {lsptest.Rules{Signal: lsptest.Pull}, [2]string{"pull", "pull"}, 0},
		"progress":       {lsptest.Rules{Signal: lsptest.Progress, Delay: second}, [2]string{"progress", "progress"}, 3 * second},
		"versioned":      {lsptest.Rules{Signal: lsptest.Versioned, Delay: second}, [2]string{"versioned", "quiet"}, 5 * second},
		"push":           {lsptest.Rules{Delay: second}, [2]string{"quiet", "quiet"}, 5 * second},
		"push that lies": {lsptest.Rules{Delay: second / 2, Lie: true, LieFor: second}, [2]string{"quiet", "quiet"}, 5 * second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i, _ := toy(t, tc.rules)
				mustSync(t, i, shadow.Target{Documents: []shadow.Document{doc(uriA, "def x\n"), doc(uriB, "use x\n")}})
				if _, err := i.Diagnose(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
				for n := range 20 {
					text, want := "def x\n", ""
					if n%2 == 0 {
						text, want = "def y\n", "undefined: x"
					}
					mustSync(t, i, shadow.Target{Documents: []shadow.Document{doc(uriA, text), doc(uriB, "use x\n")}})
					began := time.Now()
					reports, err := i.Diagnose(context.Background(), []string{uriA, uriB})
					if err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began); took > tc.most {
						t.Errorf("took %v", took)
					}
					if got := string(reports[uriB].Diagnostics); strings.Contains(got, "undefined: x") != (want != "") {
						t.Fatalf("turn %d: %s", n, got)
					}
					if got := [2]string{reports[uriA].Barrier, reports[uriB].Barrier}; got != tc.want {
						t.Fatalf("rungs %v", got)
					}
				}
			})
		})
	}
}

// A server that looks at a document only when that one changes is shown it again when
// something else has: it may have read that for it.
func TestLadderShowsDocumentsAgain(t *testing.T) {
	publish := func(diagnostics string) []lsptest.Action {
		return []lsptest.Action{{Notify: "textDocument/publishDiagnostics", Params: json.RawMessage(`{"uri":"` + uriA + `","diagnostics":` + diagnostics + `}`)}}
	}
	synctest.Test(t, func(t *testing.T) {
		i, _ := toy(t, lsptest.Rules{On: []lsptest.Rule{
			{Method: "textDocument/didOpen", Only: true, Do: publish(`[]`)},
			{Method: "textDocument/didChange", Only: true, Do: publish(`[{"message":"new"}]`)},
		}})
		target := shadow.Target{Documents: []shadow.Document{doc(uriA, "def x\n")}}
		for n, want := range []string{`[]`, `[{"message":"new"}]`, `[{"message":"new"}]`} {
			mustSync(t, i, target)
			reports, err := i.Diagnose(context.Background(), []string{uriA})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(reports[uriA].Diagnostics); got != want {
				t.Errorf("%d: %s, not %s", n, got, want)
			}
			target.Files = []shadow.FileEvent{{URI: uriB, Type: shadow.Changed}}
		}
	})
}

func TestLadderNeverReadsSilenceAsClean(t *testing.T) {
	opened := func(t *testing.T, i *shadow.Instance, uris ...string) (map[string]shadow.Report, error) {
		mustSync(t, i, shadow.Target{Documents: []shadow.Document{doc(uriA, "error\n")}})
		return i.Diagnose(context.Background(), uris)
	}
	check := func(t *testing.T, reports map[string]shadow.Report, err error, want barrier.Kind) {
		t.Helper()
		var e *barrier.Error
		if !errors.As(err, &e) || e.Kind != want || len(reports) != 0 {
			t.Errorf("%v, %v", reports, err)
		}
	}
	t.Run("silent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			i, _ := toy(t, lsptest.Rules{Signal: lsptest.Silent})
			reports, err := opened(t, i)
			check(t, reports, err, barrier.Unsupported)
		})
	})
	t.Run("silent from now on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			i, _ := toy(t, lsptest.Rules{On: []lsptest.Rule{{Method: "textDocument/didChange", Only: true}}})
			if _, err := opened(t, i); err != nil {
				t.Fatal(err)
			}
			mustSync(t, i, shadow.Target{Documents: []shadow.Document{doc(uriA, "def x\n")}})
			reports, err := i.Diagnose(context.Background(), nil)
			check(t, reports, err, barrier.Partial)
		})
	})
	t.Run("not open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			i, _ := toy(t, lsptest.Rules{Signal: lsptest.Pull})
			reports, err := opened(t, i, uriB)
			check(t, reports, err, barrier.Unsupported)
			reports, err = i.Diagnose(context.Background(), []string{uriA, uriB})
			if len(reports) != 1 || err == nil {
				t.Error(reports, err)
			}
		})
	})
	t.Run("crash", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			i, _ := toy(t, lsptest.Rules{On: []lsptest.Rule{{Method: "textDocument/didOpen", Do: []lsptest.Action{{Crash: 1}}}}})
			reports, err := opened(t, i)
			if err == nil || len(reports) != 0 {
				t.Error(reports, err)
			}
		})
	})
	t.Run("the caller's time is over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			i, _ := toy(t, lsptest.Rules{Delay: time.Hour})
			mustSync(t, i, shadow.Target{Documents: []shadow.Document{doc(uriA, "error\n")}})
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			reports, err := i.Diagnose(ctx, nil)
			check(t, reports, err, barrier.Partial)
		})
	})
	t.Run("modified meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			i, _ := toy(t, lsptest.Rules{Delay: time.Second})
			mustSync(t, i, shadow.Target{Documents: []shadow.Document{doc(uriA, "error\n")}})
			failed := make(chan error)
			go func() { _, err := i.Diagnose(context.Background(), nil); failed <- err }()
			synctest.Wait()
			mustSync(t, i, shadow.Target{Documents: []shadow.Document{doc(uriA, "def x\n")}})
			if err := <-failed; !kind(err, shadow.Superseded) {
				t.Error(err)
			}
		})
	})
}

// A pull that the server cancels is repeated; what it publishes is added.
func TestLadderPulls(t *testing.T) {
	cancelled := json.RawMessage(`{"code":-32802,"message":"again","data":{"retriggerRequest":true}}`)
	synctest.Test(t, func(t *testing.T) {
		i, server := toy(t, lsptest.Rules{Signal: lsptest.Pull, On: []lsptest.Rule{
			{Method: "textDocument/diagnostic", Nth: 1, Only: true, Do: []lsptest.Action{{Error: cancelled}}},
			{Method: "textDocument/diagnostic", Nth: 2, Only: true, Do: []lsptest.Action{{Error: cancelled}}},
		}})
		mustSync(t, i, shadow.Target{Documents: []shadow.Document{doc(uriA, "error one\n")}})
		reports, err := i.Diagnose(context.Background(), nil)
		if err != nil || !strings.Contains(string(reports[uriA].Diagnostics), "one") {
			t.Fatal(reports, err)
		}
		server.Send([]byte(`{"jsonrpc":"2.0","method":"textDocument/publishDiagnostics","params":{"uri":"file:///w/a%2Etoy","diagnostics":[{"message":"two"}]}}`))
		synctest.Wait()
		reports, err = i.Diagnose(context.Background(), nil)
		if got := string(reports[uriA].Diagnostics); err != nil || reports[uriA].Barrier != "pull+push" || !strings.Contains(got, "one") || !strings.Contains(got, "two") {
			t.Fatal(reports, err)
		}
	})
}
