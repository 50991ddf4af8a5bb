package fusefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// What an eye can do with descriptors and mappings that it keeps.

var eyeMaps [][]byte

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func init() {
	for name, f := range map[string]func(root string, args []string) (string, error){
		// open PATH FLAGS
		"open": func(root string, args []string) (string, error) {
			fd, err := unix.Open(filepath.Join(root, args[0]), atoi(args[1])|unix.O_CLOEXEC, 0o644)
			return strconv.Itoa(fd), err
		},
		"close": func(root string, args []string) (string, error) { return "", unix.Close(atoi(args[0])) },
		// pread FD OFFSET LENGTH
		"pread": func(root string, args []string) (string, error) {
			buf := make([]byte, atoi(args[2]))
			n, err := unix.Pread(atoi(args[0]), buf, int64(atoi(args[1])))
			return string(buf[:max(n, 0)]), err
		},
		// pwrite FD OFFSET DATA; APPEND as offset writes at the end
		"pwrite": func(root string, args []string) (string, error) {
			if args[1] == "APPEND" {
				_, err := unix.Write(atoi(args[0]), []byte(args[2]))
				return "", err
			}
			_, err := unix.Pwrite(atoi(args[0]), []byte(args[2]), int64(atoi(args[1])))
			return "", err
		},
		"fstat": func(root string, args []string) (string, error) {
			var st unix.Stat_t
			err := unix.Fstat(atoi(args[0]), &st)
			return fmt.Sprintf("nlink=%d size=%d", st.Nlink, st.Size), err
		},
		"ftruncate": func(root string, args []string) (string, error) {
			return "", unix.Ftruncate(atoi(args[0]), int64(atoi(args[1])))
		},
		// truncate PATH SIZE; by name, without opening it
		"truncate": func(root string, args []string) (string, error) {
			return "", unix.Truncate(filepath.Join(root, args[0]), int64(atoi(args[1])))
		},
		"fchmod": func(root string, args []string) (string, error) {
			return "", unix.Fchmod(atoi(args[0]), uint32(atoi(args[1])))
		},
		// evict FD: the next read comes from the view
		"evict": func(root string, args []string) (string, error) {
			return "", unix.Fadvise(atoi(args[0]), 0, 0, unix.FADV_DONTNEED)
		},
		// mmap FD LENGTH FLAGS
		"mmap": func(root string, args []string) (string, error) {
			prot := unix.PROT_READ
			if atoi(args[2]) != 0 {
				prot |= unix.PROT_WRITE
			}
			m, err := unix.Mmap(atoi(args[0]), 0, atoi(args[1]), prot, unix.MAP_SHARED)
			eyeMaps = append(eyeMaps, m)
			return strconv.Itoa(len(eyeMaps) - 1), err
		},
		"peek": func(root string, args []string) (string, error) {
			return strings.TrimRight(string(eyeMaps[atoi(args[0])]), "\x00"), nil
		},
		"poke": func(root string, args []string) (string, error) {
			copy(eyeMaps[atoi(args[0])], args[1])
			return "", nil
		},
		"msync": func(root string, args []string) (string, error) {
			return "", unix.Msync(eyeMaps[atoi(args[0])], unix.MS_SYNC)
		},
		"unmap": func(root string, args []string) (string, error) {
			return "", unix.Munmap(eyeMaps[atoi(args[0])])
		},
		"chdir": func(root string, args []string) (string, error) {
			return "", os.Chdir(filepath.Join(root, args[0]))
		},
		// relative PATH: read from the working directory
		"relative": func(root string, args []string) (string, error) {
			data, err := os.ReadFile(args[0])
			return string(data), err
		},
	} {
		eyeDoes[name] = f
	}
}

func (e *eye) open(path string, flags int) string {
	e.t.Helper()
	return e.do("open", path, strconv.Itoa(flags))
}

func (s *stage) reads(name, fd, want string) {
	s.t.Helper()
	if got := s.eye.do("pread", fd, "0", "100"); got != want {
		s.t.Errorf("%s reads %q, want %q", name, got, want)
	}
}

