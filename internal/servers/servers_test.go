package servers_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shadowlsp/internal/config"
	"shadowlsp/internal/servers"
	"shadowlsp/lsp/barrier"
)

func table(t *testing.T, text string) servers.Table {
	t.Helper()
	f, err := config.Parse([]byte(text))
	if err == nil {
		var made servers.Table
		if made, err = servers.New(f); err == nil {
			return made
		}
	}
	t.Fatal(err)
	return servers.Table{}
}

// The embedded table is whole.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, s := range table(t, "").Servers {
		if names[s.Name] {
			t.Errorf("%s is there twice", s.Name)
		}
		names[s.Name] = true
		if len(s.Command) == 0 || len(s.Languages) == 0 || s.Install == "" {
			t.Errorf("%s lacks its command, its languages or how to install it", s.Name)
		}
		if s.NeedsRoot && len(s.Roots) == 0 {
			t.Errorf("%s needs a root and names none", s.Name)
		}
		if _, err := regexp.Compile(s.CheckSays); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if p := barrier.For(s.Command, nil); !p.Unknown() && p.Name != s.Name {
			t.Errorf("%s is called %s where its barrier is", s.Name, p.Name)
		}
		for _, r := range s.Roots {
			if strings.Contains(r, "/") {
				t.Errorf("%s: %s is no name", s.Name, r)
			}
		}
	}
}

// folder makes files, and programs in bin that print what they are given.
func folder(t *testing.T, files, programs map[string]string) (root, bin string) {
	t.Helper()
	root, bin = t.TempDir(), t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		put(filepath.Join(root, name), text, 0o644)
	}
	for name, script := range programs {
		put(filepath.Join(bin, name), "#!/bin/sh\n"+script+"\n", 0o755)
	}
	return root, bin
}

