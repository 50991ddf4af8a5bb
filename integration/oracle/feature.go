package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"shadowlsp/integration/client"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// feature is a question beside lints: a request about a place in a document, or
// about a word in all of them. Answers are compared as lints are, each item of a
// list one of them, under the feature's name.
type feature struct {
	method          string
	path            string
	line, character int
	word            string
}

const (
	aboutDocument = "textDocument/documentSymbol" // the others are about a place
	aboutAll      = "workspace/symbol"
)

var (
	// global are requests of which the answer depends on nothing but the texts and the
	// place. Completion is not one of them: some servers offer what they find in a
	// tenth of a second.
	global = append(local,
		"textDocument/definition", "textDocument/implementation", "textDocument/references", "textDocument/rename", aboutAll)
	// local are those of which it comes from the document, and what it is made of,
	// alone.
	local = []string{"textDocument/hover", "textDocument/documentHighlight", aboutDocument}
)

// features are the requests beside lints that a server is asked.
func (s Server) features() []string {
	if s.Local {
		return local
	}
	return global
}

// chooseFeature makes up a question about a document, at a word that was touched if
// there is one.
func chooseFeature(random *rand.Rand, methods []string, path, text string, touched []string) (feature, bool) {
	at := word.FindAllStringIndex(text, -1)
	if len(at) == 0 {
		return feature{}, false
	}
	if near := slices.DeleteFunc(slices.Clone(at), func(w []int) bool { return !slices.Contains(touched, text[w[0]:w[1]]) }); len(near) > 0 && random.IntN(3) > 0 {
		at = near
	}
	w := at[random.IntN(len(at))]
	before := text[:w[0]]
	begin := strings.LastIndexByte(before, '\n') + 1
	return feature{
		method: methods[random.IntN(len(methods))], path: path, word: text[w[0]:w[1]],
		line: strings.Count(before, "\n"), character: len(utf16.Encode([]rune(before[begin:]))),
	}, true
}

// name tells a feature from others, and from a path.
func (f feature) name() string {
	switch f.method {
	case aboutDocument:
		return fmt.Sprintf("%s#%s", f.path, f.method)
	case aboutAll:
		return fmt.Sprintf("%s#%s %q", f.path, f.method, f.word)
	}
	return fmt.Sprintf("%s#%s of %s at %d:%d", f.path, f.method, f.word, f.line, f.character)
}

// documentOf is the document of a name: a path, or a feature's.
func documentOf(name string) string {
	path, _, _ := strings.Cut(name, "#")
	return path
}

// params are the request's, in a folder.
func (f feature) params(dir string) map[string]any {
	if f.method == aboutAll {
		return map[string]any{"query": f.word}
	}
	params := map[string]any{"textDocument": map[string]string{"uri": docuri.FromPath(filepath.Join(dir, f.path))}}
	if f.method == aboutDocument {
		return params
	}
	params["position"] = map[string]int{"line": f.line, "character": f.character}
	switch f.method {
	case "textDocument/references":
		params["context"] = map[string]bool{"includeDeclaration": true}
	case "textDocument/rename":
		params["newName"] = "renamed_" + f.word
	}
	return params
}

// ask puts the question to a server in a folder. An error of the server's is an
// answer, too; one of shadowlsp's that it has none is an error.
func (f feature) ask(ctx context.Context, conn *client.Client, dir string) (lints, error) {
	raw, err := conn.Call(ctx, f.method, f.params(dir))
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		switch {
		case e.Code == wire.CodeServerCancelled:
			return nil, err
		case e.Code == wire.CodeMethodNotFound:
			return lints{noSuchRequest}, nil
		}
		// Where gopls refuses to rename it goes on with one example of many.
		first, _, _ := strings.Cut(places.ReplaceAllString(e.Message, "[]"), "\n")
		return lints{strings.ReplaceAll(fmt.Sprintf("error %d %s", e.Code, first), dir, "DIR")}, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := spellAnswer(raw, dir)
	if f.method == aboutAll {
		// Of what resembles the word, servers list some.
		named := regexp.MustCompile(`"name":"([^"]*\W)?` + f.word + `(\W[^"]*)?"`)
		found = slices.DeleteFunc(found, func(symbol string) bool { return !named.MatchString(symbol) })
	}
	return found, err
}

const noSuchRequest = "no such request"

// places are offsets among all files that a server has read, in its error messages
// (gopls), which depend on the order of reading.
var places = regexp.MustCompile(`\[\d+:\d+\]`)

// spellAnswer writes an answer so that equal ones are equal: a list's items, or a
// workspace edit's files, each by itself, sorted.
func spellAnswer(raw json.RawMessage, dir string) (lints, error) {
	var answer any
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("%w in %.200s", err, raw)
	}
	var items []any
	switch answer := public(answer).(type) {
	case nil:
	case []any:
		items = answer
	case map[string]any:
		if changes, ok := answer["documentChanges"].([]any); ok {
			items = changes
			break
		}
		if changes, ok := answer["changes"].(map[string]any); ok {
			for _, uri := range slices.Sorted(maps.Keys(changes)) {
				items = append(items, map[string]any{uri: changes[uri]})
			}
			break
		}
		items = []any{answer}
	default:
		items = []any{answer}
	}
	all := lints{}
	for _, item := range items {
		one, _ := json.Marshal(item) // what was decoded can be encoded
		all = append(all, strings.ReplaceAll(string(one), dir, "DIR"))
	}
	slices.Sort(all)
	return all, nil
}

// public leaves out a server's notes to itself, versions of documents, which count
// what each side has sent, and the order of a file's edits.
func public(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			if name != "data" && name != "version" {
				out[name] = public(value)
			}
		}
		if edits, ok := out["edits"].([]any); ok {
			slices.SortFunc(edits, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		return out
	case []any:
		out := make([]any, len(v))
		for n, value := range v {
			out[n] = public(value)
		}
		return out
	}
	return v
}
