package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
)

const bigFile = "big.bin"

// typescript is where a package in TypeScript lies, in a folder that go does not
// look into.
const typescript = "_ts"

// prepare makes the tree, if it is not there yet, and finds out what it holds.
func (s *stand) prepare(ctx context.Context, source string, o options) error {
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		os.Remove(s.self)
		err = os.WriteFile(s.self, self, 0o755)
	}
	if err != nil {
		return err
	}
	s.env = append(os.Environ(),
		"GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+filepath.Join(s.top, "modules"), "GOCACHE="+s.goCache(), "GOTELEMETRY=off",
		"HOME="+filepath.Join(s.top, "home"), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	planted := filepath.Join(s.top, "planted")
	if _, err := os.Stat(planted); err != nil {
		if err := s.plant(ctx, source, o); err != nil {
			return err
		}
		if err := os.WriteFile(planted, nil, 0o644); err != nil {
			return err
		}
	}
	return filepath.WalkDir(s.tree, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() == ".git" {
			return skip(err)
		}
		if e.Type().IsRegular() && e.Name() != bigFile {
			rel, _ := filepath.Rel(s.tree, path)
			s.files = append(s.files, rel)
		}
		return nil
	})
}

// goCache is what every lane begins with: what has been built once, at the path
// where all have it.
func (s *stand) goCache() string { return filepath.Join(s.top, "gocache") }

// plant makes the tree: a Go module in a git repository, with copies of itself
// in a folder that go does not look into.
func (s *stand) plant(ctx context.Context, source string, o options) error {
	if err := stage.Copy(s.tree, source); err != nil {
		return err
	}
	for i := range o.copies {
		if err := stage.Copy(filepath.Join(s.tree, "_more", fmt.Sprint(i)), source); err != nil {
			return err
		}
	}
	rxjs, err := need.FindSource("rxjs")
	if err == nil {
		err = stage.Copy(filepath.Join(s.tree, typescript), rxjs)
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(s.top, "home"), 0o777); err != nil {
		return err
	}
	modules, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return err
	}
	script := `
git init -q
printf '%s\n' /` + bigFile + ` /scratch >.git/info/exclude
git add --all
git -c user.name=bench -c user.email=bench@example.test commit -qm "as it was"
GOPROXY="file://` + strings.TrimSpace(string(modules)) + `/cache/download,$(go env GOPROXY)" go mod download
go build ./...
go vet ./go/...
chmod -R a+rwX "$GOMODCACHE" "$HOME"
mkdir scratch
`
	if o.megabytes > 0 {
		script += fmt.Sprintf("head -c %dM /dev/urandom >%s\n", o.megabytes, bigFile)
	}
	script += fmt.Sprintf("chown -R %d:%d .\n", ordinary, ordinary)
	return s.shell(ctx, s.tree, script)
}

func skip(err error) error {
	if err == nil {
		err = fs.SkipDir
	}
	return err
}

// shell runs a script of this machine's, outside of all lanes.
func (s *stand) shell(ctx context.Context, dir, script string) error {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-euc", script)
	cmd.Dir, cmd.Env = dir, s.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return nil
}
