package client

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestABareServerAnswersAndEnds(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.24\n", "m.go": "package m\n\nfunc F() int { return 1 }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Start(Config{Command: []string{need.Tool(t, "gopls")}, Dir: dir, Stderr: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Initialize(t.Context(), docuri.FromPath(dir), struct{}{}, nil); err != nil {
		t.Fatal(err)
	}
	symbols, err := c.Call(t.Context(), "textDocument/documentSymbol",
		map[string]any{"textDocument": map[string]string{"uri": docuri.FromPath(filepath.Join(dir, "m.go"))}})
	if err != nil || !strings.Contains(string(symbols), `"F"`) {
		t.Errorf("symbols: %s, %v", symbols, err)
	}
	_, err = c.Call(t.Context(), "no/such", nil)
	if refused := new(wire.Error); !errors.As(err, &refused) || refused.Code != wire.CodeMethodNotFound {
		t.Errorf("an unknown method: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("the end: %v", err)
	}
}

func TestACallFailsWhenTheServerEnds(t *testing.T) {
	c, err := Start(Config{Command: []string{"sh", "-c", "read line; exit 7"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), "initialize", nil); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("got %v", err)
	}
	if err := c.Close(); err == nil {
		t.Error("a status of 7 is no good end")
	}
}
