package barrier

import (
	"bytes"
	"encoding/json"
	"strings"
)

// tsDiagnostic is a diagnostic as tsserver answers it (protocol.d.ts).
type tsDiagnostic struct {
	Start, End         tsPosition
	Text               string
	Code               json.RawMessage
	Category           string
	ReportsUnnecessary bool
	ReportsDeprecated  bool
	Source             string
	RelatedInformation *[]struct {
		Message string
		Span    *struct {
			File       string
			Start, End tsPosition
		}
	}
}

// tsPosition counts from 1.
type tsPosition struct{ Line, Offset int }

// kinds of tsserver's diagnostics, in the order in which both servers publish
// them: each keeps one list per kind, in the order of a Map's first insertions
// or by name, and geterr reports them in this order.
var tsKinds = []string{"syntactic", "semantic", "suggestion"}

const tsSuggestion = "suggestion"

// LSP's severities and tags.
const (
	severityError       = 1
	severityWarning     = 2
	severityHint        = 4
	tagUnnecessary      = 1
	tagDeprecated       = 2
	categoryError       = "error"
	categoryWarning     = "warning"
	categorySuggestion  = "suggestion"
	defaultSource       = "typescript" // typescript-language-server's
	defaultSourceVtsls  = "ts"
	settingIgnoredCodes = "diagnostics.ignoredCodes"
)

// tsStyleChecks are the codes of errors that vtsls shows as warnings
// (styleCheckDiagnostics in typescriptServiceClientHost).
var tsStyleChecks = map[string]bool{
	"6196": true, "6133": true, "6138": true, "6192": true, "7027": true, "7028": true, "7029": true, "7030": true,
}

// tsDialect is how a server turns tsserver's diagnostics into its own.
type tsDialect struct {
	name string
	// keeps says whether a diagnostic is published at all; lsp is its form.
	keeps func(tsView, string, tsDiagnostic) bool
	lsp   func(tsView, tsDiagnostic) any
	// silent says that nothing of a language is published.
	silent func(v tsView, language string) bool
	// whole says that didChangeConfiguration replaces all settings, in place of
	// adding to them.
	whole bool
	// restart is the command that starts tsserver anew; "" for none.
	restart string
}

// tsView is what the form of a diagnostic depends on beside itself.
type tsView struct {
	settings    map[string]any
	tags        bool // the client declared tagSupport
	suggestions bool // tsserver's preferences leave them on
	language    string
}

// typescriptDialect is that of typescript-language-server 5.3.0: toDiagnostic,
// asRelatedInformation and DiagnosticsManager in lib/cli.mjs.
var typescriptDialect = tsDialect{
	name:  "typescript-language-server",
	whole: true,
	keeps: func(v tsView, kind string, d tsDiagnostic) bool {
		if kind == tsSuggestion && !v.suggestions {
			return false
		}
		ignored, _ := setting(v.settings, settingIgnoredCodes).([]any)
		for _, code := range ignored {
			if string(Raw(code)) == string(d.Code) {
				return false
			}
		}
		return true
	},
	silent: func(tsView, string) bool { return false },
	lsp: func(v tsView, d tsDiagnostic) any {
		type diagnostic struct {
			Range    lspRange        `json:"range"`
			Message  string          `json:"message"`
			Severity int             `json:"severity"`
			Code     json.RawMessage `json:"code,omitempty"`
			Source   string          `json:"source"`
			Related  *[]related      `json:"relatedInformation,omitempty"`
			Tags     *[]int          `json:"tags,omitempty"`
		}
		p := diagnostic{
			Range: d.lspRange(), Message: d.Text, Severity: tsSeverity(d.Category), Code: d.Code,
			Source: orElse(d.Source, defaultSource), Related: d.related(),
		}
		if v.tags {
			tags := d.tags()
			p.Tags = &tags
		}
		return p
	},
}

