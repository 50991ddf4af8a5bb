package conformance

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Somebody, and somebody else.
const (
	alice, bob   = 65533, 65532
	staff, other = 65531, 65530
)

// pathCalls are the calls that take one path, for all that concerns its
// resolution. fresh: the path must not exist.
var pathCalls = []struct {
	name  string
	fresh bool
	call  func(path string) error
}{
	{"chmod", false, func(p string) error { return unix.Chmod(p, 0o600) }},
	{"chown", false, func(p string) error { return unix.Lchown(p, 0, 0) }},
	{"truncate", false, func(p string) error { return truncate(p, 3) }},
	{"utimensat", false, func(p string) error { return utimens(p) }},
	{"open", false, func(p string) error { return open(p, unix.O_RDONLY, 0) }},
	{"create", true, func(p string) error { return open(p, unix.O_CREAT|unix.O_WRONLY, 0o644) }},
	{"create exclusively", true, func(p string) error { return open(p, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644) }},
	{"mkdir", true, func(p string) error { return unix.Mkdir(p, 0o755) }},
	{"mkfifo", true, func(p string) error { return unix.Mkfifo(p, 0o644) }},
	{"mknod", true, func(p string) error { return unix.Mknod(p, unix.S_IFREG|0o644, 0) }},
	{"symlink", true, func(p string) error { return unix.Symlink("x", p) }},
	{"link to", true, func(p string) error { return unix.Link("there", p) }},
	{"rename to", true, func(p string) error {
		os.WriteFile("mover", nil, 0o644)
		return unix.Rename("mover", p)
	}},
	{"link from", false, func(p string) error {
		defer unix.Unlink("second")
		return unix.Link(p, "second")
	}},
	{"rename from", false, func(p string) error { return unix.Rename(p, "elsewhere") }},
	{"readlink", false, func(p string) error {
		_, err := unix.Readlink(p, make([]byte, 5000))
		return err
	}},
	{"stat", false, func(p string) error { return unix.Stat(p, &unix.Stat_t{}) }},
	{"access", false, func(p string) error { return unix.Access(p, unix.R_OK) }},
	{"listxattr", false, func(p string) error {
		_, err := unix.Llistxattr(p, nil)
		return err
	}},
	{"rmdir", false, func(p string) error { return unix.Rmdir(p) }},
	{"unlink", false, func(p string) error { return unix.Unlink(p) }},
}

type tableCase struct {
	name string
	run  func(tb *table)
}

var tableCases = []tableCase{
	{"resolution", resolution},
	{"long paths", longPaths},
	{"exists", exists},
	{"chmod", chmods},
	{"chown", chowns},
	{"permissions", permissions},
	{"sticky", sticky},
	{"rename", renames},
	{"link", links},
	{"directories", directories},
	{"open", opens},
	{"truncate", truncates},
	{"utimensat", utimensats},
	{"times", timesOfCalls},
	{"inheritance", inheritance},
	{"xattrs", xattrs},
	{"unlinked", unlinked},
	{"other calls", otherCalls},
}

// resolution: components that are not there, not directories, too long, or go
// round in circles.
func resolution(tb *table) {
	os.WriteFile("there", []byte("x"), 0o644)
	os.Mkdir("dir", 0o755)
	unix.Symlink("loop2", "loop1")
	unix.Symlink("loop1", "loop2")
	unix.Symlink("dangling", "dangle")
	long, longest := strings.Repeat("n", 256), strings.Repeat("n", 255)
	for _, c := range pathCalls {
		for name, path := range map[string]string{
			"missing parent":           "none/x",
			"file as parent":           "there/x",
			"file as parent of parent": "there/x/y",
			"loop as parent":           "loop1/x",
			"loop":                     "loop1",
			"dangling":                 "dangle",
			"dangling parent":          "dangle/x",
			"name too long":            long,
			"name too long in dir":     "dir/" + long,
			"parent too long":          long + "/x",
			"empty":                    "",
			"slash after file":         "there/",
			"slash after nothing":      "none2/",
			"dot":                      "dir/.",
			"dot dot":                  "dir/..",
			"through the file":         "there/.",
			"path too long":            strings.Repeat("dir/../", 600) + "there",
		} {
			tb.is(c.name+" "+name, c.call(path))
			os.RemoveAll("elsewhere")
			remove("dangling")
			os.RemoveAll("mover")
			if look("there") == "ENOENT" {
				os.WriteFile("there", []byte("x"), 0o644)
			}
			for _, l := range []string{"loop1", "loop2"} {
				remove(l)
			}
			unix.Symlink("loop2", "loop1")
			unix.Symlink("loop1", "loop2")
			os.RemoveAll("dangle")
			unix.Symlink("dangling", "dangle")
			os.RemoveAll("none2")
			os.MkdirAll("dir", 0o755)
		}
		// 255 bytes is a name like another.
		if !c.fresh {
			os.WriteFile(longest, nil, 0o644)
		}
		tb.is(c.name+" longest name", c.call(longest))
		tb.is(c.name+" longest name after", look(longest))
		os.RemoveAll(longest)
		os.RemoveAll("elsewhere")
	}
	for _, name := range []string{"\xff\xfe", "a\nb", " ", "\x01", "ü", "-", "..."} {
		tb.is(fmt.Sprintf("name %q", name), os.WriteFile(name, nil, 0o644))
		tb.is(fmt.Sprintf("name %q", name), look(name))
	}
}

