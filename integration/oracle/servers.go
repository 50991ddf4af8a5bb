package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"shadowlsp/lsp/barrier"
)

// servers are those that the oracle knows.
var servers = []Server{
	goplsServer,
	rustServer, clangdServer, clangdCPPServer,
	pyrightServer,
	basedpyrightServer,
	dockerfileServer,
	typescriptLanguageServer, vtslsServer, typescript7Server,
	bashServer, yamlServer, jsonServer, cssServer, htmlServer, eslintServer,
	solution(typescriptLanguageServer), solution(vtslsServer), solution(typescript7Server),
	unknown(pyrightServer),
	unknown(pushing(pyrightServer)),
	unknown(dockerfileServer), unknown(typescriptLanguageServer), unknown(bashServer),
}

// unknown is a server in disguise.
func unknown(s Server) Server {
	s.Name, s.Unknown, s.Small = "unknown-"+s.Name, true, nil
	s.OpenAsked = true
	return s
}

// pushing is a server whose clients do not ask for diagnostics.
func pushing(s Server) Server {
	s.Name, s.Registers = s.Name+"-pushing", false
	return s
}

// disguise puts a program into dir that runs the server, one of node's, under a name
// that says nothing.
func (s Server) disguise(dir string) (Server, error) {
	command, err := s.command()
	if err != nil || !s.Unknown {
		return s, err
	}
	program := filepath.Join(dir, "some-language-server")
	s.Command = append([]string{program}, s.Command[1:]...)
	// Its process has no name that says something, either, and a command that it
	// alone offers has another name, as long.
	file, err := filepath.EvalSymlinks(command[0])
	if err == nil {
		err = os.Symlink(file, program+".js")
	}
	mask := ""
	if executes := barrier.For(command, nil).Executes; executes != "" {
		mask = "-r " + program + "-mask.js "
		err = errors.Join(err, os.WriteFile(program+"-mask.js", fmt.Appendf(nil, maskText, executes, strings.Repeat("x", len(executes))), 0o644))
	}
	return s, errors.Join(err, os.WriteFile(program, []byte("#!/bin/sh\nexec node "+mask+program+".js \"$@\"\n"), 0o755))
}

// maskText has node write one text for another.
const maskText = `const write = process.stdout.write.bind(process.stdout);
process.stdout.write = (chunk, ...rest) => write(Buffer.from(Buffer.from(chunk).toString('latin1').replaceAll(%q, %q), 'latin1'), ...rest);
`
