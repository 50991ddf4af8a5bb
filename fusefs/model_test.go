package fusefs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// The model test does the same random things in a view and in a plain
// directory, and compares every answer and the trees. In between, the view is
// switched to a branch with other content and back, forked, and given edits by
// an agent.

// act does one random thing in dir and says how it went.
func act(dir string, r *rand.Rand, mode string) string {
	names := []string{"a", "b", "c", "d/a", "d/b", "d/e/x", "d/e/y", "f", "g/h", "g", "d", "d/e", "k"}
	pick := func() string { return names[r.IntN(len(names))] }
	at := func(p string) string { return filepath.Join(dir, p) }
	p, q := pick(), pick()
	data := strings.Repeat(string(rune('a'+r.IntN(26))), 1+r.IntN(9000))
	off := int64(r.IntN(10000))
	op := r.IntN(17)
	say := func(err error) string {
		if pe, ok := err.(*os.PathError); ok {
			err = pe.Err
		}
		if le, ok := err.(*os.LinkError); ok {
			err = le.Err
		}
		return fmt.Sprintf("%d %s %s: %v", op, p, q, err)
	}
	change := func(flags int, f func(*os.File) error) string {
		file, err := os.OpenFile(at(p), flags, 0o644)
		if err != nil {
			return say(err)
		}
		defer file.Close()
		return say(f(file))
	}
	if st, err := os.Lstat(at(p)); err == nil && op >= 8 && op <= 11 && !strings.Contains(mode, "moves") {
		other, err := os.Lstat(at(q))
		if st.IsDir() || err == nil && other.IsDir() {
			return "no moves of directories"
		}
	}
	switch op {
	case 0, 1:
		return say(os.WriteFile(at(p), []byte(data), 0o644))
	case 2:
		return change(os.O_WRONLY|os.O_APPEND, func(f *os.File) error { _, err := f.WriteString(data); return err })
	case 3:
		return change(os.O_RDWR, func(f *os.File) error { _, err := f.WriteAt([]byte(data), off); return err })
	case 4:
		return say(unix.Truncate(at(p), off))
	case 5:
		return say(unix.Unlink(at(p)))
	case 6:
		return say(unix.Rmdir(at(p)))
	case 7:
		return say(unix.Mkdir(at(p), 0o755))
	case 8, 9:
		return say(unix.Rename(at(p), at(q)))
	case 10:
		return say(unix.Renameat2(unix.AT_FDCWD, at(p), unix.AT_FDCWD, at(q), unix.RENAME_EXCHANGE))
	case 11:
		return say(unix.Renameat2(unix.AT_FDCWD, at(p), unix.AT_FDCWD, at(q), unix.RENAME_NOREPLACE))
	case 12:
		if !strings.Contains(mode, "links") {
			return "no links"
		}
		return say(unix.Link(at(p), at(q)))
	case 13:
		return say(unix.Symlink("to/"+q, at(p)))
	case 14:
		if st, err := os.Lstat(at(p)); err != nil || st.Mode()&os.ModeSymlink != 0 {
			return "no chmod"
		}
		return say(unix.Chmod(at(p), uint32(0o700+r.IntN(0o100))))
	case 15:
		return change(os.O_RDWR|os.O_CREATE, func(f *os.File) error {
			// Written through a descriptor that outlives the name.
			os.Rename(at(p), at(q))
			if _, err := f.WriteAt([]byte("through"), off); err != nil {
				return err
			}
			buf := make([]byte, 7)
			_, err := f.ReadAt(buf, off)
			return fmt.Errorf("%q %v", buf, err)
		})
	default:
		data, err := os.ReadFile(at(p))
		return fmt.Sprintf("%s %d bytes %.10q", say(err), len(data), data)
	}
}

