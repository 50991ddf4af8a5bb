package conflict

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Target is what agents change. Paths are relative to the workspace.
type Target struct {
	Edited    string // defines the function, and calls it
	Dependent string // of another package; calls it
	Package   string // the defining package's name
	Function  string
	Params    string // between the parentheses
	Results   string // behind them
}

var (
	// Compare is in golang.org/x/mod, a small module.
	Compare = Target{
		Edited: "semver/semver.go", Dependent: "module/module.go",
		Package: "semver", Function: "Compare", Params: "v, w string", Results: "int",
	}
	// CoreType is in golang.org/x/tools, deep below some hundred packages.
	CoreType = Target{
		Edited: "internal/typeparams/coretype.go", Dependent: "go/ssa/util.go",
		Package: "typeparams", Function: "CoreType", Params: "T types.Type", Results: "types.Type",
	}
)

// signature is the function's line in the source, with these parameters.
func (t Target) signature(params string) string {
	return fmt.Sprintf("func %s(%s) %s {", t.Function, params, t.Results)
}

// With is the signature with one more parameter, of type word: the last, or
// the first when odd is set.
func (t Target) With(word string, odd bool) string {
	if odd {
		return t.signature("options " + word + ", " + t.Params)
	}
	return t.signature(t.Params + ", policy " + word)
}

// Count returns how many errors any such change must cause in each file: one
// per call. It fails where dir is not the module that t is about.
func (t Target) Count(dir string) (map[string]int, error) {
	count := map[string]int{}
	for path, call := range map[string]string{
		t.Edited:    `(?m)^\t.*[^.\w]` + t.Function + `\(`,
		t.Dependent: `\b` + t.Package + `\.` + t.Function + `\(`,
	} {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return nil, err
		}
		count[path] = len(regexp.MustCompile(call).FindAll(text, -1))
		if count[path] == 0 {
			return nil, fmt.Errorf("%s does not call %s: is this another version of the module?", path, t.Function)
		}
		if n := strings.Count(string(text), t.signature(t.Params)); path == t.Edited && n != 1 {
			return nil, fmt.Errorf("%s has %d lines %q, want 1", path, n, t.signature(t.Params))
		}
	}
	return count, nil
}
