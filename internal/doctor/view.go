package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"shadowlsp/fusefs"
	"shadowlsp/internal/root"
	"shadowlsp/internal/sandbox"
	"shadowlsp/overlay"
)

// lookArg is the hidden first argument by which our binary knows that it is to
// look into a view.
const lookArg = "\x01shadowlsp-look"

// Look is called first by main, after sandbox.Enter, and by TestMain in tests
// that call Examine. In a process that Examine made it never returns: it reads
// paths, one per line, and answers each with what a program sees there.
func Look() {
	if len(os.Args) != 2 || os.Args[1] != lookArg {
		return
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		data, err := os.ReadFile(in.Text())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			fmt.Println("absent")
		case err != nil:
			fmt.Println("error", err)
		default:
			fmt.Println("text", strconv.Quote(string(data)))
		}
	}
	os.Exit(0)
}

// viewFindings mounts a real view and has a program look into it.
func viewFindings(ctx context.Context, p root.Place, noPID, possible bool) []Finding {
	serves := Finding{Name: "view", Needed: true, Detail: "a program read a file of a branch through a mount, and one of the folder", Lost: "there is no shadow folder", Remedy: "see the abilities above"}
	news := Finding{Name: "invalidation", Needed: true, Detail: "a program sees what was changed behind its back, new names at once", Lost: "servers would read stale files", Remedy: "use another kernel, or --mode documents"}
	if !possible {
		serves.Detail, news.Detail = "not tried: it takes the abilities above and a state directory", "not tried: it takes a view"
		return []Finding{serves, news}
	}
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	serving := false
	err := inPrivate(p, func(dir string) error {
		v, err := mount(ctx, dir, noPID)
		if err != nil {
			return err
		}
		defer v.close()
		if err := v.serves(); err != nil {
			return err
		}
		serving = true
		return v.invalidates(ctx)
	})
	serves.OK, news.OK = serving, err == nil
	switch {
	case !serving:
		serves.Detail, news.Detail = err.Error(), "not tried: it takes a view"
	case err != nil:
		news.Detail = err.Error()
	}
	for _, f := range []*Finding{&serves, &news} {
		if f.OK {
			f.Lost, f.Remedy = "", ""
		}
	}
	return []Finding{serves, news}
}

// trial is a view with a program in it.
type trial struct {
	folder string
	store  *overlay.Store
	branch *overlay.Branch
	base   *fusefs.Base
	proc   *sandbox.Process
	view   *fusefs.View
	ask    *os.File
	told   *os.File
	lines  *bufio.Reader
}

func mount(ctx context.Context, dir string, noPID bool) (_ *trial, err error) {
	v := &trial{folder: filepath.Join(dir, "folder")}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if v.folder, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	v.folder = filepath.Join(v.folder, "folder")
	if err := os.Mkdir(v.folder, 0o700); err != nil {
		return nil, err
	}
	for _, name := range []string{"both", "folder"} {
		if err := os.WriteFile(filepath.Join(v.folder, name), []byte("folder"), 0o600); err != nil {
			return nil, err
		}
	}
	if v.store, _, err = overlay.Open(overlay.Options{Base: v.folder, State: filepath.Join(dir, "layers")}); err != nil {
		return nil, err
	}
	if v.branch, err = v.store.Create("doctor", overlay.CreateOptions{}); err != nil {
		return nil, err
	}
	if err := v.branch.WriteFile("both", []byte("branch"), 0); err != nil {
		return nil, err
	}
	if v.base, err = fusefs.NewBase(v.folder, zerolog.Nop()); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	stdin, ask, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	v.ask = ask
	told, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	v.told, v.lines = told, bufio.NewReader(told)
	userNS := sandbox.NeedsUserNS()
	v.proc, err = sandbox.Start(ctx, sandbox.Spec{
		Argv: []string{self, lookArg}, Dir: "/", Mount: v.folder, Stdin: stdin, Stdout: stdout, UserNS: userNS, NoPIDNamespace: noPID,
	})
	if err != nil {
		return nil, err
	}
	if v.view, err = fusefs.Serve(v.proc.Fuse, fusefs.Config{Branch: v.branch, Base: v.base, Log: zerolog.Nop(), UserNS: userNS}); err != nil {
		return nil, err
	}
	if err := v.proc.Exec(); err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	return v, told.SetReadDeadline(deadline)
}

// close ends everything, as far as it has begun.
func (v *trial) close() {
	if v.proc != nil {
		v.proc.Kill()
		v.proc.Wait()
	}
	if v.view != nil {
		v.view.Close()
	}
	for _, f := range []*os.File{v.ask, v.told} {
		if f != nil {
			f.Close()
		}
	}
	if v.base != nil {
		v.base.Close()
	}
	if v.store != nil {
		v.store.Close()
	}
}

// see says what the program must find under a name; "" is nothing.
func (v *trial) see(when, name, want string) error {
	if _, err := fmt.Fprintln(v.ask, filepath.Join(v.folder, name)); err != nil {
		return err
	}
	line, err := v.lines.ReadString('\n')
	if err != nil {
		return fmt.Errorf("%s: the program in the view does not answer: %w", when, err)
	}
	expected := "absent\n"
	if want != "" {
		expected = "text " + strconv.Quote(want) + "\n"
	}
	if line != expected {
		return fmt.Errorf("%s, a program found %s at %s and not %s", when, strings.TrimSpace(line), name, strings.TrimSpace(expected))
	}
	return nil
}

func (v *trial) serves() error {
	for name, want := range map[string]string{"both": "branch", "folder": "folder", "new": "", "late": ""} {
		if err := v.see("at first", name, want); err != nil {
			return err
		}
	}
	outside, err := os.ReadFile(filepath.Join(v.folder, "both"))
	if err == nil && string(outside) != "folder" {
		err = errors.New("the mount is seen outside its namespace")
	}
	return err
}

// invalidates changes what the kernel has in its caches by now.
func (v *trial) invalidates(ctx context.Context) error {
	for name, text := range map[string]string{"both": "branch again", "new": "made"} {
		if err := v.branch.WriteFile(name, []byte(text), 0); err != nil {
			return err
		}
	}
	if err := v.view.Settled(ctx); err != nil {
		return err
	}
	if err := v.see("after a change of the branch", "both", "branch again"); err != nil {
		return err
	}
	// Some kernels keep that a name does not exist (FUSE_NOTIFY_INVAL_ENTRY
	// leaves negative entries in 6.19 to 7.1).
	if err := v.see("after a new name in the branch", "new", "made"); err != nil {
		return err
	}
	for name, text := range map[string]string{"folder": "folder again", "late": "made"} {
		if err := os.WriteFile(filepath.Join(v.folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := v.base.Sync(ctx); err != nil {
		return err
	}
	if err := v.see("after a change of the folder", "folder", "folder again"); err != nil {
		return err
	}
	return v.see("after a new name in the folder", "late", "made")
}