func (s *stage) branchHolds(branch, path, want string) {
	s.t.Helper()
	b, err := s.store.Branch(branch)
	must(s.t, err)
	if got, err := b.ReadFile(path); err != nil || string(got) != want {
		s.t.Errorf("branch %s holds %q, %v; want %q", branch, got, err, want)
	}
}

func TestDescriptorsKeepTheirSnapshot(t *testing.T) {
	s := newStage(t, someFiles)
	b := s.create("b")
	s.agent(s.branch, "a.txt", "main")
	s.agent(b, "a.txt", "branch b")
	s.settle()
	fd := s.eye.open("a.txt", unix.O_RDONLY)
	mapped := s.eye.do("mmap", fd, "4096", "0")
	s.reads("at first", fd, "main")
	s.switchTo(b)
	s.eye.do("evict", fd)
	s.reads("after a switch", fd, "main")
	if got := s.eye.do("peek", mapped); got != "main" {
		t.Errorf("mapped: %q", got)
	}
	if got := s.eye.do("fstat", fd); !strings.HasSuffix(got, "size=4") {
		t.Error(got)
	}
	if got := s.eye.do("read", "a.txt"); got != "branch b" {
		t.Error(got)
	}
	// The old one is replaced in its own branch: still its snapshot.
	s.agent(s.branch, "a.txt", "replaced")
	s.eye.do("evict", fd)
	s.reads("after its replacement", fd, "main")
	s.switchTo(s.branch)
	s.eye.do("evict", fd)
	s.reads("back", fd, "main")
	if got := s.eye.do("read", "a.txt"); got != "replaced" {
		t.Error(got)
	}
	s.eye.do("unmap", mapped)
	s.eye.do("close", fd)
}

// What is in a branch's own layer is that branch's, whatever is shown.
func TestWritesStayInTheirBranch(t *testing.T) {
	s := newStage(t, someFiles)
	b := s.create("b")
	s.agent(s.branch, "a.txt", "main a")
	s.agent(s.branch, "own.txt", "main's")
	s.settle()
	fd := s.eye.open("a.txt", unix.O_RDWR)
	own := s.eye.open("own.txt", unix.O_RDWR)
	s.switchTo(b)
	other := s.eye.open("a.txt", unix.O_RDWR)
	s.eye.do("pwrite", fd, "0", "MAIN")
	s.eye.do("pwrite", own, "0", "MAIN'S")
	s.reads("the writer", fd, "MAIN a")
	s.reads("in b", other, "base a")
	if got := s.eye.do("read", "a.txt"); got != "base a" {
		t.Errorf("b shows %q", got)
	}
	s.eye.do("pwrite", other, "5", "b")
	if got := s.eye.do("read", "a.txt"); got != "base b" {
		t.Errorf("b shows %q", got)
	}
	s.branchHolds("main", "a.txt", "MAIN a")
	s.branchHolds("main", "own.txt", "MAIN'S")
	s.branchHolds("b", "a.txt", "base b")
	s.switchTo(s.branch)
	if got := s.eye.do("read", "a.txt"); got != "MAIN a" {
		t.Errorf("main shows %q", got)
	}
	s.eye.do("pwrite", fd, "0", "Main")
	if got := s.eye.do("read", "a.txt"); got != "Main a" {
		t.Errorf("main shows %q", got)
	}
	s.eye.do("pwrite", other, "0", "B")
	s.branchHolds("b", "a.txt", "Base b")
	s.branchHolds("main", "a.txt", "Main a")
}

