package coverage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"go.uber.org/goleak"

	"shadowlsp/integration/client"
	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/union"
	"shadowlsp/lsp/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fullVariable makes the tests ask at every position.
const fullVariable = "SHADOWLSP_COVERAGE"

const (
	// everyNth position is asked about in `go test`.
	everyNth = 41
	// everyNthMerged is for several servers at once, of which fewer are asked.
	everyNthMerged = 17
	// patience bounds the loading of a server, and each answer.
	patience = 2 * time.Minute
	// settling is how often a question is put to the bare servers anew while the
	// answers differ, and steady after how many times what two bare servers say
	// differently is taken for their way.
	settling, steady = 100, 10
)

// side is one of those that are asked.
type side struct {
	dir      string
	c        *client.Client
	legend   legend
	within   []string // modifiers of tokens that all sides have, or nil: all
	commands []string // that it executes

	mu    sync.Mutex // guards the field below
	edits []any      // that it was to make since a command was given
}

// capabilities are those of both sides.
func capabilities() map[string]any {
	dynamicless := map[string]any{}
	return map[string]any{
		"general":   map[string]any{"positionEncodings": []string{"utf-16"}},
		"window":    map[string]any{"workDoneProgress": true},
		"workspace": map[string]any{"applyEdit": true, "configuration": true, "didChangeWatchedFiles": map[string]any{"dynamicRegistration": true}, "workspaceFolders": true, "symbol": map[string]any{"resolveSupport": map[string]any{"properties": []string{"location.range"}}}, "workspaceEdit": map[string]any{"documentChanges": true, "resourceOperations": []string{"create", "rename", "delete"}}},
		"textDocument": map[string]any{
			"hover":      map[string]any{"contentFormat": []string{"markdown"}},
			"completion": map[string]any{"completionItem": map[string]any{"snippetSupport": true, "documentationFormat": []string{"markdown"}, "resolveSupport": map[string]any{"properties": []string{"documentation", "detail", "additionalTextEdits"}}}, "contextSupport": true},
			"codeAction": map[string]any{"codeActionLiteralSupport": map[string]any{"codeActionKind": map[string]any{"valueSet": []string{"", "quickfix", "refactor", "source"}}}, "dataSupport": true, "resolveSupport": map[string]any{"properties": []string{"edit"}}},
			"rename":     map[string]any{"prepareSupport": true}, "documentSymbol": map[string]any{"hierarchicalDocumentSymbolSupport": true},
			"semanticTokens": map[string]any{
				"requests": map[string]any{"full": map[string]any{"delta": true}, "range": true}, "formats": []string{"relative"},
				"tokenTypes":     []string{"namespace", "type", "class", "enum", "interface", "struct", "typeParameter", "parameter", "variable", "property", "enumMember", "function", "method", "macro", "keyword", "comment", "string", "number", "operator"},
				"tokenModifiers": []string{"declaration", "definition", "readonly", "static", "deprecated", "abstract", "async", "defaultLibrary"},
			},
			"definition": map[string]any{"linkSupport": true}, "inlayHint": map[string]any{"resolveSupport": map[string]any{"properties": []string{"tooltip"}}},
			"callHierarchy": dynamicless, "typeHierarchy": dynamicless, "codeLens": dynamicless, "foldingRange": dynamicless, "selectionRange": dynamicless,
			"signatureHelp": map[string]any{"signatureInformation": map[string]any{"documentationFormat": []string{"markdown"}}},
			// Some servers analyse other things, and so know of other names, when they
			// are not asked for diagnostics; a shadow is always asked.
			"diagnostic": map[string]any{"dynamicRegistration": true},
		},
	}
}

// TestSameAnswers is one test per server.
func TestSameAnswers(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(projects)) {
		t.Run(name, func(t *testing.T) { sameAnswers(t, projects[name]) })
	}
}

