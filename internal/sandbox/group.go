package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Group is a control group: its programs together have no more memory than it
// allows. What they read of files is reclaimed first; when that is not enough,
// the kernel ends one of them.
type Group struct{ dir string }

// NewGroup makes a group of this name, or takes over what a killed process has
// left of it. It stands below this process's own group (control groups v1, or v2
// as root), or beside it (v2, where systemd has delegated that); an error says
// that none can be had.
func NewGroup(name string, memory int64) (*Group, error) {
	var why error
	for _, at := range ownGroups() {
		g := &Group{filepath.Join(at.dir, "shadowlsp-"+name)}
		err := os.Mkdir(g.dir, 0o755)
		if err == nil || errors.Is(err, os.ErrExist) {
			// The file is there only if the kernel controls memory in this group.
			if err = os.WriteFile(filepath.Join(g.dir, at.limit), []byte(strconv.FormatInt(memory, 10)), 0); err == nil {
				return g, nil
			}
			_ = os.Remove(g.dir)
		}
		why = errors.Join(why, err)
	}
	if why == nil {
		why = errors.New("none is mounted that bounds memory")
	}
	return nil, &Error{Op: "make a control group", Name: name, Kind: Invalid, Err: why}
}

// put moves a process into the group; what it starts from then on is in it.
func (g *Group) put(pid int) error {
	if g == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return &Error{Op: "move into the control group", Name: g.dir, Kind: Invalid, Err: err}
	}
	return nil
}

// Close removes the group, which no program may be in any more. A nil Group has
// nothing to remove.
func (g *Group) Close() error {
	if g == nil {
		return nil
	}
	return os.Remove(g.dir)
}

// groupPlace is a directory in which a group might be made, and the name of the
// file that bounds its memory.
type groupPlace struct{ dir, limit string }

// ownGroups reads where this process stands in the hierarchies that bound memory.
func ownGroups() (places []groupPlace) {
	own := map[string]string{} // "" is v2
	text, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for _, controller := range strings.Split(f[1], ",") {
				own[controller] = f[2]
			}
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		f, kind := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(kind) < 3 {
			continue
		}
		// A container sees a part of the hierarchy, from f[3] on.
		within := func(path string) string {
			below, ok := strings.CutPrefix(path, strings.TrimSuffix(f[3], "/"))
			if !ok {
				below = ""
			}
			return filepath.Join(f[4], below)
		}
		switch {
		case kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), "memory"):
			places = append(places, groupPlace{within(own["memory"]), "memory.limit_in_bytes"})
		case kind[0] == "cgroup2":
			dir := within(own[""])
			places = append(places, groupPlace{dir, "memory.max"}, groupPlace{filepath.Dir(dir), "memory.max"})
		}
	}
	return places
}

// String is its directory.
func (g *Group) String() string {
	if g == nil {
		return "none"
	}
	return g.dir
}
