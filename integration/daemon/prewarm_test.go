package daemon

import (
	"testing"

	"shadowlsp/integration/client"
	"shadowlsp/integration/stage"
)

// With --prewarm a shadow of the person's server loads before anybody asks: when the
// editor starts it, and when the daemon comes back without the editor.
func TestPrewarm(t *testing.T) {
	w := newWorld(t, module)
	w.serve(t, "--prewarm", "--priority", "normal")
	warm := func() bool {
		s, _ := w.status(t)
		return len(s.Servers) == 1 && len(s.Servers[0].Instances) == 1
	}
	if s, _ := w.status(t); len(s.Servers) != 0 {
		t.Errorf("before an editor has told of a server: %+v", s.Servers)
	}
	person, err := client.Start(client.Config{Command: []string{w.binary, "--", "gopls"}, Dir: w.Dir, Env: w.Env, Stderr: t.Output()})
	must(t, err)
	defer person.Close()
	_, err = person.Initialize(t.Context(), w.uri(""), map[string]any{}, nil)
	must(t, err)
	stage.Eventually(t, "a shadow beside the editor's server", warm)
	s, _ := w.status(t)
	pid := s.Servers[0].Instances[0].PID
	a := w.agent(t, attach{branch: "b"})
	a.clean(t, "use/use.go")
	if s, _ := w.status(t); len(s.Servers[0].Instances) != 1 || s.Servers[0].Instances[0].PID != pid {
		t.Errorf("the agent has another one than what was warm: %+v", s.Servers)
	}
	leaves(t, person)
	must(t, w.Kill())
	<-a.read
	w.serve(t, "--prewarm")
	stage.Eventually(t, "a shadow of the server that ran last", warm)
	cold := w.agent(t, attach{branch: "b"})
	cold.clean(t, "use/use.go")
}