// longPaths: deeper than PATH_MAX, step by step; and exactly PATH_MAX.
func longPaths(tb *table) {
	top, _ := os.Getwd()
	name := strings.Repeat("d", 250)
	for i := range 30 {
		if err := unix.Mkdir(name, 0o755); err != nil {
			tb.is(fmt.Sprint("depth ", i), err)
			return
		}
		if err := unix.Chdir(name); err != nil {
			tb.is(fmt.Sprint("chdir at ", i), err)
			return
		}
	}
	tb.is("write deep", os.WriteFile("f", []byte("deep"), 0o644))
	data, err := os.ReadFile("f")
	tb.is("read deep", fmt.Sprint(string(data), err))
	tb.is("rename deep", unix.Rename("f", "g"))
	tb.is("link deep", unix.Link("g", "h"))
	tb.is("chmod deep", unix.Chmod("g", 0o600))
	tb.is("look deep", look("g"))
	tb.is("unlink deep", unix.Unlink("h"))
	tb.is("chdir back", os.Chdir(top))
	tb.is("remove all", os.RemoveAll(name))
	// A path of exactly 4,095 bytes, and of one more.
	at := strings.Repeat("x/../", 1200)
	os.Mkdir("x", 0o755)
	os.WriteFile("y", nil, 0o644)
	for _, n := range []int{4094, 4095, 4096} {
		p := at[:((n-1)/5)*5]
		p = p + strings.Repeat("/", n-1-len(p)) + "y"
		tb.is(fmt.Sprint("path of ", n), unix.Stat(p, &unix.Stat_t{}))
	}
	tb.is("symlink of 4095", unix.Symlink(strings.Repeat("t", 4095), "s1"))
	tb.is("symlink of 4096", unix.Symlink(strings.Repeat("t", 4096), "s2"))
	tb.is("symlink of 4095", look("s1"))
	tb.is("symlink to nothing", unix.Symlink("", "s3"))
}

// exists: making what is there.
func exists(tb *table) {
	os.WriteFile("there", nil, 0o644)
	for _, kind := range kinds {
		for _, c := range pathCalls {
			if !c.fresh || c.name == "create" && (kind == "fifo" || kind == "block" || kind == "char" || kind == "socket") {
				continue
			}
			if err := makeKind(kind, "it"); err != nil {
				tb.is("making "+kind, err)
				continue
			}
			tb.is(c.name+" over "+kind, c.call("it"))
			tb.is(c.name+" over "+kind+" leaves", look("it"))
			os.RemoveAll("it")
			os.RemoveAll("nowhere")
			os.RemoveAll("mover")
		}
		tb.is("making "+kind, makeKind(kind, "it"))
		tb.is("made "+kind, look("it"))
		tb.is("unlink "+kind, unix.Unlink("it"))
		tb.is("rmdir "+kind, unix.Rmdir("it"))
		tb.is("gone "+kind, look("it"))
		remove("it")
	}
	tb.is("mknod char 0/0", unix.Mknod("white", unix.S_IFCHR|0o644, 0))
	tb.is("mknod dir", unix.Mknod("adir", unix.S_IFDIR|0o644, 0))
	tb.is("char 300/70000", unix.Mknod("big", unix.S_IFCHR|0o600, int(unix.Mkdev(300, 70000))))
	tb.is("char 300/70000", look("big"))
	for _, mask := range []int{0, 0o22, 0o77, 0o777} {
		unix.Umask(mask)
		open("f", unix.O_CREAT|unix.O_WRONLY, 0o7777)
		unix.Mkdir("d", 0o7777)
		unix.Mkfifo("p", 0o7777)
		unix.Umask(0)
		for _, p := range []string{"f", "d", "p"} {
			tb.is(fmt.Sprintf("umask %o %s", mask, p), look(p))
			remove(p)
		}
	}
}

func chmods(tb *table) {
	for _, kind := range kinds {
		makeKind(kind, "it")
		if kind == "symlink" {
			os.WriteFile("nowhere", nil, 0o644)
		}
		for _, mode := range []uint32{0, 0o111, 0o4755, 0o2755, 0o1777, 0o7777, 0o644} {
			tb.is(fmt.Sprintf("%s %o", kind, mode), unix.Chmod("it", mode))
			tb.is(fmt.Sprintf("%s %o", kind, mode), look("it"))
		}
		tb.is(kind+" not following", unix.Fchmodat(unix.AT_FDCWD, "it", 0o600, unix.AT_SYMLINK_NOFOLLOW))
		for _, owner := range []int{alice, bob} {
			unix.Lchown("it", alice, staff)
			as(owner, staff, nil, func() {
				tb.is(fmt.Sprint(kind, " as ", owner == alice), unix.Chmod("it", 0o640))
			})
		}
		// Not in the file's group: setting the group's bit does nothing.
		if kind == "regular" || kind == "dir" {
			unix.Chown("it", alice, staff)
			as(alice, other, nil, func() {
				tb.is(kind+" sgid of a foreign group", unix.Chmod("it", 0o2755))
				tb.is(kind+" sgid of a foreign group", look("it"))
			})
			as(alice, other, []int{staff}, func() {
				tb.is(kind+" sgid of an own group", unix.Chmod("it", 0o2755))
				tb.is(kind+" sgid of an own group", look("it"))
				tb.is(kind+" sticky by its owner", unix.Chmod("it", 0o1755))
				tb.is(kind+" sticky by its owner", look("it"))
			})
		}
		remove("it")
		remove("nowhere")
	}
	// Writing takes suid and sgid away from who is not root.
	for _, mode := range []uint32{0o4777, 0o2777, 0o2767, 0o6777} {
		for _, uid := range []int{0, alice, bob} {
			os.WriteFile("s", []byte("x"), 0o644)
			unix.Chown("s", alice, staff)
			unix.Chmod("s", mode)
			as(uid, staff, nil, func() {
				f, err := os.OpenFile("s", os.O_WRONLY, 0)
				if err == nil {
					_, err = f.Write([]byte("y"))
					f.Close()
				}
				tb.is(fmt.Sprintf("write %o as %d", mode, uid), err)
			})
			tb.is(fmt.Sprintf("write %o as %d", mode, uid), look("s"))
			unix.Chmod("s", mode)
			as(uid, staff, nil, func() { tb.is(fmt.Sprintf("truncate %o as %d", mode, uid), truncate("s", 0)) })
			tb.is(fmt.Sprintf("truncate %o as %d", mode, uid), look("s"))
			unix.Chmod("s", mode)
			as(uid, staff, nil, func() {
				tb.is(fmt.Sprintf("O_TRUNC %o as %d", mode, uid), open("s", unix.O_WRONLY|unix.O_TRUNC, 0))
			})
			tb.is(fmt.Sprintf("O_TRUNC %o as %d", mode, uid), look("s"))
			remove("s")
		}
	}
}

