package sandbox

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"shadowlsp/fusefs"
	"shadowlsp/overlay"
)

// keeper starts one with a fixed view of an empty branch of dir.
func keeper(t *testing.T, spec KeeperSpec) *Keeper {
	t.Helper()
	spec.UserNS = NeedsUserNS()
	if spec.Mount == "" {
		spec.Mount = room(t)
	}
	if spec.Net == "" {
		spec.Net = NetPrivate
	}
	k, err := StartKeeper(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	store, _, err := overlay.Open(overlay.Options{Base: spec.Mount, State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	branch, err := store.Create("main", overlay.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	base, err := fusefs.NewBase(spec.Mount, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	view, err := fusefs.Serve(k.Fuse, fusefs.Config{Branch: branch, Base: base, UserNS: spec.UserNS, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Kill()
		k.Wait()
		if err := view.Close(); err != nil {
			t.Error(err)
		}
		base.Close()
		store.Close()
	})
	if err := k.Serving(); err != nil {
		t.Fatal(err)
	}
	return k
}

// run runs a shell script inside and returns what it wrote and how it ended.
func (k *Keeper) run(t *testing.T, script string, confine *Confine) (string, ExitStatus) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := k.Start(t.Context(), Spec{
		Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"},
		Dir: k.spec.Mount, Stdout: w, Stderr: w, Confine: confine, Umask: 0o22,
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Exec(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), status
}

func TestKeeper(t *testing.T) {
	k := keeper(t, KeeperSpec{})
	if len(k.Lacks) > 0 {
		t.Errorf("lacking: %q", k.Lacks)
	}
	for _, c := range []struct {
		script, want string
		code         int
	}{
		{"cat file; pwd", "outside" + k.spec.Mount, 0},
		{"echo branch >file; exit 7", "", 7},
		{"cat file", "branch", 0},                                         // the second one sees what the first one wrote
		{"[ $(ls -d /proc/[0-9]* | wc -l) -le 5 ] && echo few", "few", 0}, // init, shells, shell, ls, wc
		{"echo a >/tmp/a; ls /tmp | grep -v " + strings.Split(k.spec.Mount, "/")[2], "a", 0},
		{"cat /tmp/a", "a", 0},
		{"umask", "0022", 0},
		{"ls /dev/pts", "ptmx", 0},
		{"cat /proc/net/dev | grep -c :", "1", 0},
		{"(setsid sleep 1000 &) ; exit 3", "", 3},
		{"kill -9 $$", "", -1},
	} {
		out, status := k.run(t, c.script, &Confine{})
		if out != c.want || status.Code != c.code {
			t.Errorf("%s: %q, %v", c.script, out, status)
		}
	}
	outside, err := os.ReadFile(k.spec.Mount + "/file")
	if err != nil || string(outside) != "outside" {
		t.Errorf("the person's file: %q, %v", outside, err)
	}
}

func TestKeeperTerminal(t *testing.T) {
	k := keeper(t, KeeperSpec{})
	p, err := k.Start(t.Context(), Spec{
		Argv: []string{"/bin/sh", "-c", "stty size; tty; read x </dev/tty; echo got $x; stty size"}, Env: []string{"PATH=/usr/bin:/bin"},
		Dir: "/", Confine: &Confine{}, Terminal: &Terminal{Rows: 33, Columns: 77, Streams: [3]bool{true, true, true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Terminal.Close()
	if err := p.Exec(); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(p.Terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 11, Col: 22}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Terminal.WriteString("word\n"); err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(p.Terminal) // EIO when the last of the other side has closed
	if status, err := p.Wait(); err != nil || status.Code != 0 {
		t.Errorf("%v, %v", status, err)
	}
	for _, want := range []string{"/dev/pts/0", "got word", "11 22"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
}

func TestKeeperLimits(t *testing.T) {
	k := keeper(t, KeeperSpec{})
	out, _ := k.run(t, "cat /proc/self/limits", &Confine{Memory: 1 << 30, FileSize: 1 << 20, Processes: 40})
	limits := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"address space 1073741824 1073741824", "file size 1048576 1048576", "processes 40 40"} {
		if !strings.Contains(limits, want) {
			t.Errorf("no %q in %s", want, limits)
		}
	}
	if _, status := k.run(t, "head -c 3000000 /dev/zero >big", &Confine{FileSize: 1 << 20}); status.Code == 0 {
		t.Errorf("a file over the limit: %v", status)
	}
	began := time.Now()
	out, status := k.run(t, `bomb() { bomb | bomb & wait; }; bomb; echo over; exit 5`, &Confine{Processes: 64})
	if !strings.Contains(out, "ork") {
		t.Errorf("a fork bomb met no limit: %v, %s", status, out)
	}
	t.Logf("a fork bomb was over in %v", time.Since(began))
}

func TestKeeperKill(t *testing.T) {
	k := keeper(t, KeeperSpec{})
	p, err := k.Start(t.Context(), Spec{Argv: []string{"/bin/sleep", "1000"}, Dir: "/", Confine: &Confine{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Exec(); err != nil {
		t.Fatal(err)
	}
	if p.Pid() == 0 {
		t.Error("its pid is not known")
	}
	p.Kill()
	if status, err := p.Wait(); err == nil || status.Signal == 0 {
		t.Errorf("%v, %v", status, err)
	}
	// The keeper's end is that of all.
	if p, err = k.Start(t.Context(), Spec{Argv: []string{"/bin/sleep", "1000"}, Dir: "/", Confine: &Confine{}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Exec(); err != nil {
		t.Fatal(err)
	}
	k.Kill()
	p.Wait()
	if _, err := k.Start(t.Context(), Spec{Argv: []string{"true"}, Dir: "/"}); err == nil {
		t.Error("a program in a keeper that has ended")
	}
}
