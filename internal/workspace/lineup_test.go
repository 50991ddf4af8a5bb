package workspace

import (
	"encoding/json"
	"strings"
	"testing"

	"shadowlsp/internal/config"
	"shadowlsp/internal/servers"
)

// line describes candidates "SOURCE COMMAND[ LANGUAGE…]", one per element.
func line(t *testing.T, all ...string) []candidate {
	t.Helper()
	table, err := servers.New(config.File{})
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]source{"attached": attached, "named": named, "remembered": remembered, "detected": detected}
	var made []candidate
	for _, text := range all {
		words := strings.Fields(text)
		made = append(made, newCandidate(learnt{Command: words[1:2], Languages: words[2:]}, sources[words[0]], table, &knowledge{}))
	}
	return lineup(made)
}

func commands(line []candidate) string {
	var names []string
	for _, c := range line {
		names = append(names, c.Command[0])
	}
	return strings.Join(names, " ")
}

func TestLineup(t *testing.T) {
	for name, tc := range map[string]struct {
		all  []string
		want string
	}{
		"by source":                          {[]string{"detected clangd", "remembered pyright-langserver", "attached gopls"}, "gopls pyright-langserver clangd"},
		"one that runs over one that did":    {[]string{"remembered vtsls", "attached typescript-language-server"}, "typescript-language-server"},
		"the last that ran":                  {[]string{"remembered vtsls", "remembered typescript-language-server"}, "vtsls"},
		"both that run":                      {[]string{"attached pylsp python", "attached pyright-langserver"}, "pylsp pyright-langserver"},
		"a linter beside":                    {[]string{"attached vtsls", "detected vscode-eslint-language-server"}, "vtsls vscode-eslint-language-server"},
		"the same, found and named":          {[]string{"detected /x/gopls", "named gopls"}, "gopls"},
		"unknown takes all, for all we know": {[]string{"named frob", "detected gopls"}, "frob"},
		"unknown, but seen":                  {[]string{"attached frob frob", "detected gopls"}, "frob gopls"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := commands(line(t, tc.all...)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestForLanguage(t *testing.T) {
	all := line(t, "attached gopls", "attached pylsp python", "attached pyright-langserver", "attached frob", "detected vscode-eslint-language-server", "detected vtsls")
	for language, want := range map[string]string{
		"go": "gopls", "python": "pylsp pyright-langserver", "typescript": "frob", "": "frob", "cobol": "frob",
	} {
		if got := commands(forLanguage(all, language)); got != want {
			t.Errorf("%q is for %s, not %s", language, got, want)
		}
	}
}

func TestStemWords(t *testing.T) {
	for file, text := range map[string]string{
		"src/shape.ts": "import './shape'", "src/part/index.ts": "from './part'", "a/__init__.py": "import a.b", "inc/my-list.h": "#include \"my-list.h\"",
		"src/geo/mod.rs": "use crate::geo;", "x/foo.service.ts": "from './foo.service'",
	} {
		if !wordsOf(text).mention(stemWords(file)) {
			t.Errorf("%q does not mention %s", text, file)
		}
	}
	if wordsOf("import './shaped'").mention(stemWords("shape.ts")) {
		t.Error("a part of a word is a mention")
	}
	if stemWords("main.py") != nil {
		t.Error("a name that says nothing, at the root")
	}
}

func TestFoldersMoved(t *testing.T) {
	params := func(names ...string) json.RawMessage {
		folders := []map[string]string{}
		for _, n := range names {
			folders = append(folders, map[string]string{"uri": "file:///" + n, "name": n})
		}
		raw, err := json.Marshal(map[string]any{"workspaceFolders": folders})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if got := foldersMoved(params("a", "b"), params("a", "b")); got != nil {
		t.Errorf("nothing moved: %s", got)
	}
	moved := foldersMoved(params("a", "b"), params("b", "c"))
	if want := `{"event":{"added":[{"name":"c","uri":"file:///c"}],"removed":[{"name":"a","uri":"file:///a"}]}}`; string(moved) != want {
		t.Errorf("got %s", moved)
	}
	if got := withFolders(params("a", "b"), moved); foldersMoved(got, params("b", "c")) != nil {
		t.Errorf("folders are %s", got)
	}
}

func TestSetting(t *testing.T) {
	l := learnt{
		Settings: json.RawMessage(`{"settings":{"a":{"b":1},"c":null}}`),
		Defaults: json.RawMessage(`{"a":{"b":2,"d":3}}`),
	}
	for section, want := range map[string]string{"a.b": "1", "a": `{"b":1}`, "a.d": "3", "x": "null", "": `{"a":{"b":1},"c":null}`} {
		if got := string(l.setting(section)); got != want {
			t.Errorf("%q is %s, not %s", section, got, want)
		}
	}
	if got := string((learnt{Defaults: l.Defaults}).setting("")); got != string(l.Defaults) {
		t.Errorf("all defaults are %s", got)
	}
}
