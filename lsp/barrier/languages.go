package barrier

import (
	"path"
	"slices"
	"strings"
)

// commonLanguages are LSP's language ids for files whose server has no profile.
// What an editor said about a file counts more; the caller knows that.
var commonLanguages = []Language{
	{"Dockerfile", "dockerfile"}, {"Containerfile", "dockerfile"}, {".dockerfile", "dockerfile"},
	{"Makefile", "makefile"}, {"GNUmakefile", "makefile"}, {"makefile", "makefile"}, {"CMakeLists.txt", "cmake"},
	{".bashrc", "shellscript"}, {".bash_profile", "shellscript"}, {".profile", "shellscript"}, {"PKGBUILD", "shellscript"},
	{"Gemfile", "ruby"}, {"Rakefile", "ruby"}, {"Cargo.lock", "toml"}, {"flake.lock", "json"},
	{"tsconfig.json", "jsonc"}, {"jsconfig.json", "jsonc"}, {".eslintrc", "jsonc"}, {".babelrc", "jsonc"},
	{".go", "go"}, {"go.mod", "go.mod"}, {"go.sum", "go.sum"}, {"go.work", "go.work"},
	{".rs", "rust"}, {".zig", "zig"}, {".swift", "swift"}, {".d", "d"},
	{".c", "c"}, {".h", "c"}, {".cc", "cpp"}, {".cpp", "cpp"}, {".cxx", "cpp"},
	{".hh", "cpp"}, {".hpp", "cpp"}, {".hxx", "cpp"}, {".m", "objective-c"}, {".mm", "objective-cpp"},
	{".cs", "csharp"}, {".fs", "fsharp"}, {".vb", "vb"},
	{".java", "java"}, {".kt", "kotlin"}, {".kts", "kotlin"}, {".scala", "scala"}, {".groovy", "groovy"},
	{".clj", "clojure"}, {".ex", "elixir"}, {".exs", "elixir"}, {".erl", "erlang"}, {".hs", "haskell"},
	{".ml", "ocaml"}, {".mli", "ocaml"}, {".elm", "elm"}, {".dart", "dart"}, {".jl", "julia"}, {".nix", "nix"},
	{".py", "python"}, {".pyi", "python"}, {".rb", "ruby"}, {".php", "php"}, {".pl", "perl"}, {".pm", "perl"},
	{".lua", "lua"}, {".r", "r"}, {".R", "r"}, {".sh", "shellscript"}, {".bash", "shellscript"}, {".ps1", "powershell"},
	{".ts", "typescript"}, {".mts", "typescript"}, {".cts", "typescript"}, {".tsx", "typescriptreact"},
	{".js", "javascript"}, {".mjs", "javascript"}, {".cjs", "javascript"}, {".jsx", "javascriptreact"},
	{".cu", "cuda-cpp"}, {".cuh", "cuda-cpp"}, {".ksh", "shellscript"}, {".bats", "shellscript"}, {".pyw", "python"},
	{".tmpl", "gotmpl"}, {".gotmpl", "gotmpl"}, {".gohtml", "gotmpl"}, {".vue", "vue"}, {".svelte", "svelte"}, {".html", "html"}, {".htm", "html"},
	{".css", "css"}, {".scss", "scss"}, {".sass", "sass"}, {".less", "less"},
	{".json", "json"}, {".jsonc", "jsonc"}, {".yaml", "yaml"}, {".yml", "yaml"}, {".toml", "toml"},
	{".xml", "xml"}, {".md", "markdown"}, {".tex", "latex"}, {".sql", "sql"}, {".proto", "proto"},
	{".f", "fortran"}, {".f90", "fortran"}, {".tf", "terraform"}, {".cmake", "cmake"}, {".graphql", "graphql"},
}

// LanguageOf returns LSP's language id of a file by its name.
func LanguageOf(file string) (id string, ok bool) {
	return Profile{Languages: commonLanguages}.Language(file)
}

// interpreters are the languages of scripts by the program that runs them.
var interpreters = map[string]string{
	"sh": "shellscript", "bash": "shellscript", "dash": "shellscript", "ksh": "shellscript", "zsh": "shellscript",
	"python": "python", "python2": "python", "python3": "python", "node": "javascript", "deno": "typescript",
	"ruby": "ruby", "perl": "perl", "php": "php", "lua": "lua", "Rscript": "r", "make": "makefile",
}

// LanguageOfScript returns the language id of a text that begins with "#!".
func LanguageOfScript(text string) (id string, ok bool) {
	line, _, _ := strings.Cut(text, "\n")
	rest, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return "", false
	}
	for n, word := range strings.Fields(rest) {
		program := path.Base(word)
		if n == 0 && program != "env" || n > 0 && !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			if id, ok = interpreters[program]; !ok {
				id, ok = interpreters[strings.TrimRight(program, ".0123456789")] // python3.12
			}
			return id, ok
		}
	}
	return "", false
}

// Takes says whether the server takes documents of a language id.
func (p Profile) Takes(language string) bool {
	return slices.ContainsFunc(p.Languages, func(l Language) bool { return l.ID == language })
}

// Unknown says that nothing is known of the server.
func (p Profile) Unknown() bool { return p.Name == unknown }

// Named returns the profile of a server that has none of its own but is known by
// name, with the files of its languages; those of other servers stay as they are.
func (p Profile) Named(name string, languages []string) Profile {
	if !p.Unknown() || len(languages) == 0 {
		return p
	}
	p.Name, p.Languages = name, nil
	for _, l := range commonLanguages {
		if slices.Contains(languages, l.ID) {
			p.Languages = append(p.Languages, l)
		}
	}
	for _, id := range languages {
		if !p.Takes(id) {
			p.Languages = append(p.Languages, Language{ID: id}) // of no file by its name
		}
	}
	return p
}

// unknown is the name of the profile of servers that nothing is known of.
const unknown = "generic"