// What several branches show becomes the branch's that is shown at the first
// write, for good, and whoever has it open goes along.
func TestFirstWriteDecidesTheBranch(t *testing.T) {
	for _, name := range []string{"base file", "forked layer"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, someFiles)
			var b *overlay.Branch
			text := "base a"
			if name == "base file" {
				b = s.create("b")
			} else {
				s.agent(s.branch, "a.txt", "fork a")
				text = "fork a"
				var err error
				b, err = s.store.Create("b", overlay.CreateOptions{From: "main"})
				must(t, err)
				s.settle()
			}
			fd := s.eye.open("a.txt", unix.O_RDWR)
			reader := s.eye.open("a.txt", unix.O_RDONLY)
			s.reads("at first", reader, text)
			s.switchTo(b)
			other := s.eye.open("a.txt", unix.O_RDWR)
			s.eye.do("pwrite", fd, "0", "FD")
			for _, d := range []string{fd, reader, other} {
				s.reads("all", d, "FD"+text[2:])
			}
			s.branchHolds("b", "a.txt", "FD"+text[2:])
			s.branchHolds("main", "a.txt", text)
			s.switchTo(s.branch)
			if got := s.eye.do("read", "a.txt"); got != text {
				t.Errorf("main shows %q", got)
			}
			// They stay with b.
			s.eye.do("pwrite", other, "2", "OT")
			s.branchHolds("b", "a.txt", "FDOT"+text[4:])
			mine := s.eye.open("a.txt", unix.O_RDWR)
			s.eye.do("pwrite", mine, "0", "M")
			s.branchHolds("main", "a.txt", "M"+text[1:])
			s.branchHolds("b", "a.txt", "FDOT"+text[4:])
			s.switchTo(b)
			if got := s.eye.do("read", "a.txt"); got != "FDOT"+text[4:] {
				t.Errorf("b shows %q", got)
			}
		})
	}
}

// A file that is written anew, or replaced, is another one: who read it in an
// earlier turn keeps what he has.
func TestReadersDoNotSeeOtherBranchesWrites(t *testing.T) {
	for name, script := range map[string]string{
		"truncated as it is opened": "printf Xase > a.txt",
		"truncated by name":         "TRUNCATE printf Xase >> a.txt",
		"replaced":                  "printf Xase > tmp; mv tmp a.txt",
		"removed and made":          "rm a.txt; printf Xase > a.txt",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, someFiles)
			b := s.create("b")
			fd := s.eye.open("a.txt", unix.O_RDONLY)
			mapped := s.eye.do("mmap", fd, "4096", "0")
			s.reads("at first", fd, "base a")
			s.switchTo(b)
			script, truncate := strings.CutPrefix(script, "TRUNCATE ")
			if truncate {
				s.eye.do("truncate", "a.txt", "0")
			}
			s.eye.sh(script)
			s.eye.do("evict", fd)
			s.reads("main's", fd, "base a")
			if got := s.eye.do("peek", mapped); got != "base a" {
				t.Errorf("mapped: %q", got)
			}
			if got := s.eye.do("read", "a.txt"); got != "Xase" {
				t.Error(got)
			}
			s.switchTo(s.branch)
			s.eye.do("evict", fd)
			s.reads("main's, back", fd, "base a")
			s.eye.sh("chmod 600 a.txt")
			s.branchHolds("main", "a.txt", "base a")
			s.branchHolds("b", "a.txt", "Xase")
			s.eye.do("unmap", mapped)
		})
	}
}

// What of a name that means something else by now is written goes where it last
// was what was meant.
func TestWritesOfWhatIsNotShown(t *testing.T) {
	s := newStage(t, someFiles)
	b, c := s.create("b"), s.create("c")
	s.agent(b, "a.txt", "b's")
	must(t, c.Unlink("dir/b.txt", noOrigin))
	s.agent(c, "a.txt", "c's")
	fd, deep := s.eye.open("a.txt", unix.O_RDWR), s.eye.open("dir/b.txt", unix.O_RDWR|unix.O_APPEND)
	s.switchTo(b)
	s.switchTo(c)
	s.eye.do("pwrite", fd, "0", "MAIN")
	s.eye.do("pwrite", deep, "APPEND", "!")
	s.branchHolds("main", "a.txt", "MAIN a")
	s.branchHolds("b", "a.txt", "b's")
	s.branchHolds("c", "a.txt", "c's")
	s.branchHolds("b", "dir/b.txt", "base b!") // it was shown there last
	s.branchHolds("main", "dir/b.txt", "base b")
	for _, branch := range []*overlay.Branch{s.branch, b, c} {
		s.switchTo(branch)
		if got, want := s.eye.do("read", "a.txt"), map[string]string{"main": "MAIN a", "b": "b's", "c": "c's"}[branch.Name()]; got != want {
			t.Errorf("%s shows %q", branch.Name(), got)
		}
	}
	// An agent's own replacement in the branch that is shown: nobody's any more.
	s.switchTo(s.branch)
	fd = s.eye.open("dir/b.txt", unix.O_RDWR)
	s.agent(s.branch, "dir/b.txt", "agent's")
	s.settle()
	s.eye.do("pwrite", fd, "0", "LOST")
	s.branchHolds("main", "dir/b.txt", "agent's")
	s.reads("its writer", fd, "LOST b")
}

