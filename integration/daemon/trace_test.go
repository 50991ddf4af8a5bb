package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shadowlsp/integration/stage"
)

// Front and daemon write one dump: every line is one JSON object of the
// documented members, all lanes are in it, and the token is not.
func TestTheTraceDump(t *testing.T) {
	w := newWorld(t, module)
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	person := w.person(t, "--trace-dump", file)
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	must(t, person.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": w.uri("use/use.go"), "languageId": "go", "version": 1, "text": module["use/use.go"],
	}}))
	w.hover(t, person)
	s, _ := w.status(t)
	raw, err := os.ReadFile(s.Agent.TokenFile)
	must(t, err)
	token := strings.TrimSpace(string(raw))
	c, err := net.Dial("tcp", s.Agent.TCP)
	must(t, err)
	a := w.speak(t, c)
	must(t, a.initialize(t.Context(), attach{branch: "a", token: token}))
	b := w.agent(t, attach{branch: "b"})
	for i := range 3 {
		for n, agent := range []*agent{a, b} {
			word := fmt.Sprintf("Traced%dx%d", n, i)
			agent.edit(t, w.text("lib/lib.go", stage.LibText(word)))
			agent.names(t, "use/use.go", word)
		}
	}
	leaves(t, person)
	w.output(t, w.binary, "stop")

	st, err := os.Stat(file)
	must(t, err)
	if st.Mode().Perm() != 0o600 {
		t.Errorf("the dump's mode is %v", st.Mode())
	}
	dump, err := os.ReadFile(file)
	must(t, err)
	if bytes.Contains(dump, []byte(token)) {
		t.Error("the dump holds the token")
	}
	if !bytes.HasSuffix(dump, []byte("\n")) {
		t.Error("the dump ends within a line")
	}
	lanes, events, branches, methods := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for line := range bytes.Lines(dump) {
		var l map[string]json.RawMessage
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		text := func(key string) (s string) {
			if raw, ok := l[key]; ok {
				must(t, json.Unmarshal(raw, &s))
			}
			return s
		}
		if _, err := time.Parse(time.RFC3339Nano, text("ts")); err != nil {
			t.Errorf("%v in %s", err, line)
		}
		lane, event, dir := text("lane"), text("event"), text("dir")
		lanes[lane]++
		branches[lane+" "+text("branch")]++
		if event != "" {
			events[event]++
			if event == "gap" && lane == "user" {
				continue // the front ended with half a frame of the server in hand
			}
			if lane != "scheduler" || l["msg"] != nil || text("instance") == "" || text("branch") == "" {
				t.Errorf("an event: %s", line)
			}
			continue
		}
		var m struct {
			Method  string
			JSONRPC string
		}
		if err := json.Unmarshal(l["msg"], &m); err != nil || m.JSONRPC != "2.0" || dir != "->" && dir != "<-" {
			t.Errorf("a message: %v, %s", err, line)
		}
		if lane == "shadow" && !strings.HasPrefix(text("instance"), "gopls#") || lane == "user" && text("instance") != "gopls" {
			t.Errorf("whose is %s", line)
		}
		methods[lane+dir+m.Method]++
		for key := range l {
			if !strings.Contains(" ts lane branch instance dir msg ", " "+key+" ") {
				t.Errorf("a member %q in %s", key, line)
			}
		}
	}
	for what, found := range map[string]bool{
		"the user lane": lanes["user"] > 5, "the agent lane": lanes["agent"] > 20, "the shadow lane": lanes["shadow"] > 20,
		"turns": events["turn"] >= 6, "switches": events["switch"] >= 4, "barriers": events["barrier"] >= 6, "no drops": events["dropped"] == 0,
		"the agents' branches": branches["agent a"] > 5 && branches["agent b"] > 5, "the shadow's branches": branches["shadow a"] > 5 && branches["shadow b"] > 5,
		"the person's hover": methods["user->textDocument/hover"] == 1, "an agent's lint": methods["agent->textDocument/diagnostic"] == 6,
		"a shadow's edit":        methods["shadow->textDocument/didChange"]+methods["shadow->textDocument/didOpen"] > 0,
		"the agents' initialize": methods["agent->initialize"] == 2, "the user's initialize": methods["user->initialize"] == 1,
	} {
		if !found {
			t.Errorf("not in the dump: %s", what)
		}
	}
	if t.Failed() {
		t.Logf("lanes %v, events %v, branches %v, methods %v", lanes, events, branches, methods)
	}
}

// A dump that cannot be opened is an error of who asked for the daemon, and no
// matter to a person.
func TestADumpThatCannotBeWritten(t *testing.T) {
	w := newWorld(t, module)
	file := filepath.Join(t.TempDir(), "no", "such", "folder")
	out, err := w.command(w.binary, "serve", "--detach", "--trace-dump", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), file) {
		t.Errorf("serve: %v, %s", err, out)
	}
	person := w.person(t, "--trace-dump", file)
	w.hover(t, person)
}

