package servers

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// What a look at a folder is bounded by. A repository beyond it is judged by its
// upper levels, which come first.
const (
	// maxEntries: on a warm disk a tenth of a second.
	maxEntries = 50_000
	// maxDepth is of folders that hold projects.
	maxDepth = 4
	// maxProjects bounds the folders that are given to one server.
	maxProjects = 16
	// checkLimit bounds a program's "--version".
	checkLimit = 5 * time.Second
)

// skipped are folders that hold what tools have made or fetched.
var skipped = map[string]bool{
	"node_modules": true, "target": true, "vendor": true, "third_party": true, "dist": true, "build": true,
	"__pycache__": true, "venv": true, "site-packages": true, "testdata": true,
}

// Found is a server that fits a folder.
type Found struct {
	Server
	// Argv is the command, its program as an absolute path; nil where it is not
	// installed.
	Argv []string
	// Files is how many files of its languages were seen.
	Files int
	// Projects are folders that hold one of Roots, absolute, the upper ones first;
	// none below another.
	Projects []string
	// Lacking are the Projects without what the server needs there.
	Lacking []string
	// Shadowed names the server that is preferred for the same languages; "" where
	// this is the one to use.
	Shadowed string
}

// Installed says whether its program was found.
func (f Found) Installed() bool { return f.Argv != nil }

// Project says whether the folder is a project of its kind, so that it is of use
// before any document of its languages is open.
func (f Found) Project() bool { return len(f.Projects) > 0 }

// Find returns the servers that fit the folder at root, in the order of
// preference; search is a PATH. Servers that are disabled are left out.
func (t Table) Find(ctx context.Context, root, search string) []Found {
	seen := t.look(ctx, root)
	var found []Found
	for _, s := range t.Servers {
		if s.Disabled != nil && *s.Disabled {
			continue
		}
		f := Found{Server: s, Projects: seen.projects(s.Roots)}
		for _, id := range s.Languages {
			f.Files += seen.languages[id]
		}
		if f.Files == 0 && !f.Project() || s.NeedsRoot && !f.Project() {
			continue
		}
		if f.Files == 0 && seen.complete {
			continue // a Makefile is no C
		}
		f.Argv = s.installed(ctx, search)
		f.Lacking = s.lacking(f.Projects)
		found = append(found, f)
	}
	prefer(found)
	return found
}

// lacking are the folders in and above which there is not what the server needs.
func (s Server) lacking(folders []string) (lacking []string) {
	if s.Needs == "" {
		return nil
	}
	for _, dir := range folders {
		there := false
		for up := dir; !there; up = filepath.Dir(up) {
			_, err := os.Stat(filepath.Join(up, s.Needs))
			if there = err == nil; up == filepath.Dir(up) {
				break
			}
		}
		if !there {
			lacking = append(lacking, dir)
		}
	}
	return lacking
}

// prefer marks the servers whose languages another takes already: one that is
// installed, and earlier. A project of its own kind (deno.json) comes first.
func prefer(found []Found) {
	slices.SortStableFunc(found, func(a, b Found) int {
		if a.NeedsRoot != b.NeedsRoot {
			if a.NeedsRoot {
				return -1
			}
			return 1
		}
		return 0
	})
	for n, f := range found {
		if f.Linter() {
			continue
		}
		for _, other := range found[:n] {
			if other.Installed() && other.Shadowed == "" && !other.Linter() &&
				!slices.ContainsFunc(f.Languages, func(id string) bool { return !other.Takes(id) }) {
				found[n].Shadowed = other.Name
				break
			}
		}
	}
}

// installed returns the command of a server with its program's path, nil where it
// is not on the search path.
func (s Server) installed(ctx context.Context, search string) []string {
	for _, command := range s.commands() {
		for _, program := range OnPath(command[0], search) {
			if s.checks(ctx, program) {
				return append([]string{program}, command[1:]...)
			}
		}
	}
	return nil
}

// checks runs a program where its presence proves nothing.
func (s Server) checks(ctx context.Context, program string) bool {
	if len(s.Check) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, s.Check...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return false
	}
	says, err := regexp.Match(s.CheckSays, out)
	return err == nil && says
}

// OnPath lists the executables of a name, in the order of the search path.
func OnPath(name, search string) (found []string) {
	if strings.Contains(name, "/") {
		if _, err := exec.LookPath(name); err == nil && filepath.IsAbs(name) {
			return []string{name}
		}
		return nil
	}
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			continue // what is in the current folder is nobody's choice
		}
		if full, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			found = append(found, full)
		}
	}
	return found
}

// seen is what a look at a folder has found.
type seen struct {
	root      string
	languages map[string]int      // files by language id
	folders   map[string][]string // by file name: the folders that hold one, upper ones first
	complete  bool                // everything was looked at
}

// look goes through a folder level by level.
func (t Table) look(ctx context.Context, root string) seen {
	s := seen{root: root, languages: map[string]int{}, folders: map[string][]string{}, complete: true}
	marks := map[string]bool{}
	var globs []string
	for _, server := range t.Servers {
		for _, r := range server.Roots {
			if strings.ContainsAny(r, "*?[{") {
				globs = append(globs, r)
			}
			marks[r] = true
		}
	}
	type level struct {
		dir   string
		depth int
	}
	entries := 0
	for queue := []level{{"", 0}}; len(queue) > 0 && ctx.Err() == nil; queue = queue[1:] {
		at := queue[0]
		list, err := os.ReadDir(filepath.Join(root, at.dir))
		if err != nil {
			continue
		}
		for _, e := range list {
			if entries++; entries > maxEntries {
				s.complete = false
				return s
			}
			name := e.Name()
			file := path.Join(at.dir, name)
			if e.Type()&fs.ModeType == fs.ModeDir {
				if !skipped[name] && !strings.HasPrefix(name, ".") {
					queue = append(queue, level{file, at.depth + 1})
				}
				continue
			}
			if id, ok := t.Language(file); ok {
				s.languages[id]++
			}
			if at.depth > maxDepth {
				continue
			}
			if marks[name] {
				s.folders[name] = append(s.folders[name], at.dir)
			}
			for _, g := range globs {
				if ok, _ := path.Match(g, name); ok {
					s.folders[g] = append(s.folders[g], at.dir)
				}
			}
		}
	}
	return s
}

// projects are the folders that hold one of these files, none below another.
func (s seen) projects(roots []string) []string {
	var dirs []string
	for _, r := range roots {
		dirs = append(dirs, s.folders[r]...)
	}
	slices.Sort(dirs)
	var upper []string
	for _, d := range slices.Compact(dirs) {
		if len(upper) == maxProjects {
			break
		}
		below := func(up string) bool { return up == "" || strings.HasPrefix(d, up+"/") }
		if !slices.ContainsFunc(upper, below) {
			upper = append(upper, d)
		}
	}
	for n, d := range upper {
		upper[n] = filepath.Join(s.root, d)
	}
	return upper
}

// Skipped says whether a path lies in a folder of what tools have made or fetched.
func Skipped(file string) bool {
	for name := range strings.SplitSeq(path.Dir(file), "/") {
		if skipped[name] || name == ".git" {
			return true
		}
	}
	return false
}
