package overlaytest

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// cases are the conformance suite. base: the case looks at the base behind the tree.
var cases = []struct {
	name string
	base bool
	run  func(e *env)
}{
	{"what is there", false, func(e *env) {
		e.holds("file", "base file")
		e.lists("", "file", "dir", "other", "link", "empty")
		e.lists("dir", "one", "two", "sub")
		e.lists("empty")
		e.gone("missing")
		_, err := e.Stat("file/x")
		e.fails(err, overlay.NotDir)
		_, err = e.List("file")
		e.fails(err, overlay.NotDir)
		_, err = e.Stat("missing/x")
		e.fails(err, overlay.NotExist)
	}},
	{"write in place", true, func(e *env) {
		before := e.stat("file")
		e.write("file", "BASE", false)
		e.holds("file", "BASE file")
		e.baseHolds("file", "base file")
		after := e.stat("file")
		if after.Ino != before.Ino || after.Mode != before.Mode || after.Size != before.Size {
			e.Errorf("before %+v, after %+v", before, after)
		}
		if after.Mtime.Sec == before.Mtime.Sec {
			e.Errorf("mtime %v is in the second of the base file's %v", after.Mtime, before.Mtime)
		}
	}},
	{"truncate on open", false, func(e *env) {
		e.write("dir/one", "new", true)
		e.holds("dir/one", "new")
		e.lists("dir", "one", "two", "sub")
	}},
	{"create", true, func(e *env) {
		e.create("dir/new", "n")
		e.holds("dir/new", "n")
		e.lists("dir", "one", "two", "sub", "new")
		_, err := e.Create("dir/new", 0o644)
		e.fails(err, overlay.Exist)
		_, err = e.Create("missing/x", 0o644)
		e.fails(err, overlay.NotExist)
		_, err = e.Create("file/x", 0o644)
		e.fails(err, overlay.NotDir)
		if _, err := os.Lstat(filepath.Join(e.Base, "dir/new")); err == nil {
			e.Error("the base has it too")
		}
	}},
	{"unlink and make again", false, func(e *env) {
		e.ok(e.Unlink("dir/one"))
		e.gone("dir/one")
		e.lists("dir", "two", "sub")
		e.fails(e.Unlink("dir/one"), overlay.NotExist)
		e.create("dir/one", "again")
		e.holds("dir/one", "again")
		e.ok(e.Unlink("dir/one"))
		e.lists("dir", "two", "sub")
		e.fails(e.Unlink("dir"), overlay.IsDir)
	}},
	{"a new file is another file", false, func(e *env) {
		before := e.stat("dir/one").Ino
		h, err := e.Open("dir/one", false)
		e.ok(err)
		e.ok(e.Unlink("dir/one"))
		e.create("dir/one", "new")
		if after := e.stat("dir/one").Ino; after == before {
			e.Error("a lock file that was replaced looks like the old one")
		}
		e.ok(h.Close())
	}},
	{"mkdir and rmdir", false, func(e *env) {
		e.ok(e.Mkdir("new", 0o750))
		if m := e.stat("new").Mode; m != unix.S_IFDIR|0o750 {
			e.Errorf("mode %o", m)
		}
		e.fails(e.Mkdir("new", 0o755), overlay.Exist)
		e.create("new/f", "")
		e.fails(e.Rmdir("new"), overlay.NotEmpty)
		e.ok(e.Unlink("new/f"))
		e.ok(e.Rmdir("new"))
		e.gone("new")
		e.fails(e.Rmdir("file"), overlay.NotDir)
		e.fails(e.Rmdir("dir"), overlay.NotEmpty)
		e.ok(e.Rmdir("empty"))
		e.gone("empty")
	}},
	{"an emptied directory, made again, is empty", false, func(e *env) {
		for _, p := range []string{"dir/one", "dir/two", "dir/sub/deep"} {
			e.ok(e.Unlink(p))
		}
		e.ok(e.Rmdir("dir/sub"))
		e.ok(e.Rmdir("dir"))
		e.gone("dir/one")
		e.ok(e.Mkdir("dir", 0o755))
		e.lists("dir")
		e.gone("dir/one")
		e.create("dir/two", "new")
		e.lists("dir", "two")
	}},
	{"a file in place of a directory", false, func(e *env) {
		e.ok(e.Rmdir("empty"))
		e.create("empty", "file now")
		e.holds("empty", "file now")
		_, err := e.Stat("empty/x")
		e.fails(err, overlay.NotDir)
	}},
	{"a directory in place of a file", false, func(e *env) {
		e.ok(e.Unlink("file"))
		e.ok(e.Mkdir("file", 0o755))
		e.lists("file")
		e.create("file/x", "x")
		e.holds("file/x", "x")
	}},
	{"rename a file", true, func(e *env) {
		ino := e.stat("dir/one").Ino
		e.ok(e.Rename("dir/one", "other/moved", 0))
		e.gone("dir/one")
		e.holds("other/moved", "1")
		e.lists("dir", "two", "sub")
		e.lists("other", "x", "moved")
		if now := e.stat("other/moved").Ino; now != ino {
			e.Errorf("inode number was %d, is %d", ino, now)
		}
		e.baseHolds("dir/one", "1")
	}},
	{"rename onto a file", false, func(e *env) {
		e.ok(e.Rename("dir/one", "file", 0))
		e.holds("file", "1")
		e.gone("dir/one")
		e.create("tmp", "saved")
		e.ok(e.Rename("tmp", "file", 0))
		e.holds("file", "saved")
		e.gone("tmp")
	}},
	{"rename a directory", true, func(e *env) {
		ino := e.stat("dir").Ino
		e.write("dir/one", "changed", true)
		e.ok(e.Unlink("dir/two"))
		e.ok(e.Rename("dir", "other/moved", 0))
		e.gone("dir")
		e.lists("other/moved", "one", "sub")
		e.holds("other/moved/one", "changed")
		e.holds("other/moved/sub/deep", "deep")
		if now := e.stat("other/moved").Ino; now != ino {
			e.Errorf("inode number was %d, is %d", ino, now)
		}
		e.write("other/moved/sub/deep", "changed below", true)
		e.holds("other/moved/sub/deep", "changed below")
		e.ok(e.Mkdir("dir", 0o755))
		e.lists("dir")
		e.ok(e.Rename("other/moved/sub", "dir/sub", 0))
		e.holds("dir/sub/deep", "changed below")
		e.baseHolds("dir/two", "22")
		e.baseHolds("dir/sub/deep", "deep")
	}},
	{"rename a directory there and back", false, func(e *env) {
		e.ok(e.Rename("dir", "moved", 0))
		e.ok(e.Rename("moved", "dir", 0))
		e.lists("dir", "one", "two", "sub")
		e.holds("dir/sub/deep", "deep")
		e.gone("moved")
	}},
	{"rename a directory onto an empty one", false, func(e *env) {
		e.ok(e.Rename("dir", "empty", 0))
		e.lists("empty", "one", "two", "sub")
		e.ok(e.Unlink("other/x"))
		e.ok(e.Rename("empty", "other", 0))
		e.lists("other", "one", "two", "sub")
		e.gone("empty")
	}},
	{"rename refused", false, func(e *env) {
		e.fails(e.Rename("missing", "x", 0), overlay.NotExist)
		e.fails(e.Rename("file", "missing/x", 0), overlay.NotExist)
		e.fails(e.Rename("file", "dir", 0), overlay.IsDir)
		e.fails(e.Rename("dir", "file", 0), overlay.NotDir)
		e.fails(e.Rename("dir", "other", 0), overlay.NotEmpty, overlay.Exist)
		e.fails(e.Rename("dir", "dir/sub/x", 0), overlay.Invalid)
		e.fails(e.Rename("dir/sub", "dir", 0), overlay.NotEmpty, overlay.Exist)
		e.fails(e.Rename("file", "dir/one", overlay.NoReplace), overlay.Exist)
		e.fails(e.Rename("file", "missing", overlay.Exchange), overlay.NotExist)
		e.ok(e.Rename("file", "file", 0))
		e.ok(e.Rename("file", "new", overlay.NoReplace))
		e.holds("new", "base file")
	}},
	{"exchange", false, func(e *env) {
		e.ok(e.Rename("file", "dir/sub", overlay.Exchange))
		e.holds("dir/sub", "base file")
		e.lists("file", "deep")
		e.ok(e.Rename("file", "other", overlay.Exchange))
		e.lists("file", "x")
		e.lists("other", "deep")
	}},
	{"hard links", false, func(e *env) {
		e.ok(e.Link("file", "dir/hard"))
		a, b := e.stat("file"), e.stat("dir/hard")
		if a.Ino != b.Ino || a.Nlink != 2 || b.Nlink != 2 {
			e.Errorf("file %d with %d names, dir/hard %d with %d", a.Ino, a.Nlink, b.Ino, b.Nlink)
		}
		e.write("dir/hard", "both", true)
		e.holds("file", "both")
		e.ok(e.Unlink("file"))
		e.gone("file")
		e.holds("dir/hard", "both")
		if n := e.stat("dir/hard").Nlink; n != 1 {
			e.Errorf("%d names left", n)
		}
		e.fails(e.Link("dir/hard", "dir/one"), overlay.Exist)
		e.fails(e.Link("missing", "x"), overlay.NotExist)
		e.fails(e.Link("dir", "x"), overlay.Permission)
		e.ok(e.Link("dir/hard", "file"))
		e.ok(e.Rename("file", "dir/hard", 0)) // the same file: nothing happens
		e.holds("file", "both")
		e.ok(e.Link("link", "link2"))
		if target, err := e.Readlink("link2"); err != nil || target != "dir/one" {
			e.Errorf("link2 points to %q, %v", target, err)
		}
	}},
	{"removed while open", false, func(e *env) {
		for _, p := range []string{"file", "own"} {
			if p == "own" {
				e.create("own", "base file")
			}
			h, err := e.Open(p, false)
			e.ok(err)
			e.ok(e.Unlink(p))
			_, err = h.WriteAt([]byte("STILL"), 0)
			e.ok(err)
			if got := read(h); got != "STILLfile" {
				e.Errorf("%s: %q", p, got)
			}
			a, err := h.Stat()
			e.ok(err)
			if a.Nlink != 0 || a.Size != 9 {
				e.Errorf("%s: %d names, %d bytes", p, a.Nlink, a.Size)
			}
			e.gone(p)
			e.ok(h.Close())
		}
		h, err := e.Open("dir/one", false)
		e.ok(err)
		e.create("tmp", "replacement")
		e.ok(e.Rename("tmp", "dir/one", 0))
		if got := read(h); got != "1" {
			e.Errorf("the open file became %q", got)
		}
		e.ok(h.Close())
		e.holds("dir/one", "replacement")
	}},
	{"symlinks", false, func(e *env) {
		target, err := e.Readlink("link")
		if err != nil || target != "dir/one" {
			e.Errorf("link points to %q, %v", target, err)
		}
		long := strings.Repeat("x/", 500)
		e.ok(e.Symlink(long, "dir/new"))
		if target, err := e.Readlink("dir/new"); err != nil || target != long {
			e.Errorf("%q, %v", target, err)
		}
		a := e.stat("dir/new")
		if a.Mode != unix.S_IFLNK|0o777 || a.Size != int64(len(long)) {
			e.Errorf("%+v", a)
		}
		e.fails(e.Symlink("x", "file"), overlay.Exist)
		e.ok(e.Rename("link", "dir/link", 0))
		e.ok(e.Unlink("dir/link"))
		e.gone("dir/link")
	}},
	{"fifo", false, func(e *env) {
		e.ok(e.Mkfifo("dir/fifo", 0o600))
		if m := e.stat("dir/fifo").Mode; m != unix.S_IFIFO|0o600 {
			e.Errorf("mode %o", m)
		}
		e.ok(e.Rename("dir/fifo", "fifo", 0))
		e.ok(e.Unlink("fifo"))
	}},
	{"chmod", true, func(e *env) {
		before := e.stat("file")
		e.ok(e.Chmod("file", 0o755))
		after := e.stat("file")
		if after.Mode != unix.S_IFREG|0o755 || after.Mtime != before.Mtime || after.Ctime == before.Ctime {
			e.Errorf("before %+v, after %+v", before, after)
		}
		e.holds("file", "base file")
		e.ok(e.Chmod("dir", 0o711))
		if m := e.stat("dir").Mode; m != unix.S_IFDIR|0o711 {
			e.Errorf("mode %o", m)
		}
		e.lists("dir", "one", "two", "sub")
		if st, err := os.Stat(filepath.Join(e.Base, "file")); err != nil || st.Mode() != 0o644 {
			e.Errorf("the base has %v, %v", st.Mode(), err)
		}
	}},
	{"times", false, func(e *env) {
		at, mt := overlay.Time{Sec: 1e9, Nsec: 123456789}, overlay.Time{Sec: 1e9 + 5, Nsec: 987654321}
		for _, p := range []string{"file", "dir", "link"} {
			e.ok(e.SetTimes(p, at, mt))
			if a := e.stat(p); a.Mtime != mt || p == "file" && a.Atime != at {
				e.Errorf("%s: %v %v", p, a.Atime, a.Mtime)
			}
		}
		e.holds("file", "base file")
		e.write("file", "x", false)
		if a := e.stat("file"); !mt.Before(a.Mtime) {
			e.Errorf("written, and mtime is %v", a.Mtime)
		}
		e.create("dir/new", "")
		if a := e.stat("dir"); !mt.Before(a.Mtime) {
			e.Errorf("a new entry, and mtime is %v", a.Mtime)
		}
	}},
	{"truncate", false, func(e *env) {
		e.ok(e.Truncate("file", 4))
		e.holds("file", "base")
		e.ok(e.Truncate("file", 6))
		e.holds("file", "base\x00\x00")
		e.ok(e.Truncate("file", 0))
		e.holds("file", "")
		e.fails(e.Truncate("dir", 0), overlay.IsDir)
		e.fails(e.Truncate("missing", 0), overlay.NotExist)
		e.ok(e.Truncate("dir/one", 1<<30)) // a hole
		if a := e.stat("dir/one"); a.Size != 1<<30 || a.Blocks > 1000 {
			e.Errorf("%d bytes in %d blocks", a.Size, a.Blocks)
		}
	}},
	{"xattrs", false, func(e *env) {
		for _, p := range []string{"file", "dir"} {
			_, err := e.GetXattr(p, "user.x")
			e.fails(err, overlay.NoAttr)
			e.ok(e.SetXattr(p, "user.x", []byte("v\x00w"), unix.XATTR_CREATE))
			e.fails(e.SetXattr(p, "user.x", nil, unix.XATTR_CREATE), overlay.Exist)
			e.fails(e.SetXattr(p, "user.y", nil, unix.XATTR_REPLACE), overlay.NoAttr)
			if v, err := e.GetXattr(p, "user.x"); err != nil || string(v) != "v\x00w" {
				e.Errorf("%s: %q, %v", p, v, err)
			}
			names, err := e.ListXattr(p)
			e.ok(err)
			if !contains(names, "user.x") {
				e.Errorf("%s: %q", p, names)
			}
			e.ok(e.RemoveXattr(p, "user.x"))
			e.fails(e.RemoveXattr(p, "user.x"), overlay.NoAttr)
		}
		e.ok(e.SetXattr("file", "user.x", []byte("kept"), 0))
		e.ok(e.Rename("file", "dir/file", 0))
		if v, err := e.GetXattr("dir/file", "user.x"); err != nil || string(v) != "kept" {
			e.Errorf("after rename: %q, %v", v, err)
		}
		e.lists("dir", "one", "two", "sub", "file")
	}},
	{"the layer's own xattrs are not shown", true, func(e *env) {
		e.ok(e.Rename("dir", "moved", 0))
		names, err := e.ListXattr("moved")
		e.ok(err)
		for _, n := range names {
			if strings.HasPrefix(n, "user.overlay.") || strings.HasPrefix(n, "user.shadowlsp.") {
				e.Errorf("%s is shown", n)
			}
		}
		_, err = e.GetXattr("moved", "user.overlay.redirect")
		e.fails(err, overlay.NoAttr)
		e.fails(e.SetXattr("moved", "user.overlay.opaque", []byte("y"), 0), overlay.Permission)
	}},
	{"names", false, func(e *env) {
		long := strings.Repeat("n", 255)
		for _, name := range []string{long, "not \xff\xfe UTF-8", " ", "new\nline", ".wh.x", "ünïcödé", "\\", "a:b"} {
			e.create("dir/"+name, name)
			e.holds("dir/"+name, name)
			e.ok(e.Rename("dir/"+name, "other/"+name, 0))
			e.ok(e.Unlink("other/" + name))
		}
		_, err := e.Create(long+"n", 0o644)
		e.fails(err, overlay.TooLong)
		_, err = e.Stat(long + "n")
		e.fails(err, overlay.TooLong)
	}},
	{"directory times", false, func(e *env) {
		before := e.stat("dir")
		e.create("dir/sub/x", "")
		if now := e.stat("dir"); now.Mtime != before.Mtime {
			e.Errorf("a change further below moved mtime from %v to %v", before.Mtime, now.Mtime)
		}
		steps := []func() error{
			func() error { e.create("dir/x", ""); return nil },
			func() error { return e.Rename("dir/x", "dir/y", 0) },
			func() error { return e.Unlink("dir/y") },
			func() error { return e.Unlink("dir/one") },
			func() error { return e.Mkdir("dir/d", 0o755) },
		}
		e.write("dir/one", "in place", true)
		if now := e.stat("dir"); now.Mtime != before.Mtime {
			e.Errorf("a change in a file moved mtime from %v to %v", before.Mtime, now.Mtime)
		}
		for i, step := range steps {
			old := e.stat("dir").Mtime
			e.ok(step())
			if now := e.stat("dir").Mtime; now.Before(old) {
				e.Errorf("step %d: mtime went from %v back to %v", i, old, now)
			}
		}
		if now := e.stat("dir").Mtime; now == before.Mtime {
			e.Error("mtime did not move")
		}
	}},
	{"link counts of new directories", false, func(e *env) {
		e.ok(e.Mkdir("new", 0o755))
		if n := e.stat("new").Nlink; n != 2 {
			e.Skipf("this file system does not count subdirectories (%d)", n)
		}
		e.ok(e.Mkdir("new/a", 0o755))
		e.ok(e.Mkdir("new/b", 0o755))
		e.ok(e.Rmdir("new/a"))
		if n := e.stat("new").Nlink; n != 3 {
			e.Errorf("%d", n)
		}
	}},
	{"set-group-ID directories", false, func(e *env) {
		e.ok(e.Mkdir("new", 0o755))
		e.ok(e.Chmod("new", 0o2755))
		e.ok(e.Mkdir("new/sub", 0o755))
		if m := e.stat("new/sub").Mode; m&unix.S_ISGID == 0 {
			e.Errorf("mode %o", m)
		}
	}},
	{"a read-only directory mode", false, func(e *env) {
		e.ok(e.Mkdir("new", 0o755))
		e.create("new/f", "f")
		e.ok(e.Chmod("new", 0o555))
		e.holds("new/f", "f")
		e.write("new/f", "g", true)
		e.holds("new/f", "g")
		if m := e.stat("new").Mode & 0o777; m != 0o555 {
			e.Errorf("mode %o", m)
		}
		e.ok(e.Chmod("new", 0o755)) // or the test's clean-up fails
	}},
	{"the base is live", true, func(e *env) {
		at := func(p string) string { return filepath.Join(e.Base, p) }
		e.create("dir/mine", "mine")
		e.ok(e.Unlink("dir/two"))
		e.ok(os.WriteFile(at("dir/theirs"), []byte("theirs"), 0o644))
		e.ok(os.WriteFile(at("dir/one"), []byte("edited"), 0o644))
		e.ok(os.WriteFile(at("dir/two"), []byte("edited"), 0o644))
		e.ok(os.WriteFile(at("dir/mine"), []byte("not shown"), 0o644))
		e.ok(os.Remove(at("file")))
		e.ok(os.Rename(at("dir/sub"), at("dir/renamed")))
		e.settled()
		e.holds("dir/theirs", "theirs")
		e.holds("dir/one", "edited")
		e.holds("dir/mine", "mine")
		e.gone("dir/two")
		e.holds("dir/renamed/deep", "deep")
		e.gone("file")
		e.lists("dir", "one", "mine", "theirs", "renamed")
		e.ok(os.RemoveAll(at("dir")))
		e.settled()
		e.gone("dir/theirs")
		e.holds("dir/mine", "mine")
		e.lists("dir", "mine")
		e.ok(os.WriteFile(at("dir"), []byte("a file now"), 0o644))
		e.settled()
		e.lists("dir", "mine")
	}},
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}
