package barrier

import (
	"path"
	"regexp"
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
		New: func(h Host) Barrier {
			return newSettled(h, "bash-language-server", settledProof{name: rungVersioned, versions: true, reads: bashReads})
		},
	}
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
