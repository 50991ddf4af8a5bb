package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/integration/need"
)

// groupable says whether this machine lets groups be made: a container may have
// none, or none that it may change.
func groupable() bool {
	for _, at := range ownGroups() {
		controllers, _ := os.ReadFile(filepath.Join(at.dir, "cgroup.subtree_control")) // none in v1
		if unix.Access(at.dir, unix.W_OK) == nil && (at.limit != "memory.max" || strings.Contains(string(controllers), "memory")) {
			return true
		}
	}
	return false
}

// What a program starts shares its group's memory, and who takes more is ended.
func TestGroup(t *testing.T) {
	need.Root(t)
	g, err := NewGroup("test-"+strconv.Itoa(os.Getpid()), 64<<20)
	if err != nil {
		need.Unmet(t, groupable(), "%v", err)
	}
	closed := false
	defer func() {
		if !closed {
			g.Close()
		}
	}()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := Start(t.Context(), Spec{
		// The shell's child holds 256 MB in memory.
		Argv: []string{"sh", "-c", `cat /proc/self/cgroup; head -c 268435456 /dev/zero | tail -c 268435456 | wc -c; echo end`},
		Env:  []string{"PATH=/usr/bin:/bin"}, Dir: "/", Mount: t.TempDir(), NoView: true, UserNS: NeedsUserNS(), Stdout: w, Group: g,
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Exec(); err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 0, 4096)
	for buf := make([]byte, 4096); ; {
		n, err := r.Read(buf)
		if out = append(out, buf[:n]...); err != nil {
			break
		}
	}
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	if text := string(out); !strings.Contains(text, filepath.Base(g.dir)) || strings.Contains(text, "268435456") || len(p.Lacks) > 0 {
		t.Errorf("it said %s, lacks %v", text, p.Lacks)
	}
	closed = true
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
