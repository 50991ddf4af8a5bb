package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// subject is a real file that agents edit: it declares an exported function that
// a file of another package calls.
type subject struct {
	path, dependent string // relative to the module
	text            string
	open            int // offset behind the opening parenthesis of the function's parameters
	named, any      bool
	close           int // offset of the last brace of the function's body
}

// edited is the subject's text in one state of one branch. Every kind of edit
// that makes an error names the word in it or in what it makes others say.
func (s subject) edited(kind int, word string) string {
	switch kind % editKinds {
	case 0: // an error in the file itself
		return s.text + fmt.Sprintf("\nfunc use%s() int { return missing%s }\n", word, word)
	case 1: // one more parameter: every call is an error, in other packages too
		parameter := word
		if s.named {
			parameter = "_ " + word
		}
		if s.any {
			parameter += ", "
		}
		return s.text[:s.open] + parameter + s.text[s.open:] + fmt.Sprintf("\n// %s is new.\ntype %s int\n", word, word)
	case 2: // broken syntax
		return s.text[:s.close] + "/* " + word + " */" + s.text[s.close+1:]
	case 3: // findings that are no type errors of the API
		return s.text + fmt.Sprintf("\nfunc idle%s() {\n\tvar x%s int\n\tfor {\n\t}\n\tprintln()\n}\n", word, word)
	default: // nothing wrong
		return s.text + fmt.Sprintf("\n// %s was here.\n", word)
	}
}

const editKinds = 5

// findSubjects returns up to most subjects of a module, spread over it.
func findSubjects(dir string, most int) ([]subject, error) {
	module, err := modulePath(dir)
	if err != nil {
		return nil, err
	}
	declared := map[string][]subject{} // by import path
	names := map[string][]string{}     // of the functions, beside declared
	type caller struct{ path, imports, function string }
	var calls []caller
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (e.Name() == "testdata" || e.Name() == ".git") {
			return fs.SkipDir
		}
		matches, err := build.Default.MatchFile(filepath.Dir(name), e.Name())
		if err != nil || !matches || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil // nothing that every server loads
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		path, _ := filepath.Rel(dir, name)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil || file.Name.Name == "main" {
			return nil
		}
		own := module + "/" + filepath.ToSlash(filepath.Dir(path))
		offset := func(p token.Pos) int { return fset.Position(p).Offset }
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Body == nil || !f.Name.IsExported() || f.Type.TypeParams != nil {
				continue
			}
			list := f.Type.Params.List
			declared[own] = append(declared[own], subject{
				path: path, text: string(text), open: offset(f.Type.Params.Opening) + 1, close: offset(f.Body.Rbrace),
				named: len(list) == 0 || len(list[0].Names) > 0, any: len(list) > 0,
			})
			names[own] = append(names[own], f.Name.Name)
		}
		imported := map[string]string{} // by name
		for _, i := range file.Imports {
			if to, err := strconv.Unquote(i.Path.Value); err == nil && i.Name == nil && strings.HasPrefix(to, module+"/") {
				imported[filepath.Base(to)] = to
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if sel, ok := c.Fun.(*ast.SelectorExpr); ok {
					if x, ok := sel.X.(*ast.Ident); ok && imported[x.Name] != "" {
						calls = append(calls, caller{path, imported[x.Name], sel.Sel.Name})
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	found := map[string]subject{} // by path
	for _, c := range calls {
		for i, s := range declared[c.imports] {
			if names[c.imports][i] == c.function {
				if _, again := found[s.path]; !again {
					s.dependent = c.path
					found[s.path] = s
				}
			}
		}
	}
	var all []subject
	for _, s := range found {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b subject) int { return strings.Compare(a.path, b.path) })
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no exported function that another package calls", dir)
	}
	most = min(most, len(all))
	spread := make([]subject, most)
	for i := range spread {
		spread[i] = all[i*len(all)/most]
	}
	return spread, nil
}

func modulePath(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(text) {
		if after, ok := bytes.CutPrefix(line, []byte("module ")); ok {
			return string(bytes.TrimSpace(after)), nil
		}
	}
	return "", fmt.Errorf("%s/go.mod names no module", dir)
}
