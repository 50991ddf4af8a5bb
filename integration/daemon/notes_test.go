package daemon

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/lsp/wire"
)

// shows declares that a client shows progress.
var shows = map[string]any{"window": map[string]any{"workDoneProgress": true}}

// start is a progress that the agent did not ask for.
type start struct {
	token string
	told  []string // kind, title and message
}

// hearsStart waits for the end of a progress about a server's start.
func (a *agent) hearsStart(t *testing.T, server string) (s start) {
	t.Helper()
	a.hears(t, "the end of the start of "+server, func(m wire.Message) bool {
		var p struct {
			Token json.RawMessage
			Value struct{ Kind, Title, Message string }
		}
		if m.Method != "$/progress" || json.Unmarshal(m.Params, &p) != nil || p.Value.Kind == "begin" && !strings.Contains(p.Value.Title, server+" starts") || p.Value.Kind != "begin" && string(p.Token) != s.token {
			return false
		}
		s.token = string(p.Token)
		s.told = append(s.told, strings.Join(strings.Fields(p.Value.Kind+" "+p.Value.Title+" "+p.Value.Message), " "))
		return p.Value.Kind == "end"
	})
	return s
}

// Agents that show progress are shown how a server loads, in its own words, with one
// beginning and one end; those that come while it does, too.
func TestAgentsSeeAServerLoad(t *testing.T) {
	for name, c := range map[string]struct {
		world func(*testing.T) *world
		says  *regexp.Regexp // as the server itself says it
	}{
		"gopls":         {func(t *testing.T) *world { return shared(t) }, regexp.MustCompile("workspace|packages")},
		"rust-analyzer": {newCrates, regexp.MustCompile("Fetching|Building|Roots Scanned|Loading")},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.world(t)
			a := w.agent(t, attach{capabilities: shows})
			deaf := w.agent(t, attach{})
			s := a.hearsStart(t, name)
			if !slices.ContainsFunc(s.told, func(line string) bool { return c.says.MatchString(line) }) {
				t.Errorf("nothing of %v: %q", c.says, s.told)
			}
			if s.told[0][:5] != "begin" || s.told[len(s.told)-1] != "end ready" {
				t.Errorf("told is %q", s.told)
			}
			// It was asked for leave before.
			a.hears(t, "the token", func(m wire.Message) bool {
				return m.Method == "window/workDoneProgress/create" && strings.Contains(string(m.Params), s.token)
			})
			if heard := deaf.heard(); strings.Contains(heard, "rogress") {
				t.Errorf("an agent that shows none heard %s", heard)
			}
			// A later start is shown as well.
			a.forget()
			status, _ := w.status(t)
			must(t, syscall.Kill(status.Servers[0].Instances[0].PID, syscall.SIGKILL))
			a.edit(t, w.text("a.txt", "Something to ask about.\n"))
			a.get(t, "workspace/diagnostic", map[string]any{"previousResultIds": []any{}}, nil)
			again := a.hearsStart(t, name)
			if again.token == s.token {
				t.Error("the second start has the first one's token")
			}
		})
	}
}

// What rust-analyzer says of its own state reaches those whom it concerns, as its own
// clients would see it: of the folder, all, also those who come later; of a branch,
// the agents on it.
func TestNotesOfServers(t *testing.T) {
	w := newCrates(t)
	a, b := w.agent(t, attach{branch: "a"}), w.agent(t, attach{branch: "b"})
	raw := w.agent(t, attach{branch: "a", capabilities: map[string]any{"experimental": map[string]any{"serverStatusNotification": true}}})
	a.clean(t, "lib/src/lib.rs")
	a.forget()
	b.forget()
	a.edit(t, w.text("lib/build.rs", brokenScript))
	if _, err := a.tryLint(t.Context(), "lib/src/lib.rs"); err == nil || !strings.Contains(err.Error(), "build scripts") {
		t.Errorf("a build script fails, and the lint says %v", err)
	}
	saysScripts := func(m wire.Message) bool { return strings.Contains(string(m.Params), "build scripts") }
	a.hears(t, "a message", func(m wire.Message) bool { return m.Method == "window/showMessage" && saysScripts(m) })
	raw.hears(t, "the status", func(m wire.Message) bool { return m.Method == "experimental/serverStatus" && saysScripts(m) })
	b.clean(t, "lib/src/lib.rs")
	if heard := b.heard(); strings.Contains(heard, "build scripts") || strings.Contains(heard, "OnlyOfA") {
		t.Errorf("the agent on another branch heard %s", heard)
	}
}

// brokenScript is lib/build.rs that fails.
const brokenScript = "fn main() {\n    panic!(\"OnlyOfA\");\n}\n"

// Who comes when the server has loaded hears what was wrong then.
func TestLateAgentsHearWhatIsWrong(t *testing.T) {
	need.Tool(t, "rust-analyzer")
	need.Tool(t, "cargo")
	files := maps.Clone(crates)
	files["lib/build.rs"] = brokenScript
	w := newWorld(t, files)
	w.serve(t)
	scripts := func(a *agent) {
		a.hears(t, "a message", func(m wire.Message) bool {
			return m.Method == "window/showMessage" && strings.Contains(string(m.Params), "build scripts")
		})
	}
	a := w.agent(t, attach{branch: "a", capabilities: shows})
	a.hearsStart(t, "rust-analyzer")
	scripts(a)
	scripts(w.agent(t, attach{branch: "b"}))
}
