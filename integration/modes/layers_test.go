package modes

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/integration/need"
	"shadowlsp/internal/workspace"
	"shadowlsp/lsp/wire"
)

// A program that fills the layers gets ENOSPC, an agent a clear error, and
// nothing else happens.
func TestLayerMax(t *testing.T) {
	need.FUSE(t)
	w := newWorld(t)
	// A server that first writes more into its folder than there is room for.
	bin := t.TempDir()
	gopls, said := need.Tool(t, "gopls"), filepath.Join(bin, "said")
	script := "#!/bin/sh\n[ $# = 0 ] && { head -c 3000000 /dev/zero >full; echo \"$?\"; rm full; } >" + said + " 2>&1\nexec " + gopls + " \"$@\"\n"
	must(t, os.WriteFile(filepath.Join(bin, "gopls"), []byte(script), 0o755))
	w.serve(t, "--layer-max", "2M", "--", filepath.Join(bin, "gopls"))
	before := w.status(t)
	if l := before.Layers; l.Max != 2<<20 || l.Store != "disk" || !strings.HasPrefix(l.Dir, w.place.State) {
		t.Errorf("status says %+v", l)
	}
	a := w.agent(t, "--branch", "big")
	a.clean(t, "use/use.go")
	if text, err := os.ReadFile(said); err != nil || !strings.Contains(string(text), "No space left on device") {
		t.Errorf("the program that filled its folder was told %q, %v", text, err)
	}

	a.call(t, "shadowlsp/write", edits(w.text("first.txt", strings.Repeat("x", 1<<20))))
	big := strings.Repeat("// a line\n", 150_000)
	e := a.refused(t, "shadowlsp/write", edits(w.text("own/own.go", "package own\n\n"+big)),
		"branch big", "own/own.go", "1 MiB", "2 MiB", "--layer-max", `"maxBytes":2097152`)
	if e != nil && e.Code != wire.CodeRequestFailed {
		t.Errorf("the code is %d", e.Code)
	}
	a.clean(t, "own/own.go")
	// The same by didOpen and didChange: the agent is told, and no question is
	// answered from a text that the branch does not hold.
	must(t, a.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": w.uri("own/own.go"), "languageId": "go", "version": 1, "text": module["own/own.go"],
	}}))
	must(t, a.Notify("textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": w.uri("own/own.go"), "version": 2},
		"contentChanges": []any{map[string]any{"text": "package own\n\n" + big}},
	}))
	a.refused(t, "textDocument/diagnostic", document(w.uri("own/own.go")), "does not hold", "branch big", "--layer-max")
	a.hears(t, "window/showMessage", "--layer-max")
	must(t, a.Notify("textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": w.uri("own/own.go"), "version": 3},
		"contentChanges": []any{map[string]any{"text": "package own\n\nvar _ = small\n"}},
	}))
	a.names(t, "own/own.go", "undefined: small")
	// Room comes back.
	a.call(t, "shadowlsp/write", edits(w.deleted("first.txt")))
	a.call(t, "shadowlsp/write", edits(w.text("first.txt", strings.Repeat("y", 1500<<10))))
	after := w.status(t)
	if after.PID != before.PID || after.Layers.Used < 1500<<10 || after.Layers.Used > 2<<20 {
		t.Errorf("status says %+v, was %+v", after, before)
	}
}

