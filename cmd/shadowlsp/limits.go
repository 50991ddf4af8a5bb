package main

import (
	"strconv"

	"shadowlsp/internal/workspace"
)

// limitFlags are the limits on agents, by flag; 0 is a limit's default.
func limitFlags(l *workspace.Limits) []limitFlag {
	return []limitFlag{
		{"max-branches", &l.Branches, "how many branches a workspace may have (default 10000)"},
		{"max-connections", &l.Connections, "how many agents may be connected at once (default 1024)"},
		{"max-queued", &l.Queued, "how many requests of one branch may wait for a server (default 256)"},
		{"max-documents", &l.Documents, "how many documents an agent may hold open (default 4096)"},
	}
}

type limitFlag struct {
	name  string
	value *int
	usage string
}

// limitArgs are the flags that a daemon is started with for these limits.
func limitArgs(l workspace.Limits) (args []string) {
	for _, f := range limitFlags(&l) {
		if *f.value != 0 {
			args = append(args, "--"+f.name, strconv.Itoa(*f.value))
		}
	}
	return args
}
