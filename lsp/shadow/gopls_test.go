package shadow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"shadowlsp/integration/need"
	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/shadow"
)

// module is a Go module on the disk, with an instance of gopls on it.
type module struct {
	testing.TB
	dir string
	// command is the server's; its first word is looked for among the tools.
	command []string
	// client answers it, if not nil; conn is what leads to it.
	client shadow.Client
	conn   io.Closer
	gopls  *shadow.Instance
	disk   map[string]string // what the server's disk holds, by path
	docs   map[string]string // what is to be open
	files  []shadow.FileEvent
	took   []time.Duration
}

// pipes is a process's stdio.
type pipes struct {
	io.Reader
	io.WriteCloser
	process *exec.Cmd
	once    sync.Once
}

func (p *pipes) Close() error {
	p.once.Do(func() {
		p.WriteCloser.Close()
		// What it started goes with it, as in a sandbox: a cargo that goes on would
		// write into a folder that the test removes.
		p.process.Process.Signal(syscall.SIGSTOP)
		started := descendants(p.process.Process.Pid, nil)
		p.process.Process.Kill()
		p.process.Wait()
		for _, fd := range started {
			unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		for _, fd := range started {
			err := error(unix.EINTR)
			for err == unix.EINTR { // Go's own signals interrupt it
				_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(limit.Milliseconds()))
			}
			unix.Close(fd)
		}
	})
	return nil
}

// descendants adds descriptors of all that descends from a process.
func descendants(pid int, all []int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(children)) {
			id, _ := strconv.Atoi(child)
			if fd, err := unix.PidfdOpen(id, 0); err == nil {
				all = descendants(id, append(all, fd))
			}
		}
	}
	return all
}

// launch starts a server process.
func launch(t testing.TB, dir string, command ...string) io.ReadWriteCloser {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// A pipe of our own: StdoutPipe is closed by Wait, under the reader.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	p := &pipes{Reader: r, WriteCloser: in, process: cmd}
	t.Cleanup(func() { p.Close(); r.Close() })
	return p
}

// limit is far beyond what anything here takes; it only keeps a bug from hanging.
const limit = time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func newModule(t testing.TB, files map[string]string) *module {
	t.Helper()
	return newProject(t, []string{"gopls"}, files)
}

func newProject(t testing.TB, command []string, files map[string]string) *module {
	t.Helper()
	m := &module{TB: t, dir: t.TempDir(), command: command, disk: map[string]string{}, docs: map[string]string{}}
	for name, text := range files {
		m.put(name, text)
	}
	m.gopls = m.start(m.dir)
	return m
}

// initializeParams are those of a bare editor, with what a shadow must change.
func initializeParams(dir string) json.RawMessage {
	return barrier.Raw(map[string]any{
		"processId": os.Getpid(),
		"rootUri":   docuri.FromPath(dir),
		"capabilities": map[string]any{
			"textDocument": map[string]any{"publishDiagnostics": map[string]any{"relatedInformation": true}},
		},
		"initializationOptions": map[string]any{"ui.diagnostic.diagnosticsDelay": "2s"},
		"workspaceFolders":      []any{map[string]any{"uri": docuri.FromPath(dir), "name": "m"}},
	})
}

func (m *module) start(dir string) *shadow.Instance {
	m.Helper()
	profile := barrier.For(m.command, nil)
	conn := launch(m, dir, append([]string{need.Tool(m, m.command[0])}, m.command[1:]...)...)
	m.conn = conn
	i, err := shadow.Start(within(m), shadow.Config{
		Conn: conn, Initialize: initializeParams(dir), Root: dir, Profile: profile, Name: profile.Name + "-1", Client: m.client,
	})
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { i.Close(context.Background()) })
	if err := i.Ready(within(m)); err != nil {
		m.Fatal(err)
	}
	return i
}

func (m *module) path(name string) string { return filepath.Join(m.dir, filepath.FromSlash(name)) }
func (m *module) uri(name string) string  { return docuri.FromPath(m.path(name)) }

// put changes the disk and remembers the event; an empty text deletes.
func (m *module) put(name, text string) {
	m.Helper()
	event := shadow.FileEvent{URI: m.uri(name), Type: shadow.Changed}
	if _, known := m.disk[name]; !known {
		event.Type = shadow.Created
	}
	if text == "" {
		event.Type = shadow.Deleted
		delete(m.disk, name)
		if err := os.Remove(m.path(name)); err != nil {
			m.Fatal(err)
		}
	} else {
		m.disk[name] = text
		if err := os.MkdirAll(filepath.Dir(m.path(name)), 0o755); err != nil {
			m.Fatal(err)
		}
		if err := os.WriteFile(m.path(name), []byte(text), 0o644); err != nil {
			m.Fatal(err)
		}
	}
	m.files = append(m.files, event)
}

// sync brings gopls to the disk and documents of m.
func (m *module) sync() shadow.SyncStats {
	m.Helper()
	var docs []shadow.Document
	for name, text := range m.docs {
		id, _ := m.gopls.Language(name)
		docs = append(docs, shadow.Document{URI: m.uri(name), LanguageID: id, Text: text})
	}
	slices.SortFunc(docs, func(a, b shadow.Document) int { return strings.Compare(a.URI, b.URI) })
	stats, err := m.gopls.Sync(within(m), shadow.Target{Documents: docs, Files: m.files})
	if err != nil {
		m.Fatal(err)
	}
	m.files = nil
	return stats
}

