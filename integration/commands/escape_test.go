package commands

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// outside is what the person has beside the folder: a directory that programs in
// branches can see (so not below /tmp), with a file in it.
func outside(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	must(t, err)
	dir, err := os.MkdirTemp(home, "outside-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("the person's"), 0o644))
	must(t, os.Mkdir(filepath.Join(dir, "open"), 0o777))
	return dir
}

// state is all that can be seen of a directory from outside.
func state(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `cd "$0" && find . | sort | xargs stat -c '%n %A %u %g %s %Y %h' && cat file && getfattr -d file 2>/dev/null`, dir).CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}

// Programs try to change what is outside; whatever they say, it stays.
func TestEscapesByPath(t *testing.T) {
	w := newWorld(t)
	dir := outside(t)
	before := state(t, dir)
	stdin, err := os.Open(filepath.Join(dir, "file"))
	must(t, err)
	defer stdin.Close()
	for _, script := range []string{
		`echo x >>$D/file`, `: >$D/file`, `truncate -s 1 $D/file`, `rm -rf $D`, `mv $D/file $D/other`, `touch $D/new`, `touch $D/file`, `mkdir $D/d`,
		`chmod 777 $D/file`, `chown 0:0 $D/file; chmod 700 $D`, `setfattr -n user.x -v y $D/file`, `ln -s x $D/link`, `mkfifo $D/fifo`,
		`touch $D/open/x`, `cp a.txt $D/open/`,
		`ln -s $D there; echo x >there/file; touch there/open/x; rm there/file`,
		`ln $D/file hard && echo x >>hard`, `ln a.txt $D/hard`, `mv a.txt $D/open/`,
		`cd $D && echo x >file`, `cd ..; cd /; echo x >.$D/file`,
		`echo x >/proc/self/cwd/../../../../../../..$D/file`, `echo x >/proc/self/root$D/file`, `echo x >/proc/1/root$D/file; touch /proc/1/cwd$D/file`,
		`for p in /proc/[0-9]*; do echo x >$p/root$D/file; done`,
		`echo x >>/proc/self/fd/0`, `exec 5</dev/stdin; echo x >>/proc/self/fd/5`,
		`mount --bind $D lib && echo x >lib/file`, `mount -t tmpfs none $D && touch $D/x`, `mount -o remount,rw / && echo x >$D/file`,
		`umount -l . ; umount -l $PWD; echo x >$D/file`,
		`unshare -Urm sh -c "umount -l $PWD; mount -o remount,rw,bind / ; echo x >$D/file; mount --bind $D lib; echo x >lib/file"`,
		`unshare -Urm sh -c "mount -t tmpfs none /mnt && cd /mnt && mkdir o && pivot_root . o && umount -l o; echo x >/o$D/file"`,
		`umount /tmp; umount -l /tmp; echo x >/tmp/whole$D/file; unshare -Urm sh -c "umount -l /tmp; echo x >/tmp/whole$D/file; mkdir /mnt/x; mount --move /tmp /mnt; echo x >/tmp/whole$D/file"`,
		`nsenter -t 1 -m sh -c "echo x >$D/file"`, `chroot / sh -c "echo x >$D/file"`,
		`python3 -c "
import os, ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
try: os.open('$D/file', os.O_PATH) >= 0 and os.utime('/proc/self/fd/3')
except OSError: pass
try: os.setxattr('$D/file', 'user.x', b'y')
except OSError: pass
try: libc.syscall(304, -100, 0, 2)
except OSError: pass
open('$D/file','r+').write('x')"`,
	} {
		cmd := w.command(w.binary, "exec", "--branch", "escape", "--", "sh", "-c", script)
		cmd.Env = append(cmd.Env, "D="+dir)
		cmd.Stdin = stdin
		out, code := finish(t, cmd)
		if after := state(t, dir); after != before {
			t.Fatalf("%s (%d: %s)\nbefore: %s\nafter: %s", script, code, out, before, after)
		}
	}
	// The person says what may be written.
	if out, code := w.exec(t, "--write", filepath.Join(dir, "open"), "--", "sh", "-c", "echo x >"+dir+"/open/x; echo y >"+dir+"/new"); code == 0 {
		t.Errorf("writing beside what is allowed: %q", out)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "open", "x")); string(text) != "x\n" {
		t.Errorf("what is allowed: %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("what is not allowed was made")
	}
}