// A page that is written through a mapping in one turn and handed over in the
// next belongs to the turn in which the file was first handed over.
func TestMappedWritesComeLate(t *testing.T) {
	s := newStage(t, map[string]string{"f": strings.Repeat("0123456789", 1000)})
	b := s.create("b")
	fd := s.eye.open("f", unix.O_RDWR)
	m := s.eye.do("mmap", fd, "4096", "1")
	s.eye.do("poke", m, "early")
	s.eye.do("msync", m)
	s.eye.do("poke", m, "later")
	s.switchTo(b)
	s.eye.do("msync", m)
	s.branchHolds("main", "f", "later"+strings.Repeat("0123456789", 1000)[5:])
	s.branchHolds("b", "f", strings.Repeat("0123456789", 1000))
	if got := s.eye.do("read", "f"); got[:5] != "01234" {
		t.Errorf("b shows %.5q", got)
	}
	s.eye.do("unmap", m)
	s.eye.do("close", fd)
}

func TestOpenForWritingAloneChangesNothing(t *testing.T) {
	s := newStage(t, someFiles)
	fd := s.eye.open("a.txt", unix.O_RDWR)
	s.reads("open", fd, "base a")
	s.eye.do("close", fd)
	overrides, err := s.branch.Overrides()
	must(t, err)
	if len(overrides) != 0 {
		t.Errorf("%v", overrides)
	}
}

func TestUnlinkedButOpen(t *testing.T) {
	s := newStage(t, someFiles)
	s.agent(s.branch, "layer.txt", "layer's")
	s.settle()
	for path, text := range map[string]string{"a.txt": "base a", "layer.txt": "layer's"} {
		reader := s.eye.open(path, unix.O_RDONLY)
		writer := s.eye.open(path, unix.O_RDWR)
		s.eye.sh("rm " + path)
		s.eye.do("evict", reader)
		s.reads(path, reader, text)
		if got := s.eye.do("fstat", reader); got != fmt.Sprintf("nlink=0 size=%d", len(text)) {
			t.Errorf("%s: %s", path, got)
		}
		s.eye.do("pwrite", writer, "0", "W")
		s.eye.do("evict", reader)
		s.reads(path, reader, "W"+text[1:])
		s.eye.do("ftruncate", writer, "1")
		s.reads(path, reader, "W")
		s.eye.do("fchmod", writer, strconv.Itoa(0o600))
		if _, err := s.eye.try("read", path); !errors.Is(err, syscall.ENOENT) {
			t.Error(path, err)
		}
		s.eye.do("write", path, "new")
		s.reads(path, reader, "W")
		if got := s.eye.do("read", path); got != "new" {
			t.Error(path, got)
		}
		s.eye.do("close", reader)
		s.eye.do("close", writer)
	}
}

func TestMappings(t *testing.T) {
	s := newStage(t, map[string]string{"f": strings.Repeat("0123456789", 1000)})
	fd := s.eye.open("f", unix.O_RDWR)
	m := s.eye.do("mmap", fd, "4096", "1")
	s.eye.do("poke", m, "mapped")
	s.reads("a descriptor", fd, ("mapped" + strings.Repeat("0123456789", 10)[6:])[:100])
	s.eye.do("msync", m)
	data, err := s.branch.ReadFile("f")
	must(t, err)
	if !strings.HasPrefix(string(data), "mapped6789") || len(data) != 10000 {
		t.Errorf("%.20q %d", data, len(data))
	}
	for i := range 20 {
		text := fmt.Sprintf("round %03d", i)
		s.eye.do("poke", m, text)
		must(t, s.view.Quiesce(t.Context()))
		s.branchHolds("main", "f", text+strings.Repeat("0123456789", 1000)[len(text):])
	}
	s.eye.do("pwrite", fd, "0", "written")
	if got := s.eye.do("peek", m); !strings.HasPrefix(got, "written19") {
		t.Errorf("%.20q", got)
	}
	// What is mapped when the descriptor closes arrives all the same.
	s.eye.do("poke", m, "at last")
	s.eye.do("close", fd)
	s.eye.do("unmap", m)
	waitFor(t, "the mapped bytes", func() bool {
		data, err := s.branch.ReadFile("f")
		return err == nil && strings.HasPrefix(string(data), "at last")
	})
}

