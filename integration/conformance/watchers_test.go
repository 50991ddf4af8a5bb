package conformance

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"shadowlsp/integration/need"
)

// A program in a view that watches files must hear of every change, whoever
// made it.

// watch PATH…: prints every event as "path: EVENT EVENT".
func init() {
	inside["watch"] = func(paths []string) error {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return err
		}
		names := map[int32]string{}
		for _, p := range paths {
			wd, err := unix.InotifyAddWatch(fd, p, unix.IN_ALL_EVENTS&^(unix.IN_OPEN|unix.IN_ACCESS|unix.IN_CLOSE_NOWRITE))
			if err != nil {
				return err
			}
			names[int32(wd)] = p
		}
		fmt.Println("watching")
		buf := make([]byte, 64<<10)
		for {
			n, err := unix.Read(fd, buf)
			if err != nil || n == 0 {
				return err
			}
			for off := 0; off < n; {
				e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[off]))
				name := strings.TrimRight(string(buf[off+unix.SizeofInotifyEvent:off+unix.SizeofInotifyEvent+int(e.Len)]), "\x00")
				off += unix.SizeofInotifyEvent + int(e.Len)
				for mask, word := range map[uint32]string{unix.IN_CREATE: "CREATE", unix.IN_DELETE: "DELETE", unix.IN_MODIFY: "MODIFY", unix.IN_CLOSE_WRITE: "CLOSE_WRITE", unix.IN_ATTRIB: "ATTRIB", unix.IN_DELETE_SELF: "DELETE_SELF", unix.IN_MOVED_TO: "MOVED_TO", unix.IN_MOVED_FROM: "MOVED_FROM"} {
					if e.Mask&mask != 0 {
						fmt.Println(filepath.Join(names[e.Wd], name) + ": " + word)
					}
				}
			}
		}
	}
}

// listener is a program that prints what it hears.
type listener struct {
	t     *testing.T
	lines chan string
	heard []string
}

func (v *view) listen(t *testing.T, script string) *listener {
	t.Helper()
	cmd := v.command(script)
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	l := &listener{t: t, lines: make(chan string, 1000)}
	done := make(chan struct{})
	go func() { // ends with the program
		defer close(done)
		for s := bufio.NewScanner(out); s.Scan(); {
			l.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		v.proc.Kill() // the program is nsenter's child
		<-done
		cmd.Wait()
	})
	l.hears("watching")
	return l
}

// hears waits for a line.
func (l *listener) hears(want string) {
	l.t.Helper()
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	for {
		for i, s := range l.heard {
			if s == want {
				l.heard = append(l.heard[:i:i], l.heard[i+1:]...)
				return
			}
		}
		select {
		case s := <-l.lines:
			l.heard = append(l.heard, s)
		case <-late.C:
			l.t.Fatalf("never heard %q, but %q", want, l.heard)
		}
	}
}

