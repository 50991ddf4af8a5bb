package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// These are the first argument of the processes of a lane: what looks into the
// tree, what serves a view, and what becomes an ordinary user for that.
const (
	workerRole = "worker"
	serverRole = "server"
	userRole   = "ordinary"
)

// order is what a worker is to do; files are relative to its folder.
type order struct {
	Do    string
	Args  []string
	Files []string
}

// done is how long it took.
type done struct {
	Took time.Duration
	Err  string
}

// work mounts by the recipe of a lane, if it has one, and then does what it is
// told on standard input.
func work(tree string, recipe []string) {
	out := json.NewEncoder(os.Stdout)
	if len(recipe) > 0 {
		if err := mountLane(tree, recipe); err != nil {
			out.Encode(done{Err: err.Error()})
			return
		}
	}
	// As internal/sandbox does: in a user namespace the root's owner is not
	// known before somebody asks for it.
	unix.Stat(tree, &unix.Stat_t{})
	if err := os.Chdir(tree); err != nil {
		out.Encode(done{Err: err.Error()})
		return
	}
	out.Encode(done{})
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	var files []string
	for {
		var o order
		if in.Decode(&o) != nil {
			return
		}
		if o.Files != nil {
			files = o.Files
		}
		took, err := perform(o, files)
		d := done{Took: took}
		if err != nil {
			d.Err = err.Error()
		}
		out.Encode(d)
	}
}

// mountLane makes the namespace private and runs the recipe: a shell script.
func mountLane(tree string, recipe []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-euc", recipe[0])
	cmd.Dir = filepath.Dir(tree)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func perform(o order, files []string) (time.Duration, error) {
	act := acts[o.Do]
	if act == nil {
		return 0, fmt.Errorf("nobody knows how to %s", o.Do)
	}
	start := time.Now()
	err := act(o.Args, files)
	return time.Since(start), err
}

var acts = map[string]func(args, files []string) error{
	"nothing": func(args, files []string) error { return nil },
	"walk": func(args, files []string) error {
		n := 0
		err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
			n++
			return err
		})
		if err == nil && n < len(files) {
			err = fmt.Errorf("%d names instead of %d", n, len(files))
		}
		return err
	},
	"stat": func(args, files []string) error {
		var st unix.Stat_t
		for _, f := range files {
			if err := unix.Lstat(f, &st); err != nil {
				return err
			}
		}
		return nil
	},
	"missing": func(args, files []string) error {
		var st unix.Stat_t
		for _, f := range files {
			if err := unix.Lstat(f+".no", &st); err != unix.ENOENT {
				return fmt.Errorf("%s.no: %v", f, err)
			}
		}
		return nil
	},
	"read": func(args, files []string) error {
		buf := make([]byte, 1<<20)
		for _, f := range files {
			if err := drain(f, buf); err != nil {
				return err
			}
		}
		return nil
	},
	"big": func(args, files []string) error { return drain(bigFile, make([]byte, 1<<20)) },
	"create": func(args, files []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		if err := os.Mkdir("scratch/new", 0o755); err != nil {
			return err
		}
		text := []byte("some bytes\n")
		for i := range n {
			if err := os.WriteFile("scratch/new/f"+strconv.Itoa(i), text, 0o644); err != nil {
				return err
			}
		}
		return nil
	},
	"clean": func(args, files []string) error { return os.RemoveAll("scratch/new") },
	"exec": func(args, files []string) error {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%q: %w: %s", args, err, out)
		}
		return nil
	},
}

// drain reads a file to its end.
func drain(path string, buf []byte) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if n <= 0 || err != nil {
			return err
		}
	}
}
