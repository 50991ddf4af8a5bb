package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shadowlsp/integration/client"
	"shadowlsp/integration/stage"
)

// The daemon is started by the first agent's `connect`, serves it, and ends by
// itself when nobody is left, with all that it started.
func TestConnectStartsTheDaemonAndItEndsByItself(t *testing.T) {
	w := newWorld(t, module)
	c := w.connect(t, "", "--branch", "named", "--linger", "200ms")
	must(t, c.initialize(t.Context(), attach{}))
	if branch, methods := c.about(t); branch != "named" || len(methods) == 0 {
		t.Errorf("the agent is on branch %q, with methods %q", branch, methods)
	}
	c.open(t, "lib/lib.go", stage.LibText("Mine"), 1)
	c.names(t, "use/use.go", "Mine")
	all := stage.Family(t, w.Daemon())
	if len(servers(t, w.Daemon())) != 1 {
		t.Errorf("the daemon's processes are %v, want one gopls", all)
	}
	c.leave(t)
	if err := c.process.Wait(); err != nil {
		t.Errorf("connect ended with %v: %s", err, c.stderr)
	}
	stage.AllGone(t, all)
	for _, name := range []string{w.place.Control(), w.place.Agent()} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s is left behind", filepath.Base(name))
		}
	}
	// The named branch waits for whoever comes next.
	again := w.connect(t, "lib", "--branch", "named")
	must(t, again.initialize(t.Context(), attach{}))
	if got := again.file(t, "lib/lib.go"); got != stage.LibText("Mine") {
		t.Errorf("after the daemon's own end the branch holds %q", got)
	}
}

// A connection that is being set up needs the daemon, however short it lingers.
func TestAnAttachingAgentIsNotLeftAlone(t *testing.T) {
	w := newWorld(t, module)
	w.serve(t, "--linger", "20ms") // far less than a server needs to start
	daemon := stage.Observe(t, w.Daemon())
	first := w.agent(t, attach{})
	second := w.speak(t, w.dial(t))
	first.leave(t)
	if daemon.Gone(200 * time.Millisecond) {
		t.Fatal("the daemon has gone while an agent was connecting")
	}
	must(t, second.initialize(t.Context(), attach{}))
	second.clean(t, "use/use.go")
	second.leave(t)
	if !daemon.Gone(patience) {
		t.Error("nobody is left, and the daemon stays")
	}
}

// Whoever comes first starts it, all others join, from wherever in the root they
// are started.
func TestTenStartersGetOneDaemon(t *testing.T) {
	w := newWorld(t, module)
	var group sync.WaitGroup
	var failures sync.Map
	agents := make([]connected, 10)
	for i := range agents {
		agents[i] = w.connect(t, []string{"", "lib", "use"}[i%3])
	}
	for i, c := range agents {
		group.Go(func() {
			if err := c.initialize(t.Context(), attach{}); err != nil {
				failures.Store(i, fmt.Errorf("%w: %s", err, c.stderr))
			}
		})
	}
	group.Wait()
	failures.Range(func(i, err any) bool { t.Errorf("agent %v: %v", i, err); return true })
	daemons := []string{}
	for _, pid := range stage.Processes() {
		if line := stage.CommandLine(pid); strings.Contains(line, " serve ") && strings.Contains(line, w.Dir) {
			daemons = append(daemons, line)
		}
	}
	if len(daemons) != 1 {
		t.Errorf("%d daemons: %q", len(daemons), daemons)
	}
	branches := map[string]bool{}
	for _, c := range agents {
		branch, _ := c.about(t)
		branches[branch] = true
	}
	if len(branches) != len(agents) {
		t.Errorf("%d agents have %d branches", len(agents), len(branches))
	}
	if n := len(servers(t, w.Daemon())); n != 1 {
		t.Errorf("%d instances of gopls, want 1", n)
	}
	// Another daemon is refused, and says why.
	out, err := w.command(w.binary, "serve").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another shadowlsp daemon") {
		t.Errorf("a second serve: %v, %s", err, out)
	}
}

// person is an editor's end of `shadowlsp -- gopls`.
func (w *world) person(t testing.TB, flags ...string) *client.Client {
	t.Helper()
	return w.personIn(t, "", flags...)
}