// Programs write in the home as they are used to; the person's stays as it is.
func TestHome(t *testing.T) {
	w := newWorld(t)
	dir := outside(t)
	w.Env = append(w.Env, "HOME="+dir)
	before := state(t, dir)
	if out, code := w.in(t, "home", "cat ~/file && echo x >~/file && rm -r ~/open && mkdir -p ~/.tool/cache && echo y >~/.tool/f && ln -s f ~/.tool/l && mv ~/.tool ~/.other && chmod 600 ~/file"); out != "the person's" || code != 0 {
		t.Errorf("writing in the home: %q, %d", out, code)
	}
	if after := state(t, dir); after != before {
		t.Errorf("the home was %s and is %s", before, after)
	}
	if out, _ := w.in(t, "home", "cat ~/file ~/.other/l; ls ~"); out != "x\ny\nfile\n" {
		t.Errorf("the branch's next command finds %q", out)
	}
	if out, _ := w.in(t, "another", "cat ~/file; ls -A ~"); out != "the person'sfile\nopen\n" {
		t.Errorf("another branch finds %q", out)
	}
	// What may be written is the person's own, in the home, and below /tmp where the stage is.
	temp, err := os.MkdirTemp(w.top, "allowed-")
	must(t, err)
	defer os.RemoveAll(temp)
	file := filepath.Join(dir, "file")
	if out, code := w.exec(t, "--branch", "home", "--write", file, "--write", temp, "--", "sh", "-c", "echo allowed >"+file+" && echo allowed >"+temp+"/new && rm -f ~/new"); code != 0 {
		t.Errorf("writing what may be written: %q, %d", out, code)
	}
	for _, name := range []string{file, filepath.Join(temp, "new")} {
		if text, err := os.ReadFile(name); string(text) != "allowed\n" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// The daemon's own files, and what other branches hold, are not there.
func TestDaemonIsOutOfReach(t *testing.T) {
	w := newWorld(t)
	w.in(t, "secret", "echo the-secret >secret.txt; echo the-secret >/tmp/secret")
	if out, _ := w.in(t, "spy", "grep -rs the-secret "+w.top+" /tmp /var/tmp /dev/shm /run 2>/dev/null; ls "+w.top+"/run/*/* "+w.top+"/state/*/* 2>/dev/null | grep -v caches"); strings.Contains(out, "secret") || strings.Contains(out, "token") || strings.Contains(out, "layers") {
		t.Errorf("a spy found: %s", out)
	}
	s := w.status(t)
	_, port, err := net.SplitHostPort(s.Agent.TCP)
	must(t, err)
	try := fmt.Sprintf(`python3 - <<'P'
import socket
def tcp():
    socket.create_connection(("127.0.0.1", %s), 2)
def unix(path):
    socket.socket(socket.AF_UNIX).connect(path)
for name, f in {"tcp": tcp, "agent": lambda: unix("%s"), "control": lambda: unix("%s")}.items():
    try:
        f(); print("reached", name)
    except OSError as e: print(name, e)
P`, port, s.Agent.Unix, filepath.Join(filepath.Dir(s.Agent.Unix), "control.sock"))
	if out, _ := w.in(t, "spy", try); strings.Contains(out, "reached") || !strings.Contains(out, "tcp") {
		t.Errorf("private: %s", out)
	}
	if out, _ := w.exec(t, "--net", "host", "--", "sh", "-c", try); strings.Contains(out, "reached agent") || strings.Contains(out, "reached control") {
		t.Errorf("host: %s", out)
	}
}

// Processes outside can be neither seen, signalled nor traced.
func TestEscapesByProcess(t *testing.T) {
	w := newWorld(t)
	victim := exec.Command("sleep", "987657")
	must(t, victim.Start())
	defer func() { victim.Process.Kill(); victim.Wait() }()
	out, _ := w.in(t, "spy", fmt.Sprintf(`kill -9 %d; kill -9 -- -1; true; ps ax; ls /proc | grep -c '^[0-9]'`, victim.Process.Pid))
	if strings.Contains(out, "987657") || strings.Contains(out, "serve") {
		t.Errorf("processes outside are seen: %s", out)
	}
	out, _ = w.in(t, "spy", fmt.Sprintf(`python3 - <<'P'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for pid in (1, %d):
    for name, request in (("attach", 16), ("seize", 0x4206)):
        if libc.ptrace(request, pid, 0, 0) == 0: print("traced", pid, name)
    for file in ("mem", "environ", "maps"):
        try: open("/proc/%%d/%%s" %% (pid, file), "rb").read(1) and print("read", pid, file)
        except OSError: pass
P`, victim.Process.Pid))
	if strings.Contains(out, "traced") || strings.Contains(out, "read") {
		t.Errorf("tracing: %s", out)
	}
	if !running("sleep\x00987657") {
		t.Error("the victim is dead")
	}
}

// Sockets of the person's programs lead nowhere.
func TestEscapesBySocket(t *testing.T) {
	w := newWorld(t)
	dir := outside(t)
	abstract, err := net.Listen("unix", "@shadowlsp-test-"+strconv.Itoa(os.Getpid()))
	must(t, err)
	defer abstract.Close()
	path, err := net.Listen("unix", filepath.Join(dir, "sock"))
	must(t, err)
	defer path.Close()
	must(t, os.Chmod(filepath.Join(dir, "sock"), 0o777))
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer tcp.Close()
	script := fmt.Sprintf(`python3 - <<'P'
import socket
for family, address in ((socket.AF_UNIX, "\0shadowlsp-test-%d"), (socket.AF_UNIX, "%s/sock"), (socket.AF_INET, ("127.0.0.1", %d)), (socket.AF_INET, ("192.0.2.1", 80))):
    s = socket.socket(family); s.settimeout(2)
    try:
        s.connect(address); print("reached", address)
    except OSError as e: print("not", address, e)
P`, os.Getpid(), dir, tcp.Addr().(*net.TCPAddr).Port)
	for net, allowed := range map[string]int{"private": 0, "none": 0, "host": 1} {
		out, _ := w.exec(t, "--net", net, "--", "sh", "-c", script)
		if n := strings.Count(out, "reached"); n != allowed || strings.Contains(out, "reached \x00") || strings.Contains(out, "reached "+dir) || strings.Count(out, "\n") != 4 {
			t.Errorf("net %s: %s", net, out)
		}
	}
	if out, _ := w.exec(t, "--net", "none", "--", "sh", "-c", "python3 -c \"import socket; s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen(); socket.create_connection(s.getsockname(),2)\" 2>&1 | tail -1"); !strings.Contains(out, "Error") {
		t.Errorf("net none has a loopback: %q", out)
	}
}

// Bombs and floods stop at a limit, and the daemon goes on.
func TestLimits(t *testing.T) {
	w := newWorld(t)
	out, err := w.command(w.binary, "serve", "--detach", "--layer-max", "20M").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, _ := w.in(t, "flood", "head -c 100M /dev/zero 2>&1 >flood; stat -c %s flood"); !strings.Contains(out, "No space left") {
		t.Errorf("a flood: %s", out)
	}
	if out, code := w.in(t, "other", "cat a.txt"); out != module["a.txt"] || code != 0 {
		t.Errorf("another branch meanwhile: %q, %d", out, code)
	}
	if out, _ := w.exec(t, "--processes", "100", "--", "sh", "-c", "b() { b | b & wait; }; b 2>&1 | head -c 300"); !strings.Contains(out, "ork") {
		t.Errorf("a fork bomb met no limit: %q", out)
	}
	if out, code := w.exec(t, "--memory", "200M", "--", "python3", "-c", "x = bytearray(1 << 30)"); code == 0 || !strings.Contains(out, "MemoryError") {
		t.Errorf("memory: %q, %d", out, code)
	}
	if out, code := w.exec(t, "--file-size", "1M", "--", "sh", "-c", "head -c 5000000 /dev/zero >/tmp/big"); code == 0 {
		t.Errorf("file size: %q, %d", out, code)
	}
}

// Two branches run three services each, on the same ports, which reach each other
// over localhost and nobody else.
func TestServices(t *testing.T) {
	w := newWorld(t)
	const service = `
import http.server, sys, threading, urllib.request, os, time
name, port, upstream = sys.argv[1], int(sys.argv[2]), sys.argv[3]
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = os.environ["SHADOWLSP_BRANCH"] + "/" + name
        if upstream != "-":
            body += " " + urllib.request.urlopen("http://localhost:" + upstream).read().decode()
        self.send_response(200); self.end_headers(); self.wfile.write(body.encode())
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer.allow_reuse_address = True
s = http.server.ThreadingHTTPServer(("localhost", port), H)
print("up", flush=True)
s.serve_forever()
`
	for _, branch := range []string{"left", "right"} {
		for _, s := range [][]string{{"db", "3002", "-"}, {"api", "3001", "3002"}, {"web", "3000", "3001"}} {
			cmd := w.command(append([]string{w.binary, "exec", "--branch", branch, "--", "python3", "-c", service}, s...)...)
			out := start(t, cmd)
			out.until(t, "up\n")
			t.Cleanup(func() { cmd.Process.Signal(unix.SIGTERM); cmd.Wait() })
		}
	}
	for _, branch := range []string{"left", "right"} {
		want := fmt.Sprintf("%[1]s/web %[1]s/api %[1]s/db", branch)
		if out, code := w.in(t, branch, `python3 -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:3000').read().decode())"`); strings.TrimSpace(out) != want || code != 0 {
			t.Errorf("%s: %q, %d", branch, out, code)
		}
	}
	if c, err := net.Dial("tcp", "127.0.0.1:3000"); err == nil {
		c.Close()
		t.Error("a branch's port is reached from outside")
	}
}
