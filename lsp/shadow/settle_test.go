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
	return m.forward("textDocument/hover", map[string]any{
		"textDocument": map[string]any{"uri": m.uri(name)}, "position": map[string]any{"line": line, "character": character},
	})
}

// forward returns the answer to a request of an agent's.
func (m *module) forward(method string, params any) string {
	m.Helper()
	q, err := wire.Parse(wire.NewRequest([]byte("1"), method, params))
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

// Files that come and go while the server is about to look for those that came
// before: the next list that it makes may be either's.
func TestPyrightListsFilesAnew(t *testing.T) {
	each(t, pyrights, func(t *testing.T, command []string) {
		const lib = "def f(a):\n    return a\n"
		m := newProject(t, command, map[string]string{"lib.py": lib})
		m.docs["lib.py"] = lib
		users := map[string]bool{}
		for n := range 12 {
			for i := range 1 + n%3 {
				name := fmt.Sprintf("use%d.py", (n+3*i)%7)
				if users[name] = !users[name]; users[name] {
					m.put(name, "from lib import f\n\nprint(f(2))\n")
				} else {
					m.put(name, "")
				}
				m.docs["lib.py"] = lib + strings.Repeat("\n", n+i) // puts the list off
				m.sync()
			}
			if n%4 == 3 {
				// It is gone again before the server looks.
				m.put("passing.py", "x = 1\n")
				m.put("passing.py", "")
				m.sync()
			}
			found := m.forward("textDocument/references", map[string]any{
				"textDocument": map[string]any{"uri": m.uri("lib.py")}, "position": map[string]any{"line": 0, "character": 4},
				"context": map[string]any{"includeDeclaration": true},
			})
			for name, there := range users {
				if strings.Contains(found, name) != there {
					t.Fatalf("round %d: %s is there: %v, but: %s", n, name, there, found)
				}
			}
		}
	})
}
