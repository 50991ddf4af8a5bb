// Command fs measures the shadow folder beside other ways to show a folder with
// changes: the folder itself, the kernel's overlayfs, fuse-overlayfs,
// unionfs-fuse and mergerfs; and a switch between two branches beside what else
// gives an agent another version of a folder.
//
//	fs [-rounds N] [-cold N] [-lanes A,B] [-rows A,B] [-switches=false] [-stand DIR]
//
// It needs root: to mount, and to become an ordinary user for one of the lanes.
//
// Each lane is a process in a mount namespace of its own, in which the same
// absolute path shows the tree its way. Every row is measured lane after lane,
// round after round, beginning with another lane each round; a figure is the
// median, over the rounds, of the ratio to the folder itself in the same round,
// so that what else the machine does disturbs all alike.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"shadowlsp/integration/need"
	"shadowlsp/internal/sandbox"
)

// options are the flags.
type options struct {
	rounds, cold int
	lanes, rows  []string
	copies       int
	switches     bool
	megabytes    int
	stand        string
}

func main() {
	sandbox.Enter()
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case workerRole:
			work(os.Args[2], os.Args[3:])
			return
		case userRole:
			json.NewEncoder(os.Stdout).Encode(done{Err: becomeOrdinary(os.Args[2], os.Args[3]).Error()})
			return
		case serverRole:
			serveLane(os.Args[2], os.Args[3])
			return
		}
	}
	var o options
	flag.IntVar(&o.rounds, "rounds", 7, "rounds of each row")
	flag.IntVar(&o.cold, "cold", 3, "rounds of the rows for which the caches of the whole machine are emptied; 0: none")
	flag.IntVar(&o.copies, "copies", 4, "copies of golang.org/x/tools in the tree, beside the one that is built")
	flag.IntVar(&o.megabytes, "megabytes", 512, "size of the file that is read in one go")
	flag.BoolVar(&o.switches, "switches", true, "measure switches, too")
	flag.StringVar(&o.stand, "stand", "", "folder for the tree, to be left there for the next time (with the same -copies and -megabytes)")
	lanes := flag.String("lanes", "", "lanes to measure, beside the folder itself (default all)")
	rows := flag.String("rows", "", "rows to measure (default all; none: no table)")
	flag.Parse()
	o.lanes, o.rows = list(*lanes), list(*rows)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "fs:", err)
		os.Exit(1)
	}
}

func list(flag string) []string {
	if flag == "" {
		return nil
	}
	return strings.Split(flag, ",")
}

// chosen says that a name is in a list, or the list is empty.
func chosen(from []string, name string) bool { return len(from) == 0 || slices.Contains(from, name) }

func run(ctx context.Context, o options) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("only root can mount all that is compared: run it as root")
	}
	source, err := need.FindSource("xtools")
	if err != nil {
		return err
	}
	s, err := newStand(ctx, source, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if len(s.lanes) > 0 {
		if err := s.table(ctx, o); err != nil {
			return err
		}
	}
	if !o.switches {
		return nil
	}
	return s.switches(ctx)
}

// stand is where it is measured.
//
//	top/tree    the folder, at the path where every lane shows it
//	top/lower   the same folder, for lanes that need it at another path
//	top/LANE    what a lane writes
type stand struct {
	top, tree string
	self      string // this program, where an ordinary user may run it
	kept      bool   // for the next time
	env       []string
	files     []string // relative to tree
	lanes     []*lane
}

// ordinary is the user of the lane that is not root's, and the tree's owner, so
// that the tree is that user's to write.
const ordinary = 65534

func newStand(ctx context.Context, source string, o options) (_ *stand, err error) {
	top, err := o.stand, error(nil)
	if top == "" {
		top, err = os.MkdirTemp("", "bench-fs-")
	} else {
		err = os.MkdirAll(top, 0o755)
	}
	if err != nil {
		return nil, err
	}
	s := &stand{top: top, tree: filepath.Join(top, "tree"), self: filepath.Join(top, "fs"), kept: o.stand != ""}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := os.Chmod(top, 0o755); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, source, o); err != nil {
		return nil, err
	}
	for _, k := range kinds {
		if k.name != native && !chosen(o.lanes, k.name) || slices.Equal(o.rows, []string{"none"}) {
			continue
		}
		l, err := s.start(k)
		if err != nil {
			fmt.Fprintf(os.Stderr, "fs: without %s: %v\n", k.name, err)
			continue
		}
		s.lanes = append(s.lanes, l)
	}
	if slices.Equal(o.rows, []string{"none"}) {
		return s, nil
	}
	if len(s.lanes) == 0 || s.lanes[0].kind.name != native {
		return nil, errors.New("there is nothing to compare with")
	}
	return s, nil
}

func (s *stand) close() error {
	for _, l := range s.lanes {
		l.stop()
	}
	if s.kept {
		return nil
	}
	return os.RemoveAll(s.top)
}
