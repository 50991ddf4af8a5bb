package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
)

// commit makes a git branch with one commit on top of HEAD that holds what a branch
// changes. Git itself does it, in a directory that holds the changed files only and
// with an index of its own: filters, attributes and object formats are git's, and
// the person's work tree, index, configuration and hooks have no part in it.
//
// A file that the person has changed is there in three versions: HEAD's, the one that
// the branch began with, the branch's. What the branch changed of the second is merged
// into HEAD's; where that cannot be done, the commit is refused, or, forced, takes the
// branch's file as it is: with what the person had not committed when the branch began,
// and without what has changed since.
func (d *daemon) commit(ctx context.Context, b *branch, p agent.ApplyParams, include func(string) bool) (r agent.ApplyResult, err error) {
	c := committing{d: d, b: b.over, force: p.Force}
	defer func() {
		if c.done != nil {
			c.done()
		}
	}()
	if err = c.open(ctx, p.Git); err != nil {
		return r, err
	}
	if err = c.take(ctx, include); err != nil {
		return r, err
	}
	r.Paths, r.Skipped, r.Included, r.Git = c.paths, c.skipped, c.included, p.Git
	tree, err := c.index(ctx)
	r.Included = c.included
	if err != nil || p.DryRun {
		return r, err
	}
	message := p.Message
	if message == "" {
		message = "Changes of shadowlsp branch " + b.name
	}
	args := []string{"commit-tree", tree}
	if c.head != "" {
		args = append(args, "-p", c.head)
	}
	if r.Commit, err = c.line(ctx, c.branch, strings.NewReader(message), args...); err != nil {
		return r, refusedByGit(err)
	}
	_, err = c.branch.git(ctx, nil, "update-ref", "-m", "shadowlsp: branch "+b.name, "refs/heads/"+p.Git, r.Commit, "")
	if err != nil {
		return r, refusedByGit(err)
	}
	d.cfg.Log.Info().Str("branch", b.name).Str("commit", r.Commit).Msg("committed to a git branch")
	return r, nil
}

func refusedByGit(err error) error {
	return wire.Errorf(wire.CodeRequestFailed, "nothing was committed: %v", err)
}

// committing is one commit being made.
type committing struct {
	d     *daemon
	b     *overlay.Branch
	force bool
	done  func()

	head         string  // "" where nothing was committed yet
	base, branch gitView // with the changed files as the folder, and as the branch has them
	paths        []string
	skipped      []string
	included     []string
	// conflicts are the files that the person has changed since the branch first did.
	conflicts map[string]overlay.Conflict
}

