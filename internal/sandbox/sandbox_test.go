package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"shadowlsp/fusefs"
	"shadowlsp/integration/need"
	"shadowlsp/overlay"
)

// ordinaryUID is what tests become to be an ordinary user: an id that owns
// nothing.
const ordinaryUID = 48321

func TestMain(m *testing.M) {
	Enter()
	if len(os.Args) > 1 && os.Args[1] == daemonRole {
		daemonMain()
	}
	before := need.Mounts()
	code := m.Run()
	if after := need.Mounts(); after != before && code == 0 {
		os.Stderr.WriteString("mounts before:\n" + before + "after:\n" + after)
		code = 1
	}
	os.Exit(code)
}

// TestOrdinary runs the whole suite again as an ordinary user.
func TestOrdinary(t *testing.T) { need.Ordinary{UID: ordinaryUID}.Run(t) }

// room returns a directory to mount over, with a file in it.
func room(t *testing.T) string {
	t.Helper()
	need.FUSE(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func shell(t *testing.T, script string, args ...string) Spec {
	return Spec{
		Argv:   append([]string{"/bin/sh", "-c", script, "sh"}, args...),
		Env:    []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		Dir:    "/",
		Mount:  room(t),
		UserNS: NeedsUserNS(),
	}
}

// serve shows an empty branch of the base at root on p's mount.
func serve(p *Process, root, state string) (stop func(), err error) {
	store, _, err := overlay.Open(overlay.Options{Base: root, State: state})
	if err != nil {
		return nil, err
	}
	branch, err := store.Create("main", overlay.CreateOptions{})
	if err != nil {
		return nil, err
	}
	base, err := fusefs.NewBase(root, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	view, err := fusefs.Serve(p.Fuse, fusefs.Config{Branch: branch, Base: base, UserNS: NeedsUserNS()})
	if err != nil {
		return nil, err
	}
	return func() { view.Close(); base.Close(); store.Close() }, nil
}

func start(t *testing.T, spec Spec) *Process {
	t.Helper()
	p, err := Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := serve(p, spec.Mount, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		p.Wait()
		stop()
	})
	return p
}

// run starts and executes spec and returns what it printed and how it ended.
func run(t *testing.T, spec Spec) (string, ExitStatus) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	spec.Stdout, spec.Stderr = w, w
	p := start(t, spec)
	w.Close()
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
	return string(out), status
}

func TestStatusIsTheProgramsOwn(t *testing.T) {
	for _, c := range []struct {
		script string
		want   ExitStatus
	}{
		{"exit 0", ExitStatus{}},
		{"exit 42", ExitStatus{Code: 42}},
		{"kill -TERM $$", ExitStatus{Code: -1, Signal: syscall.SIGTERM}},
		{"kill -KILL $$", ExitStatus{Code: -1, Signal: syscall.SIGKILL}},
	} {
		if _, got := run(t, shell(t, c.script)); got != c.want {
			t.Errorf("%s: %v, want %v", c.script, got, c.want)
		}
	}
}

func TestArgumentsEnvironmentDirectoryAndInput(t *testing.T) {
	spec := shell(t, `printf '%s|' "$@"; echo "$X"; pwd; cat; echo err >&2`, "a b", "", "ü\xff")
	spec.Env = append(spec.Env, "X=1 2")
	spec.Dir = "/usr"
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	spec.Stdin = r
	w.WriteString("input\n")
	w.Close()
	out, _ := run(t, spec)
	if want := "a b||ü\xff|1 2\n/usr\ninput\nerr\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

func TestNoInputIsEmptyInput(t *testing.T) {
	if out, _ := run(t, shell(t, `cat; echo end`)); out != "end\n" {
		t.Errorf("got %q", out)
	}
}

// Arguments and environment as large as the kernel takes them.
func TestLargeEnvironment(t *testing.T) {
	spec := shell(t, `echo ${#X1} ${#X9}`)
	for i := range 10 {
		spec.Env = append(spec.Env, "X"+strconv.Itoa(i)+"="+strings.Repeat("x", 100_000))
	}
	if out, _ := run(t, spec); out != "100000 100000\n" {
		t.Errorf("got %q", out)
	}
}

// A program that closes its output is seen to have closed it, though it and the
// init go on.
func TestOutputEndsWhenTheProgramClosesIt(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	spec := shell(t, `exec >&- 2>&-; read x`)
	spec.Stdout = w
	hold, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	spec.Stdin = hold
	p := start(t, spec)
	w.Close()
	hold.Close()
	if err := p.Exec(); err != nil {
		t.Fatal(err)
	}
	if out, err := io.ReadAll(r); err != nil || len(out) != 0 {
		t.Errorf("read %q, %v", out, err)
	}
	select {
	case <-p.Done():
		t.Error("the program ended with its output")
	default:
	}
}

func TestExecFailures(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/nonexistent/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		argv0, dir string
		kind       Kind
		errno      syscall.Errno
		text       string
	}{
		{"no-such-command", "/", NotFound, syscall.ENOENT, "sandbox: exec no-such-command: no such file or directory"},
		{"/no/such/command", "/", NotFound, syscall.ENOENT, "sandbox: exec /no/such/command: no such file or directory"},
		{script, "/", NotFound, syscall.ENOENT, ""},
		{plain, "/", NotExecutable, syscall.EACCES, ""},
		{"/", "/", NotExecutable, syscall.EACCES, ""},
		{"/bin/sh", "/no/such/directory", NotExecutable, syscall.ENOENT, "sandbox: change directory to /no/such/directory: no such file or directory"},
		{"/bin/sh", plain, NotExecutable, syscall.ENOTDIR, ""},
	} {
		spec := shell(t, "")
		spec.Argv, spec.Dir = []string{c.argv0}, c.dir
		p := start(t, spec)
		err := p.Exec()
		var e *Error
		if !errors.As(err, &e) || e.Kind != c.kind || !errors.Is(err, c.errno) {
			t.Errorf("%s: %v, want %v %v", c.argv0, err, c.kind, c.errno)
		} else if c.text != "" && err.Error() != c.text {
			t.Errorf("%s: %q, want %q", c.argv0, err, c.text)
		}
		p.Wait()
	}
}

func TestStartFailures(t *testing.T) {
	good := shell(t, "")
	for _, c := range []struct {
		name string
		edit func(*Spec)
		kind Kind
	}{
		{"no command", func(s *Spec) { s.Argv = nil }, Invalid},
		{"relative directory", func(s *Spec) { s.Dir = "x" }, Invalid},
		{"relative mount point", func(s *Spec) { s.Mount = "x" }, Invalid},
		{"no mount point", func(s *Spec) { s.Mount = "/no/such/directory" }, Mount},
		{"file as mount point", func(s *Spec) { s.Mount += "/file" }, Mount},
	} {
		spec := good
		c.edit(&spec)
		_, err := Start(t.Context(), spec)
		var e *Error
		if !errors.As(err, &e) || e.Kind != c.kind {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, good); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSignalsReachTheProgram(t *testing.T) {
	for name, deliver := range map[string]func(*Process){
		"by order":         func(p *Process) { p.Signal(syscall.SIGUSR1) },
		"through the init": func(p *Process) { syscall.Kill(p.Pid(), syscall.SIGUSR1) },
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			spec := shell(t, `trap 'echo got; exit 7' USR1; echo ready; while :; do read x; done`)
			spec.Stdout = w
			hold, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			spec.Stdin = hold
			p := start(t, spec)
			w.Close()
			hold.Close()
			if err := p.Exec(); err != nil {
				t.Fatal(err)
			}
			expect(t, r, "ready\n")
			deliver(p)
			expect(t, r, "got\n")
			if status, err := p.Wait(); status.Code != 7 || err != nil {
				t.Error(status, err)
			}
		})
	}
}

func expect(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v, want %q", got, err, want)
	}
}

