package modes

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/internal/doctor"
	"shadowlsp/internal/mode"
	"shadowlsp/internal/sandbox"
)

// ordinaryUID is an id that owns nothing.
const ordinaryUID = 48323

// examine runs doctor and returns its report and exit code.
func examine(t *testing.T, cmd *exec.Cmd) (r doctor.Report, code int) {
	t.Helper()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code, err = exit.ExitCode(), nil
	}
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Fatalf("doctor: %v: %s", err, out)
	}
	for _, f := range r.Findings {
		t.Logf("%-5v %-17s %s", f.OK, f.Name, f.Detail)
		if f.OK && f.Detail == "" || !f.OK && (f.Detail == "" || f.Lost == "" || f.Remedy == "") {
			t.Errorf("too few words: %+v", f)
		}
	}
	if (code == 0) != r.OK || r.OK != (r.Mode.Mode == mode.Full && r.Mode.Why == "") {
		t.Errorf("exit code %d, ok %v, mode %+v", code, r.OK, r.Mode)
	}
	return r, code
}

func (w *world) doctor(args ...string) *exec.Cmd {
	cmd := exec.Command(w.binary, append([]string{"doctor", "--json"}, args...)...)
	cmd.Dir, cmd.Env = w.Dir, append(os.Environ(), w.Env...)
	return cmd
}

func finding(t *testing.T, r doctor.Report, name string) doctor.Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no word about %s", name)
	return doctor.Finding{}
}

func TestDoctor(t *testing.T) {
	need.FUSE(t)
	w := newWorld(t)
	r, code := examine(t, w.doctor())
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	if f := finding(t, r, "language server"); !f.OK || !strings.Contains(f.Detail, "gopls") {
		t.Errorf("%+v", f)
	}
	w.serve(t)
	r, _ = examine(t, w.doctor())
	if f := finding(t, r, "daemon"); !f.OK || !strings.Contains(f.Detail, "mode full") || !strings.Contains(f.Detail, "agent port answers") {
		t.Errorf("%+v", f)
	}
	out, err := w.run(t, "doctor")
	if err != nil || !strings.Contains(out, "\nmode full: ") || strings.Contains(out, "\x1b") || strings.Contains(out, "missing") {
		t.Errorf("%v\n%s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(w.place.State, "doctor-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	// A folder that holds no server's files.
	must(t, os.RemoveAll(w.path("lib")))
	for _, name := range []string{"go.mod", "use/use.go", "own/own.go"} {
		must(t, os.Remove(w.path(name)))
	}
	r, code = examine(t, w.doctor())
	if f := finding(t, r, "language server"); f.OK || code != 0 {
		t.Errorf("%d: %+v", code, f)
	}
}

// doctor says which servers would be used, with which settings, and whose they are.
func TestDoctorOnServers(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "pyright-langserver")
	w := newWorld(t)
	config := t.TempDir()
	w.Env = append(w.Env, "XDG_CONFIG_HOME="+config)
	must(t, os.Mkdir(filepath.Join(config, "shadowlsp"), 0o755))
	person := filepath.Join(config, "shadowlsp", "config.toml")
	must(t, os.WriteFile(person, []byte("[servers.pyright]\nenv = { SECRET = \"hidden\" }\n[servers.pyright.settings.python.analysis]\ntypeCheckingMode = \"strict\"\n[servers.gopls]\ndisabled = true\n"), 0o644))
	must(t, os.WriteFile(w.path("shadowlsp.toml"), []byte("[servers.pyright.settings.python]\npythonPath = \"/own\"\n[servers.frob]\ncommand = [\"frob-ls\"]\nlanguages = [\"frob\"]\ninstall = \"frob it\"\n[languages]\n\"*.frob\" = \"frob\"\n"), 0o644))
	must(t, os.WriteFile(w.path("a.py"), nil, 0o644))
	must(t, os.WriteFile(w.path("a.frob"), nil, 0o644))
	r, _ := examine(t, w.doctor())
	var found []string
	for _, f := range r.Findings {
		if f.Name == "language server" {
			found = append(found, f.Detail+f.Remedy)
		}
	}
	all := strings.Join(found, "\n")
	for _, want := range []string{`"typeCheckingMode":"strict"`, `"pythonPath":"/own"`, "SECRET", person, w.path("shadowlsp.toml"), "pyright-langserver --stdio", "frob is not on the PATH", "frob it"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing of %s in\n%s", want, all)
		}
	}
	for _, never := range []string{"hidden", "gopls"} {
		if strings.Contains(all, never) {
			t.Errorf("%s in\n%s", never, all)
		}
	}
	must(t, os.WriteFile(person, []byte("[servers.pyright]\nsetings = 1\n"), 0o644))
	r, _ = examine(t, w.doctor())
	if f := finding(t, r, "language server"); f.OK || !strings.Contains(f.Detail, person) || !strings.Contains(f.Detail, "setings") {
		t.Errorf("%+v", f)
	}
}

