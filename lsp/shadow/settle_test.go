package shadow_test

import (
	"fmt"
	"strings"
	"testing"

	"shadowlsp/lsp/wire"
)

// hover asks for a hover, as an agent does.
func (m *module) hover(name string, line, character int) string {
	m.Helper()
	q, err := wire.Parse(wire.NewRequest([]byte("1"), "textDocument/hover", map[string]any{
		"textDocument": map[string]any{"uri": m.uri(name)}, "position": map[string]any{"line": line, "character": character},
	}))
	if err != nil {
		m.Fatal(err)
	}
	answer, err := m.gopls.Forward(within(m), q, nil)
	if err != nil {
		m.Fatal(err)
	}
	return fmt.Sprintf("%s%s", answer.Result, answer.Error)
}

// A request right behind a turn's beginning, without a lint before it, is answered
// from what is on the disk now.
func TestRequestsBehindTheDisk(t *testing.T) {
	t.Run("rust-analyzer", func(t *testing.T) {
		m := rustProject(t, twoCrates())
		alternate(m, "lib/src/lib.rs", "app/src/main.rs", 1, 22, map[string]string{"n: i32": rustLib, "s: String": rustLibString})
	})
	t.Run("clangd", func(t *testing.T) {
		m := cProject(t)
		alternate(m, "lib.h", "b.c", 2, 21, map[string]string{"int n": cHeader, "int *n": cHeaderString})
	})
}

// alternate edits a file, by document or on the disk alone, and looks at its use.
func alternate(m *module, edited, use string, line, character int, texts map[string]string) {
	m.Helper()
	m.docs[use] = m.disk[use]
	for n := range 6 {
		for want, text := range texts {
			m.put(edited, text)
			m.age(edited, 2*n+len(want)%2+1)
			if delete(m.docs, edited); n%2 == 1 {
				m.docs[edited] = text
			}
			m.sync()
			if got := m.hover(use, line, character); !strings.Contains(got, want) {
				m.Fatalf("round %d: %s, want %s", n, got, want)
			}
		}
	}
}
