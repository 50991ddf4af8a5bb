package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Commands run in several branches at once while a language server serves these
// branches: each lint is of what its own branch's commands wrote last.
func TestMeanwhile(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var all sync.WaitGroup
	failed := make(chan error, 3)
	for n := range 3 {
		a := w.agent(t, w.binary, "connect", "--branch", fmt.Sprint("m", n), "--", "gopls")
		all.Go(func() {
			for i := range 4 {
				word := fmt.Sprintf("word%d_%d", n, i)
				// A reader that never rests goes on beside the edit.
				r, err := a.run(ctx, map[string]any{"command": "find . | xargs cat >/dev/null 2>&1 & printf 'package lib\\n\\nvar _ = " + word + "\\n' >lib/more.go; wait; grep -c " + word + " lib/more.go"})
				if err == nil && r.ExitCode != 0 {
					err = errors.New("the command's own reading found another text")
				}
				var raw []byte
				if err == nil {
					raw, err = a.Call(ctx, "shadowlsp/lint", map[string]any{"uris": []string{w.uri("lib/more.go")}})
				}
				if err == nil && !strings.Contains(string(raw), "undefined: "+word+"\"") {
					err = fmt.Errorf("%s: %s", word, raw)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
}