func TestAppend(t *testing.T) {
	s := newStage(t, map[string]string{"log": "one\n"})
	a, b := s.eye.open("log", unix.O_WRONLY|unix.O_APPEND), s.eye.open("log", unix.O_WRONLY|unix.O_APPEND)
	s.eye.do("pwrite", a, "APPEND", "two\n")
	s.eye.do("pwrite", b, "APPEND", "three\n")
	s.eye.do("pwrite", a, "APPEND", "four\n")
	if got := s.eye.do("read", "log"); got != "one\ntwo\nthree\nfour\n" {
		t.Errorf("%q", got)
	}
}

func TestLocksBetweenProcesses(t *testing.T) {
	s := newStage(t, someFiles)
	out := s.eye.sh(`
		flock a.txt sh -c 'flock -n a.txt true || echo held'
		flock -n a.txt echo free
		exec 5< dir; flock -n 5 && flock -n dir true || echo directory held`)
	if out != "held\nfree\ndirectory held\n" {
		t.Error(out)
	}
	{
		out, err := s.eye.try("sh", `command -v python3 >/dev/null || { echo "none True"; exit; }
		python3 -c '
import fcntl, os, sys
f = open("a.txt", "r+"); fcntl.lockf(f, fcntl.LOCK_EX, 10, 5)
pid = os.fork()
if pid == 0:
    g = open("a.txt", "r+")
    try:
        fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0); os._exit(1)
    except BlockingIOError: pass
    fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB, 4, 0); os._exit(0)
print("none", os.waitpid(pid, 0)[1] == 0)
'`)
		if err != nil || strings.TrimSpace(out) != "none True" {
			t.Error(out, err)
		}
	}
}

func TestTwoViewsOfOneBranch(t *testing.T) {
	s := newStage(t, someFiles)
	other, view := s.show(s.branch)
	settle := func() {
		t.Helper()
		s.settle()
		must(t, view.Settled(t.Context()))
	}
	other.sh("cat a.txt dir/b.txt; ! cat fresh; ls")
	fd := other.open("a.txt", unix.O_RDONLY)
	for i := range 20 {
		text := strings.Repeat(fmt.Sprint(i%10), 10+i)
		s.eye.do("write", "a.txt", text)
		s.eye.do("write", "fresh", text)
		s.eye.sh("printf Z | dd of=dir/b.txt conv=notrunc 2>/dev/null")
		settle()
		if got := other.do("read", "a.txt"); got != text {
			t.Fatalf("round %d: %q, want %q", i, got, text)
		}
		if got := other.do("read", "fresh"); got != text {
			t.Fatalf("round %d: fresh: %q", i, got)
		}
		if got := other.do("read", "dir/b.txt"); got != "Zase b" {
			t.Fatalf("round %d: %q", i, got)
		}
		other.sh("rm fresh; mv a.txt moved; mv moved a.txt")
		settle()
		if _, err := s.eye.try("stat", "fresh"); !errors.Is(err, syscall.ENOENT) {
			t.Fatalf("round %d: %v", i, err)
		}
	}
	other.do("close", fd)
}

func TestStandingInADirectory(t *testing.T) {
	s := newStage(t, someFiles)
	b := s.create("b")
	s.agent(b, "dir/b.txt", "branch b")
	s.agent(b, "dir/only", "b's")
	s.eye.do("chdir", "dir")
	for range 5 {
		if got := s.eye.do("relative", "b.txt"); got != "base b" {
			t.Fatal(got)
		}
		if _, err := s.eye.try("relative", "only"); !errors.Is(err, syscall.ENOENT) {
			t.Fatal(err)
		}
		s.switchTo(b)
		if got := s.eye.do("relative", "b.txt") + s.eye.do("relative", "only") + s.eye.do("relative", "../a.txt"); got != "branch bb'sbase a" {
			t.Fatal(got)
		}
		s.switchTo(s.branch)
	}
	s.eye.do("chdir", "")
}
