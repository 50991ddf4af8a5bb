package main

import (
	"testing"

	"shadowlsp/integration/need"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole of issue 2 in one play; see play.go for what is checked.
func TestTheDemoKeepsItsPromises(t *testing.T) {
	need.View(t)
	typescript, _ := need.FindTool("typescript-language-server")
	p := play{
		typescript: typescript,
		out:        t.Output(), rounds: 5, shadowlsp: need.Shadowlsp(t),
		gopls: need.Tool(t, "gopls"), nvim: need.Tool(t, "nvim"), source: need.Source(t, "xmod"),
	}
	if err := p.run(t.Context()); err != nil {
		t.Error(err)
	}
}
