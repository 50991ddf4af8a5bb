package config

import "slices"

// Run says how programs run in branches.
type Run struct {
	// Write are paths outside the folder that programs may write: tool caches. "~"
	// at the beginning is the person's home. The workspace's file may name none.
	Write []string `toml:"write"`
}

// With returns r with what next says added.
func (r Run) With(next Run) Run {
	r.Write = slices.Compact(slices.Concat(r.Write, next.Write))
	return r
}
