package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"shadowlsp/internal/launch"
	"shadowlsp/internal/root"
	"shadowlsp/internal/workspace"
	"shadowlsp/lsp/agent"
)

// refused is the exit status where nothing is wrong but the state of things: a
// conflict, unsaved text, a branch in use. --force may be the answer.
const refused = exitCode(2)

func (o *options) branchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "branch COMMAND",
		Short: "List, make, fork, check, roll back, show, apply and drop branches",
		Long: `A branch is a line of edits over the person's folder. These commands look at
branches and change them from outside; agents ask the same of their port
(shadowlsp/branches, fork, checkpoint, rollback, diff, apply, drop).

The exit status is 0 where it was done, 2 where it was refused because of how
things are (a conflict, unsaved text, a branch in use), which --force may
override, and 1 for any other failure.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(o.branchList(), o.branchNew(), o.branchFork(), o.branchCheckpoint(), o.branchRollback(), o.branchDiff(), o.branchApply(), o.branchDrop())
	return c
}

// asked is a request, with the folder that it is about.
func (o *options) askBranch(ctx context.Context, r workspace.BranchRequest) (a workspace.BranchAnswer, p root.Place, err error) {
	if p, err = o.here(); err != nil {
		return a, p, err
	}
	starter, err := o.starter(nil)
	if err != nil {
		return a, p, err
	}
	conn, err := o.joinOrStart(ctx, starter, p, launch.Branch)
	if err != nil {
		return a, p, err
	}
	defer conn.Close()
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	defer unhook()
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return a, p, err
	}
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return a, p, fmt.Errorf("the daemon's answer is not understood (is it of another version?): %w", err)
	}
	return a, p, nil
}

// outcome says what went wrong with an answer.
func outcome(a workspace.BranchAnswer) error {
	switch {
	case a.Error == "":
		return nil
	case a.Refused:
		fmt.Fprintln(os.Stderr, "shadowlsp:", a.Error)
		return refused
	}
	return errors.New(a.Error)
}

// simple is a command that prints one line, or the answer as JSON.
func (o *options) simple(c *cobra.Command, request func(args []string) workspace.BranchRequest, line func(workspace.BranchAnswer) string) *cobra.Command {
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		a, _, err := o.askBranch(cmd.Context(), request(args))
		if err == nil {
			err = outcome(a)
		}
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(os.Stdout, a)
		}
		if text := line(a); text != "" {
			fmt.Println(text)
		}
		return nil
	}
	return c
}

func jsonFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("json", false, "print one JSON document")
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func nothing(workspace.BranchAnswer) string { return "" }

func (o *options) branchList() *cobra.Command {
	c := &cobra.Command{
		Use: "list [--json]", Short: "List branches with their checkpoints",
		Long: `A line holds a branch's name, how many paths it overrides (those that git ignores
