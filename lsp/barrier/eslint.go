package barrier

import (
	"context"
	"encoding/json"
	"fmt"
)

// eslint is the profile of the ESLint server of vscode-langservers-extracted 4.10.0,
// which is VS Code's. A pull checks the document as it is when the check begins, in
// order with its changes (eslintServer.js, diagnostics.on: validate). What a check
// reads besides is not: a plugin, or a file that a configuration imports, is loaded
// once by node and then stays what it was; so do package.json, for how modules are
// loaded, and what a configuration reads while it is evaluated, which happens once for
// each time of the file. Plugins keep more (types, what modules export). So where
// anything changes that the process has looked at another one answers (Remembers).
//
// Where the check fails, or the configuration is wrong, the answer is empty; that it
// was so comes before it, as eslint/status. Without ESLint in the project's
// node_modules it has nothing to say of any document: that is what it is worth in
// such a project, and no error.
func eslint() Profile {
	return Profile{
		Name: "eslint", Commands: []string{"vscode-eslint-language-server"}, Executes: "eslint.applySingleFix",
		Languages: []Language{
			{".js", "javascript"}, {".mjs", "javascript"}, {".cjs", "javascript"}, {".jsx", "javascriptreact"},
			{".ts", "typescript"}, {".mts", "typescript"}, {".cts", "typescript"}, {".tsx", "typescriptreact"},
			{".vue", "vue"}, {".svelte", "svelte"},
		},
		Initialize: []Edit{pulled},
		OpenOnly:   true, AllFiles: true, Remembers: true,
		New: func(h Host) Barrier { return &eslintBarrier{ladder: newLadder(h)} },
	}
}

// eslintBarrier is the ladder, for a server that says that it failed.
type eslintBarrier struct {
	*ladder

	failed watch // guards the fields below
	uri    string
	count  int
}

// eslintOK is the state of eslint/status where the check was made.
const eslintOK = 1

// Observe implements Barrier.
func (l *eslintBarrier) Observe(e Event) {
	if !e.Sent && e.Msg.Method == "eslint/status" {
		var status struct {
			URI   string
			State int
		}
		if json.Unmarshal(e.Msg.Params, &status) == nil && status.State != eslintOK {
			l.failed.update(func() { l.uri, l.count = status.URI, l.count+1 })
		}
	}
	l.ladder.Observe(e)
}

// Final implements Barrier.
func (l *eslintBarrier) Final(ctx context.Context, uris []string) (Result, error) {
	var before, after int
	var uri string
	l.failed.view(func() { before = l.count })
	r, err := l.ladder.Final(ctx, uris)
	l.failed.view(func() { after, uri = l.count, l.uri })
	if after != before {
		return Result{}, wrap("eslint", "final", kinded(LoadFailed, fmt.Errorf("the check of %s failed (mostly a configuration file is wrong: the server's messages say)", uri)))
	}
	return r, err
}
