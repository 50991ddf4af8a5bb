package conformance

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The table's second part: calls on what was there before the view was, so that
// in a view it is the base's, or lies in directories that merge.

// prepared are the calls; each has, per kind of file, a folder of its own with
// "it" of that kind, a file "other", a second name "second" of a file "first",
// and a full directory "full".
var prepared = []struct {
	name string
	call func() error
}{
	{"nothing", func() error { return nil }},
	{"chmod", func() error { return unix.Fchmodat(unix.AT_FDCWD, "it", 0o640, unix.AT_SYMLINK_NOFOLLOW) }},
	{"chown", func() error { return unix.Lchown("it", alice, staff) }},
	{"utimensat", func() error { return utimens("it", unix.Timespec{Sec: 7, Nsec: 8}, unix.Timespec{Sec: 9, Nsec: 10}) }},
	{"setxattr", func() error { return unix.Lsetxattr("it", "user.a", []byte("b"), 0) }},
	{"link", func() error { return unix.Link("it", "again") }},
	{"unlink", func() error { return unix.Unlink("it") }},
	{"rmdir", func() error { return unix.Rmdir("it") }},
	{"unlink and make", func() error {
		remove("it")
		return open("it", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	}},
	{"unlink and mkdir", func() error {
		remove("it")
		return unix.Mkdir("it", 0o700)
	}},
	{"rename", func() error { return unix.Rename("it", "moved") }},
	{"rename and back", func() error {
		if err := unix.Rename("it", "moved"); err != nil {
			return err
		}
		return unix.Rename("moved", "it")
	}},
	{"rename into full", func() error { return unix.Rename("it", "full/it") }},
	{"rename over other", func() error { return unix.Rename("it", "other") }},
	{"rename other over", func() error { return unix.Rename("other", "it") }},
	{"rename full over", func() error { return unix.Rename("full", "it") }},
	{"exchange with other", func() error { return unix.Renameat2(unix.AT_FDCWD, "it", unix.AT_FDCWD, "other", unix.RENAME_EXCHANGE) }},
	{"exchange with full", func() error { return unix.Renameat2(unix.AT_FDCWD, "it", unix.AT_FDCWD, "full", unix.RENAME_EXCHANGE) }},
	{"rename full", func() error { return unix.Rename("full", "emptied") }},
	{"rename full, make it anew", func() error {
		if err := unix.Rename("full", "emptied"); err != nil {
			return err
		}
		if err := unix.Mkdir("full", 0o755); err != nil {
			return err
		}
		return open("full/new", unix.O_CREAT|unix.O_WRONLY, 0o644)
	}},
	{"rename full and change below", func() error {
		if err := unix.Rename("full", "emptied"); err != nil {
			return err
		}
		unix.Unlink("emptied/x")
		unix.Chmod("emptied/sub", 0o700)
		return os.WriteFile("emptied/sub/deep", []byte("changed"), 0o644)
	}},
	{"remove full", func() error { return os.RemoveAll("full") }},
	{"remove full, make it anew", func() error {
		os.RemoveAll("full")
		return unix.Mkdir("full", 0o700)
	}},
	{"append", func() error {
		fd, err := unix.Open("it", unix.O_WRONLY|unix.O_APPEND|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.Write(fd, []byte(" and more"))
		return err
	}},
	{"truncate", func() error { return truncate("it", 3) }},
	{"O_TRUNC", func() error { return open("it", unix.O_WRONLY|unix.O_TRUNC, 0) }},
	{"open to write only", func() error { return open("it", unix.O_RDWR, 0) }},
	{"write second", func() error { return os.WriteFile("other", []byte("written"), 0o644) }},
	{"make", func() error { return open("new", unix.O_CREAT|unix.O_WRONLY, 0o644) }},
	{"mkdir", func() error { return unix.Mkdir("new", 0o755) }},
	{"symlink", func() error { return unix.Symlink("x", "new") }},
	{"unlink below", func() error { return unix.Unlink("full/x") }},
	{"read", func() error { _, err := os.ReadFile("it"); return err }},
	{"list", func() error { _, err := os.ReadDir("full"); return err }},
	{"chmod full", func() error { return unix.Chmod("full", 0o500) }},
	{"chown full", func() error { return unix.Chown("full", alice, staff) }},
	{"utimensat full", func() error { return utimens("full", unix.Timespec{Sec: 7}, unix.Timespec{Sec: 9}) }},
	{"setxattr full", func() error { return unix.Setxattr("full", "user.a", []byte("b"), 0) }},
	{"of nobody's: unlink", asAlice(func() error { return unix.Unlink("it") })},
	{"of nobody's: rename", asAlice(func() error { return unix.Rename("it", "moved") })},
	{"of nobody's: open to write", asAlice(func() error { return open("it", unix.O_WRONLY, 0) })},
	{"of nobody's: chmod", asAlice(func() error { return unix.Chmod("it", 0o777) })},
	{"of nobody's: truncate", asAlice(func() error { return truncate("it", 0) })},
	{"of nobody's: make", asAlice(func() error { return open("new", unix.O_CREAT|unix.O_WRONLY, 0o644) })},
	{"of nobody's: times", asAlice(func() error { return utimens("it") })},
	{"of nobody's: make in full", asAlice(func() error { return open("full/new", unix.O_CREAT|unix.O_WRONLY, 0o644) })},
}

func asAlice(f func() error) func() error {
	return func() (err error) {
		as(alice, staff, nil, func() { err = f() })
		return err
	}
}

func folder(call int, kind string) string { return fmt.Sprintf("%02d-%s", call, kind) }

// prepare makes the folders.
func prepare(root string) error {
	unix.Umask(0)
	defer unix.Umask(0o22)
	for i := range prepared {
		for _, kind := range kinds {
			dir := filepath.Join(root, folder(i, kind))
			if err := os.MkdirAll(filepath.Join(dir, "full/sub"), 0o755); err != nil {
				return err
			}
			os.WriteFile(filepath.Join(dir, "other"), []byte("other"), 0o644)
			os.WriteFile(filepath.Join(dir, "full/x"), []byte("x"), 0o644)
			os.WriteFile(filepath.Join(dir, "full/sub/deep"), []byte("deep"), 0o640)
			unix.Symlink("x", filepath.Join(dir, "full/link"))
			// A socket's path is short: make it here and move it.
			if err := makeKind(kind, filepath.Join(root, "it")); err != nil {
				return err
			}
			if kind == "regular" {
				os.WriteFile(filepath.Join(root, "it"), []byte("0123456789"), 0o644)
			}
			if err := os.Rename(filepath.Join(root, "it"), filepath.Join(dir, "it")); err != nil {
				return err
			}
		}
	}
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != root {
			ts := unix.NsecToTimespec(time.Unix(1700000000, 123456789).UnixNano())
			err = utimens(path, ts, ts)
		}
		return err
	})
}