// asOrdinary makes cmd that of a user who owns nothing, in a folder of its own.
func asOrdinary(t *testing.T, w *world, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "modes-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777))
	program, err := os.ReadFile(w.binary)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "shadowlsp"), program, 0o755))
	cmd := exec.Command(filepath.Join(dir, "shadowlsp"), args...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=/usr/bin:/bin", "XDG_STATE_HOME=" + dir + "/../" + filepath.Base(dir) + "-state"}
	must(t, os.Mkdir(dir+"-state", 0o777))
	must(t, os.Chmod(dir+"-state", 0o777))
	t.Cleanup(func() { os.RemoveAll(dir + "-state") })
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o777))
	cmd.Args = append(cmd.Args, "--workspace", filepath.Join(dir, "folder"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUID, Gid: ordinaryUID}}
	return cmd
}

func TestDoctorOfAnOrdinaryUser(t *testing.T) {
	need.Root(t)
	need.UserNS(t)
	w := newWorld(t)
	t.Run("device open", func(t *testing.T) {
		need.Device(t, 0o666)
		if _, code := examine(t, asOrdinary(t, w, "doctor", "--json")); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("device closed", func(t *testing.T) {
		need.Device(t, 0o600)
		r, code := examine(t, asOrdinary(t, w, "doctor", "--json"))
		want := mode.Documents
		if finding(t, r, "fusermount").OK {
			want = mode.Elsewhere // it is root's program, and may
		}
		if code != 1 || r.Mode.Mode != want || r.Mode.Guard != sandbox.GuardMount || !strings.Contains(r.Mode.Remedy, "chmod 0666 /dev/fuse") {
			t.Errorf("exit code %d, %+v", code, r.Mode)
		}
		cmd := asOrdinary(t, w, "serve", "--mode", "full")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "mode full cannot be had") || !strings.Contains(string(out), "chmod 0666 /dev/fuse") {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// confined runs a command where no user namespace can be made, and nothing be
// mounted.
func confined(t *testing.T, w *world, args ...string) *exec.Cmd {
	t.Helper()
	need.UserNS(t)
	for _, tool := range []string{"unshare", "setpriv"} {
		need.Tool(t, tool)
	}
	cmd := exec.Command("unshare", append([]string{"-Ur", "sh", "-c",
		`echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"`, "sh", w.binary}, args...)...)
	cmd.Dir, cmd.Env = w.Dir, append(os.Environ(), w.Env...)
	return cmd
}

func TestDoctorWithoutNamespaces(t *testing.T) {
	w := newWorld(t)
	r, code := examine(t, confined(t, w, "doctor", "--json"))
	if code != 1 || r.Mode.Mode != mode.Documents || !strings.Contains(r.Mode.Remedy, "max_user_namespaces") {
		t.Errorf("exit code %d, %+v", code, r.Mode)
	}
	if sandbox.Probe().Landlock.OK && r.Mode.Guard != sandbox.GuardLandlock {
		t.Errorf("%+v", r.Mode)
	}
}
