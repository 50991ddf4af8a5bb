package coverage

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
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
	p.files, p.open, p.readyPath = under(p.files), under(p.open), path.Join(folder, p.readyPath)
	return p
}

// One connection to all servers of a workspace gets from each what that one says to a
// client of its own: items that are resolved, and hierarchies that are followed, go
// back to the server that they are from.
func TestMergedAnswers(t *testing.T) {
	names := []string{"clangd", "gopls", "pyright"}
	if os.Getenv(fullVariable) == "full" {
		names = slices.Sorted(maps.Keys(projects))
	}
	files, at := map[string]string{}, ""
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
	agent := start(t, s.Dir, env, []string{need.Shadowlsp(t), "connect"}, nil)
	followed := map[string]int{}
	for _, name := range names {
		p := all[name]
		t.Run(name, func(t *testing.T) {
			bare := startBare(t, s, env, commands[name], p)
			c := comparison{t: t, sides: [3]*side{bare[0], agent, bare[1]}, counts: map[string]int{}, merged: true}
			for _, path := range slices.Sorted(maps.Keys(p.open)) {
				for _, x := range c.sides {
					must(t, x.c.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
						"uri": x.uri(path), "languageId": p.open[path], "version": 1, "text": p.files[path],
					}}))
				}
			}
			c.loaded(p)
			c.everything(p)
			maps.Copy(followed, c.counts)
		})
	}
	for _, method := range []string{"completionItem/resolve", "codeAction/resolve", "callHierarchy/incomingCalls", "typeHierarchy/subtypes"} {
		if followed[method] == 0 {
			t.Errorf("nothing was said to any %s: %v", method, followed)
		}
	}
}