func sameAnswers(t *testing.T, p project) {
	command := p.needs(t)
	s := stage.Set(t, p.files)
	t.Cleanup(func() { must(t, s.Close()) })
	env := p.env(s, command)
	bare := startBare(t, s, env, command, p)
	p.link(t, s.Dir)
	agent := start(t, s.Dir, env, append([]string{need.Shadowlsp(t), "connect", "--"}, command...), project{options: p.options})
	c := newComparison(t, bare, agent, p)
	for _, q := range p.queries {
		c.ask("workspace/symbol", map[string]any{"query": q})
	}
	c.everything(p)
	c.edited(p)
	c.concludes()
}

// newComparison opens a project's documents on all sides, and waits until they are
// loaded.
func newComparison(t *testing.T, bare [2]*side, agent *side, p project) *comparison {
	t.Helper()
	c := &comparison{t: t, sides: [3]*side{bare[0], agent, bare[1]}, never: p.never, counts: map[string]int{}, executed: map[string]bool{}, versions: map[string]int{}, tokens: map[string]answers{}}
	for _, path := range slices.Sorted(maps.Keys(p.open)) {
		for _, x := range c.sides {
			must(t, x.c.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
				"uri": x.uri(path), "languageId": p.open[path], "version": 1, "text": p.files[path],
			}}))
		}
	}
	if p.readyAt != "" {
		c.loaded(p)
	}
	return c
}

// everything asks about a project's documents, as they are.
func (c *comparison) everything(p project) {
	c.t.Helper()
	for _, path := range slices.Sorted(maps.Keys(p.open)) {
		tokens := c.document(path, p.files[path])
		step := everyNth
		if c.merged {
			step = everyNthMerged
		}
		if os.Getenv(fullVariable) == "full" {
			step = 1
		}
		for n, at := range positions(p.files[path]) {
			if n%step == 0 {
				c.position(path, at)
			}
		}
		c.problems(path)
		c.sources(path, p.files[path])
		c.tokens[path] = tokens
	}
}

// concludes says what came of it.
func (c *comparison) concludes() {
	c.t.Helper()
	c.t.Logf("%d questions, %d with an answer, %d to which two bare servers say different things; answers: %v; of the latter: %v",
		c.asked, c.answered, len(c.unsteady), c.counts, c.unsteady)
	if c.answered < c.asked/10 {
		c.t.Error("hardly anything was answered")
	}
}

// needs returns the server's command, on a machine that has what the test needs.
func (p project) needs(t *testing.T) []string {
	t.Helper()
	need.View(t)
	for _, name := range p.tools {
		need.Tool(t, name)
	}
	return append([]string{need.Tool(t, p.command[0])}, p.command[1:]...)
}

