package workspace

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
)

// selection says which paths of a branch a patch, an apply or a commit is about:
// those in the paths named (none: all), without what git ignores unless that is
// asked for.
func (d *daemon) selection(ctx context.Context, b *branch, paths []string, ignored bool) (include func(string) bool, of []overlay.Difference, err error) {
	all, err := b.over.Differences()
	if err != nil {
		return nil, nil, invalid(err)
	}
	left := map[string]bool{}
	if !ignored {
		if left, err = d.ignored(ctx, b.over, all); err != nil {
			return nil, nil, err
		}
	}
	hit := make([]bool, len(paths))
	include = func(path string) bool {
		in := len(paths) == 0
		for i, want := range paths {
			want = strings.Trim(want, "/")
			if want == "" || want == "." || path == want || strings.HasPrefix(path, want+"/") {
				in, hit[i] = true, true
			}
		}
		return in && !left[path]
	}
	for _, diff := range all {
		if include(diff.Path) {
			of = append(of, diff)
		}
	}
	for i, path := range paths {
		if !hit[i] {
			return nil, nil, wire.Errorf(wire.CodeInvalidParams, "branch %s changes nothing at %s", b.name, path)
		}
	}
	return include, of, nil
}

// ignored returns which of the changed paths git ignores, by the branch's .gitignore
// files and index, and the person's repository and settings. Where there is no git
// repository, nothing is.
func (d *daemon) ignored(ctx context.Context, b *overlay.Branch, all []overlay.Difference) (map[string]bool, error) {
	found := map[string]bool{}
	if len(all) == 0 {
		return found, nil
	}
	gitDir, err := d.gitDir(ctx, d.root)
	if err != nil || gitDir == "" {
		return found, err
	}
	paths := make([]string, len(all))
	for i, diff := range all {
		paths[i] = diff.Path
	}
	tree, done, err := d.tempDir()
	if err != nil {
		return nil, err
	}
	defer done()
	v := d.gitView(gitDir, tree)
	if err := v.put(b, ".gitignore", above(paths)); err != nil {
		return nil, err
	}
	// What is tracked is not ignored: a git in the branch may have tracked more.
	if n, err := b.Lookup(".git/index"); err == nil {
		if _, base := n.FromBase(); !base && n.Attr.Mode&unix.S_IFMT == unix.S_IFREG {
			own := gitView{tree: tree + ".own"}
			defer os.RemoveAll(own.tree)
			if err := own.write("index", n); err != nil {
				return nil, err
			}
			v.env = append(v.env, "GIT_INDEX_FILE="+filepath.Join(own.tree, "index"))
		}
	}
	for i, diff := range all {
		if (diff.Old|diff.New)&unix.S_IFMT == unix.S_IFDIR {
			paths[i] += "/" // git cannot see that it is one
		}
	}
	return found, v.checkIgnore(ctx, "", paths, found)
}

// checkIgnore adds to found which of the paths are ignored. prefix is where the
// view's tree is below the root.
func (v gitView) checkIgnore(ctx context.Context, prefix string, paths []string, found map[string]bool) error {
	out, err := v.git(ctx, nul(paths), "check-ignore", "-z", "--stdin")
	if exited(err) == 128 {
		return v.checkInSubmodules(ctx, prefix, paths, found, err)
	}
	if err != nil && exited(err) != 1 { // 1: nothing is ignored
		return err
	}
	for path := range strings.SplitSeq(out, "\x00") {
		if path != "" {
			found[filepath.Join(prefix, path)] = true
		}
	}
	return nil
}

// checkInSubmodules is checkIgnore where some paths are in submodules, which have
// repositories of their own: git refuses to answer for all at once.
func (v gitView) checkInSubmodules(ctx context.Context, prefix string, paths []string, found map[string]bool, refused error) error {
	links, err := v.gitlinks(ctx)
	if err != nil || len(links) == 0 {
		return refused
	}
	in := map[string][]string{}
	var rest []string
	for _, path := range paths {
		at := ""
		for _, link := range links {
			if strings.HasPrefix(path, link+"/") {
				at = link
			}
		}
		if at == "" {
			rest = append(rest, path)
		} else if sub := strings.TrimPrefix(path, at+"/"); sub != "" {
			in[at] = append(in[at], sub)
		}
	}
	if len(in) == 0 {
		return refused
	}
	for link, below := range in {
		folder := filepath.Join(v.d.root, prefix, link)
		gitDir, err := v.d.gitDir(ctx, folder)
		if err != nil {
			return err
		}
		tree := filepath.Join(v.tree, link)
		if err := os.MkdirAll(tree, 0o700); err != nil {
			return err
		}
		if gitDir == "" || gitDir == strings.TrimPrefix(v.env[0], "GIT_DIR=") {
			continue // it was never checked out: nothing is known of it
		}
		if err := v.d.gitView(gitDir, tree).checkIgnore(ctx, filepath.Join(prefix, link), below, found); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return v.checkIgnore(ctx, prefix, rest, found)
}