func chowns(tb *table) {
	for _, kind := range kinds {
		makeKind(kind, "it")
		tb.is(kind+" both", unix.Lchown("it", alice, staff))
		tb.is(kind+" both", look("it"))
		tb.is(kind+" user only", unix.Lchown("it", bob, -1))
		tb.is(kind+" group only", unix.Lchown("it", -1, other))
		tb.is(kind+" neither", unix.Lchown("it", -1, -1))
		tb.is(kind+" after", look("it"))
		for _, uid := range []int{bob, alice} {
			as(uid, staff, []int{other}, func() {
				name := fmt.Sprintf("%s as owner=%v ", kind, uid == bob)
				tb.is(name+"to oneself", unix.Lchown("it", uid, -1))
				tb.is(name+"to another", unix.Lchown("it", 12345, -1))
				tb.is(name+"to an own group", unix.Lchown("it", -1, staff))
				tb.is(name+"to a foreign group", unix.Lchown("it", -1, 12345))
				tb.is(name+"neither", unix.Lchown("it", -1, -1))
			})
			tb.is(kind+" finally", look("it"))
		}
		remove("it")
	}
	for _, mode := range []uint32{0o6555, 0o2745, 0o2755, 0o4711} {
		os.WriteFile("s", nil, 0o644)
		unix.Chown("s", alice, staff)
		unix.Chmod("s", mode)
		tb.is(fmt.Sprintf("suid %o by root", mode), unix.Chown("s", bob, other))
		tb.is(fmt.Sprintf("suid %o by root", mode), look("s"))
		unix.Chown("s", alice, staff)
		unix.Chmod("s", mode)
		as(alice, staff, []int{other}, func() { tb.is(fmt.Sprintf("suid %o by its owner", mode), unix.Chown("s", -1, other)) })
		tb.is(fmt.Sprintf("suid %o by its owner", mode), look("s"))
		unix.Chmod("s", mode)
		as(alice, staff, []int{other}, func() { tb.is(fmt.Sprintf("suid %o, nothing changed", mode), unix.Chown("s", -1, -1)) })
		tb.is(fmt.Sprintf("suid %o, nothing changed", mode), look("s"))
		remove("s")
	}
	unix.Mkdir("d", 0o755)
	unix.Chmod("d", 0o6755)
	tb.is("suid dir", unix.Chown("d", bob, other))
	tb.is("suid dir", look("d"))
}

// permissions: every call, in a directory and on a file of each mode that
// matters, as owner, member of the group, and stranger.
func permissions(tb *table) {
	callers := []struct {
		name     string
		uid, gid int
		groups   []int
	}{{"owner", alice, other, nil}, {"group", bob, staff, nil}, {"second group", bob, other, []int{staff}}, {"stranger", bob, other, nil}, {"root", 0, 0, nil}}
	for _, bits := range []uint32{0, 1, 2, 3, 4, 5, 6, 7} {
		for _, caller := range callers {
			mode := bits<<6 | 0o007
			if strings.Contains(caller.name, "group") {
				mode = 0o700 | bits<<3 | 0o007
			} else if caller.name == "stranger" {
				mode = 0o770 | bits
			}
			for _, c := range pathCalls {
				if c.name == "chown" {
					continue
				}
				// In a directory with these bits, on a file that all may use.
				os.Mkdir("d", 0o777)
				os.WriteFile("there", nil, 0o666)
				os.Chmod("there", 0o666)
				unix.Chown(".", 0, 0)
				unix.Chmod(".", 0o777)
				if !c.fresh {
					if c.name == "rmdir" {
						os.Mkdir("d/f", 0o777)
					} else {
						os.WriteFile("d/f", []byte("12345"), 0o666)
						os.Chmod("d/f", 0o666)
					}
				}
				unix.Chown("d/f", caller.uid, caller.gid)
				unix.Chown("d", alice, staff)
				unix.Chmod("d", mode)
				as(caller.uid, caller.gid, caller.groups, func() {
					tb.is(fmt.Sprintf("%s in dir %o as %s", c.name, bits, caller.name), c.call("d/f"))
				})
				os.RemoveAll("d")
				os.RemoveAll("mover")
				os.RemoveAll("elsewhere")
			}
			for _, flags := range []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_RDONLY | unix.O_TRUNC, unix.O_WRONLY | unix.O_TRUNC} {
				os.WriteFile("f", []byte("12345"), 0o600)
				unix.Chown("f", alice, staff)
				unix.Chmod("f", mode)
				as(caller.uid, caller.gid, caller.groups, func() {
					tb.is(fmt.Sprintf("open %#o of file %o as %s", flags, bits, caller.name), open("f", flags, 0))
				})
			}
			as(caller.uid, caller.gid, caller.groups, func() {
				for _, m := range []uint32{unix.R_OK, unix.W_OK, unix.X_OK} {
					tb.is(fmt.Sprintf("access %o of file %o as %s", m, bits, caller.name), unix.Faccessat(unix.AT_FDCWD, "f", m, unix.AT_EACCESS))
				}
				tb.is(fmt.Sprintf("truncate file %o as %s", bits, caller.name), truncate("f", 1))
				tb.is(fmt.Sprintf("utimensat now file %o as %s", bits, caller.name), utimens("f"))
				tb.is(fmt.Sprintf("utimensat past file %o as %s", bits, caller.name), utimens("f", unix.Timespec{Sec: 1}, unix.Timespec{Sec: 2}))
				tb.is(fmt.Sprintf("link to file %o as %s", bits, caller.name), unix.Link("f", "l"))
				tb.is(fmt.Sprintf("setxattr file %o as %s", bits, caller.name), unix.Setxattr("f", "user.x", []byte("1"), 0))
				_, err := unix.Getxattr("f", "user.x", nil)
				tb.is(fmt.Sprintf("getxattr file %o as %s", bits, caller.name), err)
				fds, err := os.ReadDir("f")
				tb.is(fmt.Sprintf("list file as dir %o as %s %d", bits, caller.name, len(fds)), err)
			})
			os.Remove("l")
			os.Remove("f")
		}
	}
	os.WriteFile("script", []byte("#!/bin/sh\n"), 0o644)
	tb.is("root executes what nobody may", unix.Faccessat(unix.AT_FDCWD, "script", unix.X_OK, unix.AT_EACCESS))
}

