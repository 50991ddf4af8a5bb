package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"shadowlsp/integration/conflict"
	"shadowlsp/integration/editor"
	"shadowlsp/integration/stage"
)

// play is one run of the demo.
type play struct {
	out                    io.Writer
	shadowlsp, gopls, nvim string // programs
	typescript             string // its server; "" where there is none
	source                 string // the module whose copy is the person's folder
	rounds                 int

	broken int // promises that did not hold
	stage  *stage.Stage
	person *editor.Editor
	agents [2]*conflict.Agent
	calls  map[string]int // calls of the changed function, by file
}

// target is what both agents change, and what the person looks at.
var target = conflict.Compare

// words are the beginnings of the types that each agent brings in: all its
// errors name them.
var words = [2]string{"StrictPolicy", "LooseOptions"}

// branches are the agents' branches.
var branches = [2]string{"a", "b"}

// hire connects an agent to its branch.
func (p *play) hire(ctx context.Context, i int) (*conflict.Agent, error) {
	a, err := conflict.Connect(ctx, conflict.Config{
		Command: []string{p.shadowlsp, "connect", "--branch", branches[i]},
		Dir:     p.stage.Dir, Env: p.stage.Env, Target: target,
	})
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", branches[i], err)
	}
	return a, nil
}

// edit makes an agent's edit of a round. The type is named for the round, so
// that an answer about an earlier one is recognised.
func (p *play) edit(a *conflict.Agent, i, round int) (word string, err error) {
	word = fmt.Sprintf("%s%d", words[i], round)
	return word, a.Edit(word, i == 1)
}

// step begins a numbered part.
func (p *play) step(format string, args ...any) { fmt.Fprintf(p.out, "\n"+format+"\n", args...) }

// show prints what somebody saw.
func (p *play) show(format string, args ...any) { fmt.Fprintf(p.out, "    "+format+"\n", args...) }

// promise prints what must hold, and whether it does.
func (p *play) promise(holds bool, format string, args ...any) {
	mark := "✓"
	if !holds {
		mark = "✗ NOT AS PROMISED:"
		p.broken++
	}
	fmt.Fprintf(p.out, "  %s %s\n", mark, fmt.Sprintf(format, args...))
}

// run plays all steps. An error says that a step could not be played, or how
// many promises did not hold.
func (p *play) run(ctx context.Context) (err error) {
	began := time.Now()
	if p.shadowlsp, err = filepath.Abs(p.shadowlsp); err != nil {
		return err
	}
	if _, err := os.Stat(p.shadowlsp); err != nil {
		return fmt.Errorf("%w: make build makes it", err)
	}
	_, version, _ := strings.Cut(p.source, "@")
	p.step("The person's folder: a fresh copy of golang.org/x/mod %s, under git", version)
	if err := p.setStage(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stage.Close()) }()
	if p.calls, err = target.Count(p.stage.Dir); err != nil {
		return err
	}
	before, err := stage.Read(p.stage.Dir)
	if err != nil {
		return err
	}
	p.show("%d files and folders, state %s (contents, modes and times)", len(before), before.Sum())

	if err := p.personArrives(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.person.Close()) }()
	defer func() {
		for _, a := range p.agents {
			if a != nil {
				a.Close() // how it ends is of no interest: the daemon may have been killed
			}
		}
	}()
	if err := p.agentsEdit(ctx); err != nil {
		return err
	}
	if err := p.personSawNothing(ctx, "meanwhile"); err != nil {
		return err
	}
	if err := p.agentsInterleave(ctx); err != nil {
		return err
	}
	if err := p.commandsRun(ctx); err != nil {
		return err
	}
	if err := p.languages(ctx); err != nil {
		return err
	}
	if err := p.daemonDies(ctx); err != nil {
		return err
	}

	p.step("At the end")
	if err := p.personSawNothing(ctx, "to the end"); err != nil {
		return err
	}
	after, err := stage.Read(p.stage.Dir)
	if err != nil {
		return err
	}
	differences := before.Differences(after)
	p.promise(len(differences) == 0, "the person's folder is what it was, to the byte and the nanosecond: state %s%s",
		after.Sum(), list(" — but these differ: ", differences))
	p.noMounts()
	if err := p.becomesACommit(ctx); err != nil {
		return err
	}
	p.step("Done in %.1f s.", time.Since(began).Seconds())
	if p.broken > 0 {
		return fmt.Errorf("%d promises did not hold", p.broken)
	}
	return nil
}