func names(found []servers.Found) string {
	var all []string
	for _, f := range found {
		name := f.Name
		switch {
		case !f.Installed():
			name += " missing"
		case f.Shadowed != "":
			name += " after " + f.Shadowed
		}
		if f.Project() {
			name += "*"
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

func TestFind(t *testing.T) {
	for name, tc := range map[string]struct {
		files, programs []string
		config, want    string
	}{
		"nothing":             {nil, nil, "", ""},
		"go":                  {[]string{"go.mod", "a.go"}, []string{"gopls"}, "", "gopls*"},
		"not installed":       {[]string{"go.mod", "a.go"}, nil, "", "gopls missing*"},
		"in a folder":         {[]string{"x/y/go.mod", "x/y/a.go"}, []string{"gopls"}, "", "gopls*"},
		"fetched":             {[]string{"node_modules/x/index.js", "node_modules/x/package.json"}, []string{"vtsls"}, "", ""},
		"a makefile is no C":  {[]string{"Makefile"}, []string{"clangd"}, "", ""},
		"another name":        {[]string{"a.c"}, []string{"clangd-19"}, "", "clangd"},
		"alternatives":        {[]string{"a.ts", "package.json"}, []string{"vtsls", "typescript-language-server"}, "", "typescript-language-server*, vtsls after typescript-language-server*, typescript7 missing*, vscode-json-language-server missing"},
		"a linter beside":     {[]string{"a.js", "eslint.config.js"}, []string{"vtsls", "vscode-eslint-language-server"}, "", "eslint*, typescript-language-server missing, vtsls, typescript7 missing"},
		"its own project":     {[]string{"a.ts", "deno.json"}, []string{"vtsls", "deno"}, "", "deno*, typescript-language-server missing, vtsls after deno, typescript7 missing, vscode-json-language-server missing"},
		"disabled":            {[]string{"go.mod", "a.go"}, []string{"gopls"}, "[servers.gopls]\ndisabled = true", ""},
		"a new one":           {[]string{"a.foo"}, []string{"foo-ls"}, "[languages]\n\"*.foo\" = \"foo\"\n[servers.foo]\ncommand = [\"foo-ls\"]\nlanguages = [\"foo\"]", "foo"},
		"asked for":           {[]string{"a.py"}, []string{"pyright-langserver", "pylsp"}, "[servers.pylsp]\ncommand = [\"pylsp\", \"-v\"]", "pylsp, pyright after pylsp, basedpyright missing"},
		"a shim":              {[]string{"Cargo.toml", "a.rs"}, []string{"rust-analyzer:exit 1"}, "", "rust-analyzer missing*, taplo missing"},
		"an older compiler":   {[]string{"a.ts"}, []string{"tsc:echo Version 5.9.3"}, "", "typescript-language-server missing, vtsls missing, typescript7 missing"},
		"one with the server": {[]string{"a.ts"}, []string{"tsc:echo Version 7.0.2"}, "", "typescript-language-server missing, vtsls missing, typescript7"},
	} {
		t.Run(name, func(t *testing.T) {
			files, programs := map[string]string{}, map[string]string{}
			for _, f := range tc.files {
				files[f] = ""
			}
			for _, p := range tc.programs {
				name, script, _ := strings.Cut(p, ":")
				programs[name] = script
			}
			root, bin := folder(t, files, programs)
			if got := names(table(t, tc.config).Find(t.Context(), root, bin)); got != tc.want {
				t.Errorf("found %s\nwanted %s", got, tc.want)
			}
		})
	}
}

// A server that takes a library of the project's says where there is none.
func TestLacking(t *testing.T) {
	root, bin := folder(t, map[string]string{
		"a/eslint.config.js": "", "a/a.js": "", "a/node_modules/eslint/package.json": "", "b/eslint.config.js": "", "b/b.js": "",
	}, map[string]string{"vscode-eslint-language-server": ""})
	found := table(t, "").Find(t.Context(), root, bin)
	if len(found) == 0 || found[0].Name != "eslint" || !slices.Equal(found[0].Lacking, []string{filepath.Join(root, "b")}) {
		t.Errorf("%+v", found)
	}
}

// Projects are the uppermost folders that hold a root file.
func TestProjects(t *testing.T) {
	root, bin := folder(t, map[string]string{"b/Cargo.toml": "", "b/c/Cargo.toml": "", "a/x/Cargo.toml": "", "b/m.rs": ""}, nil)
	found := table(t, "").Find(t.Context(), root, bin)
	want := []string{filepath.Join(root, "a/x"), filepath.Join(root, "b")}
	if len(found) == 0 || strings.Join(found[0].Projects, " ") != strings.Join(want, " ") {
		t.Errorf("%+v", found)
	}
}

func TestByCommand(t *testing.T) {
	for command, want := range map[string]string{
		"/x/y/gopls -remote=auto": "gopls", "tsc --lsp --stdio": "typescript7",
		"/usr/bin/clangd-19 --log=error": "clangd", "frob": "",
		"python3 -m pylsp": "pylsp", "npx -y intelephense --stdio": "intelephense", "/x/tsc --watch": "typescript7",
	} {
		got, _ := table(t, "").ByCommand(strings.Fields(command))
		if got.Name != want {
			t.Errorf("%s is %q, not %q", command, got.Name, want)
		}
	}
}

func TestLanguage(t *testing.T) {
	made := table(t, "[languages]\n\"*.inc\" = \"php\"\n\"charts/**/*.yaml\" = \"helm\"")
	for file, want := range map[string]string{"a/b.inc": "php", "charts/x/y.yaml": "helm", "y.yaml": "yaml", "x.unknown": ""} {
		if got, _ := made.Language(file); got != want {
			t.Errorf("%s is %q, not %q", file, got, want)
		}
	}
}

// What is wrong with a configuration is named.
func TestMistakes(t *testing.T) {
	for text, says := range map[string]string{
		"[servers.frob]\nlanguages = [\"x\"]": "command and languages",
		"[languages]\n\"[\" = \"x\"":          "malformed",
	} {
		f, err := config.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := servers.New(f); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v does not say %q", text, err, says)
		}
	}
}