// sticky: who may remove what from a directory that all may write.
func sticky(tb *table) {
	for _, kind := range kinds {
		for _, owns := range []string{"dir", "file", "both", "neither"} {
			for _, op := range []string{"unlink", "rename", "replace", "rename out"} {
				os.Mkdir("d", 0o777)
				makeKind(kind, "d/it")
				if kind == "dir" {
					makeKind("dir", "d/new")
				} else {
					makeKind("regular", "d/new")
				}
				unix.Lchown("d/new", bob, staff)
				unix.Lchown("d/it", alice, staff)
				unix.Chown("d", alice, staff)
				switch owns {
				case "dir":
					unix.Chown("d", bob, staff)
				case "file":
					unix.Lchown("d/it", bob, staff)
				case "both":
					unix.Chown("d", bob, staff)
					unix.Lchown("d/it", bob, staff)
				}
				unix.Chmod("d", 0o1777)
				unix.Chmod(".", 0o777)
				as(bob, staff, nil, func() {
					var err error
					switch op {
					case "unlink":
						if kind == "dir" {
							err = unix.Rmdir("d/it")
						} else {
							err = unix.Unlink("d/it")
						}
					case "rename":
						err = unix.Rename("d/it", "d/moved")
					case "replace":
						err = unix.Rename("d/new", "d/it")
					case "rename out":
						err = unix.Rename("d/it", "out")
					}
					tb.is(fmt.Sprintf("%s of %s, owner of %s", op, kind, owns), err)
				})
				os.RemoveAll("d")
				os.RemoveAll("out")
			}
		}
	}
}

func renames(tb *table) {
	for _, from := range kinds {
		for _, to := range append([]string{"full dir"}, kinds...) {
			for name, flags := range map[string]uint{"": 0, " no replace": unix.RENAME_NOREPLACE, " exchange": unix.RENAME_EXCHANGE} {
				makeKind(from, "a")
				if to == "full dir" {
					os.MkdirAll("b/x", 0o755)
				} else {
					makeKind(to, "b")
				}
				tb.is(from+" to "+to+name, unix.Renameat2(unix.AT_FDCWD, "a", unix.AT_FDCWD, "b", flags))
				tb.is(from+" to "+to+name+", a", look("a"))
				tb.is(from+" to "+to+name+", b", look("b"))
				os.RemoveAll("a")
				os.RemoveAll("b")
			}
		}
	}
	os.MkdirAll("d/e/f", 0o755)
	tb.is("into itself", unix.Rename("d", "d/e/f/g"))
	tb.is("into itself, directly", unix.Rename("d", "d/g"))
	tb.is("onto its own parent", unix.Rename("d/e", "d"))
	tb.is("onto itself", unix.Rename("d", "d"))
	tb.is("dot", unix.Rename("d/.", "e"))
	tb.is("to dot dot", unix.Rename("d/e", "d/e/.."))
	tb.is("exchange with a parent", unix.Renameat2(unix.AT_FDCWD, "d", unix.AT_FDCWD, "d/e", unix.RENAME_EXCHANGE))
	tb.is("exchange with nothing", unix.Renameat2(unix.AT_FDCWD, "d", unix.AT_FDCWD, "none", unix.RENAME_EXCHANGE))
	tb.is("both flags", unix.Renameat2(unix.AT_FDCWD, "d", unix.AT_FDCWD, "none", unix.RENAME_EXCHANGE|unix.RENAME_NOREPLACE))
	tb.is("whiteout", unix.Renameat2(unix.AT_FDCWD, "d", unix.AT_FDCWD, "w", unix.RENAME_WHITEOUT))
	os.RemoveAll("w")
	os.RemoveAll("d")
	os.WriteFile("one", []byte("1"), 0o644)
	unix.Link("one", "two")
	tb.is("onto a link of itself", unix.Rename("one", "two"))
	tb.is("onto a link of itself, one", look("one"))
	os.Mkdir("slash", 0o755)
	tb.is("dir with slashes", unix.Rename("slash/", "slashed/"))
	tb.is("file with slash", unix.Rename("one", "uno/"))
	os.Mkdir("ro", 0o555)
	os.Mkdir("ro/sub", 0o755)
	// Moving a directory changes its "..": it must be the mover's to write.
	os.Mkdir("p", 0o777)
	unix.Chmod("p", 0o777)
	os.Mkdir("p/q", 0o777)
	unix.Chmod("p/q", 0o777)
	os.Mkdir("p/mine", 0o755)
	unix.Chmod(".", 0o777)
	as(alice, staff, nil, func() {
		tb.is("another's directory to another parent", unix.Rename("p/mine", "p/q/mine"))
		tb.is("another's directory in its parent", unix.Rename("p/mine", "p/yours"))
	})
}