// A daemon that runs already traces when it is asked to: by a front or an agent
// that come with --trace-dump, or by `shadowlsp trace`; and ends it.
func TestATraceBeginsLater(t *testing.T) {
	w := newWorld(t, module)
	w.serve(t)
	a := w.agent(t, attach{branch: "b"})
	round := 0
	// lint is a lint of a state that was never asked about.
	lint := func() {
		t.Helper()
		round++
		word := fmt.Sprintf("Later%d", round)
		a.edit(t, w.text("lib/lib.go", stage.LibText(word)))
		a.names(t, "use/use.go", word)
	}
	dir := t.TempDir()
	count := func(name, what string) int {
		t.Helper()
		dump, err := os.ReadFile(filepath.Join(dir, name))
		if !errors.Is(err, fs.ErrNotExist) {
			must(t, err)
		}
		return bytes.Count(dump, []byte(what))
	}
	traced := func(want string) {
		t.Helper()
		if s, _ := w.status(t); s.Trace != want {
			t.Errorf("status says that the trace is %q, want %q", s.Trace, want)
		}
	}
	lint()
	traced("")

	file := filepath.Join(dir, "front")
	person := w.person(t, "--trace-dump", file)
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	traced(file)
	lint()
	w.hover(t, person)
	for _, what := range []string{`"lane":"user"`, `"lane":"agent","branch":"b"`, `"lane":"shadow","branch":"b"`, `"event":"turn"`, `"event":"barrier"`, "Later2"} {
		stage.Eventually(t, what+" is in the dump", func() bool { return count("front", what) > 0 })
	}
	if n := count("front", "Later1"); n > 0 && count("front", "Later2") == 0 {
		t.Errorf("what was before is in the dump %d times", n)
	}

	// Another file takes over, and is made relative to the caller's folder.
	cmd := w.command(w.binary, "trace", "asked", "--workspace", w.Dir)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	traced(filepath.Join(dir, "asked"))
	lint()
	stage.Eventually(t, "the lint is in the second dump", func() bool { return count("asked", "Later3") > 0 })
	w.output(t, w.binary, "trace", "--off")
	traced("")
	lint()
	if n := count("asked", "Later4") + count("front", `"lane":"agent","branch":"b","dir":"->","msg":{"jsonrpc":"2.0","id":3`); n > 0 {
		t.Errorf("traced after the end: %d", n)
	}

	// An agent's wish, and one that cannot be had.
	c := w.connect(t, "", "--branch", "c", "--trace-dump", filepath.Join(dir, "agent"))
	must(t, c.initialize(t.Context(), attach{}))
	stage.Eventually(t, "initialize is in the dump", func() bool { return count("agent", `"lane":"agent","branch":"c"`) > 0 })
	out, err := w.command(w.binary, "trace", filepath.Join(dir, "no", "such")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), filepath.Join(dir, "no", "such")) {
		t.Errorf("%v: %s", err, out)
	}
	traced(filepath.Join(dir, "agent"))
	for _, args := range [][]string{{"trace"}, {"trace", "--off", "x"}, {"trace", "x", "y"}} {
		if out, err := w.command(w.binary, args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "a file or --off") {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
}

// status shows what is going on.
func TestStatus(t *testing.T) {
	w := newWorld(t, module)
	person := w.person(t)
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	a := w.agent(t, attach{branch: "shown"})
	a.open(t, "lib/lib.go", stage.LibText("Shown"), 1)
	a.names(t, "use/use.go", "Shown")
	var s struct {
		Root          string
		PID           int
		UptimeSeconds float64
		Agent         struct{ Unix, TCP, TokenFile string }
		Fronts        []struct {
			PID     int
			Command []string
		}
		Servers []struct {
			Name      string
			Command   []string
			Instances []struct {
				Name, Branch string
				PID          int
			}
		}
		Branches []struct {
			Name                              string
			Rev, Overrides, Documents, Agents int
			Keep                              bool
		}
		MemoryBytes int
	}
	must(t, json.Unmarshal([]byte(w.output(t, w.binary, "status", "--json")), &s))
	if s.Root != w.Dir || s.PID != w.Daemon() || s.UptimeSeconds <= 0 || s.MemoryBytes <= 0 {
		t.Errorf("the daemon: %+v", s)
	}
	if len(s.Fronts) != 1 || s.Fronts[0].PID != person.Pid() || strings.Join(s.Fronts[0].Command, " ") != "gopls" {
		t.Errorf("the fronts: %+v", s.Fronts)
	}
	if len(s.Servers) != 1 || len(s.Servers[0].Instances) != 1 || s.Servers[0].Name != "gopls" || s.Servers[0].Instances[0].Branch != "shown" ||
		s.Servers[0].Instances[0].PID != stage.Parent(w.server(t).PID) {
		t.Errorf("the servers: %+v", s.Servers)
	}
	if len(s.Branches) != 1 || s.Branches[0].Name != "shown" || s.Branches[0].Overrides != 1 || s.Branches[0].Documents != 1 || s.Branches[0].Agents != 1 || !s.Branches[0].Keep || s.Branches[0].Rev == 0 {
		t.Errorf("the branches: %+v", s.Branches)
	}
	text := w.output(t, w.binary, "status")
	for _, want := range []string{w.Dir, fmt.Sprint(s.PID), s.Agent.Unix, s.Agent.TCP, s.Agent.TokenFile, "[gopls]", `"shown"`, "1 overrides", fmt.Sprint(person.Pid())} {
		if !strings.Contains(text, want) {
			t.Errorf("status lacks %s:\n%s", want, text)
		}
	}
	// From a folder below, and for one that is named from elsewhere.
	below := w.command(w.binary, "status", "--json")
	below.Dir = w.path("lib")
	if out, err := below.Output(); err != nil || !bytes.Contains(out, []byte(w.Dir)) {
		t.Errorf("from a folder below: %s, %v", out, err)
	}
	named := w.command(w.binary, "status", "--workspace", w.path("use"))
	named.Dir = "/"
	if out, err := named.Output(); err != nil || !bytes.Contains(out, []byte(w.Dir)) {
		t.Errorf("by --workspace: %s, %v", out, err)
	}
	var mine struct {
		Branch  string
		Keep    bool
		Agents  int
		Servers []struct{ Name, State string }
	}
	a.get(t, "shadowlsp/status", nil, &mine)
	if mine.Branch != "shown" || !mine.Keep || mine.Agents != 1 || len(mine.Servers) != 1 || mine.Servers[0].State != "ready" {
		t.Errorf("shadowlsp/status: %+v", mine)
	}
}
