package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"shadowlsp/fusefs"
	"shadowlsp/overlay"
)

// switchRounds is how often each switch is measured.
const switchRounds = 9

// perDir is how many files of a tree are in one directory.
const perDir = 100

// switches measures what it takes to see another version of a folder: a switch
// between two branches, all of whose names the kernel knows, beside what else
// there is.
func (s *stand) switches(ctx context.Context) error {
	fmt.Println("\nanother version of the folder")
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "files\toverrides\tswitch\toverlayfs remount\tcp -r\tcp --reflink\tgit worktree add\tload")
	for _, size := range []int{1000, 100_000} {
		if err := s.switchesOf(ctx, w, size); err != nil {
			return errors.Join(err, w.Flush())
		}
	}
	return w.Flush()
}

func nth(i int) string { return fmt.Sprintf("d%d/f%d", i/perDir, i) }

func (s *stand) switchesOf(ctx context.Context, w *tabwriter.Writer, size int) (err error) {
	top := filepath.Join(s.top, "switch"+strconv.Itoa(size))
	tree := filepath.Join(top, "tree")
	var names []string
	for i := range size {
		names = append(names, nth(i))
		full := filepath.Join(tree, nth(i))
		if i%perDir == 0 {
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(full, []byte("text\n"), 0o644); err != nil {
			return err
		}
	}
	script := func(text string) (time.Duration, error) {
		start := time.Now()
		err := s.shell(ctx, top, text)
		return time.Since(start), err
	}
	copied, err := script("cp -r tree copy")
	if err != nil {
		return err
	}
	reflink := "-" // the disk cannot
	if took, err := script("cp -r --reflink=always tree reflinked"); err == nil {
		reflink = took.Round(time.Millisecond).String()
	}
	if _, err := script("cd copy; git init -q; git add .; git -c user.name=b -c user.email=b@example.test commit -qm one"); err != nil {
		return err
	}
	worktree, err := script("cd copy; git worktree add -q ../worktree")
	if err != nil {
		return err
	}
	remount, err := script("mkdir u w m; unshare -m sh -euc 'mount -t overlay o -o lowerdir=tree,upperdir=u,workdir=w m; umount m; mount -t overlay o -o lowerdir=tree,upperdir=u,workdir=w m'")
	if err != nil {
		return err
	}
	store, _, err := overlay.Open(overlay.Options{Base: tree, State: filepath.Join(top, "state")})
	if err != nil {
		return err
	}
	defer store.Close()
	log := zerolog.New(os.Stderr).Level(zerolog.WarnLevel)
	base, err := fusefs.NewBase(tree, log)
	if err != nil {
		return err
	}
	defer base.Close()
	for _, n := range []int{1, 10, 100, 1000} {
		took, err := s.switchOf(store, base, log, tree, names, n)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%d\t%d\t%v\t%v\t%v\t%s\t%v\t%s\n", size, n, took.Round(time.Microsecond),
			remount.Round(time.Millisecond), copied.Round(time.Millisecond), reflink, worktree.Round(time.Millisecond), load())
	}
	return nil
}

// switchOf is the median of the switches between two branches with n overrides.
func (s *stand) switchOf(store *overlay.Store, base *fusefs.Base, log zerolog.Logger, tree string, names []string, n int) (_ time.Duration, err error) {
	var branches [2]*overlay.Branch
	for i := range branches {
		if branches[i], err = store.Create(fmt.Sprint("n", n, "b", i), overlay.CreateOptions{}); err != nil {
			return 0, err
		}
		for _, name := range names[:n] {
			if err := branches[i].WriteFile(name, []byte(fmt.Sprint("of branch ", i)), 0); err != nil {
				return 0, err
			}
		}
	}
	var ends [4]*os.File
	for i := 0; i < len(ends); i += 2 {
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			return 0, err
		}
		defer ends[i].Close()
		defer ends[i+1].Close()
	}
	p, view, err := show(tree, s.self, branches[0], base, log, ends[0], ends[3], false)
	if err != nil {
		return 0, err
	}
	ends[0].Close()
	ends[3].Close()
	l := &lane{kind: kind{name: "the view"}, in: json.NewEncoder(ends[1]), out: json.NewDecoder(ends[2])}
	defer func() {
		ends[1].Close()
		_, failed := p.Wait()
		err = errors.Join(err, failed, view.Close())
	}()
	if err := l.answer(nil); err != nil {
		return 0, err
	}
	var took []time.Duration
	for round := range switchRounds {
		o := order{Do: "stat"}
		if round == 0 {
			o.Files = names
		}
		if _, err := l.do(o); err != nil {
			return 0, err
		}
		stats, err := view.Switch(branches[(round+1)%2])
		if err != nil {
			return 0, err
		}
		took = append(took, stats.Took)
	}
	return median(took), nil
}
