package main

// clangdServer works in C: headers are edited as much as what includes them.
var clangdServer = Server{
	Name: "clangd", Command: []string{"clangd"}, OpenAsked: true,
	Env: []string{"XDG_CACHE_HOME={cache}"},
	Project: Project{
		Source: "zstd", Keep: []string{"*.c", "*.h"},
		Files: map[string]string{"compile_flags.txt": "-std=c11\n-Wall\n-Wextra\n-DZSTD_MULTITHREAD=1\n-DZSTD_LEGACY_SUPPORT=4\n", ".gitignore": ".cache\n"},
	},
	Small: &Project{
		Source: "zstd", Keep: []string{"{fse,huf,entropy,bitstream,bits,error,debug,mem,compiler,zstd_deps,portability}*.[ch]"},
		Drop:  []string{"*_compress.c"},
		Files: map[string]string{"compile_flags.txt": "-std=c11\n-Wall\n", ".gitignore": ".cache\n"},
	},
	Grammar: cGrammar,
	Ways:    clangdWays,
	Local:   true,
}

// clangdCPPServer works in C++.
var clangdCPPServer = Server{
	Name: "clangd-cpp", Command: []string{"clangd"}, OpenAsked: true,
	Env: []string{"XDG_CACHE_HOME={cache}"},
	Project: Project{
		Source: "leveldb", Keep: []string{"{db,include,port,table,util,helpers}/**/*.{cc,h}"},
		Files: map[string]string{"compile_flags.txt": "-xc++\n-std=c++17\n-Wall\n-I.\n-Iinclude\n-DOS_LINUX\n-DLEVELDB_PLATFORM_POSIX\n", ".gitignore": ".cache\n"},
	},
	Grammar: cGrammar,
	Ways:    clangdWays,
	Local:   true,
}

// clangdWays: where a name is missing it suggests headers and other names from an
// index of all that it was ever shown, which need not be what is there now.
var clangdWays = []Way{
	{Name: "shown what was there before", Past: true},
	{Name: "shown other files too", Company: true},
	{Name: "shown other files too, and what was there before", Past: true, Company: true},
	{Name: "shown all files, and what was there before", Past: true, All: "**/*.{c,cc,h}"},
}

// cGrammar is about C and what C++ has of it.
var cGrammar = Grammar{
	Edit: []string{"**/*.{c,h,cc}", "compile_flags.txt"},
	Rules: []Rule{
		{"rename a function", `(?m)^((?:static |MEM_STATIC )?\w+\*? )(\w+)\(`, []string{`${1}${2}_r§(`}},
		{"rename a type", `\} (\w+);`, []string{`} ${1}R§;`}},
		{"rename a macro", `(?m)^#define (\w+)`, []string{`#define ${1}_R§`}},
		{"change a type", `\b(size_t|unsigned|int|bool)\b`, []string{`void*`, `double`, `char*`}},
		{"drop an argument", `(\w+)\((\w+), `, []string{`$1(`}},
		{"add an argument", `(\w+)\((\w+)\)`, []string{`$1($2, §)`}},
		{"add a parameter", `(?m)^((?:static |MEM_STATIC )?\w+ \w+\()(\w+ )`, []string{`${1}int extra§, $2`}},
		{"drop a result", `(?m)^( +)return (.+);$`, []string{`${1}return;`}},
		{"drop a semicolon", `;\n`, []string{"\n"}},
		{"drop an include", `(?m)^#\s*include "[^"]*".*\n`, []string{``}},
		{"another include", `(?m)^#\s*include "([^"]*)"`, []string{`#include "none§.h"`}},
		{"a late include", `(?m)^#\s*include "([^"]*)"`, []string{"int early§;\n#include \"$1\""}},
		{"break syntax", `\{\n`, []string{"\n", "{{\n"}},
		{"unused variable", `(?m)^( +)return\b`, []string{"${1}int unused§ = §;\n${1}return"}},
		{"undefined name", `\b(NULL|nullptr|0)\b`, []string{`missing§`}},
		{"a field less", `(?m)^    \w+\*? \w+;.*\n`, []string{``}},
		{"drop a line", `(?m)^ +\S.*\n`, []string{``}},
		{"an #if 0", `(?m)^#if .*`, []string{`#if 0`}},
		{"flags", `(?m)^-W.*\n`, []string{``, "-Weverything\n"}},
		{"a comment", `(?m)^#include`, []string{"/* Changed §. */\n#include"}},
	},
	New: []NewFile{
		{"oracle§.h", `^`, "int oracle§(void);\n"},
		{"oracle§.c", `(?m)^#\s*include "([^"]*)"`, "#include \"$1\"\nint oracle§ = \"\";\n"},
	},
}
