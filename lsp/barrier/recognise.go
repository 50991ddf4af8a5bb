package barrier

import (
	"encoding/json"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// known are the servers with a file of their own.
var known = []func() Profile{gopls, rustAnalyzer, clangd, pyright, basedpyright, dockerfile, typescriptLanguageServer, vtsls, typescript7, bash, yaml, webJSON, webCSS, webHTML, eslint}

// For recognises a server by the answer that it gave to an initialize request (the
// person's own, or an instance's; may be nil): its name, else the commands that it
// offers; by its command where it does not say who it is. A command may be named
// for one server and start another. It returns the generic profile for those that
// it does not know.
func For(command []string, initializeResult json.RawMessage) Profile {
	var name string
	if raw, ok := Lookup(initializeResult, "serverInfo", "name"); ok {
		_ = json.Unmarshal(raw, &name) // not a string: not recognised by it
	}
	var executes []string
	if raw, ok := Lookup(initializeResult, "capabilities", "executeCommandProvider", "commands"); ok {
		_ = json.Unmarshal(raw, &executes) // likewise
	}
	for _, make := range known {
		p := make()
		if p.calls(name) || p.Executes != "" && slices.Contains(executes, p.Executes) {
			return p
		}
	}
	for _, program := range Programs(command) {
		for _, make := range known {
			p := make()
			if slices.Contains(p.Commands, program) && (name == "" || len(p.ServerNames) == 0) {
				return p
			}
		}
	}
	return generic()
}

// calls says whether the server calls itself so.
func (p Profile) calls(name string) bool {
	return slices.ContainsFunc(p.ServerNames, func(n string) bool { return strings.EqualFold(n, name) })
}

// launchers are programs that start the one that is meant, which their arguments
// name.
var launchers = map[string]bool{
	"env": true, "nice": true, "ionice": true, "taskset": true, "stdbuf": true, "timeout": true, "direnv": true,
	"sh": true, "bash": true, "dash": true, "zsh": true,
	"node": true, "nodejs": true, "deno": true, "bun": true, "bunx": true, "npx": true, "npm": true, "pnpm": true, "pnpx": true, "yarn": true,
	"python": true, "pypy": true, "uv": true, "uvx": true, "pipx": true, "poetry": true,
}

// Launches says whether what a command starts is a process of its own below it: a
// shell's script, npm's npx.
func Launches(command []string) bool {
	switch first := baseName(command[0]); first {
	case "sh", "bash", "dash", "zsh", "uv", "uvx", "pipx", "poetry", "direnv", "timeout":
		return true
	case "node", "npm", "npx":
		return slices.ContainsFunc(command, func(arg string) bool { return strings.HasPrefix(baseName(arg), "np") })
	}
	return strings.HasPrefix(command[0], "npm exec ") // as npm calls its process
}

// Programs are the names of what a command may start, the likeliest first, without
// their folder, extension and version. A launcher's arguments name the program, its
// module (python -m), its package (npx), or a file of the package: then it is the
// package's name that says most.
func Programs(command []string) (names []string) {
	if len(command) == 0 {
		return nil
	}
	first := baseName(command[0])
	if !launchers[first] && !launchers[strings.TrimRight(first, ".0123456789")] { // python3.12
		return []string{first}
	}
	for _, arg := range command[1:] {
		// A shell's program, or a path: a blank in that is rare, and does no harm.
		for word := range strings.FieldsSeq(arg) {
			if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
				continue
			}
			names = append(names, baseName(word))
			folders := strings.Split(path.Dir(filepath.ToSlash(word)), "/")
			for n, folder := range slices.Backward(folders) {
				if scope := n - 1; scope >= 0 && strings.HasPrefix(folders[scope], "@") {
					names = append(names, folders[scope]+"/"+folder)
				}
				names = append(names, folder)
			}
			if scope, rest, ok := strings.Cut(word, "/"); ok && strings.HasPrefix(scope, "@") {
				rest, _, _ = strings.Cut(rest, "@")
				names = append(names, scope+"/"+rest)
			}
		}
	}
	return names
}

// baseName is a command's name without its folder, extension and version.
func baseName(arg string) string {
	base := filepath.Base(arg)
	for _, ext := range []string{".exe", ".cmd", ".bat", ".js", ".mjs", ".cjs", ".py", ".sh"} {
		base = strings.TrimSuffix(base, ext)
	}
	if name, _, ok := strings.Cut(base, "@"); ok && name != "" {
		base = name // npx NAME@VERSION
	}
	return base
}
