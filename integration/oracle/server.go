package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/barrier"
)

// Server is a language server under test: data only.
type Server struct {
	// Name is for -server.
	Name string
	// Command is found in .tools/bin or on the PATH.
	Command []string
	Project Project
	Grammar Grammar
	// Unknown has it run under a name that nothing is known of, so that the
	// general ladder is what is tested.
	Unknown bool
	// Settings are the person's, by section of workspace/configuration. With
	// them an editor is attached during the run.
	Settings map[string]any
	// Options are the person's initializationOptions.
	Options map[string]any
	// Env is added to the environment; "{cache}" is a folder of each side's own,
	// "{tools}" that of the pinned tools, "{path}" the PATH.
	Env []string
	// Builds is what the person runs in the workspace, before the first step and
	// at times between an edit and the questions about it, when the file that was
	// edited has just been saved there without a change.
	Builds []string
	// Late has the reference open documents only when the server has nothing to
	// do any more: of those that come before its settings it forgets some.
	Late bool
	// OpenAsked opens every document that is asked about: the server diagnoses
	// open documents only.
	OpenAsked bool
	// Pull has the reference ask for open documents' diagnostics; else they are
	// what was published.
	Pull bool
	// Registers declares dynamic registration of pulled diagnostics.
	Registers bool
	// Ways are what else decides what the server says.
	Ways []Way
	// Local says that what it answers about all files comes from those that it was
	// ever shown: only features of single documents are asked for.
	Local bool
	// Small is the project of `go test`, where that shall run it.
	Small *Project
}

// Project says what the workspace is made of.
type Project struct {
	// Source is a part of scripts/setup that has put sources into .tools/src.
	Source string
	// Into is the workspace's folder that they are copied to.
	Into string
	// Keep and Drop are patterns of paths below the source; without Keep, all.
	Keep, Drop []string
	// Files are put beside, by path.
	Files map[string]string
	// Links are symbolic ones to other sources, by path.
	Links map[string]string
}

// find returns the named servers, all for "".
func find(names string) ([]Server, error) {
	if names == "" {
		return servers, nil
	}
	var found []Server
	for _, name := range strings.Split(names, ",") {
		before := len(found)
		for _, s := range servers {
			if s.Name == name {
				found = append(found, s)
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("no server is called %q here", name)
		}
	}
	return found, nil
}

// command is what starts the server, with its real path.
func (s Server) command() ([]string, error) {
	if filepath.IsAbs(s.Command[0]) {
		return s.Command, nil
	}
	path, err := need.FindTool(s.Command[0])
	if err != nil {
		return nil, err
	}
	return append([]string{path}, s.Command[1:]...), nil
}

// language is the id by which the server takes a file.
func (s Server) language(path string) (string, bool) {
	return barrier.For(s.Command, nil).Language(path)
}

// env is the environment of one side. The pinned tools are not on its PATH unless
// Env says so: shadowlsp would run others of them beside the one under test.
func (s Server) env(base []string, cache string) []string {
	tools := ""
	if program, err := need.FindTool(s.Command[0]); err == nil {
		tools = filepath.Dir(program)
	}
	path := without(os.Getenv("PATH"), tools)
	env := append([]string{"PATH=" + path}, base...)
	for _, v := range s.Env {
		env = append(env, strings.NewReplacer("{cache}", cache, "{tools}", tools, "{path}", path).Replace(v))
	}
	return env
}

// without is a PATH less the folder of pinned tools, however it is spelt.
func without(path, dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || filepath.Base(filepath.Dir(dir)) != ".tools" {
		return path
	}
	return strings.Join(slices.DeleteFunc(filepath.SplitList(path), func(one string) bool {
		other, err := filepath.EvalSymlinks(one)
		return err == nil && other == real
	}), string(filepath.ListSeparator))
}

// capabilities are those of agents, the editor and the reference, which pulls
// only if it is told so.
func (s Server) capabilities(pull bool) map[string]any {
	document := map[string]any{
		"publishDiagnostics": map[string]any{
			"relatedInformation": true, "versionSupport": true, "codeDescriptionSupport": true, "dataSupport": true,
			"tagSupport": map[string]any{"valueSet": []int{1, 2}},
		},
		"synchronization": map[string]any{"didSave": true},
	}
	if pull {
		document["diagnostic"] = map[string]any{
			"dynamicRegistration": s.Registers, "relatedInformation": true,
			"codeDescriptionSupport": true, "dataSupport": true, "tagSupport": map[string]any{"valueSet": []int{1, 2}},
		}
	}
	return map[string]any{
		"textDocument": document,
		"workspace": map[string]any{
			"configuration": true, "workspaceFolders": true,
			"didChangeConfiguration": map[string]any{"dynamicRegistration": true},
			"didChangeWatchedFiles":  map[string]any{"dynamicRegistration": true, "relativePatternSupport": true},
		},
		"window": map[string]any{"workDoneProgress": true},
	}
}

// make puts the project into an empty folder and returns its text files.
func (p Project) make(to string) (map[string]string, error) {
	texts := map[string]string{}
	if p.Source != "" {
		if err := p.read(texts); err != nil {
			return nil, err
		}
	}
	maps.Copy(texts, p.Files)
	if err := stage.Plant(to, texts); err != nil {
		return nil, err
	}
	for path, name := range p.Links {
		source, err := need.FindSource(name)
		if err == nil {
			err = os.Symlink(source, filepath.Join(to, path))
		}
		if err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// read takes in what is kept of the source.
func (p Project) read(texts map[string]string) error {
	from, err := need.FindSource(p.Source)
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil || !entry.Type().IsRegular() || !p.keeps(rel) {
			return err
		}
		text, err := os.ReadFile(name)
		texts[filepath.Join(p.Into, rel)] = string(text)
		return err
	})
}

func (p Project) keeps(rel string) bool {
	return (len(p.Keep) == 0 || matches(p.Keep, rel)) && !matches(p.Drop, rel)
}

func matches(patterns []string, rel string) bool {
	for _, pattern := range patterns {
		if doublestar.MatchUnvalidated(pattern, rel) {
			return true
		}
	}
	return false
}
