package main

import "strings"

// rustServer works in a workspace of crates that need each other: an edit is
// seen by rust-analyzer itself and by cargo check, in dependents too.
var rustServer = Server{
	Name: "rust-analyzer", Command: []string{"rust-analyzer"}, Pull: true, OpenAsked: true,
	Env: []string{"CARGO_NET_OFFLINE=true"},
	// As the person's rust-analyzer has it. (Some crates' tests need others that are
	// not there.)
	Builds: []string{"cargo", "check", "--quiet", "--workspace", "--all-targets", "--keep-going"},
	Project: Project{
		Source: "crates", Keep: []string{
			"{regex,regex-syntax,aho-corasick,memchr,bstr}-*/src/**/*.rs", "memchr-*/build.rs", "{regex,bstr}-*/examples/*.rs",
		},
		Drop: []string{
			"**/{tests,byterank}/**", "**/tests.rs", "aho-corasick-*/src/packed/tests.rs",
			"**/examples/{shootout-*,bug347,regexdna-input,graphemes-*,lines-*,uppercase-*,words-*}.rs",
		},
		Files: crates("memchr-2.5.0", "aho-corasick-0.7.19", "regex-syntax-0.6.27", "regex-1.7.1", "bstr-0.2.17"),
	},
	Small: &Project{
		Source: "crates", Keep: []string{"{aho-corasick,memchr}-*/src/**/*.rs", "memchr-*/build.rs"},
		Drop:  []string{"**/tests/**", "**/tests.rs"},
		Files: crates("memchr-2.5.0", "aho-corasick-0.7.19"),
	},
	Grammar: rustGrammar,
}

// manifests are Cargo.toml of the crates, without what tests and benchmarks
// would need.
var manifests = map[string]string{
	"memchr-2.5.0":        "edition = \"2018\"\n\n[features]\ndefault = [\"std\"]\nstd = []\nlibc = []\n",
	"aho-corasick-0.7.19": "edition = \"2018\"\n\n[lib]\nname = \"aho_corasick\"\n\n[features]\ndefault = [\"std\"]\nstd = [\"memchr/std\"]\n\n[dependencies]\nmemchr = { path = \"../memchr-2.5.0\", default-features = false }\n",
	"regex-syntax-0.6.27": "edition = \"2018\"\n\n[features]\ndefault = [\"unicode\"]\nunicode = [\"unicode-age\", \"unicode-bool\", \"unicode-case\", \"unicode-gencat\", \"unicode-perl\", \"unicode-script\", \"unicode-segment\"]\nunicode-age = []\nunicode-bool = []\nunicode-case = []\nunicode-gencat = []\nunicode-perl = []\nunicode-script = []\nunicode-segment = []\n",
	"regex-1.7.1":         "edition = \"2018\"\n\n[features]\ndefault = [\"std\", \"perf\"]\nstd = []\nperf = [\"perf-cache\", \"perf-dfa\", \"perf-inline\", \"perf-literal\"]\nperf-cache = []\nperf-dfa = []\nperf-inline = []\nperf-literal = []\nunicode-case = []\nunicode-perl = []\nunstable = []\npattern = []\nuse_std = [\"std\"]\n\n[dependencies]\naho-corasick = { path = \"../aho-corasick-0.7.19\" }\nmemchr = { path = \"../memchr-2.5.0\" }\nregex-syntax = { path = \"../regex-syntax-0.6.27\" }\n",
	"bstr-0.2.17":         "edition = \"2018\"\n\n[features]\ndefault = [\"std\"]\nstd = [\"memchr/std\"]\nalloc = []\nunicode = []\nserde1 = []\nserde1-nostd = []\n\n[dependencies]\nmemchr = { path = \"../memchr-2.5.0\", default-features = false }\n",
}

// crates are the manifests of a workspace of them.
func crates(folders ...string) map[string]string {
	files := map[string]string{
		"Cargo.toml": "[workspace]\nresolver = \"2\"\nmembers = [\"" + strings.Join(folders, "\", \"") + "\"]\n",
		".gitignore": "/target\n",
	}
	for _, folder := range folders {
		at := strings.LastIndexByte(folder, '-')
		files[folder+"/Cargo.toml"] = "[package]\nname = \"" + folder[:at] + "\"\nversion = \"" + folder[at+1:] + "\"\n" + manifests[folder]
	}
	return files
}

// rustGrammar is about Rust, and what decides about crates.
var rustGrammar = Grammar{
	Edit: []string{"**/*.rs", "*/Cargo.toml"},
	Rules: []Rule{
		{"rename a function", `(?m)^( *)pub fn (\w+)`, []string{`${1}pub fn ${2}_r§`}},
		{"rename a type", `(?m)^pub (struct|enum|trait) (\w+)`, []string{`pub $1 ${2}R§`}},
		{"change a type", `\b(usize|u8|u32|bool)\b`, []string{`String`, `i64`, `&str`}},
		{"change visibility", `(?m)^( *)pub fn `, []string{`${1}fn `}},
		{"drop an argument", `(\w+)\((\w+), `, []string{`$1(`}},
		{"add an argument", `(\w+)\((\w+)\)`, []string{`$1($2, §)`}},
		{"add a parameter", `(?m)^( *(?:pub )?fn \w+\()(\w+:)`, []string{`${1}extra§: u8, $2`}},
		{"drop a result", `(?m)^( *)return (.+);$`, []string{`${1}return;`}},
		{"drop a semicolon", `;\n`, []string{"\n"}},
		{"drop an import", `(?m)^use .*;\n`, []string{``}},
		{"another import", `(?m)^use crate::(\w+)`, []string{`use crate::${1}_x§`}},
		{"break syntax", `\{\n`, []string{"\n", "{{\n"}},
		{"break syntax", `\)\n`, []string{"\n"}},
		{"unused variable", `(?m)^( +)let `, []string{"${1}let unused§ = §;\n${1}let "}},
		{"undefined name", `\b(None|true|false)\b`, []string{`missing§`}},
		{"borrow", `&mut (\w+)`, []string{`&$1`, `$1`}},
		{"a mutable less", `\blet mut `, []string{`let `}},
		{"a module more", `(?m)^mod (\w+);`, []string{"mod $1;\nmod none§;"}},
		{"a module less", `(?m)^mod (\w+);\n`, []string{``}},
		{"a cfg", `(?m)^( *)pub fn `, []string{"${1}#[cfg(feature = \"none§\")]\n${1}pub fn "}},
		{"drop a line", `(?m)^ +\S.*\n`, []string{``}},
		{"another edition", `edition = "20\d\d"`, []string{`edition = "2015"`, `edition = "2021"`}},
		{"a feature less", `(?m)^default = .*\n`, []string{``}},
		{"a dependency less", `(?m)^\w+[\w-]* = \{ path.*\n`, []string{``}},
		{"a comment", `(?m)^pub fn `, []string{"/// Changed §.\npub fn "}},
	},
	New: []NewFile{
		{"oracle§.rs", `^`, "pub fn oracle§(n: u8) -> String { n }\n"},
		{"examples/oracle§.rs", `^\[package\]`, "fn main() { oracle§() }\n"},
		{"build.rs", `^\[package\]`, "fn main() { println!(\"cargo:rustc-cfg=oracle§\"); }\n"},
	},
}