// setStage makes the person's folder.
func (p *play) setStage(ctx context.Context) error {
	from, err := os.MkdirTemp("", "demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(from)
	if err := stage.Copy(filepath.Join(from, "mod"), p.source); err != nil {
		return err
	}
	if p.typescript != "" {
		if err := stage.Plant(filepath.Join(from, "mod"), web); err != nil {
			return err
		}
	}
	if p.stage, err = stage.New(ctx, filepath.Join(from, "mod")); err != nil {
		return err
	}
	p.stage.Env = append(append(p.stage.Env, author...), "PATH="+filepath.Dir(p.gopls)+":"+os.Getenv("PATH"))
	return nil
}

func list(before string, items []string) string {
	if len(items) == 0 {
		return ""
	}
	return before + strings.Join(items, ", ")
}

// personArrives opens the editor, with shadowlsp in the server's place.
func (p *play) personArrives(ctx context.Context) (err error) {
	p.step("A person opens %s in Neovim, where the language server's command is now `shadowlsp -- gopls`", target.Dependent)
	p.person, err = editor.Start(ctx, editor.Config{
		Nvim: p.nvim, Command: []string{p.shadowlsp, "--", p.gopls}, Dir: p.stage.Dir, Env: p.stage.Env,
	})
	if err != nil {
		return err
	}
	if err := p.person.Open(ctx, target.Dependent); err != nil {
		return err
	}
	if err := p.person.Open(ctx, target.Edited); err != nil {
		return err
	}
	if err := p.hover(ctx); err != nil {
		return err
	}
	labels, took, err := p.person.Complete(ctx, editor.After(target.Dependent, "return semver.Com"))
	if err != nil {
		return err
	}
	p.promise(len(labels) > 0 && labels[0] == "Compare", "completion of “semver.Com” proposes %s (%v)", strings.Join(labels, ", "), took.Round(time.Millisecond))
	if err := p.person.Replace(ctx, target.Dependent, "semver.Compare(vi, vj)", "semver.Compere(vi, vj)"); err != nil {
		return err
	}
	shown, err := p.person.WaitShown(ctx, target.Dependent, func(d []editor.Diagnostic) bool { return len(d) > 0 })
	if err != nil {
		return err
	}
	p.promise(strings.Contains(shown[0].Message, "Compere"), "a typing mistake of the person's own is shown: %s", shown[0].Message)
	if err := p.person.Undo(ctx, target.Dependent); err != nil {
		return err
	}
	_, err = p.person.WaitShown(ctx, target.Dependent, func(d []editor.Diagnostic) bool { return len(d) == 0 })
	return err
}

func (p *play) hover(ctx context.Context) error {
	text, took, err := p.person.Hover(ctx, editor.At(target.Dependent, "Compare(vi, vj)"))
	if err != nil {
		return err
	}
	p.promise(strings.Contains(text, "func semver.Compare(v string, w string) int"),
		"hover on semver.Compare shows: %s (%v)", firstCode(text), took.Round(time.Millisecond))
	return nil
}

// firstCode is the first line of code in a hover's markdown.
func firstCode(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "```") {
			return line
		}
	}
	return "nothing"
}

// agentsEdit lets both agents make their edit, and shows what each is told.
func (p *play) agentsEdit(ctx context.Context) (err error) {
	p.step("Two agents connect (`shadowlsp connect --branch …`) and give semver.Compare a new signature, each its own; no one opens %s", target.Dependent)
	for i := range p.agents {
		if p.agents[i], err = p.hire(ctx, i); err != nil {
			return err
		}
	}
	for i, a := range p.agents {
		word, err := p.edit(a, i, 0)
		if err != nil {
			return err
		}
		p.show("agent %s: %s", branches[i], target.With(word, i == 1))
		for _, path := range []string{target.Edited, target.Dependent} {
			found, err := a.Lint(ctx, path)
			if err != nil {
				return err
			}
			wrong := found.Judge(p.calls[path], word, words[1-i])
			p.promise(wrong == nil, "lint of %s says (%v)%s", path, found.Took.Round(time.Millisecond), because(wrong))
			for _, message := range found.Errors {
				p.show("  %s", message)
			}
		}
	}
	return nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " — " + err.Error()
}