too), how much it holds, and what else there is to say: what it was forked from,
whether it goes with its agents, what git has changed in .git, who uses it, and its
checkpoints.`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		a, _, err := o.askBranch(cmd.Context(), workspace.BranchRequest{Do: "list"})
		if err == nil {
			err = outcome(a)
		}
		if err != nil {
			return err
		}
		if *asJSON {
			if a.Branches == nil {
				a.Branches = []agent.BranchInfo{}
			}
			return writeJSON(os.Stdout, a.Branches)
		}
		t := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
		for _, b := range a.Branches {
			var about []string
			if b.From != "" {
				about = append(about, "from "+b.From)
			}
			if !b.Keep {
				about = append(about, "not kept")
			}
			if b.Git > 0 {
				about = append(about, fmt.Sprintf("in .git: %d", b.Git))
			}
			if b.Agents > 0 {
				about = append(about, fmt.Sprintf("agents: %d", b.Agents))
			}
			if b.Commands > 0 {
				about = append(about, fmt.Sprintf("commands: %d", b.Commands))
			}
			for _, cp := range b.Checkpoints {
				about = append(about, "checkpoint "+cp.ID)
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", b.Name, count(b.Overrides-b.Git, "change"), workspace.Size(b.Bytes), strings.Join(about, ", "))
		}
		return t.Flush()
	}
	return c
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (o *options) branchNew() *cobra.Command {
	var from string
	c := &cobra.Command{Use: "new NAME [--from BRANCH]", Short: "Make a branch", Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&from, "from", "", "the branch to fork (default: the folder as it is)")
	return o.simple(c, func(args []string) workspace.BranchRequest {
		return workspace.BranchRequest{Do: "new", Branch: args[0], From: from}
	}, nothing)
}

func (o *options) branchFork() *cobra.Command {
	c := &cobra.Command{
		Use: "fork BRANCH NAME", Short: "Make a branch over what another shows now",
		Long: "What is changed in BRANCH later does not reach NAME.", Args: cobra.ExactArgs(2),
	}
	return o.simple(c, func(args []string) workspace.BranchRequest {
		return workspace.BranchRequest{Do: "new", Branch: args[1], From: args[0]}
	}, nothing)
}

func (o *options) branchCheckpoint() *cobra.Command {
	var forget bool
	c := &cobra.Command{Use: "checkpoint BRANCH [ID] [--forget]", Short: "Remember what a branch shows now, and print the checkpoint's name", Args: cobra.RangeArgs(1, 2)}
	c.Flags().BoolVar(&forget, "forget", false, "forget the checkpoint ID instead")
	return o.simple(c, func(args []string) workspace.BranchRequest {
		r := workspace.BranchRequest{Do: "checkpoint", Branch: args[0]}
		if len(args) > 1 {
			r.ID = args[1]
		}
		if forget {
			r.Do = "uncheckpoint"
		}
		return r
	}, func(a workspace.BranchAnswer) string { return a.ID })
}

func (o *options) branchRollback() *cobra.Command {
	var force bool
	c := &cobra.Command{Use: "rollback BRANCH ID [--force]", Short: "Make a branch show a checkpoint again", Args: cobra.ExactArgs(2)}
	c.Flags().BoolVar(&force, "force", false, "although commands run in it or agents are attached")
	return o.simple(c, func(args []string) workspace.BranchRequest {
		return workspace.BranchRequest{Do: "rollback", Branch: args[0], ID: args[1], Force: force}
	}, nothing)
}

func (o *options) branchDrop() *cobra.Command {
	var force bool
	c := &cobra.Command{Use: "drop BRANCH [--force]", Short: "Delete a branch; forks of it stay whole", Args: cobra.ExactArgs(1)}
	c.Flags().BoolVar(&force, "force", false, "end the commands that run in it and the connections of its agents")
	return o.simple(c, func(args []string) workspace.BranchRequest {
		return workspace.BranchRequest{Do: "drop", Branch: args[0], Force: force}
	}, nothing)
}

func (o *options) branchDiff() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "diff BRANCH [PATH…] [--all]", Short: "Print what a branch changes, as a patch for git apply",
		Long: `The patch is against the folder as it is now. Files that git ignores are left
out unless --all is given.`, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := o.belowRoot(args[1:])
			if err != nil {
				return err
			}
			a, _, err := o.askBranch(cmd.Context(), workspace.BranchRequest{Do: "diff", Branch: args[0], Diff: agent.DiffParams{Paths: paths, Ignored: all}})
			if err == nil {
				err = outcome(a)
			}
			if err != nil {
				return err
			}
			for _, path := range a.Skipped {
				fmt.Fprintf(os.Stderr, "shadowlsp: %s is nothing that a patch can hold\n", path)
			}
			_, err = os.Stdout.Write(a.Patch)
			return err
		},
	}
	c.Flags().BoolVar(&all, "all", false, "with what git ignores")
	return c
}

// belowRoot makes paths that the user named ones below the root.
func (o *options) belowRoot(args []string) (paths []string, err error) {
	p, err := o.here()
	if err != nil {
		return nil, err
	}
	for _, arg := range args {
		abs, err := filepath.Abs(arg)
		if err != nil {
			return nil, err
		}
		// The folder may be reached through a link; the path itself may be gone.
		for at, rest := abs, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
			if real, err := filepath.EvalSymlinks(at); err == nil && rest != "" {
				abs = filepath.Join(real, rest)
				break
			}
			if at == filepath.Dir(at) {
				break
			}
		}
		if !root.Contains(p.Root, abs) {
			return nil, fmt.Errorf("%s is outside %s: a branch changes files in it only", arg, p.Root)
		}
		rel, err := filepath.Rel(p.Root, abs)
		if err != nil {
			return nil, err
		}
		paths = append(paths, rel)
	}
	return paths, nil
}

func (o *options) branchApply() *cobra.Command {
	var p agent.ApplyParams
	c := &cobra.Command{
		Use:   "apply BRANCH [PATH…] [--force] [--git NAME [-m MESSAGE]]",
		Short: "Bring a branch's changes to the folder, or to a new git branch",
		Long: `All of it is applied or nothing. It is refused for files that have changed in
