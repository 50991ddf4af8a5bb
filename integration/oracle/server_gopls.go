package main

// goplsServer works in the part of golang.org/x/tools that is about syntax,
// types and SSA.
var goplsServer = Server{
	Name: "gopls", Command: []string{"gopls"},
	Env: []string{"GOPLSCACHE={cache}", "GOFLAGS=-mod=mod"},
	Project: Project{
		Source: "xtools",
		Keep: []string{
			"go.mod", "go.sum", "container/**", "txtar/**", "go/{ast,types,cfg,ssa,callgraph,buildutil,loader,internal}/**",
			"internal/{typeparams,typesinternal,aliases,versions,stdlib,astutil,graph,diff,tokeninternal,testenv,goroot}/**",
		},
		Drop: []string{"**/testdata/**"},
	},
	Small:   &Project{Source: "xmod", Drop: []string{"**/testdata/**"}},
	Grammar: goGrammar,
	// It keeps export data in a cache on the disk, by what a package's files hold.
	// Of a package with broken syntax they are not the same: who checks it only to
	// import it ignores functions' bodies, and leaves out what it cannot read; who
	// diagnoses it does not. The first to come decides what dependents are told.
	Ways: []Way{
		{Name: "with an empty cache", Forget: true},
		{Name: "with a cache of what differs", Forget: true, Before: differing},
		{Name: "with a cache of what does not differ", Forget: true, Before: others},
		{Name: "with a cache of what was edited", Forget: true, Before: edited},
	},
}

// goGrammar is about Go.
var goGrammar = Grammar{
	Edit: []string{"**/*.go"},
	Rules: []Rule{
		{"rename a function", `(?m)^func (\w+)\(`, []string{`func ${1}R§(`}},
		{"rename a method", `(?m)^func (\(\w+ \*?\w+\)) (\w+)\(`, []string{`func $1 ${2}R§(`}},
		{"rename a type", `(?m)^type (\w+) `, []string{`type ${1}R§ `}},
		{"change a type", `\bstring\b`, []string{`int`, `[]string`, `*string`}},
		{"change a type", `\b(int|bool|error)\b`, []string{`string`, `float64`}},
		{"drop an argument", `(\w+)\((\w+), `, []string{`$1(`}},
		{"add an argument", `(\w+)\((\w+)\)`, []string{`$1($2, §)`}},
		{"add a parameter", `(?m)^(func (?:\(\w+ \*?\w+\) )?\w+\()(\w+ )`, []string{`${1}extra§ int, $2`}},
		{"drop a result", `(?m)^\treturn .*$`, []string{"\treturn", ``}},
		{"drop an import", `(?m)^\t"[\w/.]+"\n`, []string{``}},
		{"break syntax", `\{\n`, []string{"\n", "{{\n"}},
		{"break syntax", `\)\n`, []string{"\n"}},
		{"unused variable", `(?m)^(\t+)return\b`, []string{"${1}unused§ := §\n${1}return"}},
		{"undefined name", `\b(nil|true|false)\b`, []string{`missing§`}},
		{"a vet finding", `(?m)^(\t+)return\b`, []string{"${1}print§ := func(f string, a ...any) { _ = fmt.Sprintf(f, a...) }\n${1}print§(\"%d\", \"x\")\n${1}return"}},
		{"drop a line", `(?m)^\t+\S.*\n`, []string{``}},
		{"another package", `(?m)^package (\w+)`, []string{`package ${1}x§`}},
		{"a comment", `(?m)^func `, []string{"// Changed §.\nfunc "}},
	},
	New: []NewFile{
		{"oracle§.go", `(?m)^package (\w+)`, "package $1\n\n// Oracle§ is new.\nfunc Oracle§(n int) string { return n }\n"},
		{"oracle§.go", `(?m)^package (\w+)`, "package $1\n\nimport \"fmt\"\n\nfunc oracle§() { fmt.Println() }\n"},
		{"oracle§_test.go", `(?m)^package (\w+)`, "package $1\n\nimport \"testing\"\n\nfunc TestOracle§(t *testing.T) { t.Log(Oracle§(1)) }\n"},
		{"oracle§/new.go", `(?m)^package (\w+)`, "package oracle\n\nvar N int = \"§\"\n"},
	},
}
