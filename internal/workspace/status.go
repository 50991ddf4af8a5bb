package workspace

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"shadowlsp/internal/mode"
	"shadowlsp/overlay"
)

// Status is what `shadowlsp status --json` prints.
type Status struct {
	Root    string         `json:"root"`
	PID     int            `json:"pid"`
	Uptime  float64        `json:"uptimeSeconds"`
	Agent   Addresses      `json:"agent"`
	Fronts  []FrontStatus  `json:"fronts"`
	Servers []ServerStatus `json:"servers"`
	// Branches are all of the workspace, sorted by name.
	Branches []BranchStatus `json:"branches"`
	Layers   LayersStatus   `json:"layers"`
	Mode     mode.Decision  `json:"mode"`
	Memory   uint64         `json:"memoryBytes"` // of the daemon's heap and stacks
	// Group is the control group that bounds the servers' memory, or "none".
	Group string `json:"controlGroup"`
	// Goroutines are the daemon's: with nothing to do there are some dozens.
	Goroutines int `json:"goroutines"`
	// Trace is the file into which the daemon traces; absent: none.
	Trace   string `json:"trace,omitempty"`
	Dropped uint64 `json:"traceDropped"`
}

// FrontStatus is one attached editor.
type FrontStatus struct {
	PID     int      `json:"pid"`
	Command []string `json:"command"`
}

// ServerStatus is one server's pool.
type ServerStatus struct {
	Name      string           `json:"name"`
	Command   []string         `json:"command"`
	Instances []InstanceStatus `json:"instances"`
	Waiting   int              `json:"waiting"`  // requests that wait for a turn
	Switches  uint64           `json:"switches"` // since the daemon's start
	Cache     CacheStatus      `json:"cache"`
}

// CacheStatus tells of the answers that are kept.
type CacheStatus struct {
	Answers int    `json:"answers"`
	Bytes   int    `json:"bytes"`
	Hits    uint64 `json:"hits"` // questions that took no turn
	Misses  uint64 `json:"misses"`
}

// InstanceStatus is one shadow server.
type InstanceStatus struct {
	Name     string  `json:"name"`
	PID      int     `json:"pid"`
	Branch   string  `json:"branch,omitempty"` // what it shows; "" is none
	InFlight int     `json:"inFlight"`
	Uptime   float64 `json:"uptimeSeconds"`
}

// BranchStatus is one branch.
type BranchStatus struct {
	Name      string `json:"name"`
	Rev       uint64 `json:"rev"`
	Overrides int    `json:"overrides"`
	Git       int    `json:"git"`       // of these, those in .git
	Documents int    `json:"documents"` // held open by agents
	Agents    int    `json:"agents"`
	Commands  int    `json:"commands"` // that run in it
	Keep      bool   `json:"keep"`
}

func (d *daemon) status() Status {
	s := Status{
		Root: d.root, PID: os.Getpid(), Uptime: time.Since(d.began).Seconds(), Agent: d.addresses,
		Fronts: []FrontStatus{}, Servers: []ServerStatus{}, Branches: []BranchStatus{}, Trace: d.trace.Path(), Dropped: d.trace.Dropped(), Group: d.group.String(), Goroutines: runtime.NumGoroutine(),
	}
	s.Layers, s.Mode = d.layers, d.mode
	s.Layers.Used = d.store.Used()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.Memory = m.HeapInuse + m.StackInuse
	d.mu.Lock()
	pools, branches := make([]*pool, 0, len(d.pools)), make([]*branch, 0, len(d.branches))
	for _, p := range d.pools {
		pools = append(pools, p)
	}
	for _, b := range d.branches {
		branches = append(branches, b)
	}
	for e := range d.editors {
		e.mu.Lock()
		s.Fronts = append(s.Fronts, FrontStatus{PID: e.hello.Pid, Command: e.hello.Command})
		e.mu.Unlock()
	}
	d.mu.Unlock()
	for _, p := range pools {
		s.Servers = append(s.Servers, p.status())
	}
	for _, b := range branches {
		s.Branches = append(s.Branches, b.status())
	}
	sort.Slice(s.Fronts, func(i, j int) bool { return s.Fronts[i].PID < s.Fronts[j].PID })
	sort.Slice(s.Servers, func(i, j int) bool { return s.Servers[i].Name < s.Servers[j].Name })
	sort.Slice(s.Branches, func(i, j int) bool { return s.Branches[i].Name < s.Branches[j].Name })
	return s
}

