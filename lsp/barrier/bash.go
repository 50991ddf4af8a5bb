package barrier

import (
	"context"
	"encoding/json"
	"path"
	"regexp"
	"strings"
)

// bash is the profile of bash-language-server. Final is the publish with the
// version of the text that was sent last: a text is checked by shellcheck half a
// second after it came, a newer one cancels that without a publish (5.8.1,
// server.js, analyzeAndLintDocument; shellcheck/index.js, lint), and the version
// is that of the text. Before it has its settings it checks one document only.
//
// shellcheck reads the files that a script sources from the disk, whatever is
// open, and its own settings. So scripts that source any are checked again when
// any file has changed.
//
// What it finds in other files it has from when they were documents last, or when it
// read all scripts of the folder, once, behind its settings (analyser.js,
// initiateBackgroundAnalysis). Its log says when that begins and ends; its other
// requests wait for the end.
//
// A shellcheck that takes longer than the server allows leaves no publish; then
// there is an error, in place of the silence.
func bash() Profile {
	return Profile{
		Name:     "bash-language-server",
		Commands: []string{"bash-language-server"},
		Languages: []Language{
			{".sh", "shellscript"}, {".bash", "shellscript"}, {".bats", "shellscript"}, {".inc", "shellscript"},
			{".command", "shellscript"}, {".ksh", "shellscript"}, {".zsh", "shellscript"},
			{".bashrc", "shellscript"}, {".bash_profile", "shellscript"}, {".profile", "shellscript"},
			{"PKGBUILD", "shellscript"}, {".ebuild", "shellscript"},
		},
		OpenOnly: true,
		Lingers:  true,
		Scans:    true,
		Settings: Settings{
			Section: "bashIde", Nested: true,
			Options: []Option{{Name: "logLevel", Value: Raw("info"), Keep: []json.RawMessage{Raw("debug")}, Present: true}},
		},
		New: func(h Host) Barrier {
			return &bashBarrier{settledBarrier: newSettled(h, "bash-language-server", settledProof{name: rungVersioned, versions: true, reads: bashReads})}
		},
	}
}

// bashBarrier knows of its reading of all scripts besides.
type bashBarrier struct {
	*settledBarrier
	reading bool // it has said that it begins, and not that it is done
}

// Observe implements Barrier.
func (b *bashBarrier) Observe(e Event) {
	b.settledBarrier.Observe(e)
	_, what, _ := strings.Cut(logged(e), "BackgroundAnalysis: ")
	switch {
	case strings.HasPrefix(what, "resolving"):
		b.watch.update(func() { b.reading = true })
	case strings.HasPrefix(what, "Completed"), strings.HasPrefix(what, "stopped after"), strings.HasPrefix(what, "failed"):
		b.watch.update(func() { b.reading = false })
	}
}

// Ready implements Barrier. What it reads when it starts is what the disk shows then.
func (b *bashBarrier) Ready(ctx context.Context) error {
	if err := b.settledBarrier.Ready(ctx); err != nil {
		return err
	}
	return b.read(ctx, "ready")
}

// Settle implements Settler.
func (b *bashBarrier) Settle(ctx context.Context) error { return b.read(ctx, "settle") }

// read returns when it is not reading. One that it has been told to begin has been
// announced when a request that was sent later is answered; settings are behind two.
func (b *bashBarrier) read(ctx context.Context, op string) error {
	if err := b.reconfigured(ctx); err != nil {
		return wrap(b.server, op, err)
	}
	return wrap(b.server, op, b.watch.await(ctx, b.host.Done(), func() (bool, error) { return !b.reading, nil }))
}

// bashSources finds commands and directives that name another file.
var bashSources = regexp.MustCompile(`(?m)(^|[\s;&|({` + "`" + `])(source|\.)\s|shellcheck\s+source`)

func bashReads(d Document, file string) bool {
	switch path.Base(file) {
	case ".shellcheckrc", "shellcheckrc":
		return true
	}
	return bashSources.MatchString(d.Text)
}