// line runs git for one line.
func (c *committing) line(ctx context.Context, v gitView, stdin *strings.Reader, args ...string) (string, error) {
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	out, err := v.git(ctx, stdin, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// open finds the repository and refuses names that cannot be.
func (c *committing) open(ctx context.Context, name string) error {
	gitDir, err := c.d.gitDir(ctx, c.d.root)
	if err != nil {
		return err
	}
	if gitDir == "" {
		return wire.Errorf(wire.CodeRequestFailed, "%s is no git repository (or there is no git): apply the branch to the folder instead", c.d.root)
	}
	dir, done, err := c.d.tempDir()
	if err != nil {
		return err
	}
	c.done = done
	for v, sub := range map[*gitView]string{&c.base: "base", &c.branch: "branch"} {
		*v = c.d.gitView(gitDir, filepath.Join(dir, sub))
		v.env = append(v.env, "GIT_INDEX_FILE="+filepath.Join(dir, sub+".index"))
		if err := os.Mkdir(v.tree, 0o700); err != nil {
			return err
		}
	}
	if _, err := c.branch.git(ctx, nil, "check-ref-format", "refs/heads/"+name); err != nil || strings.HasPrefix(name, "-") {
		return wire.Errorf(wire.CodeInvalidParams, "%q cannot name a git branch", name)
	}
	if _, err := c.branch.git(ctx, nil, "show-ref", "--verify", "--quiet", "refs/heads/"+name); err == nil {
		return wire.Errorf(wire.CodeRequestFailed, "there is a git branch %s already: name another, or delete it first", name)
	}
	c.head, err = c.line(ctx, c.branch, nil, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	if err != nil && exited(err) < 0 {
		return err
	}
	return nil
}

// take writes the changed files into both views.
func (c *committing) take(ctx context.Context, include func(string) bool) error {
	all, err := c.b.Differences()
	if err != nil {
		return invalid(err)
	}
	special := func(mode uint32) bool {
		kind := mode & unix.S_IFMT
		return mode != 0 && kind != unix.S_IFREG && kind != unix.S_IFLNK
	}
	for _, diff := range all {
		switch {
		case !include(diff.Path), diff.Old&unix.S_IFMT == unix.S_IFDIR, diff.New&unix.S_IFMT == unix.S_IFDIR:
			continue
		case special(diff.New) || diff.New == 0 && special(diff.Old):
			c.skipped = append(c.skipped, diff.Path)
			continue
		}
		c.paths = append(c.paths, diff.Path)
	}
	if len(c.paths) == 0 {
		return wire.Errorf(wire.CodeRequestFailed, "branch %s changes nothing that could be committed", c.b.Name())
	}
	dry, err := c.b.Apply(overlay.ApplyOptions{Include: include, DryRun: true})
	if err != nil {
		return invalid(err)
	}
	c.conflicts = map[string]overlay.Conflict{}
	for _, conflict := range dry.Conflicts {
		c.conflicts[conflict.Path] = conflict
	}
	dirs := above(c.paths)
	for dir := range dirs {
		if _, err := c.b.Lookup(dir + "/.git"); dir != "" && err == nil {
			return wire.Errorf(wire.CodeRequestFailed, "the branch changes files of %s, which is a repository of its own: name the paths to commit, without that", dir)
		}
	}
	for _, v := range []gitView{c.base, c.branch} {
		if err := v.put(c.b, ".gitattributes", dirs); err != nil {
			return err
		}
	}
	for _, path := range c.paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		now, err := c.b.Lookup(path)
		if err = c.branch.put1(path, now, err); err != nil {
			return err
		}
		if conflict, since := c.conflicts[path]; since {
			if err := c.base.writeSide(path, conflict.Then); err != nil {
				return err
			}
			continue
		}
		was, err := c.b.Base(path)
		if err = c.base.put1(path, was, err); err != nil {
			return err
		}
	}
	return nil
}

// put1 puts a file or link into the view, if err says that there is one.
func (v gitView) put1(path string, n overlay.Node, err error) error {
	switch k := overlay.KindOf(err); {
	case k == overlay.NotExist || k == overlay.NotDir:
		// A .gitattributes may be there by which git decides about others.
		return ignoreMissing(os.Remove(filepath.Join(v.tree, path)))
	case err != nil:
		return err
	}
	if kind := n.Attr.Mode & unix.S_IFMT; kind == unix.S_IFREG || kind == unix.S_IFLNK {
		return v.write(path, n)
	}
	return nil
}

// stage makes the view's index hold what its tree holds at these paths.
func (v gitView) stage(ctx context.Context, paths []string) error {
	var there []string
	var gone bytes.Buffer
	for _, path := range paths {
		if st, err := os.Lstat(filepath.Join(v.tree, path)); err == nil && !st.IsDir() {
			there = append(there, path)
		} else {
			fmt.Fprintf(&gone, "0 0000000000000000000000000000000000000000\t%s\x00", path)
		}
	}
	if _, err := v.git(ctx, &gone, "update-index", "-z", "--index-info"); err != nil {
		return refusedByGit(err)
	}
	if _, err := v.git(ctx, nul(there), "update-index", "-z", "--add", "--replace", "--stdin"); err != nil {
		return refusedByGit(err)
	}
	return nil
}

// writeSide puts what a file was into the view, as far as it is known.
func (v gitView) writeSide(path string, s overlay.Side) error {
	if !s.Known || s.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	to := filepath.Join(v.tree, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, s.Data, 0o600|os.FileMode(s.Mode&0o100))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

// index makes the index of the commit, and its tree.
func (c *committing) index(ctx context.Context) (tree string, err error) {
	headTree := ""
	for _, v := range []gitView{c.base, c.branch} {
		if c.head == "" {
			headTree, err = c.line(ctx, v, nil, "hash-object", "-t", "tree", "-w", "--stdin")
		} else {
			headTree = c.head + "^{tree}"
			_, err = v.git(ctx, nil, "read-tree", c.head)
		}
		if err != nil {
			return "", refusedByGit(err)
		}
	}
	links, err := c.branch.gitlinks(ctx)
	if err != nil {
		return "", err
	}
	for _, link := range links {
		for _, path := range c.paths {
			if path == link || strings.HasPrefix(path, link+"/") {
				return "", wire.Errorf(wire.CodeRequestFailed, "the branch changes %s in the submodule %s, which is committed in the submodule only: name the paths to commit, without that", path, link)
			}
		}
	}
	for _, v := range []gitView{c.base, c.branch} {
		if err := v.stage(ctx, c.paths); err != nil {
			return "", err
		}
	}
	if err := c.untangle(ctx, headTree); err != nil {
		return "", err
	}
	if tree, err = c.line(ctx, c.branch, nil, "write-tree"); err != nil {
		return "", refusedByGit(err)
	}
	if same, err := c.line(ctx, c.branch, nil, "rev-parse", headTree); err == nil && same == tree {
		return "", wire.Errorf(wire.CodeRequestFailed, "HEAD holds all of that already: there is nothing to commit")
	}
	return tree, nil
}

// entry is what an index or a tree holds at a path; zero: nothing.
type gitEntry struct{ mode, id string }

// staged reads an index.
func (v gitView) staged(ctx context.Context) (map[string]gitEntry, error) {
	out, err := v.git(ctx, nil, "ls-files", "-z", "--stage")
	found := map[string]gitEntry{}
	for line := range strings.SplitSeq(out, "\x00") {
		if about, path, ok := strings.Cut(line, "\t"); ok {
			if f := strings.Fields(about); len(f) == 3 {
				found[path] = gitEntry{f[0], f[1]}
			}
		}
	}
	return found, err
}

// untangle takes the person's uncommitted changes out of the branch's files.
func (c *committing) untangle(ctx context.Context, headTree string) error {
	out, err := c.base.git(ctx, nil, "diff-index", "-z", "--cached", "--no-renames", "--full-index", headTree)
	if err != nil {
		return refusedByGit(err)
	}
	base, err := c.base.staged(ctx)
	if err != nil {
		return err
	}
	branch, err := c.branch.staged(ctx)
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, path := range c.paths {
		ours[path] = true
	}
	var lines bytes.Buffer
	var tangled []string
	fields := strings.Split(out, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		path, about := fields[i+1], strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if !ours[path] || len(about) < 4 {
			continue
		}
		head := gitEntry{about[0], about[2]}
		was, now := base[path], branch[path]
		if _, since := c.conflicts[path]; !since && (was == (gitEntry{}) || now == (gitEntry{})) {
			continue // deleted by one of them: the branch's word counts
		}
		if merged, ok := c.merge(ctx, head, was, now); ok {
			fmt.Fprintf(&lines, "%s %s\t%s\x00", merged.mode, merged.id, path)
		} else {
			tangled = append(tangled, path)
		}
	}
	if len(tangled) > 0 && !c.force {
		return wire.Errorf(wire.CodeRequestFailed, "HEAD is not what the branch began with at %s, and the difference cannot be told apart from the branch's own changes: leave these paths out, or force it, and the commit holds the branch's files as they are", strings.Join(tangled, ", "))
	}
	c.included = tangled
	if lines.Len() > 0 {
		if _, err := c.branch.git(ctx, &lines, "update-index", "-z", "--index-info"); err != nil {
			return refusedByGit(err)
		}
	}
	return nil
}

// merge takes what the branch has changed of the folder's file into HEAD's.
func (c *committing) merge(ctx context.Context, head, was, now gitEntry) (gitEntry, bool) {
	const regular = "100"
	for _, e := range []gitEntry{head, was, now} {
		if !strings.HasPrefix(e.mode, regular) {
			return head, false
		}
	}
	mode := head.mode
	if now.mode != was.mode {
		mode = now.mode
	}
	var files []string
	for _, e := range []gitEntry{head, was, now} {
		content, err := c.branch.git(ctx, nil, "cat-file", "blob", e.id)
		file := filepath.Join(filepath.Dir(c.branch.tree), "side"+fmt.Sprint(len(files)))
		if err == nil {
			err = os.WriteFile(file, []byte(content), 0o600)
		}
		if err != nil {
			return head, false
		}
		files = append(files, file)
	}
	text, err := c.branch.git(ctx, nil, append([]string{"merge-file", "-p", "-q"}, files...)...)
	if err != nil {
		return head, false // a conflict, or no text
	}
	id, err := c.line(ctx, c.branch, strings.NewReader(text), "hash-object", "-w", "--stdin")
	return gitEntry{mode, id}, err == nil
}
