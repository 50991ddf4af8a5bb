package commands

import (
	"context"
	"strings"
	"testing"

	"shadowlsp/integration/need"
)

// A development server in a branch: an agent's LSP edit, which no program in the
// branch makes, reaches its watcher, and it serves the new text.
func TestHotReload(t *testing.T) {
	if need.Again() {
		t.Skip("Vite is where root keeps it; root runs this test")
	}
	vite := need.Tool(t, "vite")
	w := newWorld(t)
	if out, code := w.in(t, "web", `mkdir src && echo '<script type="module" src="/src/main.js"></script>' >index.html &&
echo 'import { text } from "./text.js"; document.body.append(text); if (import.meta.hot) import.meta.hot.accept()' >src/main.js && echo 'export const text = "before"' >src/text.js && echo '{"type":"module"}' >package.json`); code != 0 {
		t.Fatal(out)
	}
	cmd := w.command(w.binary, "exec", "--branch", "web", "--", vite, "--port", "5173", "--strictPort", "--host", "127.0.0.1", "--clearScreen", "false")
	cmd.Env = append(cmd.Env, "NO_COLOR=1")
	out := start(t, cmd)
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	out.until(t, "5173")
	fetch := func(path string) string {
		text, _ := w.in(t, "web", `python3 -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:5173`+path+`').read().decode())"`)
		return text
	}
	fetch("/src/main.js") // what has not been asked for is not reloaded
	if got := fetch("/src/text.js"); !strings.Contains(got, "before") {
		t.Fatalf("served: %s", got)
	}
	a := w.agent(t, w.binary, "connect", "--branch", "web", "--", "gopls")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, word := range []string{"first", "second"} {
		out.text = nil
		_, err := a.Call(ctx, "shadowlsp/write", map[string]any{"edits": []any{map[string]any{"uri": w.uri("src/text.js"), "text": "export const text = \"" + word + "\"\n"}}})
		must(t, err)
		out.until(t, "hmr update")
		if got := fetch("/src/text.js"); !strings.Contains(got, word) {
			t.Errorf("served after the edit %q: %s", word, got)
		}
	}
}