func init() {
	inside["prepared"] = func(args []string) error {
		unix.Umask(0)
		top, err := os.Getwd()
		if err != nil {
			return err
		}
		tb := &table{noAccess: true}
		for i, c := range prepared {
			for _, kind := range kinds {
				if (kind == "fifo" || kind == "char" || kind == "block") && (c.name == "read" || c.name == "append" || strings.HasPrefix(c.name, "open") || strings.HasPrefix(c.name, "O_") || strings.Contains(c.name, "open to")) {
					continue
				}
				if err := os.Chdir(filepath.Join(top, folder(i, kind))); err != nil {
					return err
				}
				tb.group = "base's " + kind
				tb.moved(c.name, []string{".", "it", "other", "full", "full/x"}, c.call)
				tb.is(c.name+" leaves", everything())
			}
		}
		return nil
	}
}

// everything is all that can be seen of the working directory.
func everything() string {
	var out []string
	filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			out = append(out, path+" "+errnoName(err))
			return nil
		}
		line := path + " " + look(path)
		switch d.Type() {
		case 0:
			data, err := os.ReadFile(path)
			line += fmt.Sprintf(" %q", data)
			if err != nil {
				line += errnoName(err)
			}
		case fs.ModeSymlink:
			to, _ := os.Readlink(path)
			line += " -> " + to
		}
		names := make([]byte, 1000)
		if n, err := unix.Llistxattr(path, names); err == nil && n > 0 {
			line += fmt.Sprintf(" %q", names[:n])
		}
		out = append(out, line)
		return nil
	})
	slices.Sort(out)
	return strings.Join(out, " | ")
}