func (w *world) personIn(t testing.TB, folder string, flags ...string) *client.Client {
	t.Helper()
	c, err := client.Start(client.Config{
		Command: append(append([]string{w.binary}, flags...), "--", "gopls"), Dir: w.path(folder), Env: w.Env, Stderr: t.Output(),
	})
	must(t, err)
	var once sync.Once
	t.Cleanup(func() { once.Do(func() { c.Close() }) })
	_, err = c.Initialize(t.Context(), w.uri(folder), struct{}{}, nil)
	must(t, err)
	return c
}

// leaves ends a person's session in order. gopls itself may end within a message
// when it is told to while it still loads: that is not the front's.
func leaves(t testing.TB, c *client.Client) {
	t.Helper()
	if err := c.Close(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the front ended with %v", err)
	}
}

// hover asks the person's server about F in use/use.go.
func (w *world) hover(t testing.TB, c *client.Client) {
	t.Helper()
	raw, err := c.Call(t.Context(), "textDocument/hover", at(w.uri("use/use.go"), 6, 12))
	if err != nil || !strings.Contains(string(raw), "func lib.F(a int) int") {
		t.Errorf("the person's hover: %s, %v", raw, err)
	}
}

// fronts are the pids of the fronts that the daemon knows.
func (w *world) fronts(t testing.TB) (pids []int) {
	s, _ := w.status(t)
	for _, f := range s.Fronts {
		pids = append(pids, f.PID)
	}
	return pids
}

// Two fronts share the daemon that the first one started; it stays until the
// last has gone. Killed, it is joined again when someone starts the next.
func TestFrontsShareADaemonAndOutliveIt(t *testing.T) {
	w := newWorld(t, module)
	first := w.person(t, "--linger", "200ms")
	stage.Eventually(t, "the first front is attached", func() bool { return len(w.fronts(t)) == 1 })
	daemon := w.Daemon()
	second := w.personIn(t, "lib", "--linger", "200ms")
	stage.Eventually(t, "the second front is attached", func() bool { return len(w.fronts(t)) == 2 })
	if w.Daemon() != daemon {
		t.Error("the second front has started a daemon of its own")
	}
	leaves(t, first)
	stage.Eventually(t, "the first front is detached", func() bool { return len(w.fronts(t)) == 1 })

	// kill -9: the other person does not notice.
	a := w.agent(t, attach{branch: "b"})
	a.open(t, "lib/lib.go", stage.LibText("Mine"), 1)
	a.names(t, "use/use.go", "Mine")
	all := stage.Family(t, daemon)
	must(t, w.Kill())
	w.hover(t, second)
	stage.AllGone(t, all)
	<-a.read
	again := w.connect(t, "", "--branch", "b", "--linger", "200ms")
	must(t, again.initialize(t.Context(), attach{}))
	again.names(t, "use/use.go", "Mine")
	stage.Eventually(t, "the front has joined the new daemon", func() bool { return len(w.fronts(t)) == 1 })

	all = stage.Family(t, w.Daemon())
	again.leave(t)
	w.hover(t, second)
	if w.Daemon() == 0 {
		t.Error("the daemon has left a front alone")
	}
	leaves(t, second)
	stage.AllGone(t, all)
}

// A daemon that hangs is nobody's trouble: neither to a front that is attached
// nor to one that starts meanwhile.
func TestAStoppedDaemonIsNotNoticed(t *testing.T) {
	w := newWorld(t, module)
	first := w.person(t)
	stage.Eventually(t, "the front is attached", func() bool { return len(w.fronts(t)) == 1 })
	a := w.agent(t, attach{branch: "b"})
	a.open(t, "lib/lib.go", stage.LibText("Mine"), 1)
	a.names(t, "use/use.go", "Mine")
	daemon := stage.Observe(t, w.Daemon())
	daemon.Signal(t, syscall.SIGSTOP)
	w.hover(t, first)
	second := w.person(t)
	w.hover(t, second)
	// More than any buffer between front and daemon holds.
	for i := range 200 {
		text := fmt.Sprintf("%s\n// %d %s\n", module["use/use.go"], i, strings.Repeat("x", 100<<10))
		must(t, first.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
			"uri": w.uri("use/use.go"), "languageId": "go", "version": 1, "text": text,
		}}))
		must(t, first.Notify("textDocument/didClose", document(w.uri("use/use.go"))))
	}
	w.hover(t, first)
	daemon.Signal(t, syscall.SIGCONT)
	a.change(t, "lib/lib.go", 2, whole(stage.LibText("Yours")))
	a.names(t, "use/use.go", "Yours")
	leaves(t, second)
}

