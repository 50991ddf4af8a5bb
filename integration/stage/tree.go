package stage

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Tree is the exact state of a folder: for each path what it is, its mode, its
// time of change and, for files, its content.
type Tree map[string]string

// Read takes in the folder dir, hidden files included.
func Read(dir string) (Tree, error) {
	tree := Tree{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := entry.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case st.Mode().IsRegular():
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			content = fmt.Sprintf("%x", sha256.Sum256(b))
		case st.Mode()&fs.ModeSymlink != 0:
			if content, err = os.Readlink(name); err != nil {
				return err
			}
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		tree[rel] = fmt.Sprintf("%v %d %s", st.Mode(), st.ModTime().UnixNano(), content)
		return nil
	})
	return tree, err
}

// Differences lists the paths that are not the same in both, sorted.
func (t Tree) Differences(other Tree) []string {
	var paths []string
	for name, state := range t {
		if other[name] != state {
			paths = append(paths, name)
		}
	}
	for name := range other {
		if _, both := t[name]; !both {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return paths
}

// Sum is one number for the whole tree, to be shown.
func (t Tree) Sum() string {
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%q %s\n", name, t[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}