// gone waits until no process holds the other end of a pipe any more.
func gone(t *testing.T, r *os.File) {
	t.Helper()
	r.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatalf("a process is left: %v", err)
	}
}

// daemonising starts a grandchild that leaves its session and parent; it holds
// the output until it is dead. The program waits for a line.
const daemonising = `(setsid sh -c 'echo up; exec sleep 1000' </dev/null & ) ; read x; `

func TestNothingSurvives(t *testing.T) {
	for _, pidNS := range []bool{true, false} {
		for name, end := range map[string]func(p *Process, stdin *os.File){
			"the program's end": func(_ *Process, stdin *os.File) { stdin.Close() },
			"Kill":              func(p *Process, _ *os.File) { p.Kill() },
			"the leash's end":   func(p *Process, _ *os.File) { p.conn.Close() },
		} {
			t.Run(name+" pidns="+strconv.FormatBool(pidNS), func(t *testing.T) {
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				hold, in, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				spec := shell(t, daemonising)
				spec.Stdin, spec.Stdout = hold, w
				spec.NoPIDNamespace = !pidNS
				p := start(t, spec)
				w.Close()
				hold.Close()
				if err := p.Exec(); err != nil {
					t.Fatal(err)
				}
				expect(t, r, "up\n")
				end(p, in)
				gone(t, r)
				p.Wait()
			})
		}
	}
}