// SIGTERM ends it in order, in the middle of whatever.
func TestSIGTERM(t *testing.T) {
	w := newWorld(t, module)
	w.serve(t)
	a := w.agent(t, attach{branch: "named"})
	fresh := w.agent(t, attach{})
	fresh.edit(t, w.text("own/own.go", ownText("Gone")))
	a.edit(t, w.text("lib/lib.go", stage.LibText("Mine")), w.text("new/new.go", "package new\n"), w.deleted("own/own.go"))
	patch := a.patch(t)
	all := stage.Family(t, w.Daemon())
	lint, err := a.ask("textDocument/diagnostic", document(w.uri("use/use.go")))
	must(t, err)
	must(t, syscall.Kill(all[0].PID, syscall.SIGTERM))
	// An answer, an error or the end of the connection; never silence.
	if _, err := lint.answer(t.Context()); err != nil {
		t.Logf("the lint in flight: %v", err)
	}
	<-a.read
	stage.AllGone(t, all)
	w.serve(t)
	again := w.agent(t, attach{branch: "named"})
	if got := again.patch(t); got != patch {
		t.Errorf("the branch was\n%s\nand is\n%s", patch, got)
	}
	again.names(t, "use/use.go", "Mine")
	if s, _ := w.status(t); len(s.Branches) != 1 {
		t.Errorf("the branches are %+v, want the named one", s.Branches)
	}
	out, err := w.command(w.binary, "stop").CombinedOutput()
	if err != nil || w.Daemon() != 0 {
		t.Errorf("stop: %v, %s; the daemon is %d", err, out, w.Daemon())
	}
	if out, err := w.command(w.binary, "stop").CombinedOutput(); err != nil {
		t.Errorf("stop without a daemon: %v, %s", err, out)
	}
	out, err = w.command(w.binary, "status").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "no daemon runs") {
		t.Errorf("status without a daemon: %v, %s", err, out)
	}
}

// kill -9, again and again, in the middle of edits: every edit that was
// acknowledged is in the named branch, and nothing else is left.
func TestKill9KeepsEveryAcknowledgedEdit(t *testing.T) {
	w := newWorld(t, module)
	acknowledged := map[string]string{}
	for round := range 4 {
		w.serve(t) // over the sockets that the dead daemon left
		a := w.agent(t, attach{branch: "named"})
		for path, text := range acknowledged {
			if got := a.file(t, path); got != text {
				t.Errorf("round %d: %s was acknowledged as %q and is %q", round, path, text, got)
			}
		}
		if round > 0 {
			a.names(t, "use/use.go", acknowledged["word"])
		}
		word := fmt.Sprintf("Round%d", round)
		a.edit(t, w.text("word", word), w.text("lib/lib.go", stage.LibText(word)), w.text(fmt.Sprintf("made%d/made.go", round), "package made\n"))
		acknowledged["word"], acknowledged["lib/lib.go"] = word, stage.LibText(word)
		acknowledged[fmt.Sprintf("made%d/made.go", round)] = "package made\n"
		a.names(t, "use/use.go", word)

		all := stage.Family(t, w.Daemon())
		var killing sync.WaitGroup
		for i := 0; ; i++ {
			path, text := fmt.Sprintf("many/f%d", i%7), fmt.Sprintf("round %d, edit %d", round, i)
			_, err := a.call(t.Context(), "shadowlsp/write", map[string]any{"edits": []fileEdit{w.text(path, text)}})
			if err != nil {
				// Whether the last edit was made is not known.
				delete(acknowledged, path)
				break
			}
			acknowledged[path] = text
			if i == 20+round*13 {
				killing.Go(func() { w.Kill() })
			}
		}
		killing.Wait()
		stage.AllGone(t, all)
		if mounts, err := w.Mounts(); err != nil || len(mounts) > 0 {
			t.Errorf("mounted: %q, %v", mounts, err)
		}
	}
	if _, err := os.Lstat(w.place.Control()); err != nil {
		t.Errorf("a killed daemon leaves its socket, and the test is about that: %v", err)
	}
	w.serve(t)
	if got := w.agent(t, attach{branch: "named"}).file(t, "word"); got != "Round3" {
		t.Errorf("at last the branch holds %q", got)
	}
}