// vtslsDialect is that of vtsls 0.3.0: tsDiagnosticToVsDiagnostic,
// LanguageProvider.diagnosticsReceived, FileDiagnostics.getAllDiagnostics and
// convertDiagnosticToLsp in @vtsls/language-service.
var vtslsDialect = tsDialect{
	name:    "vtsls",
	restart: "typescript.restartTsServer",
	keeps: func(v tsView, kind string, d tsDiagnostic) bool {
		id := tsLanguage(v.language)
		hint := tsSeverity(d.Category) == severityHint
		if hint && (d.ReportsUnnecessary && !isOn(v.settings, id+".showUnused") ||
			d.ReportsDeprecated && !isOn(v.settings, id+".showDeprecated")) {
			return false
		}
		return kind != tsSuggestion || isOn(v.settings, id+".suggestionActions.enabled") ||
			d.ReportsUnnecessary || d.ReportsDeprecated
	},
	silent: func(v tsView, language string) bool {
		return !isOn(v.settings, tsLanguage(language)+".validate.enable")
	},
	lsp: func(v tsView, d tsDiagnostic) any {
		type diagnostic struct {
			Range    lspRange        `json:"range"`
			Message  string          `json:"message"`
			Code     json.RawMessage `json:"code,omitempty"`
			Source   string          `json:"source"`
			Severity int             `json:"severity"`
			Related  *[]related      `json:"relatedInformation,omitempty"`
			Tags     []int           `json:"tags,omitempty"`
		}
		p := diagnostic{
			Range: d.lspRange(), Message: d.Text, Source: orElse(d.Source, defaultSourceVtsls),
			Severity: tsSeverity(d.Category), Related: d.related(), Tags: d.tags(),
		}
		if tsStyleChecks[string(d.Code)] && p.Severity == severityError && d.Category == categoryError &&
			isOn(v.settings, "typescript.reportStyleChecksAsWarnings") {
			p.Severity = severityWarning
		}
		if string(d.Code) != "0" {
			p.Code = d.Code
		}
		return p
	},
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// tsLanguage is the section of settings for a language id.
func tsLanguage(id string) string {
	if strings.HasPrefix(id, "javascript") {
		return "javascript"
	}
	return "typescript"
}

func tsSeverity(category string) int {
	switch category {
	case categoryWarning:
		return severityWarning
	case categorySuggestion:
		return severityHint
	}
	return severityError
}

// lspRange is LSP's Range.
type lspRange struct {
	Start lspPosition `json:"start"`
	End   lspPosition `json:"end"`
}

type lspPosition struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

func (p tsPosition) lsp() lspPosition { return lspPosition{max(p.Line-1, 0), max(p.Offset-1, 0)} }

func (d tsDiagnostic) lspRange() lspRange { return lspRange{d.Start.lsp(), d.End.lsp()} }

func (d tsDiagnostic) tags() []int {
	tags := []int{}
	if d.ReportsUnnecessary {
		tags = append(tags, tagUnnecessary)
	}
	if d.ReportsDeprecated {
		tags = append(tags, tagDeprecated)
	}
	return tags
}

// related is LSP's DiagnosticRelatedInformation.
type related struct {
	Location struct {
		URI   string   `json:"uri"`
		Range lspRange `json:"range"`
	} `json:"location"`
	Message string `json:"message"`
}

// related keeps the entries that have a place, as both servers do.
func (d tsDiagnostic) related() *[]related {
	if d.RelatedInformation == nil {
		return nil
	}
	all := []related{}
	for _, info := range *d.RelatedInformation {
		if info.Span == nil {
			continue
		}
		var r related
		r.Message = info.Message
		r.Location.URI = vscodeURI(info.Span.File)
		r.Location.Range = lspRange{info.Span.Start.lsp(), info.Span.End.lsp()}
		all = append(all, r)
	}
	return &all
}

// vscodeURI is a file's URI as the package vscode-uri spells it: all but letters,
// digits and -._~/ is percent-encoded.
func vscodeURI(path string) string {
	const plain = "-._~/"
	var b strings.Builder
	b.WriteString("file://")
	for i := range len(path) {
		c := path[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		const hex = "0123456789ABCDEF"
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// setting looks a dotted name up in settings.
func setting(settings map[string]any, name string) any {
	var at any = settings
	for part := range strings.SplitSeq(name, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[part]
	}
	return at
}

// isOn reads a boolean that is true where nobody says otherwise.
func isOn(settings map[string]any, name string) bool {
	on, ok := setting(settings, name).(bool)
	return on || !ok
}

// merged adds newer settings to older ones, as vtsls does.
func merged(old, newer any) any {
	from, ok := newer.(map[string]any)
	into, isObject := old.(map[string]any)
	if !ok || !isObject {
		return newer
	}
	for name, value := range from {
		into[name] = merged(into[name], value)
	}
	return into
}

// encoded is JSON that says < where < is meant.
func encoded(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