func links(tb *table) {
	for _, kind := range kinds {
		makeKind(kind, "a")
		tb.is(kind, unix.Link("a", "b"))
		tb.is(kind+" a", look("a"))
		tb.is(kind+" b", look("b"))
		unix.Lchown("b", alice, staff)
		if kind != "symlink" {
			unix.Chmod("b", 0o600)
		}
		tb.is(kind+" changed through b", look("a"))
		tb.is(kind+" unlinked a", unix.Unlink("a"))
		tb.is(kind+" b remains", look("b"))
		os.RemoveAll("a")
		os.RemoveAll("b")
	}
	makeKind("symlink", "s")
	os.WriteFile("nowhere", nil, 0o644)
	tb.is("of what a symlink names", unix.Linkat(unix.AT_FDCWD, "s", unix.AT_FDCWD, "t", unix.AT_SYMLINK_FOLLOW))
	tb.is("of what a symlink names", look("t"))
	fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	tb.is("O_TMPFILE", err)
	if err == nil {
		unix.Close(fd)
	}
	os.WriteFile("many", nil, 0o644)
	for i := range 200 {
		if err := unix.Link("many", fmt.Sprint("many", i)); err != nil {
			tb.is(fmt.Sprint("link ", i), err)
		}
	}
	tb.is("many", look("many"))
	var a, b unix.Stat_t
	unix.Stat("many", &a)
	unix.Stat("many7", &b)
	tb.is("one inode", a.Ino == b.Ino)
}

