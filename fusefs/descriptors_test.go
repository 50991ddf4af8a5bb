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

func TestWritesStayInTheirBranch(t *testing.T) {
	for name, override := range map[string]bool{"base file": false, "override": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, someFiles)
			b := s.create("b")
			if override {
				s.agent(s.branch, "a.txt", "base a")
				s.settle()
			}
			fd := s.eye.open("a.txt", unix.O_RDWR)
			s.switchTo(b)
			other := s.eye.open("a.txt", unix.O_RDWR)
			s.eye.do("pwrite", fd, "0", "MAIN")
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
		})
	}
}

// A reader from one branch's turn does not see what another branch's turn
// writes into the same file of the base.
func TestReadersDoNotSeeOtherBranchesWrites(t *testing.T) {
	s := newStage(t, someFiles)
	b := s.create("b")
	fd := s.eye.open("a.txt", unix.O_RDONLY)
	s.reads("at first", fd, "base a")
	s.switchTo(b)
	s.eye.sh("printf X | dd of=a.txt conv=notrunc 2>/dev/null")
	s.eye.do("evict", fd)
	s.reads("main's", fd, "base a")
	if got := s.eye.do("read", "a.txt"); got != "Xase a" {
		t.Error(got)
	}
	s.switchTo(s.branch)
	s.eye.sh("chmod 600 a.txt")
	s.branchHolds("main", "a.txt", "base a")
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
