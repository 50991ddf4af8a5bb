package modes

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/internal/mode"
	"shadowlsp/internal/sandbox"
)

// fusermount skips where there is no fusermount3. That of scripts/setup can do
// it for root only. One that is there must be able to mount.
func fusermount(t *testing.T) {
	t.Helper()
	need.FUSE(t)
	if os.Geteuid() == 0 {
		t.Setenv("PATH", filepath.Dir(need.Tool(t, "fusermount3"))+":"+os.Getenv("PATH"))
	} else if _, err := exec.LookPath("fusermount3"); err != nil {
		need.Unmet(t, false, "%v: install fuse3", err)
	}
	if a := sandbox.Probe().Fusermount; !a.OK {
		need.Unmet(t, true, "%s", a.Detail)
	}
}

// mounts lists what is mounted below a directory.
func mounts(t *testing.T, below string) (found []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], below+"/") {
			found = append(found, f[1])
		}
	}
	return found
}

// What mode elsewhere says of a branch is what mode full says, to the path, and
// nothing is refused.
func TestElsewhereSaysWhatFullSays(t *testing.T) {
	fusermount(t)
	full := newWorld(t)
	before := full.Tree(t)
	other := full.beside(t, "elsewhere")
	full.serve(t, "--mode", "full")
	other.serve(t, "--mode", "elsewhere")
	if m := other.status(t).Mode; m.Mode != mode.Elsewhere || m.Why == "" || m.Lost == "" || m.Remedy == "" || m.Guard != sandbox.GuardMount {
		t.Errorf("status says %+v", m)
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			f, e := full.agent(t), other.agent(t)
			for _, name := range s.play(t, f, e) {
				e.says(t, "elsewhere", name, f)
			}
			e.saysOfAll(t, "elsewhere", f)
			position := map[string]any{"textDocument": map[string]any{"uri": full.uri("use/use.go")}, "position": map[string]int{"line": 6, "character": 13}, "context": map[string]any{"includeDeclaration": true}}
			for _, method := range []string{"textDocument/definition", "textDocument/references", "textDocument/hover"} {
				got, gotErr := e.Call(t.Context(), method, position)
				want, wantErr := f.Call(t.Context(), method, position)
				if string(got) != string(want) || (gotErr != nil) != (wantErr != nil) {
					t.Errorf("%s: mode elsewhere says %s, %v\nmode full says %s, %v", method, got, gotErr, want, wantErr)
				}
			}
		})
	}
	full.Unchanged(t, before)
}

// Two branches by turns, the person's saves, a daemon that is killed, and no
// mount that is left.
func TestModeElsewhere(t *testing.T) {
	fusermount(t)
	w := newWorld(t)
	w.serve(t, "--mode", "elsewhere")
	a, b := w.agent(t, "--branch", "a"), w.agent(t)
	var r struct {
		Capabilities struct {
			Experimental struct{ Shadowlsp struct{ Mode, Lost string } }
		}
	}
	must(t, json.Unmarshal(a.init, &r))
	if s := r.Capabilities.Experimental.Shadowlsp; s.Mode != "elsewhere" || !strings.Contains(s.Lost, "another path") {
		t.Errorf("initialize says %+v", s)
	}
	a.call(t, "shadowlsp/write", edits(w.text("lib/lib.go", "package lib\n\nfunc F(a string) string { return a }\n")))
	for range 4 {
		a.names(t, "use/use.go", "cannot use 1")
		b.clean(t, "use/use.go")
	}
	if len(mounts(t, w.place.Runtime)) != 1 {
		t.Errorf("mounted: %v", mounts(t, w.place.Runtime))
	}
	for range 4 {
		w.write(t, "own/own.go", "package own\n\nvar _ = lost\n")
		b.names(t, "own/own.go", "undefined: lost")
		w.write(t, "own/own.go", module["own/own.go"])
		b.clean(t, "own/own.go")
	}
	must(t, w.Kill())
	// The next daemon clears up what fusermount3 has not.
	w.serve(t, "--mode", "elsewhere")
	w.agent(t, "--branch", "a").names(t, "use/use.go", "cannot use 1")
	if len(mounts(t, w.place.Runtime)) != 1 {
		t.Errorf("mounted: %v", mounts(t, w.place.Runtime))
	}
	_, err := w.run(t, "stop")
	must(t, err)
	if left := mounts(t, w.place.Runtime); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
	if _, err := os.Stat(filepath.Join(w.place.Runtime, "views")); !os.IsNotExist(err) {
		t.Errorf("mount points are left: %v", err)
	}
}