// In memory nothing is written to the disk, nothing outlives the daemon, and
// what a killed daemon leaves is removed by the next.
func TestMemoryStore(t *testing.T) {
	need.FUSE(t)
	w := newWorld(t)
	w.serve(t, "--store", "memory", "--layer-max", "64M")
	s := w.status(t)
	first := filepath.Dir(s.Layers.Dir)
	if s.Layers.Store != "memory" || s.Layers.Max != 64<<20 {
		t.Errorf("status says %+v", s.Layers)
	}
	var fs unix.Statfs_t
	must(t, unix.Statfs(s.Layers.Dir, &fs))
	if fs.Type != unix.TMPFS_MAGIC {
		t.Errorf("%s is not in memory", s.Layers.Dir)
	}
	for _, dir := range []string{first, filepath.Dir(first)} {
		st, err := os.Stat(dir)
		must(t, err)
		if st.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", dir, st.Mode())
		}
	}
	if out, err := w.run(t, "status"); err != nil || !strings.Contains(out, "no branch outlives the daemon") {
		t.Errorf("status prints %s, %v", out, err)
	}
	a := w.agent(t, "--branch", "kept")
	a.hears(t, "window/showMessage", "in memory", "kept")
	a.call(t, "shadowlsp/write", edits(w.text("lib/lib.go", strings.Replace(module["lib/lib.go"], "int", "string", 2))))
	a.names(t, "use/use.go", "string")
	if _, err := os.Stat(filepath.Join(w.place.State, "layers")); !os.IsNotExist(err) {
		t.Errorf("layers are on the disk: %v", err)
	}
	a.Close()
	must(t, w.Kill())
	if _, err := os.Stat(first); err != nil {
		t.Errorf("a killed daemon removed its layers: %v", err)
	}

	other := newWorld(t) // whichever workspace comes next
	other.serve(t, "--store", "memory")
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", first, err)
	}
	if l := other.status(t).Layers; l.Max != workspace.DefaultMemoryMax {
		t.Errorf("the default is %d", l.Max)
	}
	w.serve(t, "--store", "memory")
	second := w.status(t)
	if slices.ContainsFunc(second.Branches, func(b workspace.BranchStatus) bool { return b.Name == "kept" }) {
		t.Error("a branch in memory outlived its daemon")
	}
	if _, err := os.Stat(other.status(t).Layers.Dir); err != nil {
		t.Errorf("a daemon that lives has lost its layers: %v", err)
	}
	_, err := w.run(t, "stop")
	must(t, err)
	if _, err := os.Stat(filepath.Dir(second.Layers.Dir)); !os.IsNotExist(err) {
		t.Errorf("a daemon that ended left its layers: %v", err)
	}
	// An editor's command and connect pass the flags on.
	b := w.agent(t, "--store", "memory", "--layer-max", "none")
	if l := w.status(t).Layers; l.Store != "memory" || l.Max != 0 {
		t.Errorf("started by connect: %+v", l)
	}
	b.clean(t, "use/use.go")
	// Flags that a running daemon does not have are said to be ignored.
	for flag, words := range map[string]string{"--store=disk": "in store memory and not disk", "--mode=documents": "in mode full and not documents", "--layer-max=1G": "--layer-max 0 and not 1073741824", "--layer-max=none": ""} {
		cmd := exec.Command(w.binary, "connect", flag)
		cmd.Dir, cmd.Env = w.Dir, append(os.Environ(), w.Env...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		_ = cmd.Run() // stdin is empty
		if said := stderr.String(); !strings.Contains(said, words) || words == "" && strings.Contains(said, "runs already") {
			t.Errorf("%s: %q", flag, said)
		}
	}
}

func TestSizes(t *testing.T) {
	w := newWorld(t)
	for _, bad := range []string{"", "0", "-1", "1X", "K", "1e40", "NaN"} {
		if _, err := w.run(t, "status", "--layer-max="+bad); err == nil || !strings.Contains(err.Error(), "write a number with K, M, G or T") {
			t.Errorf("--layer-max %q: %v", bad, err)
		}
	}
	if _, err := w.run(t, "status", "--store=tape"); err == nil || !strings.Contains(err.Error(), "disk or memory") {
		t.Errorf("--store tape: %v", err)
	}
	for size, want := range map[workspace.Size]string{5: "5 B", 1 << 10: "1 KiB", 1536: "1.5 KiB", 10 << 30: "10 GiB", 5 << 50: "5120 TiB"} {
		if got := size.String(); got != want {
			t.Errorf("%d is %q, want %q", int64(size), got, want)
		}
	}
}
