package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/overlay"
)

// The eye as a poker: one thread, which pokes when it is told to. (The real one
// is internal/sandbox's; integration/conformance has it make events.)
func init() {
	poke := make(chan chan string)
	eyeDoes["bepoker"] = func(root string, args []string) (string, error) {
		tid := make(chan int)
		go func() { // ends with the eye
			runtime.LockOSThread()
			tid <- unix.Gettid()
			for done := range poke {
				done <- pokeAll(root)
			}
		}()
		return strconv.Itoa(<-tid), nil
	}
	eyeDoes["takepokes"] = func(root string, args []string) (string, error) {
		done := make(chan string)
		poke <- done
		return <-done, nil
	}
}

// pokeAll does what is to do, and says how it went.
func pokeAll(root string) string {
	var said []string
	buf := make([]byte, 4096)
	for {
		n, err := unix.Getxattr(root, PokeAttr, buf)
		if err != nil {
			return strings.Join(said, ", ")
		}
		path := filepath.Join(root, string(buf[2:n]))
		switch buf[1] {
		case PokeGone:
			err = unix.Unlink(path)
		case PokeMade:
			err = unix.Mknod(path, uint32(buf[0])<<12|0o600, 0)
		case PokeChanged:
			var fd int
			if fd, err = unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
				unix.Close(fd)
			}
		}
		said = append(said, fmt.Sprintf("%c %s %v", buf[1], buf[2:n], err))
	}
}

// A removal is heard of though a program, or the poker, was told before the
// teller came to it that the name does not exist.
func TestRemovalsArePoked(t *testing.T) {
	s := newStage(t, map[string]string{"d/a": "a", "d/b": "b", "d/c": "c"})
	// The poker is as quick as can be: it pokes before the teller goes on.
	var quick atomic.Bool
	var said atomic.Value
	quick.Store(true)
	s.view.SetPoker(Poker{Thread: atoi(s.eye.do("bepoker")), Wake: func() {
		if quick.Load() {
			said.Store(s.eye.do("takepokes"))
		}
	}})
	held := func(during func()) {
		t.Helper()
		reached, gate := make(chan struct{}), make(chan struct{})
		s.view.tell.call(func() { close(reached); <-gate })
		<-reached
		during()
		close(gate)
		s.sync()
	}
	poked := func(want string) {
		t.Helper()
		if got := said.Load(); got != want {
			t.Errorf("poked %q, want %q", got, want)
		}
	}
	gone := func(name string) {
		t.Helper()
		if out, err := s.eye.try("read", name); err == nil {
			t.Errorf("%s: %s", name, out)
		}
	}
	s.eye.sh("ls d; cat d/b d/c")
	held(func() {
		must(t, s.branch.Unlink("d/a", overlay.Origin{}))
		gone("d/a") // never looked up before
	})
	poked("g d/a <nil>")
	quick.Store(false)
	must(t, os.WriteFile(s.outside("d/b"), []byte("changed"), 0o644))
	s.sync()
	quick.Store(true)
	held(func() {
		must(t, os.Remove(s.outside("d/b")))
		said.Store(s.eye.do("takepokes"))
		poked("c d/b no such file or directory")
	})
	poked("g d/b <nil>")
	must(t, os.Remove(s.outside("d/c")))
	s.sync()
	poked("g d/c <nil>")
	gone("d/a")
	gone("d/b")
	gone("d/c")
}
