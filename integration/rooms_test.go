package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shadowlsp/integration/need"
)

// module is how packages of ours begin.
const module = "shadowlsp/"

// room is a folder with everything below it. It always sees itself.
type room struct {
	folder string
	may    []string // what else of ours it may import
}

// rooms is the map.
var rooms = []room{
	{folder: "overlay"},
	{folder: "scheduler"},
	{folder: "fusefs", may: []string{"overlay"}},
	{folder: "lsp"},
	{folder: "internal", may: []string{"overlay", "scheduler", "fusefs", "lsp"}},
	{folder: "cmd/shadowlsp", may: []string{"internal", "lsp"}},
	{folder: "integration", may: []string{"overlay", "scheduler", "fusefs", "lsp", "internal"}},
}

// everyTest may be imported by the tests of any room.
var everyTest = []string{"integration/need", "integration/client"}

// owners says which rooms alone may name a foreign package: what is behind one
// door can be replaced there. A name ending in "/" stands for all below it.
var owners = map[string][]string{
	"go.lsp.dev/":                {"lsp"},
	"github.com/hanwen/go-fuse/": {"fusefs"},
	"github.com/fsnotify/":       {"fusefs"},
	"github.com/spf13/":          {"cmd/shadowlsp"},
	"flag":                       {"cmd/shadowlsp", "integration"},
}

// environment are the functions by which a program reads what it was started
// with. Only cmd does, and hands on what a room must know.
var environment = []string{
	"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "os.Setenv",
	"os.UserHomeDir", "os.UserCacheDir", "os.UserConfigDir", "os.TempDir",
}

// parts are the five parts of a room's doc, by a word that each cannot do
// without.
var parts = map[string]*regexp.Regexp{
	"the question it answers":       regexp.MustCompile(`^Package \S+ answers\b`),
	"its model":                     regexp.MustCompile(`(?i)\bmodel\b`),
	"its invariants":                regexp.MustCompile(`(?i)\binvariants?\b`),
	"what is absent on purpose":     regexp.MustCompile(`(?i)\babsent\b`),
	"its locks or goroutines":       regexp.MustCompile(`(?i)\b(locks?|mutex(es)?|goroutines?)\b`),
	"enough lines to say all these": regexp.MustCompile(`(?s)([^\n]+\n.*){5}`),
}

// file is one parsed source file.
type file struct {
	path, folder string // relative to the repository
	test         bool
	ast          *ast.File
}

// source parses every Go file of the project, whatever its build tags.
func source(t *testing.T) (files []file, set *token.FileSet) {
	t.Helper()
	top := need.Repo(t)
	set = token.NewFileSet()
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, name)
		base := entry.Name()
		if entry.IsDir() {
			if rel != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file{rel, path.Dir(filepath.ToSlash(rel)), strings.HasSuffix(base, "_test.go"), parsed})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, set
}

// within says whether folder is room or lies below it.
func within(folder, room string) bool {
	return folder == room || strings.HasPrefix(folder, room+"/")
}

func withinAny(folder string, rooms []string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool { return within(folder, room) })
}

// uses lists the calls and values PACKAGE.NAME of f as "importpath.NAME", with
// where each stands.
func (f file) uses() map[string][]token.Pos {
	names := map[string]string{} // by which name the file knows a package
	for _, spec := range f.ast.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	found := map[string][]token.Pos{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok && names[x.Name] != "" {
				use := names[x.Name] + "." + selector.Sel.Name
				found[use] = append(found[use], selector.Pos())
			}
		}
		return true
	})
	return found
}

// calls lists the calls of one function, named as in uses.
func (f file) calls(function string) []*ast.CallExpr {
	uses := f.uses()[function]
	var found []*ast.CallExpr
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && slices.Contains(uses, call.Fun.Pos()) {
			found = append(found, call)
		}
		return true
	})
	return found
}