// startBare starts two bare servers, each in a copy of the workspace.
func startBare(t *testing.T, s *stage.Stage, env, command []string, p project) (bare [2]*side) {
	t.Helper()
	for n := range bare {
		top, err := filepath.EvalSymlinks(t.TempDir())
		must(t, err)
		dir := filepath.Join(top, filepath.Base(s.Dir)) // servers name it
		must(t, stage.Copy(dir, s.Dir))                 // its .git, too
		p.link(t, dir)
		bare[n] = start(t, dir, env, command, p)
		if p.settings != nil {
			// As editors tell those that they have. Some servers ask for none.
			var settings any = p.settings
			if all, ok := p.settings[""]; ok {
				settings = all
			}
			must(t, bare[n].c.Notify("workspace/didChangeConfiguration", map[string]any{"settings": settings}))
		}
	}
	return bare
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts one side with a project's options and settings.
func start(t *testing.T, dir string, env, command []string, p project) *side {
	t.Helper()
	x := &side{dir: dir}
	var err error
	x.c, err = client.Start(client.Config{Command: command, Dir: dir, Env: env, Stderr: t.Output(), Settings: p.settings, Answer: x.answer})
	must(t, err)
	t.Cleanup(func() { x.c.Close() }) // some servers end with a status of their own
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := x.c.Initialize(ctx, docuri.FromPath(dir), capabilities(), p.options)
	must(t, err)
	x.legend, x.commands = legendOf(result), union.Commands(result)
	return x
}

func (x *side) uri(path string) string { return docuri.FromPath(filepath.Join(x.dir, path)) }

// point is a position in a document.
type point struct{ Line, Character int }

// positions are all of a text, in UTF-16.
func positions(text string) (all []point) {
	for line, content := range strings.Split(text, "\n") {
		for character := range len(utf16.Encode([]rune(content))) + 1 {
			all = append(all, point{line, character})
		}
	}
	return all
}

// agentSide is the agent's place among the sides.
const agentSide = 1

// comparison puts questions to all sides.
type comparison struct {
	t               *testing.T
	sides           [3]*side // the bare server, the agent, and the bare server once more
	asked, answered int
	counts          map[string]int // answers that say something, by method
	differences     int
	merged          bool     // the agent has several servers behind it
	never           []string // commands that are not executed
	executed        map[string]bool
	versions        map[string]int     // of documents, less 1
	tokens          map[string]answers // as they were first, by path
	unsteady        []string           // questions to which the bare server says one thing and another
}

// maxDifferences ends a test: more say no more.
const maxDifferences = 20

// answers are the raw ones, of each side.
type answers [3]json.RawMessage

// ask puts a question to all and returns their raw answers. $D in strings of params
// is the side's folder.
func (c *comparison) ask(method string, params map[string]any) answers {
	c.t.Helper()
	return c.askEach(method, [3]map[string]any{params, params, params})
}

// askEach is ask with params of each side's own.
func (c *comparison) askEach(method string, params [3]map[string]any) (raw answers) {
	c.t.Helper()
	return c.compare("", method, params, func(x *side, _ int, raw json.RawMessage) (any, error) {
		if strings.HasPrefix(method, "textDocument/semanticTokens") {
			said, _, err := x.tokens(raw, nil)
			return said, err
		}
		var v any
		err := json.Unmarshal(raw, &v)
		return comparable(method, v), err
	})
}

// compare puts a question, and compares what read makes of the answer of the nth side.
func (c *comparison) compare(about, method string, params [3]map[string]any, read func(x *side, n int, raw json.RawMessage) (any, error)) (raw answers) {
	c.t.Helper()
	c.asked++
	var said [3]string
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for try := range settling {
		for n, x := range c.sides {
			if n == agentSide && try > 0 {
				continue // what it says it says at once
			}
			raw[n], said[n] = c.one(x, method, params[n], func(raw json.RawMessage) (any, error) { return read(x, n, raw) })
		}
		if c.merged && strings.HasSuffix(method, "/resolve") && strings.HasPrefix(said[0], fmt.Sprintf("error %d", wire.CodeMethodNotFound)) {
			return raw // an agent cannot know that this one of its servers has no more to say
		}
		if said[0] == said[1] && said[1] == said[2] || said[0] != said[2] && try >= steady {
			break
		}
		<-again.C
	}
	switch {
	case said[0] != said[2]:
		c.unsteady = append(c.unsteady, fmt.Sprint(method, " ", about, params[0]["position"], params[0]["label"], params[0]["command"]))
		return raw
	case said[0] != said[1]:
		c.differences++
		c.t.Errorf("%s %s %v\n%s", method, about, params[0], difference(said[0], said[1]))
		if c.differences == maxDifferences {
			c.t.Fatal("and so on")
		}
		return raw
	}
	switch {
	case strings.HasPrefix(said[0], fmt.Sprintf("error %d", wire.CodeMethodNotFound)):
		c.asked-- // the server has no such thing
	case said[0] != "null" && said[0] != "[]" && !strings.HasPrefix(said[0], "error "):
		c.answered++
		c.counts[method]++
	}
	return raw
}

// difference shows where two answers part.
func difference(bare, agent string) string {
	at := 0
	for at < min(len(bare), len(agent)) && bare[at] == agent[at] {
		at++
	}
	around := func(s string) string { return s[min(max(at-150, 0), len(s)):min(at+200, len(s))] }
	return fmt.Sprintf("bare:  …%s…\nagent: …%s…", around(bare), around(agent))
}

// one asks one side and returns the answer, and what is compared of it.
func (c *comparison) one(x *side, method string, params map[string]any, read func(json.RawMessage) (any, error)) (json.RawMessage, string) {
	ctx, cancel := c.patient()
	defer cancel()
	raw, err := x.c.Call(ctx, method, x.own(params))
	var e *wire.Error
	if errors.As(err, &e) {
		return nil, x.common(fmt.Sprintf("error %d %s", e.Code, places.ReplaceAllString(e.Message, "[]")))
	}
	must(c.t, err)
	v, err := read(raw)
	must(c.t, err)
	data, err := json.Marshal(v)
	must(c.t, err)
	return raw, x.common(string(data))
}

func (c *comparison) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.t.Context(), patience)
}

