package coverage

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/wire"
)

// below returns the project as a folder of a larger workspace.
func (p project) below(folder string) project {
	under := func(files map[string]string) map[string]string {
		out := map[string]string{}
		for name, value := range files {
			out[path.Join(folder, name)] = value
		}
		return out
	}
	p.files, p.open, p.links, p.readyPath = under(p.files), under(p.open), under(p.links), path.Join(folder, p.readyPath)
	return p
}

// One connection to all servers of a workspace gets from each what that one says to a
// client of its own: items that are resolved, and hierarchies that are followed, go
// back to the server that they are from.
func TestMergedAnswers(t *testing.T) {
	names := []string{"clangd", "gopls", "pyright", "typescript-language-server"}
	if os.Getenv(fullVariable) == "full" {
		names = slices.DeleteFunc(slices.Sorted(maps.Keys(projects)), func(name string) bool { return beside[name] })
	}
	files, at := map[string]string{"shadowlsp.toml": goplsSettings}, ""
	commands, all := map[string][]string{}, map[string]project{}
	for _, name := range names {
		all[name] = projects[name].below(name)
		commands[name] = all[name].needs(t)
		maps.Copy(files, all[name].files)
		at += filepath.Dir(commands[name][0]) + ":"
	}
	s := stage.Set(t, files)
	t.Cleanup(func() { must(t, s.Close()) })
	env := append(slices.Clip(s.Env), "PATH="+at+os.Getenv("PATH"))
	agent := start(t, s.Dir, env, []string{need.Shadowlsp(t), "connect"}, project{})
	var queries []string
	comparisons := map[string]*comparison{}
	for _, name := range names {
		p := all[name]
		queries = append(queries, p.queries...)
		c := newComparison(t, startBare(t, s, env, commands[name], p), agent, p)
		c.merged = true
		for _, x := range c.sides {
			x.within = agent.legend.TokenModifiers
		}
		comparisons[name] = c
	}
	followed := map[string]int{}
	each := func(about string, f func(*comparison, project)) {
		for _, name := range names {
			t.Run(name+" "+about, func(t *testing.T) {
				c := comparisons[name]
				outer := c.t
				c.t = t
				f(c, all[name])
				c.t = outer
			})
		}
	}
	each("as it is", func(c *comparison, p project) { c.everything(p) })
	symbols(t, slices.Collect(maps.Values(comparisons)), agent, queries)
	each("edited", func(c *comparison, p project) {
		c.edited(p)
		c.concludes()
		maps.Copy(followed, c.counts)
	})
	for _, method := range []string{"completionItem/resolve", "codeAction/resolve", "textDocument/semanticTokens/full", "workspace/applyEdit", "callHierarchy/incomingCalls", "typeHierarchy/subtypes"} {
		if followed[method] == 0 {
			t.Errorf("nothing was said to any %s: %v", method, followed)
		}
	}
}

// beside are servers of languages that another one takes where both are there, and a
// linter, whose answers stand beside another's.
var beside = map[string]bool{"vtsls": true, "typescript7": true, "basedpyright": true, "eslint": true}

// symbols compares what the agent says to queries of workspace/symbol with what all
// bare servers say. A query to which two of a kind say different things is left out.
func symbols(t *testing.T, servers []*comparison, agent *side, queries []string) {
	t.Helper()
	found, asked := 0, 0
	slices.Sort(queries)
next:
	for _, q := range slices.Compact(queries) {
		var want []string
		for _, c := range servers {
			a, b := c.sides[0].symbols(t, q), c.sides[2].symbols(t, q)
			if !slices.Equal(a, b) {
				t.Logf("two bare servers say different things to %q", q)
				continue next
			}
			want = append(want, a...)
		}
		slices.Sort(want)
		got := agent.symbols(t, q)
		asked++
		found += len(got)
		if !slices.Equal(got, want) {
			t.Errorf("workspace/symbol %q:\nbare servers: %q\nagent:        %q", q, want, got)
		}
	}
	t.Logf("%d symbols to %d queries, of all servers", found, asked)
	if found == 0 {
		t.Error("no symbol was found")
	}
}

// symbols asks for those of the workspace, sorted; none of who has none.
func (x *side) symbols(t *testing.T, query string) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	raw, err := x.c.Call(ctx, "workspace/symbol", map[string]any{"query": query})
	if refused := (*wire.Error)(nil); errors.As(err, &refused) {
		return nil
	}
	must(t, err)
	var list []any
	must(t, json.Unmarshal(raw, &list))
	for _, one := range list {
		data, err := json.Marshal(comparable("workspace/symbol", one))
		must(t, err)
		all = append(all, x.common(string(data)))
	}
	slices.Sort(all)
	return all
}