func TestWatchers(t *testing.T) {
	t.Parallel()
	v := over(t, map[string]string{"dir/a": "base", "dir/old": "old", "dir/sub/x": "x", "dir/b": "base", "dir/c": "c", "dir/e": "e"})
	v.before = nil
	v.sh("cat dir/a dir/old dir/b dir/c; ls dir")
	l := v.listen(t, "exec "+self(t, "watch", "dir", "dir/a", "dir/b", "dir/c", "dir/e"))
	check := func(path, want string) {
		t.Helper()
		if got, err := v.try("cat " + path); got != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	// Through the view, by another process.
	v.sh("echo mine > dir/own; rm dir/own; mkdir dir/made; rmdir dir/made")
	l.hears("dir/own: CREATE")
	l.hears("dir/own: CLOSE_WRITE")
	l.hears("dir/own: DELETE")
	l.hears("dir/made: CREATE")
	l.hears("dir/made: DELETE")
	// By an agent.
	for i := range 3 {
		name := fmt.Sprint("dir/new", i)
		v.agent(v.branch, name, "agent's")
		l.hears(name + ": CREATE")
		l.hears(name + ": CLOSE_WRITE")
		check(name, "agent's")
		v.agent(v.branch, name, "agent's again")
		l.hears(name + ": CREATE") // by a rename, as editors save
		check(name, "agent's again")
		must(t, v.branch.Unlink(name, v.origin()))
		l.hears(name + ": DELETE")
		check(name, "cat: "+name+": No such file or directory\n")
	}
	v.agent(v.branch, "dir/a", "of the agent")
	l.hears("dir/a: DELETE_SELF")
	l.hears("dir/a: CREATE")
	check("dir/a", "of the agent")
	must(t, v.branch.Unlink("dir/old", v.origin()))
	l.hears("dir/old: DELETE")
	_, err := v.branch.Mkdir("dir/newdir", 0o755, v.origin())
	must(t, err)
	l.hears("dir/newdir: CREATE")
	must(t, v.branch.Rmdir("dir/newdir", v.origin()))
	l.hears("dir/newdir: DELETE")
	_, err = v.branch.Symlink("a", "dir/link", v.origin())
	must(t, err)
	l.hears("dir/link: CREATE")
	check("dir/link", "of the agent")
	must(t, v.branch.Unlink("dir/e", v.origin()))
	l.hears("dir/e: DELETE_SELF")
	l.hears("dir/e: DELETE")
	// By the person.
	native(t, v.root, "rm dir/c")
	l.hears("dir/c: DELETE_SELF")
	l.hears("dir/c: DELETE")
	native(t, v.root, "printf changed > dir/b")
	l.hears("dir/b: MODIFY")
	l.hears("dir/b: CLOSE_WRITE")
	check("dir/b", "changed")
	native(t, v.root, "printf saved > dir/.tmp && mv dir/.tmp dir/b")
	l.hears("dir/b: CREATE")
	check("dir/b", "saved")
	native(t, v.root, "printf fresh > dir/fresh")
	l.hears("dir/fresh: CREATE")
	check("dir/fresh", "fresh")
	native(t, v.root, "rm dir/fresh; rm -r dir/sub; mkdir dir/other")
	l.hears("dir/fresh: DELETE")
	l.hears("dir/sub: DELETE")
	l.hears("dir/other: CREATE")
	// What the person changes below an override is hidden.
	native(t, v.root, "printf hidden > dir/a")
	v.sync()
	check("dir/a", "of the agent")
	if got := v.sh("ls -A dir"); got != "a\nb\nlink\nother\n" {
		t.Errorf("in the end: %q", got)
	}
	overrides, err := v.branch.Overrides()
	must(t, err)
	var paths []string
	for _, o := range overrides {
		paths = append(paths, o.Path)
	}
	if got := strings.Join(paths, " "); got != "dir/a dir/e dir/link dir/old" && got != "dir dir/a dir/e dir/link dir/old" {
		t.Errorf("poking has made overrides: %s", got)
	}
}

// TestNodeWatches is fs.watch as chokidar, tsc and Vite use it.
func TestNodeWatches(t *testing.T) {
	t.Parallel()
	need.Tool(t, "node")
	v := over(t, map[string]string{"src/a.js": "base", "src/b.js": "base"})
	v.before = nil
	l := v.listen(t, `exec node -e '
const fs = require("fs")
fs.watch("src", (what, name) => { let s; try { s = fs.readFileSync("src/" + name, "utf8") } catch (e) { s = e.code } ; console.log(name + "=" + s) })
console.log("watching")'`)
	v.sh("printf view > src/v.js")
	l.hears("v.js=view")
	v.agent(v.branch, "src/a.js", "agent")
	l.hears("a.js=agent")
	v.agent(v.branch, "src/a.js", "agent 2")
	l.hears("a.js=agent 2")
	v.agent(v.branch, "src/new.js", "new")
	l.hears("new.js=new")
	// (Without truncating it first, since that is a change of its own.)
	native(t, v.root, "printf person 1<> src/b.js")
	l.hears("b.js=person")
	native(t, v.root, "rm src/b.js")
	l.hears("b.js=ENOENT")
}

// TestChokidar is the library that most JavaScript tools watch with. It watches
// each file by itself and, when that is replaced by one of the same inode number,
// does not watch the new one.
func TestChokidar(t *testing.T) {
	full(t)
	need.Tool(t, "npm")
	for _, version := range []string{"3.6.0", "4.0.3"} {
		t.Run(version, func(t *testing.T) {
			root := t.TempDir()
			plant(t, root, map[string]string{"package.json": `{"name":"m","private":true}`, "src/a.js": "base", "src/b.js": "base"})
			if out, err := run(t, root, "npm install --no-audit --no-fund chokidar@"+version+" 2>&1"); err != nil {
				need.Unmet(t, true, "no packages to be had: %s", out)
			}
			v := overRoot(t, root)
			v.before = nil
			l := v.listen(t, `exec node -e '
const fs = require("fs")
require("chokidar").watch("src", { ignoreInitial: true }).on("all", (what, path) => {
	let s = ""; try { s = "=" + fs.readFileSync(path, "utf8") } catch (e) {}
	// It leaves out what comes within 50 ms of another change of the file.
	setTimeout(() => console.log(what + " " + path + s), 100) }).on("ready", () => console.log("watching"))'`)
			v.sh("printf view > src/v.js")
			l.hears("add src/v.js=view")
			v.agent(v.branch, "src/a.js", "agent")
			l.hears("change src/a.js=agent")
			v.agent(v.branch, "src/new.js", "new")
			l.hears("add src/new.js=new")
			// (Without truncating it first, since that is a change of its own.)
			native(t, v.root, "printf person 1<> src/b.js")
			l.hears("change src/b.js=person")
			for i := range 3 {
				text := fmt.Sprint("round ", i)
				v.agent(v.branch, "src/a.js", text)
				l.hears("change src/a.js=" + text)
				v.agent(v.branch, "src/new.js", text)
				l.hears("change src/new.js=" + text)
				native(t, v.root, "printf '"+text+"' > .tmp && mv .tmp src/b.js")
				l.hears("change src/b.js=" + text)
				native(t, v.root, "printf '"+text+" in place' 1<> src/b.js")
				l.hears("change src/b.js=" + text + " in place")
			}
			native(t, v.root, "rm src/b.js")
			l.hears("unlink src/b.js")
		})
	}
}