func TestRights(t *testing.T) {
	spec := shell(t, "")
	spec.Argv = []string{"/bin/sh", "-c", `
		umount "$1" 2>/dev/null && echo unmounted
		umount -l "$1" 2>/dev/null && echo lazily unmounted
		mount -t tmpfs none "$1" 2>/dev/null && echo mounted over
		unshare -Um umount -l "$1" 2>/dev/null && echo unmounted in a namespace
		grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs):' /proc/self/status
		kill -KILL 1 2>/dev/null
		[ "$(cat "$1/file")" = outside ] && echo viewed
		kill -TERM 1`, "sh", spec.Mount}
	out, status := run(t, spec)
	if status.Code != 0 && status.Signal != syscall.SIGTERM {
		t.Error(status)
	}
	if !strings.Contains(out, "viewed") || strings.Contains(out, "mounted") {
		t.Errorf("could unmount or mount:\n%s", out)
	}
	want := "0000000000000000"
	if os.Geteuid() == 0 {
		var data [2]unix.CapUserData
		unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
		all := uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32
		for _, c := range rootDrops {
			all &^= 1 << c
		}
		want = strconv.FormatUint(1<<63|all, 16)
		want = "0" + want[1:]
	}
	for _, line := range []string{"CapPrm:\t" + want, "CapEff:\t" + want, "CapBnd:\t" + want, "CapAmb:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
}

func TestOwnPidsAndProc(t *testing.T) {
	spec := shell(t, `echo $$; cat /proc/self/stat | cut -d' ' -f4; ls /proc | grep -c '^[0-9]'`)
	p := start(t, spec)
	fresh := p.FreshProc == ""
	p.Kill()
	out, _ := run(t, spec)
	f := strings.Fields(out)
	if len(f) != 3 || f[0] == strconv.Itoa(os.Getpid()) {
		t.Fatal(out)
	}
	if !fresh {
		need.Unmet(t, false, "no fresh /proc here: %s", p.FreshProc)
	}
	if n, _ := strconv.Atoi(f[2]); n > 5 {
		t.Errorf("%d processes visible", n)
	}
}

func TestOwnIDs(t *testing.T) {
	out, _ := run(t, shell(t, `id -u; id -g`))
	if want := strconv.Itoa(os.Geteuid()) + "\n" + strconv.Itoa(os.Getegid()) + "\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

func TestPriority(t *testing.T) {
	spec := shell(t, `cut -d' ' -f19,41 /proc/self/stat; cat /proc/self/oom_score_adj; ionice -p $$ 2>/dev/null`)
	spec.Priority = Background
	out, _ := run(t, spec)
	own, _ := os.ReadFile("/proc/self/oom_score_adj")
	score, _ := strconv.Atoi(strings.TrimSpace(string(own)))
	lines := strings.Split(out, "\n")
	if lines[0] != "19 5" { // niceness, SCHED_IDLE
		t.Errorf("niceness and policy %q", lines[0])
	}
	if want := strconv.Itoa(min(score+500, 1000)); lines[1] != want {
		t.Errorf("oom_score_adj %s, want %s", lines[1], want)
	}
	if lines[2] != "" && lines[2] != "idle" {
		t.Errorf("disk priority %q", lines[2])
	}
}

// conversation starts a script that answers every line with a line.
func conversation(t *testing.T, script string) (p *Process, out *os.File, ask func(string) string) {
	t.Helper()
	spec := shell(t, script)
	hold, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	spec.Stdin, spec.Stdout = hold, w
	p = start(t, spec)
	hold.Close()
	w.Close()
	if err := p.Exec(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	return p, out, func(line string) string {
		t.Helper()
		if _, err := in.WriteString(line + "\n"); err != nil || !lines.Scan() {
			t.Fatal(err, lines.Err())
		}
		return lines.Text()
	}
}

// What runs already, and what that starts, is lowered, and raised by who may.
func TestReprioritise(t *testing.T) {
	// It speaks when it has looked: what changes while cat reads is read twice.
	p, _, ask := conversation(t, `while read x; do echo "$(cut -d' ' -f19,41 /proc/self/stat) $(cat /proc/self/oom_score_adj)"; done`)
	now := func() string { return ask("") }
	own, _ := os.ReadFile("/proc/self/oom_score_adj")
	score, _ := strconv.Atoi(strings.TrimSpace(string(own)))
	before, lowered := now(), fmt.Sprintf("19 5 %d", min(score+500, 1000))
	for range 2 {
		p.Reprioritise(Background)
		if got := now(); got != lowered {
			t.Errorf("lowered it is %q, want %q", got, lowered)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	ReprioritiseBelow(Priority{})
	if got := now(); got != before {
		t.Errorf("raised again it is %q, want %q", got, before)
	}
}

// The mount is not to be seen outside, and its descriptor is nowhere but here.
func TestMountIsInside(t *testing.T) {
	spec := shell(t, `read x`)
	hold, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	spec.Stdin = hold
	p := start(t, spec)
	hold.Close()
	if err := p.Exec(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(need.Mounts(), spec.Mount) {
		t.Error("the mount is visible outside")
	}
	if got, err := os.ReadFile(filepath.Join(spec.Mount, "file")); err != nil || string(got) != "outside" {
		t.Errorf("outside: %q, %v", got, err)
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid()) + "/mountinfo")
	if err != nil {
		if !errors.Is(err, os.ErrPermission) { // the init hides from its own uid
			t.Error(err)
		}
	} else if !strings.Contains(string(text), " "+spec.Mount+" ") {
		t.Errorf("no mount inside:\n%s", text)
	}
	if os.Geteuid() != 0 {
		return
	}
	// As root the init's descriptors can be listed.
	fds, err := filepath.Glob("/proc/" + strconv.Itoa(p.Pid()) + "/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); to == "/dev/fuse" {
			t.Error("the init holds the descriptor")
		}
	}
}

func TestDescriptorIsNotInherited(t *testing.T) {
	p, err := Start(t.Context(), shell(t, "exit 0"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Fuse.Close()
	if flags, err := unix.FcntlInt(p.Fuse.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the descriptor is inherited by children: %v, %v", flags, err)
	}
	p.Kill()
	p.Wait()
}

// daemonRole runs a test binary as a daemon that starts a program and hangs.
const daemonRole = "sandbox-test-daemon"

func daemonMain() {
	p, err := Start(context.Background(), Spec{
		Argv:  []string{"/bin/sh", "-c", daemonising + "sleep 1000"},
		Env:   []string{"PATH=/usr/bin:/bin"},
		Dir:   "/",
		Mount: os.Args[2], UserNS: NeedsUserNS(),
		Stdin: os.Stdin, Stdout: os.Stdout,
	})
	if err == nil {
		_, err = serve(p, os.Args[2], os.Args[3])
	}
	if err == nil {
		err = p.Exec()
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.Close()
	select {}
}

func TestKillNineOfTheDaemon(t *testing.T) {
	dir := room(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe", daemonRole, dir, t.TempDir())
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	expect(t, r, "up\n")
	cmd.Process.Kill()
	cmd.Wait()
	gone(t, r)
}

func TestProbe(t *testing.T) {
	a := Probe()
	for _, ability := range a.All() {
		t.Logf("%-16s %-5v %s", ability.Name, ability.OK, ability.Detail)
		if !ability.OK && (ability.Lost == "" || ability.Remedy == "" || ability.Detail == "") {
			t.Errorf("%s: no word about it: %+v", ability.Name, ability)
		}
	}
	need.FUSE(t)
	if !a.Device.OK || !a.Mount.OK {
		t.Errorf("not found, though it works: %+v", a)
	}
}

// closedDevice in the environment makes TestProbeAtClosedDevice look.
const closedDevice = "SANDBOX_TEST_CLOSED_DEVICE"

func TestProbeAtClosedDevice(t *testing.T) {
	if os.Getenv(closedDevice) != "" {
		a := Probe()
		if a.Device.OK || a.Mount.OK || !strings.Contains(a.Device.Remedy, "chmod 0666 /dev/fuse") || !a.UserNS.OK || !a.PIDNS.OK {
			t.Errorf("%+v", a)
		}
		_, err := Start(t.Context(), Spec{Argv: []string{"true"}, Dir: "/", Mount: "/", UserNS: true})
		var e *Error
		if !errors.As(err, &e) || e.Kind != Mount || err.Error() != "sandbox: open /dev/fuse: permission denied" {
			t.Errorf("%v", err)
		}
		return
	}
	need.Root(t)
	need.UserNS(t)
	need.Device(t, 0o600)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestProbeAtClosedDevice$")
	cmd.Dir, cmd.Env = "/", []string{closedDevice + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUID, Gid: ordinaryUID}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		spec := shell(t, "exit 0")
		p, err := Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		stop, err := serve(p, spec.Mount, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Exec(); err != nil {
			t.Error(err)
		}
		p.Wait()
		stop()
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before {
		var b bytes.Buffer
		buf := make([]byte, 1<<16)
		b.Write(buf[:runtime.Stack(buf, true)])
		t.Errorf("%d goroutines, %d before\n%s", n, before, b.String())
	}
}

// What it costs from Start to a program that has run.
func BenchmarkStart(b *testing.B) {
	need.View(b)
	dir := b.TempDir()
	for b.Loop() {
		p, err := Start(b.Context(), Spec{
			Argv: []string{"/bin/true"}, Dir: "/", Mount: dir, UserNS: NeedsUserNS(),
		})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		p.Kill()
		p.Wait()
		p.Fuse.Close()
		b.StartTimer()
	}
}

// What a view costs that is served: mount, greeting, a program that looks in.
func BenchmarkView(b *testing.B) {
	dir, state := b.TempDir(), b.TempDir()
	store, _, err := overlay.Open(overlay.Options{Base: dir, State: state})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	branch, err := store.Create("main", overlay.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	base, err := fusefs.NewBase(dir, zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	defer base.Close()
	for b.Loop() {
		p, err := Start(b.Context(), Spec{Argv: []string{"/bin/true"}, Dir: dir, Mount: dir, UserNS: NeedsUserNS()})
		if err != nil {
			b.Fatal(err)
		}
		view, err := fusefs.Serve(p.Fuse, fusefs.Config{Branch: branch, Base: base, UserNS: NeedsUserNS()})
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Exec(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		p.Wait()
		view.Close()
		b.StartTimer()
	}
}

// What is paused does nothing, its children neither, and goes on where it was.
func TestFamily(t *testing.T) {
	p, out, ask := conversation(t, `sh -c 'while read x; do echo "$x"; done'; echo end`)
	say := func(word string) {
		t.Helper()
		if got := ask(word); got != word {
			t.Fatalf("got %q, want %q", got, word)
		}
	}
	say("one")
	var f Family
	defer f.Close()
	f.Look(p)
	f.Stop()
	for end := time.Now().Add(10 * time.Second); ; {
		stopped := 0
		walk(p.Pid(), func(pid int) bool {
			if threadIs(pid, "T") {
				stopped++
			}
			return true
		})
		if stopped == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of 2 processes are stopped", stopped)
		}
	}
	if !p.Busy() {
		t.Error("what is stopped counts as idle")
	}
	f.Continue()
	say("two")
	// Paused, it can still be ended.
	f.Look(p)
	f.Stop()
	p.Kill()
	gone(t, out)
	p.Wait()
}