// portrait is a tree as a program sees it, without inode numbers and times.
func portrait(dir string) string {
	var lines []string
	filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if err != nil {
			lines = append(lines, rel+": "+err.Error())
			return nil
		}
		line := fmt.Sprintf("%s %v", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			var st unix.Stat_t
			unix.Lstat(path, &st)
			line += fmt.Sprintf(" %d/%d %x nlink=%d %v", info.Size(), len(data), hash(data), st.Nlink, err)
		case info.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink(path)
			line += fmt.Sprintf(" -> %s %v", to, err)
		}
		lines = append(lines, line)
		return nil
	})
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func hash(b []byte) (h uint64) {
	for _, c := range b {
		h = h*1099511628211 + uint64(c)
	}
	return h
}

func init() {
	// model PLAIN SEED STEPS MODE
	eyeDoes["model"] = func(root string, args []string) (string, error) {
		r1 := rand.New(rand.NewPCG(uint64(atoi(args[1])), 1))
		r2 := rand.New(rand.NewPCG(uint64(atoi(args[1])), 1))
		var log []string
		for i := range atoi(args[2]) {
			got, want := act(root, r1, args[3]), act(args[0], r2, args[3])
			log = append(log, want)
			if got != want {
				return "", fmt.Errorf("step %d: the view says %s\nthe directory %s\nafter\n%s", i, got, want, strings.Join(log, "\n"))
			}
		}
		if got, want := portrait(root), portrait(args[0]); got != want {
			return "", fmt.Errorf("the view is\n%s\nthe directory\n%s\nafter\n%s", got, want, strings.Join(log, "\n"))
		}
		return "", nil
	}
	eyeDoes["portrait"] = func(root string, args []string) (string, error) { return portrait(root), nil }
}

var modelFiles = map[string]string{"a": "base a", "b": "base b", "d/a": "da", "d/e/x": "dex", "d/e/y": "dey", "g/h": "gh", "k -> a": ""}

func TestModel(t *testing.T) {
	seeds, rounds := 8, 12
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, modelFiles)
			plain, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			plant(t, plain, modelFiles)
			must(t, os.Chmod(plain, 0o755))
			must(t, os.Chmod(s.root, 0o755))
			before := fingerprint(t, s.root)
			s.sync()
			other := s.create("other")
			s.agent(other, "a", "other a")
			s.agent(other, "d/e/x", "other dex")
			must(t, other.Unlink("g/h", noOrigin))
			// A fork freezes what the view writes; hard links do not outlive that (as
			// in overlayfs), so a run has one or the other.
			mode, forks := "links moves", seed%2 == 1
			if forks {
				mode = "moves"
			}
			var otherTree string
			for round := range rounds {
				s.eye.do("model", plain, fmt.Sprint(seed*1000+round), "60", mode)
				s.switchTo(other)
				if got := s.eye.do("portrait"); otherTree != "" && got != otherTree {
					t.Fatalf("the other branch is\n%s\nwas\n%s", got, otherTree)
				} else {
					otherTree = got
				}
				s.switchTo(s.branch)
				switch round % 3 {
				case 1:
					if !forks {
						break
					}
					_, err := s.store.Create(fmt.Sprint("fork", round), overlay.CreateOptions{From: "main"})
					must(t, err)
				case 2:
					text := fmt.Sprint("agent ", round)
					if err := s.branch.WriteFile("agents", []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
					must(t, os.WriteFile(filepath.Join(plain, "agents"), []byte(text), 0o644))
					s.settle()
				}
			}
			if fingerprint(t, s.root) != before {
				t.Error("the base has changed")
			}
		})
	}
}

// What a directory holds that was moved away, frozen there, and moved back: its
// Version is the base's again, so only overlay.Differ says that the view must look.
func TestSwitchAfterAMoveBack(t *testing.T) {
	s := newStage(t, map[string]string{"d/e/y": "base"})
	other := s.create("other")
	s.agent(s.branch, "d/e/y", "changed")
	s.settle()
	s.eye.sh("mv d b")
	_, err := s.store.Create("fork", overlay.CreateOptions{From: "main"})
	must(t, err)
	s.eye.sh("mv b d; stat d/e/y")
	s.switchTo(other)
	if got := s.eye.sh("stat -c %s d/e/y"); got != "4\n" {
		t.Error(got)
	}
}
