package sandbox

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shadowlsp/integration/need"
)

// attack tries every way to change what is in the folder $1; it prints those
// that worked, and what it must be able to do and is not.
const attack = `
cd "$1" || exit 9
try() { name=$1; shift; if "$@" 2>/dev/null; then echo "can $name"; fi; }
must() { name=$1; shift; "$@" 2>/dev/null || echo "cannot $name"; }
try append sh -c 'echo x >>file'
try overwrite sh -c 'echo x >file'
try truncate truncate -s 0 file
try create sh -c ': >made'
try mkdir mkdir dir
try symlink ln -s a b
try link ln file hard
try "link out" ln file "$2/hard"
try rename mv file other
try "rename in" mv "$2/mine" mine
try remove rm -f file
try chmod-x sh -c 'cd sub && rmdir below'
try fifo mkfifo pipe
try "undo the mount" mount -o remount,bind,rw "$1"
try "unmount" umount "$1"
try "undo it in a namespace" unshare -Urm sh -c 'mount -o remount,bind,rw "$0" && : >made' "$1"
must read grep -q outside file
must "write elsewhere" sh -c 'echo x >"$0/mine2" && mv "$0/mine2" "$0/mine3" && mkdir "$0/deep" && rm -r "$0/deep"' "$2"
must "use devices" sh -c 'echo >/dev/null'
echo done
`

// Without a view the person's folder cannot be written, by namespaces or
// without any.
func TestGuards(t *testing.T) {
	bare := Spec{NoView: true, NoNamespaces: true, NoPIDNamespace: true}
	for name, c := range map[string]struct {
		spec Spec
		want Guard
	}{
		"namespaces":    {Spec{NoView: true, UserNS: NeedsUserNS()}, GuardMount},
		"no namespaces": {bare, GuardLandlock},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want == GuardLandlock {
				if a := Probe().Landlock; !a.OK {
					need.Unmet(t, false, "%s", a.Detail)
				}
			}
			top, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			folder, beside := filepath.Join(top, "folder"), filepath.Join(top, "beside")
			for _, dir := range []string{filepath.Join(folder, "sub", "below"), beside} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, file := range []string{filepath.Join(folder, "file"), filepath.Join(beside, "mine")} {
				if err := os.WriteFile(file, []byte("outside\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			spec := c.spec
			spec.Argv = []string{"/bin/sh", "-c", attack, "sh", folder, beside}
			spec.Env, spec.Dir, spec.Mount = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}, "/", folder
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			spec.Stdout, spec.Stderr = w, w
			p, err := Start(t.Context(), spec)
			w.Close()
			if err != nil {
				t.Fatal(err)
			}
			if p.Fuse != nil {
				t.Error("there is a FUSE descriptor")
			}
			if err := p.Exec(); err != nil {
				t.Fatal(err)
			}
			if p.Guard != c.want || p.Unguarded != "" {
				t.Errorf("the guard is %q (%s), want %q", p.Guard, p.Unguarded, c.want)
			}
			out, err := io.ReadAll(r)
			if err != nil || string(out) != "done\n" {
				t.Errorf("%s%v", out, err)
			}
			if status, err := p.Wait(); err != nil || status.Code != 0 {
				t.Errorf("%v, %v", status, err)
			}
		})
	}
}

// Nothing of a program without namespaces survives its Kill, daemons that it
// made included, nor the end of its init.
func TestNothingSurvivesWithoutNamespaces(t *testing.T) {
	for _, how := range []string{"kill", "init"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		const script = "(setsid sleep 1000 &); sleep 1000 & echo up; exec sleep 1000"
		if how == "init" {
			// What daemonised is out of reach then: doc.go says so.
			p := startBare(t, w, "echo up; exec sleep 1000")
			expect(t, r, "up\n")
			p.body.kill()
			gone(t, r)
			p.Wait()
			continue
		}
		p := startBare(t, w, script)
		expect(t, r, "up\n")
		p.Kill()
		gone(t, r)
		p.Wait()
	}
}

func startBare(t *testing.T, stdout *os.File, script string) *Process {
	t.Helper()
	p, err := Start(t.Context(), Spec{
		Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Dir: "/", Mount: t.TempDir(),
		Stdout: stdout, NoView: true, NoNamespaces: true, NoPIDNamespace: true,
	})
	stdout.Close()
	if err == nil {
		err = p.Exec()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestASpecThatContradictsItself(t *testing.T) {
	_, err := Start(t.Context(), Spec{Argv: []string{"true"}, Dir: "/", Mount: "/", NoNamespaces: true})
	if err == nil || !strings.Contains(err.Error(), "no namespaces") {
		t.Error(err)
	}
}