// lint syncs and returns the messages of files, "file: line: message", sorted.
func (m *module) lint(names ...string) []string {
	m.Helper()
	began := time.Now()
	m.sync()
	var uris []string
	for _, n := range names {
		uris = append(uris, m.uri(n))
	}
	reports, err := m.gopls.Diagnose(within(m), uris)
	if err != nil {
		m.Fatal(err)
	}
	m.took = append(m.took, time.Since(began))
	return m.messages(m.dir, reports)
}

func (m *module) messages(dir string, reports map[string]shadow.Report) []string {
	m.Helper()
	var found []string
	for uri, r := range reports {
		var list []struct {
			Range   struct{ Start struct{ Line int } }
			Message string
			Source  string
		}
		if err := json.Unmarshal(r.Diagnostics, &list); err != nil {
			m.Fatal(err)
		}
		p, _ := docuri.Path(uri)
		name := strings.TrimPrefix(p, dir+"/")
		for _, d := range list {
			found = append(found, strings.ReplaceAll(fmt.Sprintf("%s:%d: %s: %s", name, d.Range.Start.Line+1, d.Source, d.Message), dir, "DIR"))
		}
	}
	slices.Sort(found)
	return found
}

// fresh is what a new gopls says on a copy of the disk with the same documents.
func (m *module) fresh() []string {
	m.Helper()
	n := &module{TB: m.TB, dir: m.TempDir(), command: m.command, disk: map[string]string{}, docs: m.docs}
	for name, text := range m.disk {
		n.put(name, text)
	}
	n.gopls = n.start(n.dir)
	defer n.gopls.Close(context.Background())
	n.files = nil
	return n.lint()
}

// same fails where gopls says other than a fresh one.
func (m *module) same() {
	m.Helper()
	if diff := cmp.Diff(m.fresh(), m.lint()); diff != "" {
		m.Errorf("fresh server (-), this one (+):\n%s", diff)
	}
}

func (m *module) expect(got []string, want ...string) {
	m.Helper()
	if len(got) != len(want) {
		m.Fatalf("got %q, want %q", got, want)
	}
	for n := range want {
		if !strings.Contains(got[n], want[n]) {
			m.Fatalf("got %q, want %q", got, want)
		}
	}
}

func (m *module) report() {
	slices.Sort(m.took)
	if n := len(m.took); n > 0 {
		m.Logf("%d lints: median %v, p99 %v, max %v", n, m.took[n/2], m.took[n*99/100], m.took[n-1])
	}
}

const (
	libInt    = "package lib\n\n// F is versioned.\nfunc F(n int) int { return n }\n"
	libString = "package lib\n\n// F is versioned.\nfunc F(s string) string { return s }\n"
	useInt    = "package use\n\nimport \"m/lib\"\n\nvar N int = lib.F(1)\n"
)

func twoPackages() map[string]string {
	return map[string]string{"go.mod": "module m\n\ngo 1.21\n", "lib/lib.go": libInt, "use/use.go": useInt}
}

// The edited file is open, its dependent is not.
func TestGoplsAlternatesAnOpenDocument(t *testing.T) {
	m := newModule(t, twoPackages())
	m.docs["lib/lib.go"] = libInt
	m.expect(m.lint("lib/lib.go", "use/use.go"))
	for n := range 100 {
		if n%2 == 0 {
			m.docs["lib/lib.go"] = libString
			m.expect(m.lint("lib/lib.go", "use/use.go"), "cannot use 1", "cannot use lib.F(1)")
		} else {
			m.docs["lib/lib.go"] = libInt
			m.expect(m.lint("lib/lib.go", "use/use.go"))
		}
	}
	m.report()
	m.same()
}

// Nothing is open: the disk changes, and gopls is told.
func TestGoplsAlternatesOnDisk(t *testing.T) {
	m := newModule(t, twoPackages())
	m.expect(m.lint())
	for n := range 100 {
		if n%2 == 0 {
			m.put("lib/lib.go", libString)
			m.expect(m.lint("lib/lib.go", "use/use.go"), "cannot use 1", "cannot use lib.F(1)")
		} else {
			m.put("lib/lib.go", libInt)
			m.expect(m.lint("lib/lib.go", "use/use.go"))
		}
	}
	m.report()
	m.same()
}

// Every turn opens another branch's documents and closes those of the last.
func TestGoplsAlternatesWholeTurns(t *testing.T) {
	m := newModule(t, twoPackages())
	for n := range 100 {
		clear(m.docs)
		if n%2 == 0 {
			m.docs["lib/lib.go"] = libString
			m.docs["lib/more.go"] = "package lib\n\nvar x int = \"\"\n"
			m.put("lib/more.go", m.docs["lib/more.go"])
			m.expect(m.lint("lib/lib.go", "lib/more.go", "use/use.go"), "cannot use \"\"", "cannot use 1", "cannot use lib.F(1)")
			continue
		}
		m.docs["use/use.go"] = "package use\n\nimport \"m/lib\"\n\nvar S string = lib.F(1)\n"
		m.put("lib/more.go", "")
		m.expect(m.lint("lib/lib.go", "lib/more.go", "use/use.go"), "cannot use lib.F(1)")
	}
	m.report()
	m.same()
}
