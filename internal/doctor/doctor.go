// Package doctor answers: what can shadowlsp do on this machine for this
// workspace, and what would make it do more?
//
// Model: [Examine] tries each ability for real, in the order in which they
// depend on each other, and asks mode.Decide what results. A [Report] is one
// [Finding] per ability. What is needed for the full mode is marked; the report
// is [Report.OK] only when all of that holds.
//
// Invariants: nothing is guessed from versions or user ids. What is tried is
// tried in private directories below the state and runtime directories and in a
// namespace of its own, and is gone afterwards; the person's folder is read
// only to count its directories. A finding that is not OK says what is lost and
// what to do.
//
// Absent on purpose: changing anything on the machine.
//
// Locks and goroutines: none of its own that outlive Examine.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shadowlsp/internal/launch"
	"shadowlsp/internal/mode"
	"shadowlsp/internal/root"
	"shadowlsp/internal/sandbox"
	"shadowlsp/internal/workspace"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
)

// Finding is one ability.
type Finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"` // for the full mode
	Detail string `json:"detail"` // what was seen
	Lost   string `json:"lost,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// Report is what Examine found.
type Report struct {
	Root     string        `json:"root"`
	OK       bool          `json:"ok"` // the full mode holds
	Mode     mode.Decision `json:"mode"`
	Findings []Finding     `json:"findings"`
}

// Config says what to look at.
type Config struct {
	Place root.Place
	Env   []string
	Mode  mode.Mode // as asked for
	// Person is the person's configuration file; "" is none.
	Person string
}

// tryLimit bounds one trial; a healthy one takes some ten milliseconds.
const tryLimit = 10 * time.Second

// Examine tries everything.
func Examine(ctx context.Context, cfg Config) Report {
	r := Report{Root: cfg.Place.Root}
	place := runtimeDir(cfg.Place)
	state := stateDir(cfg.Place, place.OK)
	abilities := sandbox.Probe()
	for _, a := range abilities.All() {
		needed := a.Name == abilities.Device.Name || a.Name == abilities.UserNS.Name || a.Name == abilities.Mount.Name
		r.Findings = append(r.Findings, Finding{Name: a.Name, OK: a.OK, Needed: needed, Detail: a.Detail, Lost: a.Lost, Remedy: a.Remedy})
	}
	decision, err := mode.Decide(cfg.Mode, abilities)
	if err != nil {
		decision, _ = mode.Decide(mode.Auto, abilities)
	}
	possible := abilities.Device.OK && abilities.UserNS.OK && abilities.Mount.OK && state.OK
	r.Findings = append(r.Findings, viewFindings(ctx, cfg.Place, !abilities.PIDNS.OK, possible)...)
	r.Findings = append(r.Findings, watches(ctx, cfg.Place.Root), state, place)
	r.Findings = append(r.Findings, languageServers(ctx, cfg)...)
	r.Findings = append(r.Findings, daemon(ctx, cfg.Place))
	r.OK = decision.Mode == mode.Full
	for _, f := range r.Findings {
		r.OK = r.OK && (f.OK || !f.Needed)
		if f.OK || !f.Needed || decision.Mode != mode.Full {
			continue
		}
		// The machine gives it, and it does not work.
		decision.Why, decision.Lost, decision.Remedy = f.Name+": "+f.Detail, f.Lost, f.Remedy
	}
	r.Mode = decision
	return r
}

func runtimeDir(p root.Place) Finding {
	f := Finding{Name: "runtime directory", OK: true, Needed: true, Detail: p.Runtime + " is yours alone"}
	if err := p.Make(); err != nil {
		f.OK, f.Detail = false, err.Error()
		f.Lost = "no daemon can run: its sockets would be open to others"
		f.Remedy = "set XDG_RUNTIME_DIR (and XDG_STATE_HOME) to directories of your own"
	}
	return f
}

// stateDir opens a store where the daemon would.
func stateDir(p root.Place, made bool) Finding {
	f := Finding{Name: "state directory", Needed: true, Detail: "not tried: see the runtime directory"}
	f.Lost = "branches cannot be kept on disk"
	f.Remedy = "set XDG_STATE_HOME to a directory on ext4, xfs, btrfs or tmpfs, or use --store memory"
	if !made {
		return f
	}
	err := inPrivate(p, func(dir string) error {
		store, _, err := overlay.Open(overlay.Options{Base: dir, State: filepath.Join(dir, "layers")})
		if err == nil {
			err = store.Close()
		}
		return err
	})
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	return Finding{Name: f.Name, OK: true, Needed: true, Detail: p.State + " has extended attributes and RENAME_EXCHANGE"}
}

// inPrivate calls f with a directory that is gone afterwards.
func inPrivate(p root.Place, f func(dir string) error) error {
	dir, err := os.MkdirTemp(p.State, "doctor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return f(dir)
}

// maxCounted bounds the entries of the folder that are looked at.
const maxCounted = 2_000_000

// watches compares what may be watched to what there is to watch.
func watches(ctx context.Context, folder string) Finding {
	f := Finding{Name: "file watches", OK: true}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err == nil {
		_, err = unix.InotifyAddWatch(fd, folder, unix.IN_ATTRIB)
		unix.Close(fd)
	}
	if err != nil {
		f.OK, f.Detail = false, "watching the folder: "+err.Error()
		f.Lost = "changes of your folder are noticed late or not at all"
		f.Remedy = "sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=524288"
		return f
	}
	text, _ := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		f.Detail = "inotify works; the limit is not known"
		return f
	}
	dirs, seen := 0, 0
	_ = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if seen++; seen > maxCounted || ctx.Err() != nil {
			return fs.SkipAll
		}
		if err == nil && e.IsDir() {
			dirs++
		}
		return nil
	})
	f.Detail = fmt.Sprintf("you may watch %d directories, of which views take half; this folder has %d", limit, dirs)
	if f.OK = dirs <= limit/2; !f.OK {
		f.Lost = "directories beyond that are not cached: slower, never stale"
		f.Remedy = fmt.Sprintf("sysctl fs.inotify.max_user_watches=%d", 4*dirs)
	}
	return f
}

// daemon asks the running daemon, and speaks to its agent port.
func daemon(ctx context.Context, p root.Place) Finding {
	f := Finding{Name: "daemon", OK: true, Detail: "none runs; the first editor or agent starts one"}
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	conn, err := launch.Join(ctx, p, launch.Status)
	if launch.NotRunning(err) {
		return f
	}
	var st workspace.Status
	if err == nil {
		defer conn.Close()
		deadline, _ := ctx.Deadline()
		_ = conn.SetDeadline(deadline)
		err = json.NewDecoder(conn).Decode(&st)
	}
	if err == nil {
		err = speak(ctx, st.Agent)
	}
	if err != nil {
		return Finding{Name: f.Name, Detail: err.Error(), Lost: "agents cannot connect", Remedy: "`shadowlsp stop`, or end the process by hand; the editor does not notice"}
	}
	f.Detail = fmt.Sprintf("process %d runs in mode %s with %d editors and %d branches; its agent port answers", st.PID, st.Mode.Mode, len(st.Fronts), len(st.Branches))
	return f
}

// speak sends a request that the agent port must refuse.
func speak(ctx context.Context, a workspace.Addresses) error {
	var d net.Dialer
	for network, where := range map[string]string{"unix": a.Unix, "tcp": a.TCP} {
		if where == "" {
			continue
		}
		c, err := d.DialContext(ctx, network, where)
		if err != nil {
			return fmt.Errorf("the agent port does not answer: %w", err)
		}
		defer c.Close()
		deadline, _ := ctx.Deadline()
		_ = c.SetDeadline(deadline)
		if err = wire.NewWriter(c).WriteFrame(wire.NewRequest(json.RawMessage("1"), "shutdown", nil)); err != nil {
			return fmt.Errorf("the agent port at %s: %w", where, err)
		}
		body, err := wire.NewReader(c, 1<<20).ReadFrame()
		if err != nil {
			return fmt.Errorf("the agent port at %s: %w", where, err)
		}
		if m, err := wire.Parse(body); err != nil || m.Kind != wire.Response {
			return fmt.Errorf("the agent port at %s speaks no LSP: %q", where, body)
		}
	}
	return nil
}

// WriteJSON writes the report for programs.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Print writes the report for people, one line per ability and one more where
// something is to be done.
func (r Report) Print(w io.Writer, colour bool) error {
	paint := func(code, text string) string {
		if !colour {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	var b strings.Builder
	for _, f := range r.Findings {
		word := paint("32", "ok     ")
		switch {
		case !f.OK && f.Needed:
			word = paint("31", "missing")
		case !f.OK:
			word = paint("33", "lesser ")
		}
		fmt.Fprintf(&b, "%s  %-17s  %s\n", word, f.Name, f.Detail)
		if !f.OK {
			fmt.Fprintf(&b, "%28s%s\n%28sto do: %s\n", "", "without it "+f.Lost, "", f.Remedy)
		}
	}
	if r.OK {
		fmt.Fprintf(&b, "\nmode %s: servers see a branch as their disk, at the path of your own folder\n", paint("32", string(r.Mode.Mode)))
	} else {
		fmt.Fprintf(&b, "\nmode %s, because of %s\n  lost: %s\n  to do: %s\n", paint("31", string(r.Mode.Mode)), r.Mode.Why, r.Mode.Lost, r.Mode.Remedy)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
