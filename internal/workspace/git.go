package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"shadowlsp/internal/command"
	"shadowlsp/overlay"
)

// gitDir finds the repository of a folder; "" where there is none, or no git.
func (d *daemon) gitDir(ctx context.Context, folder string) (string, error) {
	out, err := d.git(ctx, folder, nil, nil, "rev-parse", "--absolute-git-dir")
	var exit *exec.ExitError
	if errors.Is(err, exec.ErrNotFound) || errors.As(err, &exit) && ctx.Err() == nil {
		return "", nil
	}
	return strings.TrimSuffix(out, "\n"), err
}

// ownOfGit are the variables by which git is told of a repository, an index or a
// work tree: those of whoever started the daemon are not meant for us.
var ownOfGit = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE",
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_CEILING_DIRECTORIES",
}

// asBefore makes git do nothing beside what it is told to.
var asBefore = []string{
	"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false",
	"-c", "core.fileMode=true", "-c", "core.symlinks=true", "-c", "core.ignoreCase=false",
	"-c", "core.sparseCheckout=false", "-c", "index.sparse=false", "-c", "core.splitIndex=false",
}

// git runs git and returns what it prints; an error has what it said.
func (d *daemon) git(ctx context.Context, dir string, env []string, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append(slices.Clone(asBefore), args...)...)
	cmd.Dir, cmd.Stdin = dir, stdin
	cmd.Env = slices.DeleteFunc(slices.Clone(d.cfg.Env), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(ownOfGit, name)
	})
	cmd.Env = append(append(cmd.Env, command.QuietGit, "LC_ALL=C"), env...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// exited says with which status git ended; -1 where it did not run to its end.
func exited(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// tempDir makes a directory for git's work, which done removes.
func (d *daemon) tempDir() (dir string, done func(), err error) {
	dir, err = os.MkdirTemp(d.cfg.Place.State, tempPrefix)
	return dir, func() { os.RemoveAll(dir) }, err
}

const tempPrefix = "git-"

// sweepTemp removes what a daemon that was killed has left.
func (d *daemon) sweepTemp() {
	left, _ := filepath.Glob(filepath.Join(d.cfg.Place.State, tempPrefix+"*"))
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
}

// gitView is a work tree for git that holds only some files of a branch, beside the
// person's repository.
type gitView struct {
	d    *daemon
	tree string
	env  []string
}

func (d *daemon) gitView(gitDir, tree string) gitView {
	return gitView{d, tree, []string{"GIT_DIR=" + gitDir, "GIT_WORK_TREE=" + tree}}
}

func (v gitView) git(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	return v.d.git(ctx, v.tree, v.env, stdin, args...)
}

// above are the directories that paths are in, the root included.
func above(paths []string) map[string]bool {
	dirs := map[string]bool{"": true}
	for _, p := range paths {
		for dir := parentOf(p); !dirs[dir]; dir = parentOf(dir) {
			dirs[dir] = true
		}
	}
	return dirs
}

func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}

// put writes the branch's file of one name from each of these directories into the
// view: those by which git decides about the files in them.
func (v gitView) put(b *overlay.Branch, name string, dirs map[string]bool) error {
	for dir := range dirs {
		path := strings.TrimPrefix(dir+"/"+name, "/")
		n, err := b.Lookup(path)
		if err != nil || n.Attr.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if err := v.write(path, n); err != nil {
			return err
		}
	}
	return nil
}

// write puts a file or link into the view.
func (v gitView) write(path string, n overlay.Node) error {
	to := filepath.Join(v.tree, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if n.Attr.Mode&unix.S_IFMT == unix.S_IFLNK {
		target, err := n.Readlink()
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	from, err := n.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600|os.FileMode(n.Attr.Mode&0o100))
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}

// nul joins paths as git reads them with -z.
func nul(paths []string) io.Reader {
	var out bytes.Buffer
	for _, p := range paths {
		out.WriteString(p)
		out.WriteByte(0)
	}
	return &out
}

// gitlinks are the submodules that an index names.
func (v gitView) gitlinks(ctx context.Context) ([]string, error) {
	out, err := v.git(ctx, nil, "ls-files", "-z", "--stage")
	var found []string
	for entry := range strings.SplitSeq(out, "\x00") {
		if stage, path, ok := strings.Cut(entry, "\t"); ok && strings.HasPrefix(stage, "160000 ") {
			found = append(found, path)
		}
	}
	return found, err
}
