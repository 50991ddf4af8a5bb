package fusefs

import (
	"strings"
	"sync"
)

// asked is what the programs in a view have asked about since it is there: names,
// whether there was such a file or not, and directories that were listed. What was
// not asked about they cannot know; what was, they may remember for ever.
type asked struct {
	mu    sync.Mutex // guards the field below
	names map[string]bool
	full  bool // more was asked about than is remembered: everything may have been
}

// maxAsked bounds what is remembered of a view, at about 100 bytes each. Node.js
// looks up some thousands of names for a linter with plugins.
const maxAsked = 1 << 17

// listing marks a directory that was listed.
const listing = "/"

// about notes that a name was looked up; list that a directory was listed.
func (a *asked) about(path string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.names) >= maxAsked {
		a.full = true
		return
	}
	a.names[path] = true
}

func (a *asked) list(dir string) {
	if a != nil {
		a.about(dir + listing)
	}
}

// Asked says whether anything in the view may have come to know what is at path, or
// that nothing is: it was looked up, or, for a name that comes or goes, its directory
// was listed. Without Config.Asks that is not known, and it may.
func (v *View) Asked(path string, comes bool) bool {
	a := v.asked
	if a == nil {
		return true
	}
	dir := ""
	if at := strings.LastIndexByte(path, '/'); at >= 0 {
		dir = path[:at]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.full || a.names[path] || comes && a.names[dir+listing]
}