// The map of rooms: every package is in a room, and no import goes where the
// map has no arrow.
func TestNoForbiddenArrow(t *testing.T) {
	files, _ := source(t)
	for _, f := range files {
		at := slices.IndexFunc(rooms, func(r room) bool { return within(f.folder, r.folder) })
		if at < 0 {
			t.Errorf("%s: %s is in no room: put it into the map in rooms_test.go, with what it may import", f.path, f.folder)
			continue
		}
		room := rooms[at]
		may := append([]string{room.folder}, room.may...)
		if f.test {
			may = append(may, everyTest...)
		}
		for _, spec := range f.ast.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if ours, ok := strings.CutPrefix(imported, module); ok && !withinAny(ours, may) {
				t.Errorf("%s imports %s: %s may import %s only", f.path, imported, room.folder, strings.Join(may, ", "))
			}
			for foreign, allowed := range owners {
				if f.test && foreign == "flag" {
					continue // scenarios are rewritten by a flag of the test binary
				}
				if (imported == foreign || strings.HasSuffix(foreign, "/") && strings.HasPrefix(imported, foreign)) && !withinAny(f.folder, allowed) {
					t.Errorf("%s imports %s: only %s may", f.path, imported, strings.Join(allowed, ", "))
				}
			}
		}
	}
}

// Every package says what it is for, and a room says it in the five parts.
func TestEveryPackageHasADoc(t *testing.T) {
	files, set := source(t)
	docs := map[string]string{}
	spawns := map[string]token.Pos{} // a go statement of each package, if it has any
	for _, f := range files {
		if f.test {
			continue
		}
		if f.ast.Doc != nil && len(f.ast.Doc.Text()) > len(docs[f.folder]) {
			docs[f.folder] = f.ast.Doc.Text()
		} else if _, seen := docs[f.folder]; !seen {
			docs[f.folder] = ""
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if spawn, ok := n.(*ast.GoStmt); ok {
				spawns[f.folder] = spawn.Pos()
			}
			return true
		})
	}
	for folder, doc := range docs {
		switch {
		case doc == "":
			t.Errorf("%s has no package doc", folder)
			continue
		case !strings.HasPrefix(doc, "Package ") && !strings.HasPrefix(doc, "Command "):
			t.Errorf("%s: the doc begins neither with “Package” nor with “Command”", folder)
		}
		if strings.HasPrefix(doc, "Command ") || within(folder, "integration") {
			continue
		}
		for part, word := range parts {
			if !word.MatchString(doc) {
				t.Errorf("%s: the package doc lacks %s (%s)", folder, part, word)
			}
		}
		// A goroutine has an owner, and the doc says who.
		if at, ok := spawns[folder]; ok {
			none := regexp.MustCompile(`(?i)\bno\s+goroutines?\b|\bgoroutines: none\b`)
			if !strings.Contains(strings.ToLower(doc), "goroutine") || none.MatchString(doc) {
				t.Errorf("%s starts a goroutine, but the doc of its package names no owner", set.Position(at))
			}
		}
	}
}

// Only cmd reads the environment; rooms are told.
func TestOnlyCmdReadsTheEnvironment(t *testing.T) {
	files, set := source(t)
	for _, f := range files {
		if f.test || within(f.folder, "cmd/shadowlsp") || within(f.folder, "integration") {
			continue
		}
		uses := f.uses()
		for _, name := range environment {
			for _, at := range uses[name] {
				t.Errorf("%s: %s: only cmd reads the environment, and hands it in", set.Position(at), name)
			}
		}
	}
}

// No test sleeps: a sleep is too short on a slow machine and too long on all
// others. In a synctest bubble, where time is made up, it costs nothing.
func TestNoTestSleeps(t *testing.T) {
	files, set := source(t)
	for _, f := range files {
		if !f.test && !within(f.folder, "integration") {
			continue
		}
		bubbles := f.calls("testing/synctest.Test")
		for _, at := range f.uses()["time.Sleep"] {
			if !slices.ContainsFunc(bubbles, func(b *ast.CallExpr) bool { return b.Pos() < at && at < b.End() }) {
				t.Errorf("%s sleeps: wait on a condition", set.Position(at))
			}
		}
	}
}