// places are offsets among all files that a server has read, in its error messages
// (gopls), which depend on the order of reading.
var places = regexp.MustCompile(`\[\d+:\d+\]`)

// own puts the side's folder into params.
func (x *side) own(params map[string]any) json.RawMessage {
	data, err := json.Marshal(params)
	if err != nil {
		panic(err) // made of strings and numbers
	}
	return json.RawMessage(strings.ReplaceAll(string(data), "$D", docuri.FromPath(x.dir)))
}

// placed puts $D in the place of the side's folder.
func (x *side) placed(s string) string { return strings.ReplaceAll(s, docuri.FromPath(x.dir), "$D") }

// common takes the side's folder out.
func (x *side) common(s string) string { return strings.ReplaceAll(s, x.dir, "$FOLDER") }

// unordered are methods whose lists have no order that means anything.
var unordered = map[string]bool{
	"workspace/symbol": true, "textDocument/references": true, "textDocument/implementation": true, "textDocument/definition": true,
	"textDocument/completion": true, "textDocument/documentHighlight": true, "callHierarchy/incomingCalls": true,
	"callHierarchy/outgoingCalls": true, "typeHierarchy/subtypes": true, "typeHierarchy/supertypes": true, "textDocument/rename": true,
	"codeAction/resolve": true, "workspace/executeCommand": true, "textDocument/codeLens": true, "textDocument/documentLink": true,
}

// private are members that a server hands out to get them back: they name its own
// state.
var private = map[string]bool{"data": true, "resultId": true}

// arguments of a command go back to the server that they are from: the versions of
// documents in them (eslint) are its own.
const arguments = "arguments"

// comparable leaves out what is private and sorts what has no order.
func comparable(method string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			switch {
			case private[name] || method == arguments && name == "version":
			case name == arguments:
				out[name] = comparable(arguments, value)
			default:
				out[name] = comparable(method, value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for n, value := range v {
			out[n] = comparable(method, value)
		}
		if unordered[method] {
			sort.Slice(out, func(a, b int) bool { return fmt.Sprint(out[a]) < fmt.Sprint(out[b]) })
		}
		return out
	}
	return v
}

// loaded waits until both know where a symbol of another file is.
func (c *comparison) loaded(p project) {
	c.t.Helper()
	before, _, _ := strings.Cut(p.files[p.readyPath], p.readyAt)
	at := positions(before)
	params := place(p.readyPath, at[len(at)-1])
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		var said [3]string
		for n, x := range c.sides {
			_, said[n] = c.one(x, "textDocument/definition", params, func(raw json.RawMessage) (v any, err error) {
				err = json.Unmarshal(raw, &v)
				return comparable("textDocument/definition", v), err
			})
		}
		if said[0] == said[1] && said[1] == said[2] && strings.Contains(said[0], "$FOLDER") {
			return
		}
		select {
		case <-again.C:
		case <-late.C:
			c.t.Fatalf("not loaded:\n%s", strings.Join(said[:], "\n"))
		}
	}
}

func place(path string, at point) map[string]any {
	return map[string]any{"textDocument": map[string]any{"uri": "$D/" + path}, "position": map[string]int{"line": at.Line, "character": at.Character}}
}