func directories(tb *table) {
	os.MkdirAll("d/e", 0o755)
	tb.is("rmdir full", unix.Rmdir("d"))
	tb.is("rmdir dot", unix.Rmdir("d/e/."))
	tb.is("rmdir dot dot", unix.Rmdir("d/e/.."))
	tb.is("rmdir slash", unix.Rmdir("d/e/"))
	tb.is("unlink dir", unix.Unlink("d"))
	tb.is("rmdir", unix.Rmdir("d"))
	// Standing in a directory that is no more.
	top, _ := os.Getwd()
	os.Mkdir("gone", 0o755)
	os.Chdir("gone")
	unix.Rmdir("../gone")
	tb.is("create in a removed directory", open("x", unix.O_CREAT|unix.O_WRONLY, 0o644))
	tb.is("mkdir in a removed directory", unix.Mkdir("x", 0o755))
	tb.is("stat a removed directory", unix.Stat(".", &unix.Stat_t{}))
	entries, err := os.ReadDir(".")
	tb.is(fmt.Sprint("list a removed directory ", len(entries)), err)
	tb.is("up from a removed directory", unix.Stat("..", &unix.Stat_t{}))
	os.Chdir(top)
	// Entries come and go while somebody reads.
	os.Mkdir("many", 0o755)
	for i := range 500 {
		os.WriteFile(fmt.Sprintf("many/%03d", i), nil, 0o644)
	}
	f, _ := os.Open("many")
	seen := map[string]int{}
	for i := 0; ; i++ {
		names, err := f.Readdirnames(50)
		for _, n := range names {
			seen[n]++
		}
		os.Remove(fmt.Sprintf("many/%03d", i))
		os.WriteFile(fmt.Sprintf("many/new%d", i), nil, 0o644)
		if err != nil {
			break
		}
	}
	twice, missed := 0, 0
	for i := 11; i < 500; i++ {
		switch seen[fmt.Sprintf("%03d", i)] {
		case 0:
			missed++
		case 1:
		default:
			twice++
		}
	}
	tb.is("listing while it changes", fmt.Sprintf("missed %d, twice %d", missed, twice))
	f.Seek(0, 0)
	names, _ := f.Readdirnames(-1)
	sortStrings := map[string]bool{}
	for _, n := range names {
		sortStrings[n] = true
	}
	tb.is("rewound", fmt.Sprint(sortStrings["new0"], sortStrings["000"]))
	f.Close()
	fd, _ := unix.Open("many", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	_, err = unix.Read(fd, make([]byte, 10))
	tb.is("read of a directory", err)
	tb.is("fsync of a directory", unix.Fsync(fd))
	unix.Close(fd)
	tb.is("open a directory to write", open("many", unix.O_WRONLY, 0))
	tb.is("O_CREAT on a directory", open("many", unix.O_CREAT, 0o644))
}

func opens(tb *table) {
	for _, kind := range kinds {
		makeKind(kind, "it")
		for name, flags := range map[string]int{
			"read": unix.O_RDONLY, "write": unix.O_WRONLY, "both": unix.O_RDWR,
			"O_DIRECTORY": unix.O_DIRECTORY, "O_NOFOLLOW": unix.O_NOFOLLOW, "O_PATH": unix.O_PATH | unix.O_NOFOLLOW,
			"O_CREAT|O_EXCL": unix.O_CREAT | unix.O_EXCL, "O_CREAT|O_DIRECTORY": unix.O_CREAT | unix.O_DIRECTORY,
			"O_TRUNC": unix.O_WRONLY | unix.O_TRUNC,
		} {
			if (kind == "block" || kind == "char") && !strings.HasPrefix(name, "O_") {
				continue // see the list: nodev
			}
			tb.is(kind+" "+name, open("it", flags, 0o644))
			remove("nowhere")
		}
		remove("it")
	}
	os.WriteFile("f", []byte("0123456789"), 0o644)
	fd, _ := unix.Open("f", unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
	unix.Pwrite(fd, []byte("at 2"), 2)
	unix.Seek(fd, 0, 0)
	unix.Write(fd, []byte("end"))
	unix.Close(fd)
	data, _ := os.ReadFile("f")
	tb.is("O_APPEND", string(data))
	fd, _ = unix.Open("f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	_, err := unix.Write(fd, []byte("x"))
	tb.is("write to a reader", err)
	tb.is("ftruncate of a reader", unix.Ftruncate(fd, 0))
	unix.Close(fd)
	tb.is("create with mode 0", open("m0", unix.O_CREAT|unix.O_RDWR, 0))
	tb.is("create with mode 0", look("m0"))
	unix.Chmod(".", 0o777)
	as(alice, staff, nil, func() {
		fd, err := unix.Open("mine", unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o444)
		tb.is("create read-only and write", err)
		if err == nil {
			_, err = unix.Write(fd, []byte("x"))
			tb.is("write to it", err)
			unix.Close(fd)
		}
		tb.is("open it again to write", open("mine", unix.O_WRONLY, 0))
	})
	tb.is("mine", look("mine"))
	f, _ := os.OpenFile("direct", os.O_CREATE|os.O_RDWR, 0o644)
	f.Write(make([]byte, 8192))
	f.Close()
	tb.is("O_SYNC", open("direct", unix.O_WRONLY|unix.O_SYNC, 0))
	tb.is("O_NOATIME by another", func() error {
		var err error
		as(bob, other, nil, func() { err = open("direct", unix.O_RDONLY|unix.O_NOATIME, 0) })
		return err
	}())
}

func truncates(tb *table) {
	for _, kind := range kinds {
		if kind == "block" || kind == "char" {
			continue
		}
		makeKind(kind, "it")
		tb.is(kind, truncate("it", 1234567))
		tb.is(kind, look("it"))
		tb.is(kind+" down", truncate("it", 5))
		tb.is(kind+" down", look("it"))
		tb.is(kind+" negative", truncate("it", -1))
		remove("it")
		remove("nowhere")
	}
	os.WriteFile("f", []byte("0123456789"), 0o644)
	tb.is("shorter", ftruncate("f", unix.O_RDWR, 4))
	tb.is("longer", ftruncate("f", unix.O_WRONLY, 8))
	data, _ := os.ReadFile("f")
	tb.is("content", fmt.Sprintf("%q", data))
	tb.is("negative", ftruncate("f", unix.O_RDWR, -1))
	tb.is("by a reader", ftruncate("f", unix.O_RDONLY, 1))
	tb.is("of a directory", ftruncate(".", unix.O_RDONLY, 1))
	tb.is("far", truncate("f", 1<<40))
	tb.is("far", look("f"))
	tb.is("too far", truncate("f", 1<<62))
	var st unix.Stat_t
	unix.Stat("f", &st)
	tb.is("sparse", st.Blocks < 64)
	fd, _ := unix.Open("f", unix.O_RDWR|unix.O_CLOEXEC, 0)
	unix.Pwrite(fd, []byte("x"), 1<<30)
	at, err := unix.Seek(fd, 0, unix.SEEK_HOLE)
	tb.is("SEEK_HOLE", fmt.Sprint(at > 0 && at <= 1<<20, err))
	at, err = unix.Seek(fd, 1<<20, unix.SEEK_DATA)
	tb.is("SEEK_DATA", fmt.Sprint(at, err))
	_, err = unix.Seek(fd, 1<<41, unix.SEEK_DATA)
	tb.is("SEEK_DATA past the end", err)
	unix.Close(fd)
	tb.is("suid stays for root", func() error {
		unix.Chmod("f", 0o4755)
		return truncate("f", 1)
	}())
	tb.is("suid stays for root", look("f"))
}

func utimensats(tb *table) {
	at := func(sec, nsec int64) unix.Timespec { return unix.Timespec{Sec: sec, Nsec: nsec} }
	show := func(path string) string {
		var st unix.Stat_t
		unix.Lstat(path, &st)
		return fmt.Sprintf("%d.%09d %d.%09d", st.Atim.Sec, st.Atim.Nsec, st.Mtim.Sec, st.Mtim.Nsec)
	}
	for _, kind := range kinds {
		makeKind(kind, "it")
		for _, ts := range [][]unix.Timespec{
			{at(1000000001, 123456789), at(1000000002, 987654321)},
			{at(0, 0), at(0, 1)}, {at(-5, 7), at(-100, 999999999)}, {at(1<<33, 3), at(1<<33+1, 4)},
			{at(1, unix.UTIME_OMIT), at(77, 0)}, {at(88, 0), at(1, unix.UTIME_OMIT)}, {at(1, unix.UTIME_OMIT), at(1, unix.UTIME_OMIT)},
			{at(0, 1000000000), at(0, 0)}, {at(0, -1), at(0, 0)},
		} {
			name := fmt.Sprint(kind, " ", ts)
			tb.is(name, utimens("it", ts...))
			tb.is(name, show("it"))
		}
		remove("it")
	}
	os.WriteFile("f", nil, 0o666)
	unix.Chmod("f", 0o666)
	unix.Chown("f", alice, staff)
	as(bob, other, nil, func() {
		tb.is("now, by who may write", utimens("f"))
		tb.is("one now, by who may write", utimens("f", at(0, unix.UTIME_NOW), at(0, unix.UTIME_OMIT)))
		tb.is("past, by who may write", utimens("f", at(1, 1), at(1, 1)))
		tb.is("nothing, by who may write", utimens("f", at(0, unix.UTIME_OMIT), at(0, unix.UTIME_OMIT)))
	})
	unix.Chmod("f", 0o444)
	as(alice, staff, nil, func() { tb.is("now, by its owner who may not write", utimens("f")) })
	as(bob, other, nil, func() { tb.is("now, by who may not write", utimens("f")) })
	// Writing keeps what was set from coming back.
	os.WriteFile("g", []byte("x"), 0o644)
	f, _ := os.OpenFile("g", os.O_RDWR, 0)
	f.Write([]byte("y"))
	utimens("g", at(5, 0), at(6, 0))
	f.Close()
	tb.is("set while open and written", show("g"))
}

// timesOfCalls: which times each call moves, of the file and of its parents.
func timesOfCalls(tb *table) {
	for _, kind := range kinds {
		it := []string{".", "d", "it"}
		os.Mkdir("d", 0o755)
		tb.moved("making "+kind, []string{"."}, func() error { return makeKind(kind, "it") })
		tb.moved("chmod "+kind, it, func() error {
			return unix.Fchmodat(unix.AT_FDCWD, "it", 0o700, unix.AT_SYMLINK_NOFOLLOW)
		})
		tb.moved("chmod to the same "+kind, it, func() error {
			return unix.Fchmodat(unix.AT_FDCWD, "it", 0o700, unix.AT_SYMLINK_NOFOLLOW)
		})
		tb.moved("chown "+kind, it, func() error { return unix.Lchown("it", alice, -1) })
		tb.moved("chown of nothing "+kind, it, func() error { return unix.Lchown("it", -1, -1) })
		tb.moved("utimensat "+kind, it, func() error { return utimens("it") })
		tb.moved("utimensat of nothing "+kind, it, func() error {
			return utimens("it", unix.Timespec{Nsec: unix.UTIME_OMIT}, unix.Timespec{Nsec: unix.UTIME_OMIT})
		})
		tb.moved("utimensat atime "+kind, it, func() error {
			return utimens("it", unix.Timespec{Nsec: unix.UTIME_NOW}, unix.Timespec{Nsec: unix.UTIME_OMIT})
		})
		if kind != "dir" {
			tb.moved("link "+kind, it, func() error { return unix.Link("it", "d/second") })
			tb.moved("unlink one of two "+kind, append(it, "d/second"), func() error { return unix.Unlink("d/second") })
		}
		tb.moved("rename "+kind, it, func() error { return unix.Rename("it", "d/it") })
		tb.is("after rename "+kind, look("d/it"))
		pause()
		ts := stamp("d/it")
		unix.Rename("d/it", "it")
		was, is := ts["d/it"][2], stamp("it")["it"][2]
		tb.is("rename moves ctime of "+kind, is.Nano() > was.Nano())
		tb.moved("failing rename "+kind, it, func() error { return unix.Rename("it", "none/it") })
		if kind == "dir" {
			tb.moved("rmdir", []string{"."}, func() error { return unix.Rmdir("it") })
		} else {
			tb.moved("unlink "+kind, []string{"."}, func() error { return unix.Unlink("it") })
		}
		os.RemoveAll("d")
	}
	f := []string{".", "f"}
	os.WriteFile("f", []byte("0123456789"), 0o644)
	tb.moved("truncate to the same", f, func() error { return truncate("f", 10) })
	tb.moved("truncate", f, func() error { return truncate("f", 5) })
	tb.moved("failing truncate", f, func() error { return truncate("f", -5) })
	tb.moved("O_TRUNC", f, func() error { return open("f", unix.O_WRONLY|unix.O_TRUNC, 0) })
	tb.moved("O_TRUNC of nothing", f, func() error { return open("f", unix.O_WRONLY|unix.O_TRUNC, 0) })
	tb.moved("O_CREAT of what is there", f, func() error { return open("f", unix.O_WRONLY|unix.O_CREAT, 0o644) })
	tb.moved("opening and closing", f, func() error { return open("f", unix.O_RDWR, 0) })
	tb.moved("write", f, func() error { return os.WriteFile("f", []byte("x"), 0o644) })
	fd, _ := unix.Open("f", unix.O_RDWR|unix.O_CLOEXEC, 0)
	tb.moved("write of nothing", f, func() error { _, err := unix.Write(fd, nil); return err })
	tb.moved("pwrite", f, func() error { _, err := unix.Pwrite(fd, []byte("yy"), 0); return err })
	tb.moved("ftruncate to the same", f, func() error { return unix.Ftruncate(fd, 2) })
	tb.moved("ftruncate", f, func() error { return unix.Ftruncate(fd, 20) })
	tb.moved("fallocate", f, func() error { return unix.Fallocate(fd, 0, 0, 100) })
	tb.moved("setxattr", f, func() error { return unix.Setxattr("f", "user.a", []byte("b"), 0) })
	tb.moved("removexattr", f, func() error { return unix.Removexattr("f", "user.a") })
	tb.moved("fchmod", f, func() error { return unix.Fchmod(fd, 0o600) })
	unix.Close(fd)
	tb.moved("replacing", []string{"."}, func() error {
		os.WriteFile("n", nil, 0o644)
		return unix.Rename("n", "f")
	})
	tb.moved("symlink", []string{"."}, func() error { return unix.Symlink("a", "s") })
	tb.moved("mkdir", []string{"."}, func() error { return unix.Mkdir("dd", 0o755) })
	tb.moved("failing mkdir", []string{"."}, func() error { return unix.Mkdir("dd", 0o755) })
	tb.moved("listing", []string{".", "dd"}, func() error { _, err := os.ReadDir("dd"); return err })
}

// inheritance: groups of what is made in a directory with the sgid bit.
func inheritance(tb *table) {
	os.Mkdir("d", 0o777)
	unix.Chown("d", alice, staff)
	unix.Chmod("d", 0o2777)
	for _, kind := range kinds {
		if kind == "block" || kind == "char" {
			continue
		}
		as(bob, other, nil, func() { tb.is("making "+kind, makeKind(kind, "d/"+kind)) })
		tb.is(kind, look("d/"+kind))
	}
	as(bob, other, nil, func() {
		tb.is("sgid file of a foreign group", open("d/s", unix.O_CREAT|unix.O_WRONLY, 0o2775))
	})
	tb.is("sgid file of a foreign group", look("d/s"))
	unix.Chmod("d", 0o777)
	as(bob, other, nil, func() { makeKind("regular", "d/plain") })
	tb.is("without", look("d/plain"))
}

func xattrs(tb *table) {
	os.WriteFile("f", nil, 0o644)
	os.Mkdir("d", 0o755)
	unix.Symlink("f", "s")
	for _, p := range []string{"f", "d", "s"} {
		for name, value := range map[string][]byte{"user.a": []byte("1"), "user.empty": {}, "user.big": make([]byte, 2000), "trusted.t": []byte("2"), "security.x": []byte("3"), "nonsense": []byte("4"), "user.": []byte("5"), "user." + strings.Repeat("n", 250): []byte("6"), "user." + strings.Repeat("n", 251): []byte("7")} {
			short := name[:min(len(name), 12)]
			tb.is(fmt.Sprintf("set %s %s %d", p, short, len(name)), unix.Lsetxattr(p, name, value, 0))
			n, err := unix.Lgetxattr(p, name, nil)
			tb.is(fmt.Sprintf("get %s %s %d", p, short, len(name)), fmt.Sprint(n, err))
		}
		tb.is(p+" create again", unix.Lsetxattr(p, "user.a", []byte("x"), unix.XATTR_CREATE))
		tb.is(p+" replace none", unix.Lsetxattr(p, "user.none", []byte("x"), unix.XATTR_REPLACE))
		_, err := unix.Lgetxattr(p, "user.big", make([]byte, 10))
		tb.is(p+" small buffer", err)
		tb.is(p+" remove", unix.Lremovexattr(p, "user.a"))
		tb.is(p+" remove again", unix.Lremovexattr(p, "user.a"))
		tb.is(p+" get removed", func() error { _, err := unix.Lgetxattr(p, "user.a", nil); return err }())
	}
	unix.Rename("f", "g")
	n, err := unix.Getxattr("g", "user.big", nil)
	tb.is("after rename", fmt.Sprint(n, err))
}

// unlinked: files that are open and have no name.
func unlinked(tb *table) {
	os.WriteFile("f", []byte("0123456789"), 0o644)
	fd, _ := unix.Open("f", unix.O_RDWR|unix.O_CLOEXEC, 0)
	unix.Unlink("f")
	var st unix.Stat_t
	unix.Fstat(fd, &st)
	tb.is("nlink", st.Nlink)
	_, err := unix.Pwrite(fd, []byte("abc"), 10)
	tb.is("write", err)
	buf := make([]byte, 20)
	n, err := unix.Pread(fd, buf, 0)
	tb.is("read", fmt.Sprintf("%s %v", buf[:max(n, 0)], err))
	tb.is("fchmod", unix.Fchmod(fd, 0o600))
	tb.is("fchown", unix.Fchown(fd, alice, staff))
	tb.is("ftruncate", unix.Ftruncate(fd, 3))
	tb.is("futimens", unix.Futimes(fd, []unix.Timeval{{Sec: 5}, {Sec: 6}}))
	unix.Fstat(fd, &st)
	tb.is("fstat", fmt.Sprintf("%o %d:%d %d %d %d", st.Mode, st.Uid, st.Gid, st.Size, st.Atim.Sec, st.Mtim.Sec))
	tb.is("fsync", unix.Fsync(fd))
	tb.is("fsetxattr", unix.Fsetxattr(fd, "user.x", []byte("1"), 0))
	n, err = unix.Fgetxattr(fd, "user.x", nil)
	tb.is("fgetxattr", fmt.Sprint(n, err))
	tb.is("through /proc", open(fmt.Sprint("/proc/self/fd/", fd), unix.O_RDONLY, 0))
	unix.Close(fd)
	os.WriteFile("g", []byte("old"), 0o644)
	fd, _ = unix.Open("g", unix.O_RDWR|unix.O_CLOEXEC, 0)
	os.WriteFile("h", []byte("new"), 0o644)
	unix.Rename("h", "g")
	n, _ = unix.Pread(fd, buf, 0)
	tb.is("replaced", string(buf[:n]))
	unix.Fstat(fd, &st)
	tb.is("replaced nlink", st.Nlink)
	unix.Close(fd)
}

func otherCalls(tb *table) {
	os.WriteFile("f", []byte("0123456789"), 0o644)
	fd, _ := unix.Open("f", unix.O_RDWR|unix.O_CLOEXEC, 0)
	defer unix.Close(fd)
	for _, f := range []struct {
		name string
		mode uint32
	}{
		{"keep size", unix.FALLOC_FL_KEEP_SIZE}, {"grow", 0}, {"zero", unix.FALLOC_FL_ZERO_RANGE},
		{"punch", unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE},
	} {
		unix.Ftruncate(fd, 10)
		unix.Pwrite(fd, []byte("0123456789"), 0)
		tb.is("fallocate "+f.name, unix.Fallocate(fd, f.mode, 2, 20))
		tb.is("fallocate "+f.name, look("f"))
		data, _ := os.ReadFile("f")
		tb.is("fallocate "+f.name+" content", fmt.Sprintf("%q", data))
	}
	os.WriteFile("src", []byte("abcdefghij"), 0o644)
	in, _ := unix.Open("src", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	defer unix.Close(in)
	off, to := int64(2), int64(5)
	n, err := unix.CopyFileRange(in, &off, fd, &to, 4, 0)
	tb.is("copy_file_range", fmt.Sprint(n, err))
	data, _ := os.ReadFile("f")
	tb.is("copy_file_range content", fmt.Sprintf("%q", data))
	tb.is("flock", unix.Flock(fd, unix.LOCK_EX))
	lk := unix.Flock_t{Type: unix.F_WRLCK, Len: 5}
	tb.is("fcntl lock", unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &lk))
	lk.Type = unix.F_WRLCK
	tb.is("OFD lock", unix.FcntlFlock(uintptr(in), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Len: 5}))
	var fs unix.Statfs_t
	err = unix.Statfs(".", &fs)
	tb.is("statfs", fmt.Sprint(fs.Namelen, fs.Bsize, fs.Blocks > 0, err))
	at := int64(0)
	n, err = unix.Sendfile(fd, in, &at, 5)
	tb.is("sendfile", fmt.Sprint(n, err))
	tb.is("fdatasync", unix.Fdatasync(fd))
	tb.is("syncfs", unix.Syncfs(fd))
	tb.is("fadvise", unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
	var stx unix.Statx_t
	tb.is("statx", unix.Statx(unix.AT_FDCWD, "f", 0, unix.STATX_ALL, &stx))
	tb.is("statx basic", stx.Mask&unix.STATX_BASIC_STATS == unix.STATX_BASIC_STATS)
	tb.is("name_to_handle_at", func() error {
		_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "f", 0)
		return err
	}())
	m, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	tb.is("mmap", err)
	if err == nil {
		m[0] = 'M'
		tb.is("msync", unix.Msync(m, unix.MS_SYNC))
		unix.Munmap(m)
	}
	data, _ = os.ReadFile("f")
	tb.is("mapped", string(data[:1]))
	_, err = unix.IoctlGetInt(fd, 0x80086601) // FS_IOC_GETFLAGS
	tb.is("getflags", err)
}
