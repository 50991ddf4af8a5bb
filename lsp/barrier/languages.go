package barrier

// commonLanguages are LSP's language ids for files whose server has no profile.
// What an editor said about a file counts more; the caller knows that.
var commonLanguages = []Language{
	{"Dockerfile", "dockerfile"}, {"Makefile", "makefile"}, {"CMakeLists.txt", "cmake"},
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
	{".vue", "vue"}, {".svelte", "svelte"}, {".html", "html"}, {".htm", "html"},
	{".css", "css"}, {".scss", "scss"}, {".sass", "sass"}, {".less", "less"},
	{".json", "json"}, {".jsonc", "jsonc"}, {".yaml", "yaml"}, {".yml", "yaml"}, {".toml", "toml"},
	{".xml", "xml"}, {".md", "markdown"}, {".tex", "latex"}, {".sql", "sql"}, {".proto", "proto"},
	{".f", "fortran"}, {".f90", "fortran"}, {".tf", "terraform"}, {".cmake", "cmake"}, {".graphql", "graphql"},
}