// personSawNothing shows that nothing of the agents reached the editor.
func (p *play) personSawNothing(ctx context.Context, when string) error {
	for _, word := range words {
		heard := p.person.Heard(word)
		p.promise(len(heard) == 0, "%s, Neovim was never told of %s%s", when, word, list(": ", heard))
	}
	for _, path := range []string{target.Edited, target.Dependent} {
		text, err := p.person.Text(ctx, path)
		if err != nil {
			return err
		}
		disk, err := os.ReadFile(filepath.Join(p.stage.Dir, path))
		if err != nil {
			return err
		}
		p.promise(text == string(disk) && len(p.person.Shown(path)) == 0, "Neovim shows %s unchanged, with %d diagnostics", path, len(p.person.Shown(path)))
	}
	return p.hover(ctx)
}

// agentsInterleave lets both agents edit and lint at the same time.
func (p *play) agentsInterleave(ctx context.Context) error {
	p.step("Both agents go on at the same time: %d more edits each, each linted in the edited file and in the unopened one", p.rounds)
	var (
		group  sync.WaitGroup
		mu     sync.Mutex // guards the lists below
		took   []time.Duration
		wrongs []string
		failed error
	)
	began := time.Now()
	for i, a := range p.agents {
		group.Go(func() {
			for round := 1; round <= p.rounds; round++ {
				word, err := p.edit(a, i, round)
				for _, path := range []string{target.Edited, target.Dependent} {
					var found conflict.Lint
					if err == nil {
						found, err = a.Lint(ctx, path)
					}
					mu.Lock()
					if err != nil {
						failed = err
						mu.Unlock()
						return
					}
					took = append(took, found.Took)
					if wrong := found.Judge(p.calls[path], word, words[1-i]); wrong != nil {
						wrongs = append(wrongs, fmt.Sprintf("agent %s, round %d, %s: %v", branches[i], round, path, wrong))
					}
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	if failed != nil {
		return failed
	}
	p.promise(len(wrongs) == 0, "%d of %d lints right, in %.1f s; median %v, slowest %v",
		len(took)-len(wrongs), len(took), time.Since(began).Seconds(), stage.Quantile(took, 0.5).Round(time.Millisecond), stage.Quantile(took, 1).Round(time.Millisecond))
	for _, wrong := range wrongs {
		p.show("%s", wrong)
	}
	return nil
}

// daemonDies kills the daemon in the middle of it all.
func (p *play) daemonDies(ctx context.Context) error {
	p.step("kill -9 of the daemon, which holds the branches and serves the shadow folder")
	if err := p.stage.Kill(); err != nil {
		return err
	}
	if err := p.hover(ctx); err != nil {
		return err
	}
	p.promise(p.person.ServerEnded() == nil, "Neovim's session goes on")
	p.noMounts()
	again, err := p.hire(ctx, 0)
	if err != nil {
		return err
	}
	defer again.Close()
	word, err := p.edit(again, 0, p.rounds+1)
	if err != nil {
		return err
	}
	found, err := again.Lint(ctx, target.Dependent)
	if err != nil {
		return err
	}
	wrong := found.Judge(p.calls[target.Dependent], word, words[1])
	p.promise(wrong == nil, "an agent that connects now gets a new daemon and a right lint of %s (%v)%s", target.Dependent, found.Took.Round(time.Millisecond), because(wrong))
	return nil
}

func (p *play) noMounts() {
	mounts, err := p.stage.Mounts()
	p.promise(err == nil && len(mounts) == 0, "nothing is mounted on the person's folder%s%s", because(err), list(": ", mounts))
}
