package barrier

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
)

// The servers of vscode-langservers-extracted 4.10.0 answer a pull from the
// document alone, in order with its changes (node/…Main.js,
// registerDiagnosticsPullSupport: validateTextDocument is called for the text as
// it is then), if the client declares it; to others they publish half a second
// later without a version. So they are made to be asked: the ladder's highest
// rung. To who pulls they publish nothing.
//
// Where a check fails they log that it did and answer as if there were nothing
// (runSafeAsync, validateTextDocument). The log comes first. Settings make them
// fail: where there are none for "css", and in the html server where there are
// some for "js/ts" without "implicitProjectConfig".

// pulled has a server told that it will be asked for diagnostics.
var pulled = Edit{
	Path: []string{"capabilities", "textDocument", "diagnostic"}, Keep: true,
	Value: json.RawMessage(`{"dynamicRegistration":false,"relatedDocumentSupport":false,"relatedInformation":true,"tagSupport":{"valueSet":[1,2]},"codeDescriptionSupport":true,"dataSupport":true}`),
}

func webServer(command string, languages ...Language) Profile {
	return Profile{
		Name: command, Commands: []string{command}, Languages: languages,
		Initialize: []Edit{pulled}, OpenOnly: true, AllFiles: true,
		New: func(h Host) Barrier { return &webBarrier{ladder: newLadder(h), server: command} },
	}
}

// webBarrier is the ladder, for a server that says in its log that it failed.
type webBarrier struct {
	*ladder
	server string

	failed watch // guards the fields below
	last   string
	count  int
}

// webFailure is what they log where the check itself or what is around it fails.
var webFailure = regexp.MustCompile(`Error while (computing diagnostics|validating)`)

// Observe implements Barrier.
func (w *webBarrier) Observe(e Event) {
	if text := logged(e); webFailure.MatchString(text) {
		w.failed.update(func() { w.last, w.count = text, w.count+1 })
	}
	w.ladder.Observe(e)
}

// Final implements Barrier.
func (w *webBarrier) Final(ctx context.Context, uris []string) (Result, error) {
	before, _ := w.failures()
	r, err := w.ladder.Final(ctx, uris)
	if after, last := w.failures(); after != before {
		return Result{}, wrap(w.server, "final", fmt.Errorf("its check failed: %.300s", last))
	}
	return r, err
}

func (w *webBarrier) failures() (count int, last string) {
	w.failed.view(func() { count, last = w.count, w.last })
	return count, last
}

// webJSON reads schemas from the disk, and forgets what it knows of one that has
// changed while it handles the news (didChangeWatchedFiles, resetSchema). Those
// of the network are an error, as without one.
func webJSON() Profile {
	return webServer("vscode-json-language-server",
		Language{"tsconfig.json", "jsonc"}, Language{"jsconfig.json", "jsonc"}, Language{".eslintrc", "jsonc"},
		Language{".json", "json"}, Language{".jsonc", "jsonc"})
}

func webCSS() Profile {
	p := webServer("vscode-css-language-server",
		Language{".css", "css"}, Language{".scss", "scss"}, Language{".less", "less"})
	p.Unset = unset("css", "scss", "less")
	return p
}

func webHTML() Profile {
	p := webServer("vscode-html-language-server", Language{".html", "html"}, Language{".htm", "html"})
	p.Unset = unset("css", "html", "javascript")
	return p
}

// unset are empty settings for sections.
func unset(sections ...string) map[string]json.RawMessage {
	empty := make(map[string]json.RawMessage)
	for _, name := range sections {
		empty[name] = Raw(struct{}{})
	}
	return empty
}