the folder since the branch first changed them, and for files that the editor
holds unsaved text of. With --git the changes become one commit on top of HEAD,
on a new git branch; work tree and index stay as they are. Files that git ignores
are left out unless --all is given.`,
		Args: cobra.MinimumNArgs(1),
	}
	f := c.Flags()
	f.BoolVar(&p.Force, "force", false, "over what has changed in the folder since, and over unsaved text; with --git, over HEAD where the branch did not begin with it")
	f.BoolVar(&p.Ignored, "all", false, "with what git ignores")
	f.BoolVarP(&p.DryRun, "dry-run", "n", false, "only say what would be done")
	f.StringVar(&p.Git, "git", "", "commit to a new git branch of this name instead")
	f.StringVarP(&p.Message, "message", "m", "", "the commit's message")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if p.Paths, err = o.belowRoot(args[1:]); err != nil {
			return err
		}
		a, _, err := o.askBranch(cmd.Context(), workspace.BranchRequest{Do: "apply", Branch: args[0], Apply: p})
		if err != nil {
			return err
		}
		if *asJSON {
			if err := writeJSON(os.Stdout, a); err != nil {
				return err
			}
			return outcome(a)
		}
		if a.Applied != nil {
			for _, conflict := range a.Applied.Conflicts {
				showConflict(os.Stderr, conflict)
			}
			if a.Error == "" {
				showApplied(os.Stdout, *a.Applied, p.DryRun)
			}
		}
		return outcome(a)
	}
	return c
}

func showApplied(w io.Writer, r agent.ApplyResult, dry bool) {
	for _, path := range r.Paths {
		fmt.Fprintln(w, path)
	}
	for _, path := range r.Skipped {
		fmt.Fprintf(os.Stderr, "shadowlsp: %s is left out: it is no file, link or directory\n", path)
	}
	for _, path := range r.Included {
		fmt.Fprintf(os.Stderr, "shadowlsp: the commit holds %s as the branch has it, which did not begin with HEAD's\n", path)
	}
	if r.Commit != "" {
		fmt.Fprintf(os.Stderr, "shadowlsp: %s is %s\n", r.Git, r.Commit)
	}
	if dry {
		fmt.Fprintln(os.Stderr, "shadowlsp: nothing was changed, as this was a dry run")
	}
}

// showConflict prints the three sides of a conflict: what has changed in the folder,
// and what the branch changes.
func showConflict(w io.Writer, c agent.Conflict) {
	fmt.Fprintf(w, "conflict: %s was %s in the folder\n", c.Path, c.Since)
	if c.Then.Mode != "" && c.Then.Text == nil {
		fmt.Fprintln(w, "  what it was when the branch first changed it is not kept; the folder beside the branch:")
		showSides(w, "folder now", c.Now, "branch", c.Branch)
		return
	}
	showSides(w, "folder then", c.Then, "folder now", c.Now)
	showSides(w, "folder then", c.Then, "branch", c.Branch)
}

func showSides(w io.Writer, nameA string, a agent.Side, nameB string, b agent.Side) {
	if a.Mode != b.Mode {
		fmt.Fprintf(w, "  %s: %s, %s: %s\n", nameA, modeText(a), nameB, modeText(b))
	}
	if a.Mode != "" && a.Text == nil || b.Mode != "" && b.Text == nil {
		fmt.Fprintf(w, "  %s and %s are no text, or too large to be shown\n", nameA, nameB)
		return
	}
	text := func(s agent.Side) []byte {
		if s.Text == nil {
			return nil
		}
		return []byte(*s.Text)
	}
	out := diff.Diff(nameA, text(a), nameB, text(b))
	if _, after, ok := bytes.Cut(out, []byte("\n")); ok {
		out = after // a line that repeats the names
	}
	for line := range bytes.Lines(out) {
		fmt.Fprintf(w, "  %s", line)
	}
}

func modeText(s agent.Side) string {
	if s.Mode == "" {
		return "nothing"
	}
	return "mode " + s.Mode
}