func (p *pool) status() ServerStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := ServerStatus{Name: p.profile().Name, Command: p.learnt.Command, Instances: []InstanceStatus{}, Switches: p.switches, Cache: p.cache.status()}
	running := 0
	for _, i := range p.instances {
		st := InstanceStatus{Name: i.name, PID: i.proc.Pid(), InFlight: i.server.InFlight(), Uptime: time.Since(i.started).Seconds()}
		if b := i.showing(); b != i.scratch {
			st.Branch = b.name
		}
		running += st.InFlight
		s.Instances = append(s.Instances, st)
	}
	s.Waiting = max(len(p.jobs)-running, 0)
	sort.Slice(s.Instances, func(i, j int) bool { return s.Instances[i].Name < s.Instances[j].Name })
	return s
}

func (b *branch) status() BranchStatus {
	overrides, _ := b.over.Overrides() // a branch that is being dropped has none
	git := 0
	for _, o := range overrides {
		if overlay.InGit(o.Path) {
			git++
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return BranchStatus{
		Name: b.name, Rev: b.rev, Overrides: len(overrides), Git: git,
		Documents: len(b.documents), Agents: b.sessions, Commands: b.commands, Keep: b.keep,
	}
}

// String is the line for people.
func (l LayersStatus) String() string {
	text := fmt.Sprintf("%s on %s (%s)", Size(l.Used), l.Store, l.Dir)
	if l.Max > 0 {
		text = fmt.Sprintf("%s of at most %s on %s (%s)", Size(l.Used), Size(l.Max), l.Store, l.Dir)
	}
	if l.Store == "memory" {
		text = strings.Replace(text, " on memory", " in memory", 1) + ": no branch outlives the daemon"
	}
	return text
}

// WriteJSON writes the status for programs.
func (s Status) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// Print writes the status for people.
func (s Status) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(t, "workspace\t%s\n", s.Root)
	fmt.Fprintf(t, "daemon\tpid %d, up %s, %d KB\n", s.PID, time.Duration(s.Uptime*float64(time.Second)).Round(time.Second), s.Memory>>10)
	fmt.Fprintf(t, "agents connect to\t%s\n", s.Agent.Unix)
	if s.Agent.TCP != "" {
		fmt.Fprintf(t, "\t%s, with the token in %s\n", s.Agent.TCP, s.Agent.TokenFile)
	}
	fmt.Fprintf(t, "mode\t%s\n", s.Mode.Mode)
	if s.Mode.Mode != mode.Full {
		fmt.Fprintf(t, "\tbecause: %s\n\tlost: %s\n\tto do: %s\n", s.Mode.Why, s.Mode.Lost, s.Mode.Remedy)
	}
	fmt.Fprintf(t, "layers\t%s\n", s.Layers)
	if s.Trace != "" {
		fmt.Fprintf(t, "trace\t%s\n", s.Trace)
	}
	for _, f := range s.Fronts {
		fmt.Fprintf(t, "editor\tpid %d runs %v\n", f.PID, f.Command)
	}
	for _, v := range s.Servers {
		fmt.Fprintf(t, "server\t%v: %d waiting, %d switches\n", v.Command, v.Waiting, v.Switches)
		for _, i := range v.Instances {
			fmt.Fprintf(t, "  instance\t%s, pid %d, shows %q, %d in flight\n", i.Name, i.PID, i.Branch, i.InFlight)
		}
	}
	for _, b := range s.Branches {
		fmt.Fprintf(t, "branch\t%s: revision %d, %d overrides, %d open documents, %d agents, %d commands\n", b.Name, b.Rev, b.Overrides, b.Documents, b.Agents, b.Commands)
	}
	return t.Flush()
}
