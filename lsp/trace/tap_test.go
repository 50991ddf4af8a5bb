package trace

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestATapBeginsAndEnds(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	var tap Tap
	say := func(word string) { tap.Message(Agent, "b", "", ToServer, []byte(`{"word":"`+word+`"}`)) }
	to := func(path string) {
		t.Helper()
		if err := tap.To(path); err != nil {
			t.Fatal(err)
		}
		if got := tap.Path(); got != path {
			t.Errorf("into %q, want %q", got, path)
		}
	}
	say("before")
	to(first)
	say("one")
	to(first) // goes on
	tap.Event("turn", map[string]any{"branch": "b"})
	to(second)
	say("two")
	if err := tap.To(filepath.Join(dir, "no", "such")); err == nil || tap.Path() != second {
		t.Errorf("%v, into %q", err, tap.Path())
	}
	say("three")
	to("")
	say("after")
	to("")
	for path, want := range map[string][]string{first: {"one", "turn"}, second: {"two", "three"}} {
		dump, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(bytes.TrimSpace(dump), []byte("\n"))
		if len(lines) != len(want) {
			t.Errorf("%s", dump)
			continue
		}
		for i, word := range want {
			if !bytes.Contains(lines[i], []byte(`"`+word+`"`)) {
				t.Errorf("line %d lacks %s: %s", i, word, lines[i])
			}
		}
	}
	var none *Tap
	none.Message(Agent, "", "", ToServer, nil)
	none.Event("turn", nil)
	if none.Dropped() != 0 || none.Path() != "" {
		t.Error("nil records")
	}
}

// Those who record need not know of those who turn the tap.
func TestATapIsTurnedWhileItRuns(t *testing.T) {
	dir := t.TempDir()
	var tap Tap
	var turners, speakers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		speakers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					tap.Message(Agent, "b", "", ToServer, []byte("{}"))
					tap.Event("turn", nil)
				}
			}
		})
	}
	for i := range 2 {
		turners.Go(func() {
			for range 50 {
				for _, path := range []string{filepath.Join(dir, string(rune('a'+i))), ""} {
					if err := tap.To(path); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	turners.Wait()
	close(stop)
	speakers.Wait()
	if err := tap.To(""); err != nil {
		t.Error(err)
	}
}
