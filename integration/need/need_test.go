package need

import (
	"os"
	"path/filepath"
	"testing"
)

// outcome runs f as a test would and says how it ended.
type outcome struct {
	testing.TB
	skipped, failed bool
}

func (o *outcome) Helper()               {}
func (o *outcome) Skip(...any)           { o.skipped = true; panic(o) }
func (o *outcome) Fatalf(string, ...any) { o.failed = true; panic(o) }
func (o *outcome) Fatal(...any)          { o.failed = true; panic(o) }

func try(f func(testing.TB)) (o *outcome) {
	o = &outcome{}
	defer func() {
		if r := recover(); r != nil && r != any(o) {
			panic(r)
		}
	}()
	f(o)
	return o
}

func TestAMissingToolSkipsAndFailsInCI(t *testing.T) {
	missing := func(tb testing.TB) { Tool(tb, "no-such-tool-anywhere") }
	t.Setenv("SHADOWLSP_CI", "")
	if o := try(missing); !o.skipped {
		t.Errorf("without CI: %+v, want a skip", o)
	}
	t.Setenv("SHADOWLSP_CI", "1")
	if o := try(missing); !o.failed {
		t.Errorf("with CI: %+v, want a failure", o)
	}
}

func TestWhatTheMachineLacksIsASkipEvenInCI(t *testing.T) {
	t.Setenv("SHADOWLSP_CI", "1")
	if o := try(func(tb testing.TB) { Unmet(tb, false, "no such kernel") }); !o.skipped {
		t.Errorf("%+v, want a skip", o)
	}
}

func TestPinnedToolsGoFirst(t *testing.T) {
	top := t.TempDir()
	other := t.TempDir()
	for _, name := range []string{filepath.Join(top, ".tools", "bin", "tool"), filepath.Join(other, "tool")} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "go.mod"), []byte("module m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(top, "a", "b")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	t.Setenv("PATH", other)
	for _, want := range []string{filepath.Join(top, ".tools", "bin", "tool"), filepath.Join(other, "tool")} {
		got, err := FindTool("tool")
		if err != nil || got != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
		os.Remove(want)
	}
}
